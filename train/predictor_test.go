package train

import (
	"context"
	"slices"
	"sync"
	"testing"

	"weft/device/devicetest"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/setting"
)

// TestPredictor: predictions of some vertices, one after the other and several at a time, have the bits of
// one of all vertices.
func TestPredictor(t *testing.T) {
	type trained struct {
		graph   *graph.Graph
		options Options
	}
	all := map[string]trained{}
	plain := tangle(t, 300, 500)
	for name, o := range networks() {
		if name == "gcn" {
			o.NormalizeFeatures = "standard"
		}
		all[name] = trained{plain, o}
	}
	embedded := severalTypes(t)
	embedded.Types[1].Features = graph.Features{} // a learned row for each vertex
	all["rgcn"] = trained{embedded, apply(Defaults(), "model rgcn, hidden 8, norm batch")}
	valued := *plain.Copy()
	valued.Types[0].Labels = graph.Labels{Values: make([]float32, valued.Types[0].Count), Columns: 1}
	for v := range valued.Types[0].Count {
		valued.Types[0].Labels.Values[v] = float32(v%17) - 40
	}
	all["values"] = trained{&valued, apply(Defaults(), "model gin, hidden 8, loss mse")}
	for name, model := range all {
		g, o := model.graph, model.options
		if r, err := o.Resolve(); err == nil && r.CheckSome() != nil {
			_, err := (&Job{Graph: g, Options: o}).Predictor(t.Context(), nil)
			assert.Refused(t, err, "vertices", name)
			continue
		}
		o.Epochs = 2
		weights := run(t, g, o).Weights
		job := &Job{Graph: g, Options: o}
		p, err := job.Predictor(t.Context(), weights)
		require.NoError(t, err, name)
		all, err := job.Predict(t.Context(), weights, WithEmbeddings)
		require.NoError(t, err, name)
		var done sync.WaitGroup
		for _, list := range [][]int32{{17}, {299, 3, 5}, {0, 1, 2, 3}} {
			done.Go(func() {
				for range 3 {
					some, err := p.Predict(t.Context(), Query{Vertices: list}, WithEmbeddings)
					assert.NoError(t, err, name)
					for i, v := range list {
						assert.Equal(t, row(all.Logits, all.Classes, int(v)),
							row(some.Logits, all.Classes, i), name)
						n := all.EmbeddingColumns
						assert.Equal(t, row(all.Embeddings, n, int(v)), row(some.Embeddings, n, i), name)
					}
				}
			})
		}
		done.Wait()
		require.NoError(t, p.Close(), name)
	}
}

// TestPredictorOfEdges: predictions of edges, several at a time, have the bits of those of all edges of the
// graph, and those with a new vertex the bits of Job.Predict.
func TestPredictorOfEdges(t *testing.T) {
	untyped, types := tangle(t, 60, 40), severalTypes(t)
	for name, c := range map[string]struct {
		g           *graph.Graph
		relation    int
		kind, words string
		timed       bool // edges pass messages to later ones alone
	}{
		"sage":    {untyped, 0, "classes", "model sage, normalize-features standard", false},
		"gat":     {untyped, 0, "values", "model gat, heads 2, out-features 5", false},
		"gine":    {untyped, 0, "several", "model gine, layers 1", false},
		"several": {types, 1, "classes", "model sage", false},
		"timed":   {untyped, 0, "classes", "model sage, direction both", true},
		"both":    {types, 0, "values", "model sage", true},
	} {
		c.g = labelEdges(t, c.g, c.relation, c.kind)
		if c.timed {
			c.g = timed(t, c.g, c.relation)
		}
		job := &Job{Graph: c.g, Options: edgeLabelOptions("split 0, threads 2, " + c.words)}
		weights := mustRun(t, job).Weights
		p, err := job.Predictor(t.Context(), weights)
		require.NoError(t, err, name)
		assert.Equal(t, c.relation, p.Learned(), name)
		all, err := job.Predict(t.Context(), weights, Logits)
		require.NoError(t, err, name)
		r := &c.g.Relations[c.relation]
		n := r.Features.Columns
		var done sync.WaitGroup
		for _, list := range [][]int{{2}, {3, 0, 2}, {0, 1, 2, 3, 3, 1}} {
			var numbers []int64
			for _, k := range list {
				numbers = append(numbers, int64(k))
			}
			done.Go(func() {
				for range 3 {
					q := Query{Edges: r.EdgesOf(numbers...), Numbers: numbers}
					some, err := p.Predict(t.Context(), q, Logits)
					assert.NoError(t, err, name)
					for i, k := range list {
						assert.Equal(t, row(all.Logits, all.Classes, k),
							row(some.Logits, all.Classes, i), name)
					}
				}
			})
		}
		done.Wait()
		more := p.Base().Nothing()
		kind := p.Base().Ends[c.relation].Source
		more.Types[kind].Append(slices.Repeat([]float32{.5}, c.g.Types[kind].Features.Columns))
		more.Types[kind].Names = []string{"new"}
		with, err := p.Base().With(more)
		require.NoError(t, err, name)
		e := &graph.Edges{
			Source: []int32{int32(c.g.Types[kind].Count), 3}, Target: []int32{5, 2},
			Features: slices.Repeat([]float32{1, 2, 3}[:n], 2),
		}
		got, err := p.Predict(t.Context(), Query{Edges: e, Appended: with}, Logits)
		require.NoError(t, err, name)
		grown := *job
		grown.Query = Query{Edges: e, Appended: with}
		want, err := grown.Predict(t.Context(), weights, Logits)
		require.NoError(t, err, name)
		assert.Equal(t, want.Logits, got.Logits, name)
		e.Features = slices.Repeat([]float32{3e38}, len(e.Features))
		if _, err = p.Predict(t.Context(), Query{Edges: e}, Logits); n > 0 {
			assert.Refused(t, err, "new edge", name)
		}
		require.NoError(t, p.Close(), name)
	}
}

// TestPredictorOnCard: predictions on a card, asked for several at a time, are the CPU's but for rounding.
// Nothing of them runs there. What each took of the card's memory is free for the next one.
func TestPredictorOnCard(t *testing.T) {
	devicetest.Library(t)
	g, o := tangle(t, 300, 500), apply(Defaults(), "model gat, heads 2, hidden 8, norm batch, epochs 1")
	weights := run(t, g, o).Weights
	all, err := (&Job{Graph: g, Options: o}).Predict(t.Context(), weights, WithEmbeddings)
	require.NoError(t, err)
	o.Device, o.MemoryLimit = setting.AllCards, 1<<20
	p, err := (&Job{Graph: g, Options: o}).Predictor(t.Context(), weights)
	require.NoError(t, err)
	assert.Equal(t, 1, p.Threads())
	assert.Equal(t, true, p.seat.memory.OnDevice())
	var done sync.WaitGroup
	for _, list := range [][]int32{{17}, {299, 3, 5}, {0, 1, 2, 3}} {
		done.Go(func() {
			for range 3 {
				some, err := p.Predict(t.Context(), Query{Vertices: list}, WithEmbeddings)
				assert.NoError(t, err)
				for i, v := range list {
					n, logits := all.EmbeddingColumns, row(some.Logits, all.Classes, i)
					for c, x := range row(all.Logits, all.Classes, int(v)) {
						assert.Near(t, float64(x), float64(logits[c]), 1e-5)
					}
					for c, x := range row(all.Embeddings, n, int(v)) {
						assert.Near(t, float64(x), float64(some.Embeddings[i*n+c]), 1e-5)
					}
				}
			}
		})
	}
	done.Wait()
	first := p.seat.memory.DeviceUse()
	for range 20 { // which would fill the card, if they kept their memory
		_, err := p.Predict(t.Context(), Query{Vertices: []int32{17}}, Logits)
		require.NoError(t, err)
	}
	assert.Equal(t, map[string]int64{}, first.OnCPU)
	require.NoError(t, p.Close())
}

// TestPredictorFailsOnCard: a prediction that ends in the middle, for want of memory, because its caller
// leaves, or as a call of the driver fails once, gives the card's memory back. Its error is not the next
// one's, which has the bits of one before.
func TestPredictorFailsOnCard(t *testing.T) {
	devicetest.Library(t)
	g, o := tangle(t, 300, 500), apply(Defaults(), "model sage, hidden 64, layers 2, epochs 1")
	weights := run(t, g, o).Weights
	o.Device, o.MemoryLimit = setting.AllCards, 180<<10
	few, all := []int32{299}, make([]int32, 300)
	for v := range all {
		all[v] = int32(v)
	}
	for _, call := range []string{
		"", "cuLaunchKernel 30", "cuMemcpyHtoDAsync_v2 30", "cuMemcpyDtoHAsync_v2 4",
	} {
		if call != "" {
			t.Setenv("ON_CPU_FAIL", call+" 2")
		}
		p, err := (&Job{Graph: g, Options: o}).Predictor(t.Context(), weights)
		require.NoError(t, err)
		var want []float32
		failed := 0
		for k := range 20 {
			if call == "" {
				_, err = p.Predict(t.Context(), Query{Vertices: all}, Logits)
				assert.ErrorContains(t, err, "out of memory: ")
				_, err = p.Predict(&ending{t.Context(), 2 + k%10}, Query{Vertices: few}, Logits)
				assert.ErrorIs(t, err, context.Canceled)
			}
			got, err := p.Predict(t.Context(), Query{Vertices: few}, Logits)
			if err != nil && call != "" {
				assert.ErrorContains(t, err, "CUDA_ERROR_OUT_OF_MEMORY")
				failed++
				continue
			}
			require.NoError(t, err)
			if want == nil {
				want = got.Logits
			}
			assert.Equal(t, want, got.Logits, call)
		}
		if call != "" {
			assert.Equal(t, 1, failed, call)
		}
		require.NoError(t, p.Close())
	}
}

// ending is a context that ends when it has been asked so often.
type ending struct {
	context.Context
	left int
}

func (e *ending) Err() error {
	if e.left--; e.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestPredictorEnds: a prediction ends between two kernels, and the next one has its bits. One whose end has
// come does not look at its vertices.
func TestPredictorEnds(t *testing.T) {
	g, o := tangle(t, 300, 500), networks()["sage"]
	o.Epochs = 1
	p, err := (&Job{Graph: g, Options: o}).Predictor(t.Context(), run(t, g, o).Weights)
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Close()) }()
	want, err := p.Predict(t.Context(), Query{Vertices: []int32{17}}, Logits)
	require.NoError(t, err)
	const results = 1 // where it asks for the last time
	_, err = p.Predict(&ending{t.Context(), 0}, Query{Vertices: []int32{-1}}, Logits)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = p.Predict(&ending{t.Context(), 1 + 2*results}, Query{Vertices: []int32{17}}, Logits)
	assert.ErrorIs(t, err, context.Canceled)
	got, err := p.Predict(t.Context(), Query{Vertices: []int32{17}}, Logits)
	require.NoError(t, err)
	assert.Equal(t, want.Logits, got.Logits)
}

func row(m []float32, columns, k int) []float32 { return slices.Clone(m[k*columns : (k+1)*columns]) }
