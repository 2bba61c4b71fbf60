package train

import (
	"slices"
	"sync"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestPredictor: predictions of some vertices, several at a time, have the bits of one of all vertices.
func TestPredictor(t *testing.T) {
	g := tangle(t, 300, 500)
	for name, o := range networks() {
		if name == "gcn" {
			o.NormalizeFeatures = "standard"
		}
		weights := run(t, g, o).Weights
		job := &Job{Graph: g, Options: o}
		p, err := job.Predictor(t.Context(), weights)
		if r, _ := o.Resolve(); r.CheckSome() != nil {
			assert.Refused(t, err, "vertices", name)
			continue
		}
		require.NoError(t, err, name)
		all, err := job.Predict(t.Context(), weights, WithEmbeddings)
		require.NoError(t, err, name)
		var done sync.WaitGroup
		for _, list := range [][]int32{{17}, {299, 3, 5}, {0, 1, 2, 3}} {
			done.Go(func() {
				some, err := p.Predict(t.Context(), list, nil, WithEmbeddings)
				assert.NoError(t, err, name)
				for i, v := range list {
					assert.Equal(t, row(all.Logits, all.Classes, int(v)),
						row(some.Logits, all.Classes, i), name)
					n := all.EmbeddingColumns
					assert.Equal(t, row(all.Embeddings, n, int(v)), row(some.Embeddings, n, i), name)
				}
			})
		}
		done.Wait()
	}
}

func row(of []float32, columns, k int) []float32 { return slices.Clone(of[k*columns : (k+1)*columns]) }
