package train

import (
	"context"
	"fmt"

	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Prediction is what Predict computes, in the graph's vertex order.
type Prediction struct {
	Logits           []float32 // V × Classes
	Classes          int
	Embeddings       []float32 // V × EmbeddingColumns: the input of the last layer
	EmbeddingColumns int
}

// Predict computes the logits of every vertex of the job's graph with the given weights. The settings of the training are ignored,
// and the graph needs no labels: the last layer's weights say how many classes a named model has. With embeddings set it also keeps
// the input of the last layer.
func (j *Job) Predict(ctx context.Context, weights nn.State, embeddings bool) (p *Prediction, err error) {
	err = j.guarded(func() error {
		p, err = j.predict(ctx, weights, embeddings)
		return err
	})
	return p, err
}

func (j *Job) predict(ctx context.Context, weights nn.State, embeddings bool) (p *Prediction, err error) {
	team := kernel.NewTeam(threads(&j.Options), tensor.NewMeter())
	defer team.Memory.Close()
	classes := j.Graph.Labels.Classes
	if n := classesOf(weights, j.Options.Layers); n > 0 && j.Model == nil {
		classes = n
	}
	w, err := newWorker(team, j, classes)
	if err != nil {
		return nil, err
	}
	if err := w.params.Load(weights); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p = &Prediction{Classes: classes, Logits: w.logits()}
	if embeddings {
		p.Embeddings, p.EmbeddingColumns = w.embeddings()
	}
	return p, nil
}

// classesOf is the width of the last layer's output in the weights of a named model of so many layers: the length of that layer's
// last bias. It is 0 where the weights are of another kind.
func classesOf(weights nn.State, layers int) int {
	for _, name := range []string{"convs.%d.lin.bias", "convs.%d.nn.lins.1.bias", "convs.%d.bias", "convs.%d.lin_l.bias", "lins.%d.bias"} {
		if v, ok := weights[fmt.Sprintf(name, layers-1)]; ok && len(v.Shape) == 1 {
			return v.Shape[0]
		}
	}
	return 0
}
