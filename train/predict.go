package train

import (
	"context"

	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// Prediction is what Predict computes, in the graph's vertex order.
type Prediction struct {
	Logits  []float32 // V × Classes, on worker 0; nil where the job's OnLogits took them
	Classes int
	// V × EmbeddingColumns: the input of the last layer; nil where it was not asked for, or OnEmbeddings took
	// it
	Embeddings       []float32
	EmbeddingColumns int
	Vertices         int
}

// Predict computes the logits of every vertex of the job's graph with the given weights. The settings of the
// training are ignored, and the graph needs no labels: the last layer's weights say how many classes a named
// model has. With embeddings set it also computes the input of the last layer. A ctx that is cancelled on any
// worker ends it with context.Canceled on all, and so do results that are not finite, with an error of their
// own. An error that wraps a Common leaves Comm whole, any other has ended it.
func (j *Job) Predict(ctx context.Context, weights nn.State, embeddings bool) (p *Prediction, err error) {
	err = j.eachWorker(ctx, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		mine, err := j.predict(ctx, team, c, share, weights, embeddings)
		if j.speaks(c) {
			p = mine
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (j *Job) predict(ctx context.Context, team *kernel.Team, c *comm.Comm, share *partition.Share, weights nn.State, embeddings bool,
) (*Prediction, error) {
	p := &Prediction{Classes: share.Whole.Classes, Vertices: share.Whole.Vertices}
	if _, n := j.Options.Widths(weights); n > 0 && j.Model == nil {
		p.Classes = n
	}
	w, err := newWorker(team, c, share, j, p.Classes, false)
	if err != nil {
		return nil, err
	}
	if err := w.loaded(w.params.Load(weights)); err != nil {
		return nil, err
	}
	goOn := func(part *tensor.Matrix) error { return w.goOn(ctx, part) }
	if embeddings {
		if err := w.eachEmbedding(goOn, orKeep(j.OnEmbeddings, &p.Embeddings, &p.EmbeddingColumns)); err != nil {
			return nil, err
		}
	}
	return p, w.eachLogits(goOn, orKeep(j.OnLogits, &p.Logits, nil))
}
