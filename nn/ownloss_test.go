package nn

import (
	"math"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/tensor"
)

// TestOwnLossGradient: a loss of operations on the tape, the cross-entropy of smoothed targets, has the loss
// and the gradient of the built-in one. It is computed for some of the rows, more than a tile has. Other rows
// have no gradient.
func TestOwnLossGradient(t *testing.T) {
	const vertices, columns, smoothing = 2500, 5, .2
	team := kerneltest.Team(t, 2, tensor.NewMeter())
	defer team.Memory.Close()
	z := team.Memory.New(tensor.Activations, vertices, columns)
	for i := range z.Floats() {
		z.Floats()[i] = float32(math.Sin(float64(i))) * 3
	}
	var class, listed []int32
	for v := range int32(vertices) {
		class = append(class, v*v%columns)
		if v%7 != 3 {
			listed = append(listed, v)
		}
	}
	y := Targets{Classes: columns, Class: kernel.List(team, tensor.Buffers, class), Smoothing: smoothing}
	rows, total := kernel.List(team, tensor.Buffers, listed), float64(len(listed))
	labels := Labels{
		Targets: Targets{
			Classes: columns,
			Class:   team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(listed)),
		},
	}
	for k, v := range listed {
		labels.Class.Int32s()[k] = class[v]
	}
	own := LossFunc(func(logits *autograd.Var, l Labels) *autograd.Var {
		logs := LogSoftmax(logits)
		smooth := autograd.Combine(1-smoothing, OneHot(logits, l.Targets), smoothing/columns,
			autograd.Filled(logits, columns, func(all []float32) {
				for i := range all {
					all[i] = 1
				}
			}))
		return autograd.Scale(-1, autograd.Multiply(logs, smooth))
	})
	output := autograd.NewTape(team).Constant(z, autograd.AllHere(vertices))
	value, wantGrad := LossGradient(output, y, rows, total)
	want := value()
	selection := Listed{Rows: rows, Total: total}
	got, grad := own.LossGradient(output, labels, selection)
	if again := own.Loss(output, labels, selection); math.Abs(got-want) > 1e-7*want || again != got {
		t.Errorf("loss %v, without a gradient %v, want %v", got, again, want)
	}
	for i, g := range grad.Floats() {
		if w := wantGrad.Floats()[i]; math.Abs(float64(g-w)) > 1e-7/total+1e-6*math.Abs(float64(w)) {
			t.Fatalf("∂loss/∂z of row %d: %v, want %v", i/columns, g, w)
		}
	}
}

// TestOwnLossOfNoRows: a worker may have no labelled vertex.
func TestOwnLossOfNoRows(t *testing.T) {
	team := kerneltest.Team(t, 1, tensor.NewMeter())
	defer team.Memory.Close()
	output := autograd.NewTape(team).Constant(team.Zeros(tensor.Activations, 3, 2), autograd.AllHere(3))
	none := kernel.List(team, tensor.Buffers, []int32{})
	f := LossFunc(func(*autograd.Var, Labels) *autograd.Var { panic("called for no row") })
	loss, grad := f.LossGradient(output, Labels{}, Listed{Rows: none, Total: 5})
	if loss != 0 || f.Loss(output, Labels{}, Listed{Rows: none, Total: 5}) != 0 || grad.Rows != 3 {
		t.Errorf("loss %v, gradient of %d rows", loss, grad.Rows)
	}
}
