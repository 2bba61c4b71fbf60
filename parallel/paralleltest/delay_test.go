package paralleltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/internal/require"
	"weft/kernel/reference"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/tensor"
	"weft/train"
	"weft/train/engine"
)

// pipeGCN trains a GCN of three layers on partitions by PipeGCN's definition (Wan et al., ICLR 2022,
// algorithm 1), in double precision, with one step of SGD for each epoch. The edges are local or remote.
// Remote ones read the rows of the epoch before, and what they contribute to the gradients of these rows is
// added in the next epoch. The rows are the inputs of layers, as in PipeGCN, or with transform their products
// with the weights. Where features are aggregated, and not their product, that is exact.
type pipeGCN struct {
	local, remote        *reference.Matrix
	features, aggregated *reference.Matrix
	class, train         []int64
	smoothing            axis.Smoothing
	transform            bool
	rows, gradients      [3]*reference.Matrix // of the epoch before, by layer, or their averages
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
func (p *pipeGCN) epoch(w tensors) (loss float64, grads tensors) {
	// Of each layer: what is aggregated, what is multiplied by the weight, and the result without activation
	var sent, into, out [3]*reference.Matrix
	for l := range out {
		x, weight := p.features, w[conv(l, "lin.weight")]
		if l > 0 {
			x = reference.Activate(reference.ReLU, out[l-1])
		}
		var z *reference.Matrix
		switch {
		case p.transform:
			into[l], sent[l] = x, reference.MatMul(x, weight)
			z = p.aggregate(l, sent[l])
		case l == 0:
			into[l] = p.aggregated
			z = reference.MatMul(into[l], weight)
		default:
			sent[l], into[l] = x, p.aggregate(l, x)
			z = reference.MatMul(into[l], weight)
		}
		out[l] = reference.AddBias(z, w[conv(l, "bias")].Data)
	}
	loss = reference.CrossEntropy(out[2], p.class, p.train)
	grads = tensors{}
	g := reference.CrossEntropyBackward(out[2], p.class, p.train)
	for l := 2; l >= 0; l-- {
		weight, name := w[conv(l, "lin.weight")], conv(l, "lin.weight")
		grads[conv(l, "bias")] = &reference.Matrix{Rows: 1, Cols: g.Cols, Data: reference.AddBiasBackward(g)}
		if p.transform {
			g = p.back(l, sent[l], g)
		}
		g, grads[name] = reference.MatMulBackward(into[l], weight, g)
		if l > 0 {
			if !p.transform {
				g = p.back(l, sent[l], g)
			}
			g = reference.ActivateBackward(reference.ReLU, out[l-1], g)
		}
	}
	return loss, grads
}

// aggregate returns layer l's aggregation of the local rows x and of the remote ones of the epoch before.
func (p *pipeGCN) aggregate(l int, x *reference.Matrix) *reference.Matrix {
	if p.rows[l] == nil {
		p.rows[l], p.gradients[l] = reference.New(x.Rows, x.Cols), reference.New(x.Rows, x.Cols)
	}
	return sum(1, reference.MatMul(p.local, x), 1, reference.MatMul(p.remote, p.rows[l]))
}

// back returns the gradient of the local rows x, with that of the epoch before from remote edges, and keeps
// rows and gradients for the next epoch.
func (p *pipeGCN) back(l int, x, g *reference.Matrix) *reference.Matrix {
	d := sum(1, reference.MatMul(p.local.Transpose(), g), 1, p.gradients[l])
	p.gradients[l] = late(p.gradients[l], reference.MatMul(p.remote.Transpose(), g),
		p.smoothing&axis.OfGradients != 0)
	p.rows[l] = late(p.rows[l], x, p.smoothing&axis.OfFeatures != 0)
	return d
}

// TestDelayIsItsDefinition compares losses, and the weights after each epoch, with the definition of PipeGCN:
// on three partitions of a directed graph, with each smoothing, and with the order of work that
// --aggregation-order auto and transform-first give. Inference between the epochs is exact.
func TestDelayIsItsDefinition(t *testing.T) {
	for _, c := range []struct {
		smoothing axis.Smoothing
		order     order.Choice
	}{
		{},
		{smoothing: axis.OfFeatures},
		{smoothing: axis.OfGradients},
		{smoothing: axis.OfBoth},
		{order: order.TransformFirst},
	} {
		smoothing := c.smoothing
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			o := train.Defaults()
			o.Parallel, o.HaloDelay, o.AggregationOrder = "graph=3", 1, c.order
			settings, err := o.Resolve()
			require.NoError(t, err)
			const epochs, partitions, rate = 4, 3, .5
			s := newStaged(t, "gcn", mesh.Mesh{Stages: 1, Partitions: partitions, Slices: 1}, 1)
			s.spec.Layers = len(pipeGCN{}.rows)
			weights := drawnTensors(t, s.graph, s.spec, 4)
			var mu sync.Mutex
			losses, after := make([]float64, epochs), make([]tensors, epochs)
			logits := make([]*reference.Matrix, epochs)
			for i := range after {
				after[i], logits[i] = tensors{}, reference.New(s.graph.Vertices(), s.graph.Labels.Classes)
			}
			s.workers(t, func(c engine.Config) {
				var e engine.Engine
				c.HaloDelay, c.HaloSmoothing, c.Recompute, c.AggregationOrder = 1, smoothing, false,
					settings.AggregationOrder
				c.Loss = func(logits *autograd.Var) (float64, *tensor.Matrix) {
					return s.loss(e.Vertices(), logits)
				}
				e, err := engine.New(c)
				exchange.Must(err)
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
					placeRows(logits[i], e.Vertices(), result.Value())
					mu.Unlock()
					result.Drop()
				}
				exchange.Must(e.Settle())
			})

			all := denseGCN(s.graph)
			p := &pipeGCN{
				local: reference.New(all.Rows, all.Cols), remote: reference.New(all.Rows, all.Cols),
				smoothing: smoothing, transform: c.order == order.TransformFirst,
			}
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
			p.features, p.aggregated = x, reference.MatMul(all, x)
			p.class, p.train = s.graph.Labels.Class, s.graph.Splits[0].Train
			w := maps.Clone(weights)
			exact := s.definition().whole()
			exact.model = chunkModels["gcn"](s.spec.Layers)
			for i := range epochs {
				loss, grads := p.epoch(w)
				for _, name := range slices.Sorted(maps.Keys(w)) {
					w[name] = sum(1, w[name], -rate, grads[name])
				}
				what := fmt.Sprintf("epoch %d", 1+i)
				alike(t, what+", loss", of(number(losses[i])), of(number(loss)), tolerance)
				alike(t, what+", weights", after[i], w, tolerance)
				alike(t, what+", inference", of(logits[i]),
					of(exact.forward(w, []int{0}).logits), 10*tolerance)
			}
		})
	}
}

// TestAveragesAreWhole: the moving averages of late rows and gradients are float32s of all columns of the
// rows that come, however these are encoded.
func TestAveragesAreWhole(t *testing.T) {
	for _, wire := range []axis.Wire{axis.AsStored, axis.BFloat16, axis.Int8, axis.Int4} {
		s := newStaged(t, "gcn", mesh.Mesh{Stages: 1, Partitions: 3, Slices: 1}, 1)
		s.spec.Layers, s.spec.Hidden = 3, 40
		// Products with the weights are aggregated.
		columns := map[string]int{"convs.1": 40, "convs.2": s.graph.Labels.Classes}
		rows := 0 // of the halos of all partitions
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
			c.HaloDelay, c.HaloSmoothing, c.Recompute, c.Wire = 1, axis.OfBoth, false, wire
			c.AggregationOrder = order.TransformFirst
			c.Loss = func(logits *autograd.Var) (float64, *tensor.Matrix) {
				return 0, logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
			}
			e, err := engine.New(c)
			exchange.Must(err)
			e.Train(1)
			exchange.Must(e.Settle())
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
