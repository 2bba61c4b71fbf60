package train

import (
	"testing"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/train/plan"
)

// TestPassedByFormula: the bytes that the kernels of a GCN pass over, by layer, counted by hand from the
// graph and the widths. Each matrix of rows is counted once for each operation that reads or writes it.
func TestPassedByFormula(t *testing.T) {
	const vertices, features, hidden, classes, float = 900, 24, 16, 8, 4
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: vertices, Degree: 6, Features: features, Classes: classes, Seed: 3,
		Directed: true,
	})
	require.NoError(t, err)
	o := apply(Defaults(), "model gcn, layers 2, dropout 0, threads 2")
	o.Hidden = hidden
	rows := func(columns int) int { return float * vertices * columns }
	weight := func(in, out int) int { return float * in * out }
	edges := len(g.Relations[0].Sources)
	// The matrix, and the factors of rows, columns and self loops; and the rows that the edges name
	structure := 8*(vertices+1) + 4*edges + 2*rows(1)
	gathered := edges * float * (classes + 1)
	product := rows(features) + weight(features, hidden) + rows(hidden) // of the aggregated features
	last := rows(hidden) + weight(hidden, classes) + rows(classes)
	sum := structure + 2*rows(classes) // the rows for self loops, and the result
	gradients := []int{
		rows(features) + rows(hidden) + weight(features, hidden),
		rows(hidden) + rows(classes) + weight(hidden, classes) + // of the weight
			rows(classes) + rows(hidden) + weight(hidden, classes), // of the layer's input
	}
	layerWork := func(entries, operations int, b kernel.Bytes) kernel.Work {
		return kernel.Work{Bytes: b, Entries: entries, Operations: float64(operations)}
	}
	operations := []int{2 * vertices * features * hidden, 2 * vertices * hidden * classes} // of a product
	want := []plan.LayerWork{
		{
			// with bias and ReLU
			Forward: layerWork(0, operations[0], kernel.Bytes{
				Streamed: product + 2*rows(hidden), Least: product, Written: rows(hidden),
			}),
			// ReLU's gradient, with the sums for that of the bias; and what the weight's gradient is added to
			Backward: layerWork(0, operations[0], kernel.Bytes{
				Streamed: gradients[0] + 3*rows(hidden) + weight(features, hidden), Least: gradients[0],
				Written: weight(features, hidden),
			}),
		},
		{
			Forward: layerWork(edges, operations[1], kernel.Bytes{
				Streamed: last + sum + 2*rows(classes), Least: last + sum, Written: 2 * rows(classes),
				Gathered: gathered,
			}),
			Backward: layerWork(edges, 2*operations[1], kernel.Bytes{
				Streamed: gradients[1] + sum + rows(classes) + weight(hidden, classes),
				Least:    gradients[1] + sum,
				Written:  weight(hidden, classes) + rows(hidden) + rows(classes), Gathered: gathered,
			}),
		},
	}
	got := planOf(t, g, o).Workers[0].Work
	require.Len(t, got, len(want)+1)
	for layer := range want {
		assert.Equal(t, want[layer], got[layer], "layer %d", layer)
	}
	// The optimizer reads and writes each parameter and its two moments, and reads the gradient, which is
	// then set to zero. So is that of the logits, before the loss reads those of training vertices (60 %) and
	// writes their gradients; the validation loss reads logits, too (20 %)
	parameters := weight(features, hidden) + weight(hidden, classes) + float*(hidden+classes)
	loss := rows(classes) + 2*rows(classes)*6/10 + rows(classes)*2/10
	// Whether they are finite is asked of the parameters and of the logits, and of those of each split how
	// many are right
	checks := parameters + 2*rows(classes)
	outside := plan.LayerWork{Other: layerWork(0, 0, kernel.Bytes{Streamed: 8*parameters + loss + checks})}
	assert.Equal(t, outside, got[len(want)], "outside the layers")
}

// TestPassedByAllWorkers: the bytes of a plan are those of all its workers.
func TestPassedByAllWorkers(t *testing.T) {
	p := planOf(t, tangled(t), apply(Defaults(), "model gcn, layers 2, hidden 8, threads 1, parallel graph=2"))
	require.Len(t, p.Workers, 2)
	for layer, all := range p.Work() {
		a, b := p.Workers[0].Work[layer], p.Workers[1].Work[layer]
		want := plan.LayerWork{
			Forward: a.Forward.Plus(b.Forward), Backward: a.Backward.Plus(b.Backward),
			Other: a.Other.Plus(b.Other),
		}
		assert.Equal(t, want, all, "layer %d", layer)
		if b.Forward.Streamed+b.Other.Streamed == 0 {
			t.Errorf("layer %d: worker 1 streams nothing", layer)
		}
	}
}

// TestPassedByTurns: where partitions take turns, kernels pass over the same bytes in each layer as where
// each has a worker. What a product or a sum needs is never outside the layers, also where it is computed in
// the turn of another partition, or after a stage's backward pass.
func TestPassedByTurns(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: 900, Degree: 6, Features: 12, Classes: 4, Seed: 3, Directed: true,
	})
	require.NoError(t, err)
	passed := func(settings string) []plan.LayerWork {
		p := planOf(t, g, apply(Defaults(), "layers 3, hidden 8, threads 2, "+settings))
		all := p.Work()
		last := all[len(all)-1]
		outside := kernel.Work{Bytes: kernel.Bytes{Streamed: last.Other.Streamed}}
		assert.Equal(t, plan.LayerWork{Other: outside}, last, "%s: outside the layers", settings)
		return all
	}
	for _, model := range []string{"model gcn", "model sage, aggregation max", "model gcn, halo cover"} {
		workers, turns := passed(model+", parallel graph=4"), passed(model+", partitions 4")
		for layer, want := range workers {
			got := turns[layer]
			assert.Equal(t, want.Backward, got.Backward, "%s: layer %d, backward", model, layer)
			want.Forward.Streamed = got.Forward.Streamed // messages are not copied
			assert.Equal(t, want.Forward, got.Forward, "%s: layer %d, forward", model, layer)
		}
	}
	repeated := passed("model sage, parallel pipeline=2, recompute blocks")
	for layer, kept := range passed("model sage, parallel pipeline=2, recompute none") {
		assert.Equal(t, repeated[layer].Forward, kept.Forward, "pipeline: layer %d, forward", layer)
	}
	passed("model sage, norm batch, parallel graph=2,pipeline=2, chunks 2")
}
