package train

import (
	"context"

	"weft/comm"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/task"
	"weft/train/worker"
)

// Predict computes the logits of every vertex of the job's graph, or of Job.Query, with the given weights.
// All edges pass messages, unless HeldOut is set. It ignores the settings of the training. It needs no
// labels: the last layer's weights tell the number of classes of a named model. If ctx is cancelled on any
// worker, it returns context.Canceled on all. If a result is not finite, it returns an error on all. After an
// error that wraps a Common, Comm still works; any other error has ended it.
func (j *Job) Predict(ctx context.Context, weights nn.State, asked Outputs) (p *Prediction, err error) {
	if j.Edges != nil {
		return j.predictEdges(ctx, weights)
	}
	s, err := j.beginPrediction(ctx, weights)
	if err != nil {
		return nil, err
	}
	err = s.eachWorker(func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		w, err := worker.NewInference(s.Config, team, c, share)
		if err != nil {
			return err
		}
		local, err := s.predict(ctx, w, weights, asked)
		if s.isReporter(c) {
			p = local
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (s *session) predict(ctx context.Context, w *worker.Worker, weights nn.State,
	asked Outputs,
) (*Prediction, error) {
	p := &Prediction{Classes: w.Outputs, Vertices: w.Inference.All()}
	if f, some := w.Inference.(*engine.MFG); some {
		p.Needs = f.Needs()
	}
	finish := w.Kind.Predicts(w.Params, weights)
	if w.Loaded == nil {
		if err := w.Load(weights, nil); err != nil {
			return nil, err
		}
	}
	check := func(part *tensor.Matrix) error { return w.CheckPart(ctx, part) }
	if asked != Logits {
		if err := w.Embeddings(weights, check,
			worker.OrKeep(s.job.OnEmbeddings, &p.Embeddings, &p.EmbeddingColumns)); err != nil {
			return nil, err
		}
	}
	if asked == Embeddings {
		return p, nil
	}
	predict := func(part *tensor.Matrix) error {
		if err := check(part); err != nil || finish == nil {
			return err
		}
		finish(part)
		return nil
	}
	return p, w.Results(0, predict, worker.OrKeep(s.job.OnLogits, &p.Logits, nil))
}

// MeasureLinks measures embeddings of the job's graph, V × columns in its vertex order, by every metric of
// link prediction. weights are the weights of the run that made them. The mesh has one worker.
func (j *Job) MeasureLinks(ctx context.Context, embeddings []float32,
	weights nn.State,
) (r *task.Links, err error) {
	s, err := j.begin(ctx, nil, false)
	if err != nil {
		return nil, err
	}
	if s.Workers > 1 {
		return nil, refusal.Errorf("links are measured on one worker, and the mesh has %d", s.Workers)
	}
	err = s.eachWorker(func(team *kernel.Team, c *comm.Comm, share *partition.Share) (err error) {
		r, err = task.MeasureLinks(s.Kind,
			task.Env{Team: team, World: c, Share: share, Params: nn.NewParams(team, s.Seed)},
			embeddings, weights)
		return err
	})
	return r, err
}

// Affected returns the vertices, ascending, whose predictions can change by what Appended adds to the graph.
// All others keep their bits. Affected refuses what a prediction of Vertices refuses.
func (j *Job) Affected(ctx context.Context, weights nn.State) (vertices []int32, err error) {
	job := *j
	job.Vertices = []int32{0} // any vertex does: the checks are the same for all
	s, err := job.begin(ctx, &weights, false)
	if err != nil {
		return nil, err
	}
	g, err := job.appended()
	if err != nil {
		return nil, err
	}
	base := s.wholeShare()
	err = s.guarded(base, func() error {
		m, err := s.reads(base)
		if err == nil {
			vertices = mfg.Affected(g, m)
		}
		return err
	})
	return vertices, err
}
