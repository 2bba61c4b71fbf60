package train

import (
	"context"

	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
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

// Outputs are what a prediction computes.
type Outputs int

// What a prediction computes.
const (
	Logits         Outputs = iota // of the last layer
	WithEmbeddings                // the input of the last layer, too: with one layer the features
)

// Predict computes the logits of every vertex of the job's graph with the given weights. The settings of the
// training are ignored, and the graph needs no labels: the last layer's weights say how many classes a named
// model has. A ctx that is cancelled on any
// worker ends it with context.Canceled on all, and so do results that are not finite, with an error of their
// own. An error that wraps a Common leaves Comm whole, any other has ended it.
func (j *Job) Predict(ctx context.Context, weights nn.State, asked Outputs) (p *Prediction, err error) {
	err = j.eachWorker(ctx, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		mine, err := j.predict(ctx, team, c, share, weights, asked)
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

func (j *Job) predict(ctx context.Context, team *kernel.Team, c *comm.Comm, share *partition.Share, weights nn.State, asked Outputs,
) (*Prediction, error) {
	p := &Prediction{Classes: j.Options.task().outputs(&j.Options, &share.Whole), Vertices: share.Whole.Own()}
	if _, n := j.Options.Widths(weights); n > 0 && j.Model == nil {
		p.Classes = n
	}
	w, err := newWorker(j, c, p.Classes, engine.Config{Team: team, Share: share})
	if err != nil {
		return nil, err
	}
	w.params.Allow(j.Options.task().parameters()...)
	if err := w.loaded(w.params.Load(weights)); err != nil {
		return nil, err
	}
	check := func(part *tensor.Matrix) error { return w.checkPart(ctx, part) }
	if asked == WithEmbeddings {
		if err := w.results(1, check, orKeep(j.OnEmbeddings, &p.Embeddings, &p.EmbeddingColumns)); err != nil {
			return nil, err
		}
	}
	return p, w.results(0, check, orKeep(j.OnLogits, &p.Logits, nil))
}
