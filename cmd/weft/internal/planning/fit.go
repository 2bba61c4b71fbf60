package planning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/partition"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// Fit are settings with which a run fits into memory, and what it then takes.
type Fit struct {
	Settings *setting.Resolved
	limits   bool // they have a memory limit that those of the caller lack
	plan     plan.Plan
}

// MostTurns is how many partitions of a worker Fitting tries at most.
const MostTurns = 64

// Wanted is what is to fit: a job on its whole graph, with its settings and the plan of it, nil: of a run.
type Wanted struct {
	Job      *train.Job
	Settings *setting.Resolved
	Plan     func(context.Context, *train.Job) (plan.Plan, error)
}

// Fitting finds the fewest partitions that take turns, up to most of a worker, with which a run has room in
// memory: by plans of the whole graph of job, in partitions that nobody keeps, within 95 % of the memory, as
// other partitions may differ. Matrices rest in the host's memory below a card, else in folder. On the CPU
// limit is what a worker may have. It returns nil if none fits, or where partitions do not take turns.
func Fitting(ctx context.Context, of Wanted, limit setting.Bytes, folder string, most int, shown *ui.Stages,
) (*Fit, error) {
	job, s := of.Job, of.Settings
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
	if job.Card != nil {
		card := *job.Card
		card.Bytes -= card.Bytes / spared
		alone.Card = &card
	}
	defer shown.Erase()
	before := int64(math.MaxInt64)
	for turns := 2; turns <= most; turns *= 2 {
		o.Partitions = setting.Partitions(turns * s.Workers / s.Mesh.Slices)
		shown.Show(fmt.Sprintf("planning the run in %v partitions that take turns", o.Partitions), 0, 0)
		fit, err := of.fits(ctx, alone, o)
		switch {
		case err == nil:
			with := s.Options
			with.Partitions, with.Offload = o.Partitions, o.Offload
			if !s.OnCard() {
				with.MemoryLimit = limit
			}
			fit.limits = with.MemoryLimit != s.MemoryLimit
			fit.Settings, err = with.Resolve()
			return fit, err
		case !refusal.Is(err) || ctx.Err() != nil:
			return nil, err
		}
		var exceeds plan.Exceeds
		if errors.As(err, &exceeds) {
			if inVain(before, exceeds) {
				return nil, nil
			}
			before = exceeds.Need
		}
	}
	return nil, nil
}

// inVain reports whether more partitions will not do for a worker that needs so much more than it has room
// for, and needed so many bytes in half as many partitions. Of a part that does not depend on them and one
// that is halved each time, so much is left to save as was saved last; twice that is allowed for.
func inVain(before int64, now plan.Exceeds) bool {
	return before < math.MaxInt64 && now.Need-2*(before-now.Need) > now.Room
}

// fits plans a job with some options. It refuses those that memory has no room for.
func (w *Wanted) fits(ctx context.Context, job train.Job, o setting.Options) (*Fit, error) {
	r, err := o.Resolve()
	if err != nil {
		return nil, err
	}
	job.Options = o
	if other := job.Validate; other != nil {
		of := *other
		of.Options, job.Validate = o, &of
	}
	if err := session.DivideOnce(ctx, r, &job, job.Validate); err != nil {
		return nil, err
	}
	var p plan.Plan
	if w.Plan != nil {
		p, err = w.Plan(ctx, &job)
	} else {
		p, err = job.PlanWith(ctx, plan.Asks{})
	}
	if err != nil {
		return nil, err
	}
	host := cmp.Or(o.HostMemoryLimit, setting.Bytes(cli.MachineMemory()))
	return &Fit{plan: p}, cmp.Or(p.CheckLimit(o.MemoryLimit), p.CheckHost(host, job.LocalWorkers))
}

// Flags are those of the command line by which the run fits.
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
	if f.plan.Card != nil {
		return fmt.Sprintf("%s of a card and %s of the host's memory", ui.Megabytes(most),
			ui.Megabytes(f.plan.HostBytes(0)))
	}
	return ui.Megabytes(most) + " of memory"
}
