package paralleltest_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/kernel/reference"
	"weft/parallel/mesh"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
)

// pipeGCN trains a GCN of three layers on partitions by PipeGCN's definition (Wan et al., ICLR 2022), in
// double precision, with one step of SGD for each epoch. The edges are local or remote. Remote ones read the
// rows of the epoch before, and what they contribute to the gradients of these rows is added in the next
// epoch. The features are aggregated exactly. The other layers multiply by their weights first.
type pipeGCN struct {
	local, remote, features *reference.Matrix // features: aggregated
	class, train            []int64
	smoothing               sar.Smoothing
	rows, gradients         [3]*reference.Matrix // of the epoch before, by layer, or their averages
}

// late is what the next epoch uses of what was received, with PipeGCN's γ = .95.
func late(before, received *reference.Matrix, smooth bool) *reference.Matrix {
	if !smooth {
		return received
	}
	return sum(.95, before, .05, received)
}

func sum(a float64, x *reference.Matrix, b float64, y *reference.Matrix) *reference.Matrix {
	z := reference.New(x.Rows, x.Cols)
	for i := range z.Data {
		z.Data[i] = a*x.Data[i] + b*y.Data[i]
	}
	return z
}

// epoch returns the loss and the gradients.
func (p *pipeGCN) epoch(w paralleltest.Tensors) (loss float64, grads paralleltest.Tensors) {
	var in, made, out [3]*reference.Matrix // of each layer: its input, the product, the result without activation
	for l := range out {
		weight, z := w[conv(l, "lin.weight")], p.features
		if l == 0 {
			in[l], z = p.features, reference.MatMul(p.features, weight)
		} else {
			in[l] = reference.Activate(reference.ReLU, out[l-1])
			made[l] = reference.MatMul(in[l], weight)
			if p.rows[l] == nil {
				p.rows[l], p.gradients[l] = reference.New(z.Rows, weight.Cols), reference.New(z.Rows, weight.Cols)
			}
			z = sum(1, reference.MatMul(p.local, made[l]), 1, reference.MatMul(p.remote, p.rows[l]))
		}
		out[l] = reference.AddBias(z, w[conv(l, "bias")].Data)
	}
	loss = reference.CrossEntropy(out[2], p.class, p.train)
	grads = paralleltest.Tensors{}
	g := reference.CrossEntropyBackward(out[2], p.class, p.train)
	for l := 2; l >= 0; l-- {
		grads[conv(l, "bias")] = &reference.Matrix{Rows: 1, Cols: g.Cols, Data: reference.AddBiasBackward(g)}
		d := g
		if l > 0 {
			d = sum(1, reference.MatMul(p.local.Transpose(), g), 1, p.gradients[l])
			p.gradients[l] = late(p.gradients[l], reference.MatMul(p.remote.Transpose(), g), p.smoothing.Gradients)
			p.rows[l] = late(p.rows[l], made[l], p.smoothing.Features)
		}
		var back *reference.Matrix
		if back, grads[conv(l, "lin.weight")] = reference.MatMulBackward(in[l], w[conv(l, "lin.weight")], d); l > 0 {
			g = reference.ActivateBackward(reference.ReLU, out[l-1], back)
		}
	}
	return loss, grads
}

// TestDelayIsItsDefinition compares losses, and the weights after each epoch, with the definition of PipeGCN:
// on three partitions of a directed graph, with each smoothing. Inference between the epochs is exact.
func TestDelayIsItsDefinition(t *testing.T) {
	for _, smoothing := range []sar.Smoothing{{}, {Features: true}, {Gradients: true}, {Features: true, Gradients: true}} {
		t.Run(fmt.Sprintf("%+v", smoothing), func(t *testing.T) {
			const epochs, partitions, rate = 4, 3, .5
			s := newStaged(t, "gcn", mesh.Mesh{Stages: 1, Partitions: partitions, Slices: 1}, 1)
			s.spec.Layers = len(pipeGCN{}.rows)
			weights := drawnTensors(t, s.graph, s.spec, 4)
			var mu sync.Mutex
			losses, after := make([]float64, epochs), make([]paralleltest.Tensors, epochs)
			logits := make([]*reference.Matrix, epochs)
			for i := range after {
				after[i], logits[i] = paralleltest.Tensors{}, reference.New(s.graph.Vertices(), s.graph.Labels.Classes)
			}
			s.workers(t, func(c engine.Config) {
				var e engine.Engine
				c.Delay, c.Smoothing, c.Recompute = true, smoothing, false
				c.Loss = func(logits *autograd.Var) (float64, *tensor.Matrix) { return s.loss(e.Vertices(), logits) }
				e, err := engine.New(c)
				if err != nil {
					panic(err)
				}
				for _, p := range e.Params().List {
					for k, x := range weights[p.Name].Data {
						p.Value.Floats()[k] = float32(x)
					}
				}
				for i := range epochs {
					loss := e.Train(1 + i)
					mu.Lock()
					losses[i] += loss
					for _, p := range e.Params().List {
						for k, g := range p.Grad.Floats() {
							p.Value.Floats()[k] -= rate * g
						}
						after[i][p.Name] = reference.From32(p.Value.Rows, p.Value.Cols, p.Value.Floats())
					}
					mu.Unlock()
					e.Params().ZeroGrad()
					result := e.Infer(0)
					mu.Lock()
					place(logits[i], e.Vertices(), result.Value())
					mu.Unlock()
					result.Drop()
				}
				if err := e.Settle(); err != nil {
					panic(err)
				}
			})

			all := denseGCN(s.graph)
			p := &pipeGCN{local: reference.New(all.Rows, all.Cols), remote: reference.New(all.Rows, all.Cols), smoothing: smoothing}
			for v := range all.Rows {
				for u := range all.Cols {
					to := p.remote
					if s.of[v] == s.of[u] {
						to = p.local
					}
					to.Data[v*all.Cols+u] = all.Data[v*all.Cols+u]
				}
			}
			x := reference.From32(s.graph.Vertices(), s.graph.Features.Columns, s.graph.Features.Dense)
			p.features, p.class, p.train = reference.MatMul(all, x), s.graph.Labels.Class, s.graph.Splits[0].Train
			w := maps.Clone(weights)
			exact := s.definition().Whole()
			exact.Model = paralleltest.ChunkModels["gcn"](s.spec.Layers)
			for i := range epochs {
				loss, grads := p.epoch(w)
				for _, name := range slices.Sorted(maps.Keys(w)) {
					w[name] = sum(1, w[name], -rate, grads[name])
				}
				what := fmt.Sprintf("epoch %d", 1+i)
				agree(t, what+", loss", of(number(losses[i])), of(number(loss)), tolerance)
				agree(t, what+", weights", after[i], w, tolerance)
				agree(t, what+", inference", of(logits[i]), of(exact.Forward(w, []int{0}).Logits), 10*tolerance)
			}
		})
	}
}

// TestAveragesAreWhole: the moving averages of late rows and gradients are float32s of all columns of the
// rows that come, however these are encoded.
func TestAveragesAreWhole(t *testing.T) {
	for _, wire := range []kernel.Format{kernel.AsStored, kernel.InBFloat16, kernel.InInt8, kernel.InInt4} {
		s := newStaged(t, "gcn", mesh.Mesh{Stages: 1, Partitions: 3, Slices: 1}, 1)
		s.spec.Layers, s.spec.Hidden = 3, 40
		columns := map[string]int{"convs.1": 40, "convs.2": s.graph.Labels.Classes} // products with the weights are aggregated
		rows := 0                                                                   // of the halos of all partitions
		for p := range int32(3) {
			halo := map[int32]bool{}
			e := s.graph.Relations[0].Edges()
			for k, v := range e.Target {
				if u := e.Source[k]; s.of[v] == p && s.of[u] != p {
					halo[u] = true
				}
			}
			rows += len(halo)
		}
		var mu sync.Mutex
		got := map[string]int{} // elements by module path and part
		s.workers(t, func(c engine.Config) {
			c.Delay, c.Smoothing, c.Recompute, c.Wire = true, sar.Smoothing{Features: true, Gradients: true}, false, wire
			c.Loss = func(logits *autograd.Var) (float64, *tensor.Matrix) {
				return 0, logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
			}
			e, err := engine.New(c)
			if err != nil {
				panic(err)
			}
			e.Train(1)
			if err := e.Settle(); err != nil {
				panic(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, a := range e.Arrays() {
				for path := range columns {
					for _, part := range []string{"average-rows", "average-gradients"} {
						if strings.Contains(a.Name, "/"+path+"/") && strings.Contains(a.Name, "/"+part+".") {
							got[path+" "+part] += len(a.Floats)
						}
					}
				}
			}
		})
		want := map[string]int{}
		for path, n := range columns {
			want[path+" average-rows"], want[path+" average-gradients"] = rows*n, rows*n
		}
		if !maps.Equal(got, want) {
			t.Errorf("format %v: elements %v, want %v", wire, got, want)
		}
	}
}
