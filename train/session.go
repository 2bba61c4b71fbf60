package train

import (
	"cmp"
	"context"
	"fmt"

	"weft/internal/refusal"
	"weft/nn"
	"weft/parallel/turns"
	"weft/partition"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// session is a job that has begun: what its workers share, how they open their shares, and how they compute.
type session struct {
	worker.Config
	job      *Job // as it was when it began, with the split that its options draw
	whole    *partition.Whole
	Limit    int64           // of a plan: the memory from which on matrices rest
	Reserves []turns.Reserve // of a plan: for messages between workers, by worker; nil: as many rest as can
	Rests    []int64         // of a plan: the bytes that rest at the peak, by worker
	// open opens the share of a partition for use. Opening reads its arrays and allocates tensors.
	open func(p int, use func(*partition.Share) error) error
	// validate is the session of the graph on which the model is validated; nil: it is the same graph.
	validate *session
}

// begin checks the job: for training if weights is nil, else for a prediction with the weights. All processes
// call it together. It fails on all if it fails on any. alike is as in plan.Asks.
func (j *Job) begin(ctx context.Context, weights *nn.State, alike bool) (*session, error) {
	r, err := j.resolve()
	if err != nil { // before it waits for processes that do not exist
		return nil, err
	}
	cards := j.Cards
	if cards == nil {
		if cards, err = findCards(r, j.ranks(), j.LocalRank); err != nil {
			return nil, err
		}
	}
	s, err := j.session(ctx, r, weights, alike)
	if err == nil {
		s.Cards = cards
	}
	return s, j.ranks().Together(err)
}

// beginPrediction is begin for a prediction with the weights.
func (j *Job) beginPrediction(ctx context.Context, weights nn.State) (*session, error) {
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

// session is begin for settings r, without their cards.
func (j *Job) session(ctx context.Context, r *setting.Resolved, weights *nn.State, alike bool,
) (*session, error) {
	if j.Graph != nil {
		if err := j.Graph.CheckLists(); err != nil {
			return nil, err
		}
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	s := &session{job: drawn, Config: worker.Config{
		Resolved: r, OwnModel: j.Model, OwnLoss: j.Loss, Engine: j.Engine,
		Processes: j.ranks().Comm.Size() > 1, Machines: j.Machines,
	}}
	err = s.prepare(ctx, weights, alike)
	j.chunks = drawn.chunks
	return s, err
}

// prepare opens the graph, checks it for the work, and divides it into chunks. The arguments are as in begin.
func (s *session) prepare(ctx context.Context, weights *nn.State, alike bool) (err error) {
	if err = s.openShares(ctx, weights); err != nil {
		return err
	}
	s.Outputs = s.Kind.Outputs(s.whole)
	if weights != nil {
		if n := s.OutputsIn(*weights); n > 0 && s.job.Model == nil {
			s.Outputs = n
		}
	}
	if err = s.CheckCounts(s.whole, s.Outputs); err != nil {
		return err
	}
	if weights == nil {
		err = s.checkTraining()
	} else {
		err = s.checkPrediction()
	}
	if err != nil {
		return err
	}
	if s.ChunkOf, err = s.divide(ctx, alike); err != nil {
		return err
	}
	if validates := s.job.Validate != nil; weights == nil && !validates && s.job.Options.Validate != "" {
		return refusal.Errorf("--validate %s: a job has that graph as Validate", s.job.Options.Validate)
	} else if weights == nil && validates {
		if s.validate, err = s.beginValidation(ctx); err != nil {
			return err
		}
	}
	return s.job.Checkpoints.check(&s.Config)
}

// checkTraining refuses a graph and settings that cannot be trained. It says which edges pass messages.
func (s *session) checkTraining() (err error) {
	if err = cmp.Or(s.checkLoss(), s.checkOwn(), s.Kind.Check(s.whole), s.checkLossFile()); err == nil {
		s.Passing, s.Later, err = s.Kind.Passing(s.whole)
	}
	return err
}

// checkPrediction refuses vertices that cannot be predicted. It says which edges pass messages.
func (s *session) checkPrediction() error {
	s.Vertices = s.job.listed()
	if err := s.checkVertices(); err != nil || s.Undecoded {
		return err // undecoded, all edges pass messages to the scored edges
	}
	passing, later, err := s.Kind.Passing(s.whole)
	if s.job.HeldOut || later != nil {
		s.Passing, s.Later = passing, later
	}
	return err
}

// checkLoss refuses settings that the job's own loss replaces.
func (s *session) checkLoss() error {
	o := &s.job.Options
	if s.job.Loss == nil {
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
func (s *session) checkLossFile() error {
	l := s.LossFile()
	if l == nil {
		return nil
	}
	frame := task.FrameOf(s.Kind, s.whole)
	if err := l.Check(s.Kind.Outputs(s.whole), frame.SeveralLabels || frame.ValueColumns > 0); err != nil {
		return refusal.Errorf("--loss %s: %w", s.Loss, err)
	}
	return nil
}

// checkOwn refuses to train the job's own model or loss on a card.
func (s *session) checkOwn() error {
	if own := s.job.Model != nil || s.job.Loss != nil; !own || !s.OnCard() {
		return nil
	}
	return refusal.Errorf("--device %s: the job has a model or a loss of its own, whose functions of Go run on "+
		"the CPU; take --device %s", s.Device, setting.CPU)
}
