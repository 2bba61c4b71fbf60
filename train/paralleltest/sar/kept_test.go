package sar_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// sumsByHand returns Σ x_u over the edges u → v, and its gradient Σ s_v, in double precision, first with all
// edges and then with those inside a partition alone.
func sumsByHand(g *graph.Graph, owners []int32, x, s []float64, columns int) (z, dx [2][]float64) {
	for k := range z {
		z[k], dx[k] = make([]float64, len(x)), make([]float64, len(x))
	}
	all := g.Relations[0].Edges()
	for i, u := range all.Source {
		v := all.Target[i]
		for k := range z {
			if k == 1 && owners[u] != owners[v] {
				continue
			}
			for c := range columns {
				z[k][int(v)*columns+c] += x[int(u)*columns+c]
				dx[k][int(u)*columns+c] += s[int(v)*columns+c]
			}
		}
	}
	return z, dx
}

// TestKeptColumnsByHand: in as many columns as a WireSchedule says, a sum has the rows of other workers, and
// in the others it has none: forward and backward in the same columns, which all workers know, and with
// partial sums in place of rows. In inference every column has them. Other epochs and other modules keep
// others.
func TestKeptColumnsByHand(t *testing.T) {
	const vertices, workersOf, columns, kept, epoch = 240, 3, 40, 7, 4
	g := paralleltest.ManyEdges(t, vertices, 4)
	owners := paralleltest.Dividings(vertices, workersOf)["unevenly"]
	r := rand.New(rand.NewPCG(1, 1))
	x, s := make([]float64, vertices*columns), make([]float64, vertices*columns)
	for i := range x {
		x[i], s[i] = float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))
	}
	z, dx := sumsByHand(g, owners, x, s, columns)
	run := func(o axis.Options, path string, random autograd.Random, training bool) (out, grad []float64) {
		out, grad = make([]float64, len(x)), make([]float64, len(x))
		// Of 40 columns ⌈40/6.2⌉ = 7 in epoch 4, and ⌈40/5.4⌉ = 8 in epoch 5.
		o.WireSchedule = axis.WireSchedule{Slope: 8, From: 8.6}
		var mu sync.Mutex
		workers(t, g, owners, workersOf, o, nil, func(w engine.Config, p *sar.Partition) {
			rows := p.Rows()
			taken := func(all []float64) *tensor.Matrix {
				m := w.Team.Zeros(tensor.Features, rows.Here, columns)
				for row, v := range rows.IDs.Int32s() {
					for c := range columns {
						m.Floats()[row*columns+c] = float32(all[int(v)*columns+c])
					}
				}
				return m
			}
			put := func(all []float64, m *tensor.Matrix) {
				mu.Lock()
				defer mu.Unlock()
				for row, v := range rows.IDs.Int32s() {
					for c := range columns {
						all[int(v)*columns+c] = float64(m.Floats()[row*columns+c])
					}
				}
			}
			tape := autograd.NewTape(w.Team)
			if training {
				tape = autograd.NewTrainingTape(w.Team, random)
			}
			source := tape.Input(taken(x), rows)
			result := p.Propagator(path, paralleltest.Stored).Propagate(source, gnn.Sum, gnn.Once)
			put(out, result.Value())
			if training {
				tape.Backward(autograd.Root{Var: result, Grad: taken(s)})
				put(grad, source.TakeGrad())
			}
		})
		return out, grad
	}
	// whole says of each column whether it has what other workers have.
	whole := func(name string, got []float64, want [2][]float64,
		tolerance float64,
	) (in [columns]bool, n int) {
		for c := range columns {
			var off [2]float64
			for v := range vertices {
				for k := range off {
					off[k] = max(off[k], math.Abs(got[v*columns+c]-want[k][v*columns+c]))
				}
			}
			if in[c] = off[0] < off[1]; in[c] {
				n++
			}
			if min(off[0], off[1]) > tolerance {
				t.Errorf("%s: column %d is off by %.2g with the rows of others, and by %.2g without",
					name, c, off[0], off[1])
			}
		}
		return in, n
	}
	var first [columns]bool
	for i, c := range []struct {
		o         axis.Options
		tolerance float64
	}{
		{axis.Options{Prefetch: 1}, 1e-5},
		{axis.Options{KeepHalo: true}, 1e-5},
		{axis.Options{Halo: edges.HaloCover}, 1e-5},
		{axis.Options{Halo: edges.HaloCover, Wire: axis.BFloat16}, .2},
		{axis.Options{Prefetch: 2, Wire: axis.Int8}, .3},
		{axis.Options{Halo: edges.HaloCover, Wire: axis.Int8}, .3},
	} {
		name := fmt.Sprintf("%+v", c.o)
		out, grad := run(c.o, "here", autograd.Random{Seed: 3, Epoch: epoch}, true)
		forward, n := whole(name, out, z, c.tolerance)
		backward, _ := whole(name+", backward", grad, dx, c.tolerance)
		if n != kept || forward != backward {
			t.Errorf("%s: %d columns have the rows of others, want %d, and backward in the same: %v, %v",
				name, n, kept, forward, backward)
		}
		if i == 0 {
			first = forward
		}
		if forward != first {
			t.Errorf("%s: other columns", name)
		}
	}
	exact, _ := run(axis.Options{}, "here", autograd.Random{}, false)
	if _, n := whole("inference", exact, z, 1e-5); n != columns {
		t.Errorf("in inference %d of %d columns have the rows of others", n, columns)
	}
	for name, c := range map[string]struct {
		path   string
		random autograd.Random
		kept   int
	}{
		"another epoch":  {"here", autograd.Random{Seed: 3, Epoch: epoch + 1}, kept + 1},
		"another seed":   {"here", autograd.Random{Seed: 4, Epoch: epoch}, kept},
		"another module": {"there", autograd.Random{Seed: 3, Epoch: epoch}, kept},
	} {
		out, _ := run(axis.Options{}, c.path, c.random, true)
		if in, n := whole(name, out, z, 1e-5); n != c.kept || in == first {
			t.Errorf("%s: %d columns have the rows of others, want %d and not %v", name, n, c.kept, first)
		}
	}
}
