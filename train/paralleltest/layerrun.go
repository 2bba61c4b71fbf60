package paralleltest

import (
	"fmt"
	"math/rand/v2"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/parallel/exchange"
	"weft/tensor"
	"weft/train/engine"
)

// What a layer is given, and what it makes of that on one worker.

// Outcome is the result of a layer: output and input gradient by vertex, and the gradients of its parameters.
type Outcome struct {
	Out, DX []float64
	DW      [][]float64
}

// Blank allocates the outcome for so many vertices.
func (l Layer) Blank(vertices int) *Outcome {
	return &Outcome{
		make([]float64, vertices*l.Out), make([]float64, vertices*l.In),
		make([][]float64, len(l.Weights)),
	}
}

// Run computes the layer on one worker, forward and backward, once for each outcome, and writes its part of
// the outcome. All passes share one Propagator and one input. It panics if a pass leaves more memory
// allocated than the pass before.
func (l Layer) Run(c engine.Config, a engine.Axis, along gnn.Along, passes ...*Outcome) {
	memory := c.Team.Memory
	rows := a.Rows()
	ids := a.Vertices()
	x := memory.NewElement(tensor.Features, c.Team.Storage, rows.Here, l.In)
	p := a.Propagator(l.Name, along)
	draw(x, inputNumbers, ids)
	live := int64(0)
	for pass, o := range passes {
		tape := autograd.NewTrainingTape(c.Team, autograd.Random{Seed: 3, Epoch: 5})
		w := drawnParameters(tape, l.Weights)
		in := tape.Input(x, rows)
		out := tape.Scope(func() *autograd.Var { return l.Forward(p, in, w) })
		place(o.Out, out.Value(), ids)
		dz := memory.NewElement(tensor.Gradients, out.Element(), rows.Here, l.Out)
		draw(dz, gradientNumbers, ids)
		tape.Backward(autograd.Root{Var: out, Grad: dz})
		dx := in.TakeGrad()
		place(o.DX, dx, ids)
		dx.Release()
		for i, v := range w {
			dw, _ := v.Grad()
			summed(c, dw, &o.DW[i])
			dw.Release()
		}
		if now := memory.Live(tensor.Activations) + memory.Live(tensor.Gradients); pass > 0 && now != live {
			panic(fmt.Sprintf("%s: %d bytes of values and gradients live after pass %d, %d after "+
				"the one before", l.Name, now, pass+1, live))
		} else {
			live = now
		}
	}
}

// drawnParameters are parameters of these shapes, drawn, with gradients of zeros.
func drawnParameters(tape *autograd.Tape, shapes [][2]int) (w []*autograd.Var) {
	for i, shape := range shapes {
		value := tape.Memory().New(tensor.Parameters, shape[0], shape[1])
		drawWeight(value, i)
		w = append(w, tape.Parameter(value, tape.Team.Zeros(tensor.Gradients, shape[0], shape[1])))
	}
	return w
}

// summed sums a parameter's gradient over the replicas. The first of these writes it.
func summed(c engine.Config, dw *tensor.Matrix, to *[]float64) {
	exchange.Must(c.Groups.Replicas.SumFloats(comm.Gradient, dw.Floats()))
	if c.Groups.Replicas.Rank() == 0 {
		*to = doubles(dw.Floats())
	}
}

// Given is the input rows that Run gives the layer, and the gradient of its output rows.
func (l Layer) Given(vertices int) (x, dz []float64) { return l.inputs(tensor.Float32, vertices) }

func (l Layer) inputs(storage tensor.Element, vertices int) (x, dz []float64) {
	return drawn(storage, vertices, l.In, inputNumbers), drawn(storage, vertices, l.Out, gradientNumbers)
}

// drawn is the numbers of draw for all vertices.
func drawn(storage tensor.Element, rows, cols int, purpose uint64) []float64 {
	memory := tensor.NewMeter()
	defer memory.Close()
	m := memory.NewElement(tensor.Features, storage, rows, cols)
	draw(m, purpose, nil)
	return numbers(m)
}

// The purposes of drawn numbers.
const (
	inputNumbers    = 1
	gradientNumbers = 2
)

// drawWeight draws parameter i of a layer. Its numbers are bfloat16s, so that no product rounds them.
func drawWeight(m *tensor.Matrix, i int) {
	draw(m, uint64(10+i), nil)
	for k, v := range m.Floats() {
		m.Floats()[k] = tensor.FromBFloat16(tensor.RoundBFloat16(v))
	}
}

// draw draws numbers that depend on their purpose, the vertex and the column alone, rounded to the element
// type.
func draw(m *tensor.Matrix, purpose uint64, ids []int32) {
	for i := range m.Rows {
		r := rand.New(rand.NewPCG(purpose, uint64(vertex(i, ids))))
		for c := range m.Cols {
			if x := float32(r.NormFloat64()); m.Element == tensor.BFloat16 {
				m.BFloat16s()[i*m.Cols+c] = tensor.RoundBFloat16(x)
			} else {
				m.Floats()[i*m.Cols+c] = x
			}
		}
	}
}

// numbers returns the elements of a matrix, of either element type.
func numbers(m *tensor.Matrix) []float64 {
	if m.Element != tensor.BFloat16 {
		return doubles(m.Floats())
	}
	all := make([]float64, 0, m.Len())
	for _, x := range m.BFloat16s() {
		all = append(all, float64(tensor.FromBFloat16(x)))
	}
	return all
}

// place copies rows to the places of their vertices.
func place(to []float64, from *tensor.Matrix, ids []int32) {
	all := numbers(from)
	for i := range from.Rows {
		copy(to[vertex(i, ids)*from.Cols:], all[i*from.Cols:(i+1)*from.Cols])
	}
}

// vertex is the vertex of a row. ids nil is all vertices.
func vertex(row int, ids []int32) int {
	if ids == nil {
		return row
	}
	return int(ids[row])
}

func doubles(x []float32) []float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return d
}
