package train

import (
	"context"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/task"
	"weft/train/worker"
)

// Prediction is the result of Predict, in the vertex order of the graph or of Job.Vertices.
type Prediction struct {
	Logits  []float32 // V × Classes, on worker 0; nil if the job's OnLogits took them
	Classes int
	// V × EmbeddingColumns: the input of the last layer; nil if not asked for, or if OnEmbeddings took it.
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
	WithEmbeddings                // also the input of the last layer: with one layer the features
	Embeddings                    // that alone
)

// Predict computes the logits of every vertex of the job's graph, or of Job.Vertices, with the given
// weights. All edges pass messages, but with HeldOut. It ignores the settings of the training, and needs no
// labels: the last layer's weights tell the number of classes of a named model. If ctx is cancelled on any
// worker, it returns context.Canceled on all. If a result is not finite, it returns an error on all. After
// an error that wraps a Common, Comm still works; any other error has ended it.
func (j *Job) Predict(ctx context.Context, weights nn.State, asked Outputs) (p *Prediction, err error) {
	s, err := j.beginPrediction(ctx, weights)
	if err != nil {
		return nil, err
	}
	err = j.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
		w, err := worker.NewInference(s.Config, team, c, share)
		if err != nil {
			return err
		}
		mine, err := j.predict(ctx, w, weights, asked)
		if j.speaks(s, c) {
			p = mine
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// beginPrediction is begin for a prediction with the weights.
func (j *Job) beginPrediction(ctx context.Context, weights nn.State) (*shared, error) {
	s, err := j.begin(ctx, &weights, false)
	if err != nil {
		return nil, err
	}
	s.Standard, err = worker.StandardIn(weights, s.Resolved, s.whole)
	return s, err
}

func (j *Job) predict(ctx context.Context, w *worker.Worker, weights nn.State,
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
		if err := w.Results(1, check,
			worker.OrKeep(j.OnEmbeddings, &p.Embeddings, &p.EmbeddingColumns)); err != nil {
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
	return p, w.Results(0, predict, worker.OrKeep(j.OnLogits, &p.Logits, nil))
}

// MeasureLinks measures embeddings of the job's graph, V × columns in its vertex order, by every metric of
// link prediction. weights are those of the run that made them. The mesh has one worker.
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
	err = j.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) (err error) {
		r, err = task.MeasureLinks(s.Kind,
			task.Env{Team: team, World: c, Share: share, Params: nn.NewParams(team, s.Seed)},
			embeddings, weights)
		return err
	})
	return r, err
}

// checkVertices refuses a list of vertices that Predict cannot compute.
func (j *Job) checkVertices(s *shared) error {
	if j.Vertices == nil {
		return nil
	}
	if err := s.CheckSome(); err != nil {
		return err
	}
	if len(j.Vertices) == 0 {
		return refusal.Errorf("{vertices}: names no vertex; name those to predict")
	}
	refuse := func(k int) error {
		return refusal.Errorf("{vertices}: entry %d, vertex %d, is out of the range of %d vertices, or "+
			"given twice; name each once", k+1, j.Vertices[k], s.whole.Own())
	}
	for k, v := range j.Vertices {
		if v < 0 || int(v) >= s.whole.Own() {
			return refuse(k)
		}
	}
	sorted := slices.Sorted(slices.Values(j.Vertices))
	for i := range len(sorted) - 1 {
		if v := sorted[i]; v == sorted[i+1] {
			first := slices.Index(j.Vertices, v)
			return refuse(first + 1 + slices.Index(j.Vertices[first+1:], v))
		}
	}
	return nil
}

// openSome has the worker open what the predictions of Vertices depend on, and no more of the graph.
func (j *Job) openSome(s *shared, room *mfg.Room) error {
	g, err := j.appended()
	if err != nil {
		return err
	}
	base := partition.All(j.Graph)
	j.arrange(base)
	base.Whole = base.Whole.Grown(g.Counts, g.Edges())
	s.whole = &base.Whole
	for i, t := range base.Whole.Types() {
		if n := g.Added.Types[i].Count; n > 0 && t.FeatureColumns == 0 {
			return refusal.Graph.Errorf("vertices of %s have no features, and a learned embedding each, "+
				"which the %d new ones lack; append them to the store and train again", t.Type, n)
		}
	}
	s.open = j.opener(base, func(use func(*partition.Share) error) error {
		m, err := j.reads(s, base)
		if err != nil {
			return err
		}
		return use(mfg.Extract(g, m, j.Vertices, room))
	})
	return nil
}

// Affected returns the vertices, ascending, whose predictions what Appended adds to the graph can change. All
// others keep their bits. It refuses what a prediction of Vertices refuses.
func (j *Job) Affected(ctx context.Context, weights nn.State) (vertices []int32, err error) {
	job := *j
	job.Vertices = []int32{0} // the checks are those for some vertices, whichever these are
	s, err := job.begin(ctx, &weights, false)
	if err != nil {
		return nil, err
	}
	g, err := job.appended()
	if err != nil {
		return nil, err
	}
	base := partition.All(job.Graph)
	job.arrange(base)
	err = j.guarded(base, func() error {
		m, err := job.reads(s, base)
		if err == nil {
			vertices = mfg.Affected(g, m)
		}
		return err
	})
	return vertices, err
}

// appended is the graph with what is appended, which may be nothing.
func (j *Job) appended() (*appended.Graph, error) {
	if j.Appended != nil {
		return j.Appended, nil
	}
	b, err := j.Base()
	if err != nil {
		return nil, err
	}
	return b.With(nil)
}

// Base is the job's graph as one to append to: new vertices have the features of Columns. It refuses a split
// that cannot be drawn.
func (j *Job) Base() (*appended.Base, error) {
	of, err := j.drawn()
	if err != nil {
		return nil, err
	}
	b := appended.On(of.Graph)
	b.Arrangements = j.arrangements
	return b, nil
}

// reads is what the model reads of the graph of a share.
func (j *Job) reads(s *shared, of *partition.Share) (*mfg.Model, error) {
	blocks, err := s.BlockSpecs(of, s.Outputs, j.Model)
	if err != nil {
		return nil, &Common{Err: err}
	}
	var reaches []mfg.Reach
	if s.Loaded != nil {
		reaches = s.Loaded.Reaches
	} else {
		reaches = engine.Reaches(blocks, sar.SchemaOf(of))
	}
	kind, known := gnn.KindOf(s.Model)
	return &mfg.Model{
		Blocks: reaches, SourceDegrees: j.Model != nil ||
			!known || kind.EdgeWeights,
		EdgeFeatures: gnn.ReadEdgeFeatures(blocks), Labels: s.LabelInput > 0,
	}, nil
}
