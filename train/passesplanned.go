package train

import (
	"context"
	"fmt"

	"weft/internal/refusal"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// PlanPasses computes what the passes of a loop would take, before any work.
func (j *Job) PlanPasses(ctx context.Context, loop plan.Loop, lacking ...Lacking) (p plan.Plan, err error) {
	return j.PlanPassesWith(ctx, plan.Asks{Loop: &loop}, lacking...)
}

// PlanPassesWith is PlanPasses with all that a plan may be asked. asks has the loop.
func (j *Job) PlanPassesWith(ctx context.Context, asks plan.Asks, lacking ...Lacking) (p plan.Plan,
	err error,
) {
	job, s, err := j.beginPasses(ctx, lacking, asks.Alike)
	if err != nil {
		return p, err
	}
	return job.plan(ctx, s, asks)
}

// PlanPass plans a pass as Passes does, before any work.
func (j *Job) PlanPass(ctx context.Context, lacking ...Lacking) (p plan.Plan, err error) {
	job, s, err := j.beginPasses(ctx, lacking, false)
	if err != nil {
		return p, err
	}
	return job.plan(ctx, s, plan.Asks{Loop: s.onePass()})
}

// onePass is a loop of one pass. If matrices rest, the pass is given features.
func (s *shared) onePass() *plan.Loop {
	loop := &plan.Loop{Passes: 1}
	for range s.whole.Types {
		if s.Offload != "" {
			loop.Features = append(loop.Features, worker.Given{Values: []float32{}, Differentiable: true})
		}
	}
	return loop
}

// limitPasses refuses a memory limit without room for one pass. If matrices rest, it plans a pass that is
// given features.
func (j *Job) limitPasses(ctx context.Context, s *shared) (err error) {
	var planned *plan.Plan
	limit, err := j.ranks().Largest(int64(s.MemoryLimit))
	if err != nil {
		return err
	}
	if limit > 0 || s.Offload != "" || s.Cards != nil {
		made, err := j.plan(ctx, s, plan.Asks{Loop: s.onePass()})
		if err := j.ranks().Together(err); err != nil {
			return err
		}
		planned = &made
	}
	card := s.Cards
	s.Savings, err = j.checkLimit(ctx, s, planned)
	s.Cards = card // all that a worker may take of the card, as several passes may live
	return err
}

// fits refuses a pass that would exceed the memory limit together with the passes that live.
func (p *Passes) fits(f *worker.Forward) error {
	during := " for this pass"
	if n := len(p.live); n > 0 {
		during = fmt.Sprintf(" while %d %s: call backward first, or drop the outputs that need none", n,
			map[bool]string{true: "pass lives", false: "passes live"}[n == 1])
	}
	if p.rests == setting.RAM && len(p.live) > 0 {
		return refusal.Errorf("--offload %s: the host's memory has room for one pass, and this one comes%s",
			setting.RAM, during)
	}
	if p.limit == 0 || p.rests != "" {
		return nil
	}
	planned, err := p.planOf(f)
	if err != nil {
		return err
	}
	for _, w := range p.begun {
		estimate := &planned.Workers[w.number]
		need := max(estimate.Resting, w.LiveBytes()) + estimate.Tensors + estimate.Graph - estimate.Resting
		if need > p.limit {
			return refusal.Errorf("--memory-limit %s: worker %d would need %s%s; or raise the limit to that",
				setting.Bytes(p.limit), w.number, setting.Bytes(need).RoundedUp(), during)
		}
	}
	return nil
}

// planOf is the plan of a pass that is given the same inputs.
func (p *Passes) planOf(f *worker.Forward) (plan.Plan, error) {
	key := func(g worker.Given) string { return fmt.Sprint(g.Values != nil, g.Differentiable, " ") }
	var what string
	for _, g := range f.Features {
		what += key(g)
	}
	for _, e := range f.Edges {
		what += fmt.Sprint(e.Number, e.Kept != nil) + key(e.Weights) + key(e.Features)
	}
	if known, found := p.planned[what]; found {
		return known, nil
	}
	made, err := p.plan(f)
	if err == nil {
		p.planned[what] = made
	}
	return made, err
}
