package plan

import (
	"context"

	"weft/checkpoint"
	"weft/comm"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// rank plans the rank of world, in memory.
func (in *Inputs) rank(ctx context.Context, world *comm.Comm, mem *tensor.Meter) (p Worker, err error) {
	number := in.PartitionOf(world.Rank())
	err = in.Open(number, func(share *partition.Share) error {
		return in.Validation(number, func(other *worker.Validation) error {
			p, err = in.ofShare(ctx, world, mem, share, other)
			return err
		})
	})
	return p, err
}

// ofShare plans the rank that has a share.
func (in *Inputs) ofShare(ctx context.Context, world *comm.Comm, mem *tensor.Meter, share *partition.Share,
	other *worker.Validation,
) (p Worker, err error) {
	newPlan := kernel.NewPlan
	if in.Cards != nil {
		newPlan = kernel.NewDevicePlan
	}
	team := newPlan(in.Threads, mem)
	c := in.Config
	c.AnyOrder, c.LargerBy = true, in.Asks.LargerBy
	counter := &counter{kernels: Kernels{}}
	team.Watch, c.OnLayer = counter.watch, counter.OnLayer
	c.Explain = func(module, what string) { p.Layers = append(p.Layers, Layer{module, what}) }
	var w *worker.Worker
	var run func() error
	if in.Loop != nil {
		loop, err := worker.NewPasses(c, team, world, share)
		if err != nil {
			return p, err
		}
		w, run = loop.Worker, func() error { return in.dryLoop(ctx, loop, counter, &p) }
	} else {
		if w, err = worker.New(c, team, world, share, other); err != nil {
			return p, err
		}
		run = func() error { return in.dryRun(ctx, w, counter, &p) }
	}
	if err := run(); err != nil {
		return p, err
	}
	p.measure(w)
	p.describe(w, share)
	if other == nil { // the vertices may have other edges there
		p.Reading = readingOf(w, share)
	}
	return p, nil
}

// dryLoop runs a loop until all its steps are alike. It sets the fields of p that follow from single passes.
func (in *Inputs) dryLoop(ctx context.Context, w *worker.Passes, counter *counter, p *Worker) error {
	steps := 2
	switch {
	case w.Offload != "":
		steps = 4
	case w.Mesh.Stages > 1:
		steps = 3
	}
	for step := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		first := step * in.Loop.Passes
		for pass := range in.Loop.Passes {
			counter.begin(w.Worker)
			if err := w.Forward(worker.Forward{
				Pass: first + pass, Changed: pass == 0, Training: true, Recording: true,
				Features: in.Loop.Features, Edges: in.Loop.Edges,
			}); err != nil {
				return err
			}
		}
		for pass := in.Loop.Passes - 1; pass >= 0; pass-- {
			if err := w.Backward(worker.Backward{Pass: first + pass}); err != nil {
				return err
			}
			if pass == in.Loop.Passes-1 {
				p.Work = counter.takeWork(len(w.Blocks))
			}
		}
		p.Disk = w.LastPass.Disk
	}
	p.Resting, p.Rows, p.Edges = w.LiveBytes(), w.RowCounts(), w.EdgeCounts()
	return nil
}

// dryRun trains for the fewest epochs after which all epochs are alike. It evaluates after each, and reports
// as a run does. It sets the fields of p that follow from single epochs.
func (in *Inputs) dryRun(ctx context.Context, w *worker.Worker, counter *counter, p *Worker) error {
	var (
		best     nn.Snapshot
		snapshot checkpoint.Snapshot
	)
	arrays := func() []checkpoint.Array { return w.Mine(append(w.Arrays(), w.Params.ArraysOf(&best)...)) }
	allocate := func() {
		if in.Checkpoints && w.CheckpointEvery != (setting.Interval{}) {
			p.Checkpoint = checkpoint.Size(arrays())
			if w.Offload == "" { // otherwise all is in memory now, and is written
				snapshot.Allocate(w.Team.Memory, p.Checkpoint)
			}
		}
	}
	if in.Checkpoints || w.Reads() {
		w.Params.Save(&best)
	}
	if in.Checkpoints && w.Offload == "" {
		allocate()
	}
	epochs := 2
	switch {
	case w.Offload != "": // what leaves memory for the first time in the second epoch is written in the third
		epochs = min(4, w.Epochs)
	case w.Mesh.Stages > 1: // from the second epoch on it is known what the chunks keep
		epochs = 3
	}
	w.Begin()
	done := 0 // how many epochs of the run the epochs so far stand for
	saves := saves{writes: in.Checkpoints && w.Offload != ""}
	for epoch := range epochs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		number := 1 + epoch
		if w.WireSchedule != (axis.WireSchedule{}) || w.Fetches.Known() {
			number = w.Epochs // the last epoch's number: it sends most, or has the known fetches
		}
		counter.begin(w)
		var read func(worker.Scores) bool
		if w.Reads() && epoch > 0 {
			read = func(worker.Scores) bool { return false }
		}
		if _, _, err := w.TrainEpoch(number, read, nil); err != nil {
			return err
		}
		p.Disk = w.LastPass.Disk
		if epoch == epochs-1 {
			p.Work = counter.takeWork(len(w.Blocks))
			if in.Counts {
				p.Counts = counter.end(w, w.Share)
			}
		}
		// Each epoch stands for an epoch at the end of the run. The first also stands for all epochs before
		// these.
		last, until := epoch == epochs-1, w.Epochs-epochs+1+epoch
		evaluated := last || w.EvaluatesWithin(done, until) || w.Offload == "" && !w.Reads()
		since := done
		done = until
		if evaluated {
			if _, err := w.Evaluate(); err != nil { // it may take more than a training pass
				return err
			}
		}
		if evaluated || w.Reads() {
			w.Params.Save(&best)
		}
		if w.Offload == "" || last {
			allocate()
		}
		if err := saves.after(w, since, until, arrays); err != nil {
			return err
		}
	}
	best.Release()
	snapshot.Release()
	w.Optimizer.Release()
	output := w.Infer(0)
	if _, err := w.Task.Report(output.Value()); err != nil {
		return err
	}
	output.Drop()
	return nil
}

// saves are the checkpoints of a run whose matrices rest. What a checkpoint reads comes to memory, and other
// matrices leave for it. Checkpoints by the clock are left out, as nobody knows after which epochs they come.
type saves struct {
	writes  bool
	written bool // a checkpoint is written, and the end of the next epoch makes it whole
}

// after plans what a run does at the ends of the epochs after since and up to until, for which one epoch
// stands.
func (s *saves) after(w *worker.Worker, since, until int, arrays func() []checkpoint.Array) error {
	if s.written {
		s.written = false
		if _, err := comm.ToFirst(w.Groups.World, []byte{0}); err != nil {
			return err
		}
		if err := w.Groups.World.Broadcast(comm.Setup, []byte{0}, 0); err != nil {
			return err
		}
		if err := w.Ranks().Together(nil); err != nil {
			return err
		}
	}
	every := w.CheckpointEvery.Epochs
	if !s.writes || every == 0 || until/every == since/every {
		return nil
	}
	s.written = true
	if err := w.Groups.World.SumInts([]int64{0}); err != nil {
		return err
	}
	if w.Offload == setting.RAM {
		checkpoint.Copies(arrays())
	} else {
		checkpoint.Elements(arrays())
	}
	return nil
}
