package train

import (
	"context"

	"weft/internal/safetensors"
	"weft/kernel"
	"weft/tensor"
)

// Prediction is what Predict computes, in the graph's vertex order.
type Prediction struct {
	Logits           []float32 // V × Classes
	Classes          int
	Embeddings       []float32 // V × EmbeddingColumns: the input of the last layer
	EmbeddingColumns int
}

// Predict computes the logits of every vertex of the job's graph with the given weights. The settings of the training are ignored.
func (j *Job) Predict(ctx context.Context, weights map[string]safetensors.Tensor) (p *Prediction, err error) {
	defer recoverMemory(&err)
	team := kernel.NewTeam(threads(&j.Options), tensor.NewMeter())
	defer team.Memory.Close()
	w, err := newWorker(team, j)
	if err != nil {
		return nil, err
	}
	if err := w.params.Load(weights); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p = &Prediction{Classes: j.Graph.Labels.Classes}
	p.Logits, p.Embeddings, p.EmbeddingColumns = w.predict(true)
	return p, nil
}
