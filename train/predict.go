package train

import (
	"context"

	"weft/graph"
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

// Predict computes the logits of every vertex of a graph with the given weights. The settings of the training are ignored.
func Predict(ctx context.Context, g *graph.Graph, o Options, weights map[string]safetensors.Tensor) (p *Prediction, err error) {
	defer recoverMemory(&err)
	team := kernel.NewTeam(threads(&o), tensor.NewMeter())
	defer team.Memory.Close()
	w, err := newWorker(team, g, &o)
	if err != nil {
		return nil, err
	}
	if err := w.params.Load(weights); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p = &Prediction{Classes: g.Labels.Classes}
	p.Logits, p.Embeddings, p.EmbeddingColumns = w.predict(true)
	return p, nil
}
