package train

import (
	"context"

	"weft/comm"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// Prediction is what Predict computes, in the graph's vertex order or that of Job.Vertices.
type Prediction struct {
	Logits  []float32 // V × Classes, on worker 0; nil where the job's OnLogits took them
	Classes int
	// V × EmbeddingColumns: the input of the last layer; nil where it was not asked for, or OnEmbeddings took
	// it
	Embeddings       []float32
	EmbeddingColumns int
	Vertices         int
	Needs            []mfg.Need // for Job.Vertices: what each block read of the graph; else nil
}

// Outputs are what a prediction computes.
type Outputs int

// What a prediction computes.
const (
	Logits         Outputs = iota // of the last layer
	WithEmbeddings                // the input of the last layer, too: with one layer the features
)

// Predict computes the logits of every vertex of the job's graph, or of Job.Vertices, with the given weights.
// The settings of the training are ignored, and the graph needs no labels: the last layer's weights say how
// many classes a named model has. A ctx that is cancelled on any worker ends it with context.Canceled on all,
// and so do results that are not finite, with an error of their own. An error that wraps a Common leaves Comm
// whole, any other has ended it.
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
	if j.Vertices != nil {
		if err := j.checkVertices(p.Vertices); err != nil {
			return nil, &Common{Err: err}
		}
		p.Vertices = len(j.Vertices)
	}
	w, err := newWorker(j, c, p.Classes, engine.Config{Team: team, Share: share})
	if err != nil {
		return nil, err
	}
	w.params.Allow(j.Options.task().parameters()...)
	if err := w.loaded(w.params.Load(weights)); err != nil {
		return nil, err
	}
	if w.flow != nil {
		p.Needs = w.flow.Needs()
	}
	check := func(part *tensor.Matrix) error { return w.checkPart(ctx, part) }
	if asked == WithEmbeddings {
		if err := w.results(1, check, orKeep(j.OnEmbeddings, &p.Embeddings, &p.EmbeddingColumns)); err != nil {
			return nil, err
		}
	}
	return p, w.results(0, check, orKeep(j.OnLogits, &p.Logits, nil))
}

// checkVertices refuses a list of vertices that cannot be computed, of a graph of so many.
func (j *Job) checkVertices(vertices int) error {
	grid, err := j.mesh()
	if err == nil {
		err = CheckSome(grid)
	}
	if err != nil {
		return err
	}
	if len(j.Vertices) == 0 {
		return refusal.Errorf("%s: names no vertex; name those to predict", refusal.Setting("vertices"))
	}
	seen := make([]bool, vertices)
	for k, v := range j.Vertices {
		if v < 0 || int(v) >= vertices || seen[v] {
			return refusal.Errorf("%s: entry %d, vertex %d, is out of the range of %d vertices, or given twice; name each once",
				refusal.Setting("vertices"), k+1, v, vertices)
		}
		seen[v] = true
	}
	return nil
}

// CheckSome refuses a mesh that cannot predict some vertices alone.
func CheckSome(grid mesh.Mesh) error {
	if grid.Slices == 1 && grid.Stages == 1 {
		return nil
	}
	return refusal.Errorf("%s: what some vertices need is found on one worker or the graph axis, and the mesh has other axes; give %s graph=%d",
		refusal.Setting("vertices"), refusal.Setting("parallel"), grid.Workers())
}
