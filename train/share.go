package train

import (
	"cmp"
	"context"
	"fmt"

	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// begin checks the job: for training if weights is nil, else for a prediction with the weights. All processes
// call it together. It fails on all if it fails on any. alike is as in plan.Asks.
func (j *Job) begin(ctx context.Context, weights *nn.State, alike bool) (*shared, error) {
	r, err := j.resolve()
	if err != nil { // before it waits for processes that do not exist
		return nil, err
	}
	card := j.Cards
	if card == nil {
		if card, err = j.findCards(r); err != nil {
			return nil, err
		}
	}
	s, err := j.share(ctx, r, weights, alike)
	if err == nil {
		s.Cards = card
	}
	return s, j.ranks().Together(err)
}

// beginPrediction is begin for a prediction with the weights.
func (j *Job) beginPrediction(ctx context.Context, weights nn.State) (*shared, error) {
	if j.Options.Offload == setting.RAM {
		return nil, refusal.Errorf("--offload %s: predictions keep all matrices in the card's memory; "+
			"leave it out", setting.RAM)
	}
	s, err := j.begin(ctx, &weights, false)
	if err != nil {
		return nil, err
	}
	s.Standard, err = worker.StandardIn(weights, s.Resolved, s.whole)
	return s, err
}

func (j *Job) share(ctx context.Context, r *setting.Resolved, weights *nn.State,
	alike bool,
) (*shared, error) {
	if j.Graph != nil {
		if err := j.Graph.CheckLists(); err != nil {
			return nil, err
		}
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	s, err := drawn.shareDrawn(ctx, r, weights, alike)
	j.chunks = drawn.chunks
	return s, err
}

func (j *Job) shareDrawn(ctx context.Context, r *setting.Resolved, weights *nn.State, alike bool,
) (s *shared, err error) {
	k := r.Mesh.Partitions
	if j.Graph == nil && (j.Parts == nil || k == 1) {
		return nil, refusal.Errorf("a job has neither a graph nor, for several partitions, parts")
	}
	s = &shared{Config: worker.Config{
		Resolved: r, OwnModel: j.Model, OwnLoss: j.Loss, Engine: j.Engine,
		Processes: j.peers().Size() > 1, Machines: j.Machines,
	}}
	if j.Appended != nil && (k > 1 || j.listed() == nil || weights == nil || j.HeldOut) {
		return nil, refusal.Errorf("a graph with vertices and edges appended is for a prediction of some " +
			"vertices, with all edges and on one worker")
	}
	switch {
	case k == 1 && j.listed() != nil && weights != nil && !j.HeldOut:
		if err := j.openSome(s, &mfg.Scratch{}); err != nil {
			return nil, err
		}
	case k == 1:
		share := partition.All(j.Graph)
		j.arrange(share)
		s.whole = &share.Whole
		s.open = j.opener(share, func(use func(*partition.Share) error) error { return use(share) })
	default:
		if j.Parts == nil {
			if j.Parts, err = j.MakeParts(ctx); err != nil {
				return nil, err
			}
		}
		whole := j.Counts()
		s.whole = &whole
		s.open = j.openPart(k)
	}
	s.Outputs = r.Kind.Outputs(s.whole)
	if weights != nil {
		if n := r.OutputsIn(*weights); n > 0 && j.Model == nil {
			s.Outputs = n
		}
	}
	if err := r.CheckCounts(s.whole, s.Outputs); err != nil {
		return nil, err
	}
	if weights == nil {
		err = cmp.Or(j.checkLoss(), j.checkOwn(r), r.Kind.Check(s.whole), checkLossFile(r, s.whole))
		if err == nil {
			s.Passing, s.Later, err = r.Kind.Passing(s.whole)
		}
	} else {
		err = j.checkVertices(s)
		s.Vertices = j.listed()
		if err == nil && !r.Undecoded { // otherwise all edges pass messages to the scored edges
			var passing, later *partition.Subgraph
			if passing, later, err = r.Kind.Passing(s.whole); j.HeldOut || later != nil {
				s.Passing, s.Later = passing, later
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if s.ChunkOf, err = j.divide(ctx, s, alike); err != nil {
		return s, err
	}
	if weights == nil && j.Options.Validate != "" && j.Validate == nil {
		return nil, refusal.Errorf("--validate %s: a job has that graph as Validate", j.Options.Validate)
	}
	if j.Validate != nil && weights == nil {
		if s.validate, err = j.shareValidation(ctx, s); err != nil {
			return s, err
		}
	}
	return s, j.Checkpoints.check(&s.Config)
}

// checkLoss refuses settings that the job's own loss replaces.
func (j *Job) checkLoss() error {
	o := &j.Options
	if j.Loss == nil {
		return nil
	}
	var option, text string
	switch {
	case o.Task != task.Vertex:
		return refusal.Errorf("--task %s: a job's own loss is for labels of vertices; leave one of them out",
			o.Task)
	case o.Loss != task.AutoLoss:
		option, text = "--loss", o.Loss
	case o.ClassWeights != task.NoClassWeights:
		option, text = "--class-weights", o.ClassWeights
	case o.LabelSmoothing > 0:
		option, text = "--label-smoothing", fmt.Sprint(o.LabelSmoothing)
	default:
		return nil
	}
	return refusal.Errorf("%s %s: the job has a loss of its own in its place; leave one of them out", option,
		text)
}

// checkLossFile refuses a graph whose labels do not fit the loss of a file.
func checkLossFile(r *setting.Resolved, whole *partition.Whole) error {
	l := r.LossFile()
	if l == nil {
		return nil
	}
	if err := l.Check(r.Kind.Outputs(whole), whole.SeveralLabels || whole.ValueColumns > 0); err != nil {
		return refusal.Errorf("--loss %s: %w", r.Loss, err)
	}
	return nil
}

// checkOwn refuses to train the job's own model or loss on a card.
func (j *Job) checkOwn(r *setting.Resolved) error {
	if own := j.Model != nil || j.Loss != nil; !own || !r.OnCard() {
		return nil
	}
	return refusal.Errorf("--device %s: the job has a model or a loss of its own, whose functions of Go run on "+
		"the CPU; take --device %s", r.Device, setting.CPU)
}

// shareValidation is share for the graph on which the model is validated. It refuses a graph that the model
// does not fit.
func (j *Job) shareValidation(ctx context.Context, s *shared) (*shared, error) {
	if s.Task == task.Edge {
		return nil, refusal.Errorf("--validate: validates labels of vertices, and --edge-label %s learns those of "+
			"edges; leave it out", s.EdgeLabel)
	}
	o, whole := j.Validate, s.whole
	o.Options, o.Mesh, o.Model, o.Loss, o.Engine, o.Comm, o.Machines = j.Options, j.Mesh, j.Model,
		j.Loss, j.Engine, j.Comm, j.Machines
	if _, err := o.Like(j.Columns()); err != nil {
		return nil, o.named(err)
	}
	v, err := o.share(ctx, s.Resolved, &nn.State{}, false)
	if err == nil {
		err = cmp.Or(s.Kind.CheckMeasured(v.whole), s.checkFeatures(v.whole))
	}
	if err != nil {
		return nil, o.named(err)
	}
	switch w := v.whole; {
	case w.Splits[s.Split.Number].Val == 0:
		err = refusal.Errorf("--split %v has no validation vertices; import it with --split val", s.Split)
	case v.Outputs > s.Outputs || (w.ValueColumns > 0) != (whole.ValueColumns > 0):
		err = refusal.Errorf("its labels are of %d classes or columns, and those of the graph that is "+
			"trained on of %d; give graphs with the same labels", v.Outputs, s.Outputs)
	case w.ValueColumns != whole.ValueColumns:
		err = refusal.Errorf("it has %d values to predict, and the graph that is trained on has %d; give "+
			"graphs with the same labels", w.ValueColumns, whole.ValueColumns)
	}
	v.Outputs, v.dataset = s.Outputs, o.Dataset
	return v, o.named(err)
}

// checkFeatures refuses a validation graph whose vertex types or features differ from those of the training
// graph.
func (s *shared) checkFeatures(validated *partition.Whole) error {
	for kind := range validated.Types {
		t, like := &validated.Types[kind], s.whole.TypeLike(validated, kind)
		if like < 0 {
			return refusal.Errorf("it has vertices of the type %q, and the graph that is trained on has "+
				"none; give graphs with the same vertex types", t.Type)
		}
		suffix := ""
		if len(validated.Types) > 1 {
			suffix = fmt.Sprintf(" of the vertex type %q", t.Type)
		}
		trained := &s.whole.Types[like]
		switch {
		case t.FeatureColumns != trained.FeatureColumns:
			return refusal.Errorf("it has %d features%s, and the graph that is trained on has %d; give "+
				"graphs with the same features", t.FeatureColumns, suffix, trained.FeatureColumns)
		case t.FeatureValues > 0 && s.Standardises(trained) != nil:
			return refusal.Errorf("its features%s are sparse, and those of the graph that is trained on are "+
				"standardised; import it with --dense-features", suffix)
		}
	}
	return nil
}

// named prefixes a refusal of the validation graph with the setting and the graph. It then does not seem to
// be about the training graph.
func (j *Job) named(err error) error {
	if err == nil || !refusal.Is(err) {
		return err
	}
	return refusal.Errorf("--validate %s: %v", j.Dataset, err)
}
