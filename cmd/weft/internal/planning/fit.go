package planning

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/cores"
	"weft/partition"
	"weft/train"
	"weft/train/plan"
	"weft/train/planner"
	"weft/train/setting"
	"weft/train/worker"
)

// Fit are settings with which a run has room in memory, and what the run then takes.
type Fit struct {
	Settings *setting.Resolved
	limits   bool // they have a memory limit that the caller's settings lack
	plan     plan.Plan
	seconds  float64 // seconds of an epoch; 0: not predicted
}

// MostTurns is the largest number of a worker's partitions that Fitting tries.
const MostTurns = 64

// Wanted is what should have room: a job on its whole graph, with its settings. Plan makes its plan;
// nil: the plan of a run.
type Wanted struct {
	Job      *train.Job
	Settings *setting.Resolved
	Plan     func(context.Context, *train.Job) (plan.Plan, error)
}

// Fitting finds the smallest number of a worker's partitions that take turns, up to most, with which a run
// has room in memory. It plans the whole graph of the job in partitions that it does not keep, within 95 % of
// the memory, as other partitions may differ. Matrices rest in the host's memory if the worker has a card,
// and else in folder. On the CPU limit is what a worker may have. It returns nil if no number fits, or if
// partitions do not take turns.
func Fitting(ctx context.Context, wanted Wanted, limit setting.Bytes, folder string, most int,
	shown *ui.Phases,
) (*Fit, error) {
	job, s := wanted.Job, wanted.Settings
	if s.Mesh.Stages > 1 {
		return nil, nil
	}
	const spared = 20 // a twentieth of the memory
	alone := *job
	alone.Parts, alone.Comm, alone.Machines = nil, nil, nil
	o := s.Options
	if o.Partition == setting.Defaults().Partition {
		o.Partition = partition.Stream
	}
	o.MemoryLimit = limit - limit/spared
	if o.Offload = folder; s.OnCard() {
		o.Offload, o.MemoryLimit = setting.RAM, s.MemoryLimit-s.MemoryLimit/spared
	}
	if job.Cards != nil {
		card := *job.Cards
		card.Bytes -= card.Bytes / spared
		alone.Cards = &card
	}
	defer shown.Erase()
	var fit *Fit
	_, err := plan.Fewest(ctx, 2, most, func(turns int) (err error) {
		o.Partitions = setting.Partitions(turns * s.Workers / s.Mesh.Slices)
		shown.Show(fmt.Sprintf("planning the run in %v partitions that take turns", o.Partitions), 0, 0)
		fit, err = wanted.fits(ctx, alone, o)
		return err
	})
	if fit == nil || err != nil {
		return nil, err
	}
	with := s.Options
	with.Partitions, with.Offload = o.Partitions, o.Offload
	if !s.OnCard() {
		with.MemoryLimit = limit
	}
	fit.limits = with.MemoryLimit != s.MemoryLimit
	fit.Settings, err = with.Resolve()
	return fit, err
}

// fits plans a job with some options. It refuses options for which memory has no room.
func (w *Wanted) fits(ctx context.Context, job train.Job, o setting.Options) (*Fit, error) {
	r, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	job.Options = o
	if other := job.Validate; other != nil {
		validation := *other
		validation.Options, job.Validate = o, &validation
	}
	if err := session.DivideOnce(ctx, r, &job, job.Validate); err != nil {
		return nil, err
	}
	var p plan.Plan
	if w.Plan != nil {
		p, err = w.Plan(ctx, &job)
	} else {
		p, err = job.PlanWith(ctx, plan.Asks{Counts: r.OnCard()})
	}
	if err != nil {
		return nil, err
	}
	host := cmp.Or(o.HostMemoryLimit, setting.Bytes(cli.MachineMemory()))
	if err := cmp.Or(p.CheckLimit(o.MemoryLimit), p.CheckHost(host, job.LocalWorkers)); err != nil {
		return nil, err
	}
	return &Fit{plan: p}, nil
}

// onCards makes a planner that predicts for a run on the cards for which it was planned.
func onCards(s *setting.Resolved, card *worker.Cards, show io.Writer) (p meshPlanner, err error) {
	p = newPlanner(s.Options, nil, show)
	numbers := slices.Clone(card.Numbers)
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	p.Machine = planner.Machine{Cores: cores.Count(), Sharers: s.Workers, Cards: len(numbers)}
	p.Machine.Card, err = planner.MeasureCard(numbers[0], p.Cache)
	return p, train.AboutDevice(s.Device, err)
}

// Predict predicts, on the cards of a plan, how long an epoch of the fit takes.
func (f *Fit) Predict(on *worker.Cards, show io.Writer) error {
	p, err := onCards(f.Settings, on, show)
	if err == nil {
		f.seconds = p.Predict(f.Settings, f.plan).Times.Epoch
	}
	return err
}

// FittingByCounts is Fitting on cards by counts of the graph. It takes seconds for a graph of any size. It
// leaves a tenth of the memory free, as the partitions of a graph differ from those of its counts.
func FittingByCounts(ctx context.Context, wanted Wanted, show io.Writer) (*Fit, error) {
	s, card := wanted.Settings, wanted.Job.Cards
	p, err := onCards(s, card, show)
	if err != nil {
		return nil, err
	}
	defer p.Shown.Erase()
	const spared = 10 // a tenth of the memory
	if p.Counts = planner.CountsOf(wanted.Job.Graph); p.Counts != nil && s.Mesh.Partitions > 1 {
		p.Counts.Measured(s.Mesh.Partitions, wanted.Job.Parts.Whole.Statistics.Replication()-1)
	}
	sharers := int64(p.Machine.OnOne(s.Workers))
	p.Options.MemoryLimit = setting.Bytes(sharers * (card.Bytes - card.Bytes/spared))
	p.Options.HostMemoryLimit = cmp.Or(s.HostMemoryLimit, setting.Bytes(cli.MachineMemory()))
	m, err := p.Fewest(ctx, s.Mesh, mostCounted(s.Workers))
	if m == nil || err != nil {
		return nil, err
	}
	with := s.Options
	with.Partitions, with.Offload = setting.Partitions(m.Settings.Mesh.Partitions), setting.RAM
	f := &Fit{plan: m.Plan, seconds: m.Times.Epoch}
	f.Settings, err = with.Resolve()
	return f, err
}

// Flags are the command-line flags with which the run fits.
func (f *Fit) Flags() string {
	o, limit := &f.Settings.Options, ""
	if f.limits {
		limit = fmt.Sprintf(" --memory-limit %s", o.MemoryLimit)
	}
	return fmt.Sprintf("--partitions %v --offload %s%s", o.Partitions, cmp.Or(o.Offload, "DIR"), limit)
}

// Memory says what a worker takes.
func (f *Fit) Memory() string {
	_, most := f.plan.Most()
	if f.plan.Cards != nil {
		return fmt.Sprintf("%s of a card and %s of the host's memory", ui.Megabytes(most),
			ui.Megabytes(f.plan.HostBytes(0)))
	}
	return ui.Megabytes(most) + " of memory"
}

// Takes says what a worker takes and, if it is predicted, how long an epoch takes.
func (f *Fit) Takes() string {
	text := f.Memory() + " for a worker"
	if f.seconds > 0 {
		text += fmt.Sprintf(" and about %s an epoch", ui.Duration(ui.Seconds(f.seconds)))
	}
	return text
}
