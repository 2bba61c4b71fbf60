package train

import (
	"cmp"
	"context"
	"fmt"

	"weft/internal/refusal"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// Plan computes what the run would take, before any work. If ctx is cancelled it returns the cause.
func (j *Job) Plan(ctx context.Context) (plan.Plan, error) { return j.PlanWith(ctx, plan.Asks{}) }

// PlanWith is Plan with all that a plan may be asked.
func (j *Job) PlanWith(ctx context.Context, asks plan.Asks) (p plan.Plan, err error) {
	s, err := j.begin(ctx, nil, asks.Alike)
	if err != nil {
		return p, err
	}
	return s.plan(ctx, asks)
}

// plan plans what the session's workers do.
func (s *session) plan(ctx context.Context, asks plan.Asks) (plan.Plan, error) {
	return plan.Of(ctx, plan.Inputs{
		Config: s.Config, Comm: s.job.ranks().Comm, Threads: s.job.Threads(s.Resolved), Open: s.open,
		Validation: s.validation, Checkpoints: s.job.Checkpoints != nil, Asks: asks,
	})
}

// checkLimit refuses a run whose plan exceeds the memory limit of any process. It returns the savings of the
// plan or, without a limit, of the settings. It also sets which states of edges are kept.
func (s *session) checkLimit(ctx context.Context, p *plan.Plan) (savings worker.Savings, err error) {
	ranks := s.job.ranks()
	limit, err := ranks.Largest(int64(s.MemoryLimit))
	if limit == 0 && s.Offload == "" && s.Cards == nil || err != nil {
		s.set(func(o *setting.Options) { o.KeepEdgeStates = s.MostEdgeStates() })
		return worker.Savings{Recompute: s.Recomputes()[0]}, err
	}
	if p == nil {
		made, err := s.plan(ctx, plan.Asks{})
		if err := ranks.Together(err); err != nil {
			return savings, err
		}
		p = &made
	}
	s.set(func(o *setting.Options) { o.KeepEdgeStates = p.EdgeStates })
	s.Limit, s.Reserves, s.Rests = p.Limit, p.Reserves(), nil
	for i := range p.Workers {
		s.Rests = append(s.Rests, p.Workers[i].DiskBytes)
	}
	if s.Cards != nil {
		card := *p.Cards
		if s.Offload == "" || p.InMemory { // some room is left, so that extents move less often
			_, needs := p.Most()
			card.Bytes = min(card.Bytes, needs+needs/8)
		}
		s.Cards = &card
	}
	if p.InMemory {
		s.set(func(o *setting.Options) { o.Offload = "" })
	}
	return p.Savings, ranks.Together(cmp.Or(p.CheckLimit(s.MemoryLimit),
		p.CheckHost(s.HostMemoryLimit, s.job.LocalWorkers)))
}

// set changes the settings.
func (s *session) set(change func(*setting.Options)) {
	changed := *s.Resolved
	change(&changed.Options)
	s.Resolved = &changed
	if s.validate != nil {
		s.validate.set(change)
	}
}

// PlanPasses computes what the passes of a loop would take, before any work. asks has the loop; without one
// it is one pass, as Passes plans it.
func (j *Job) PlanPasses(ctx context.Context, asks plan.Asks, lacking ...Lacking) (p plan.Plan, err error) {
	s, err := j.beginPasses(ctx, lacking, asks.Alike)
	if err != nil {
		return p, err
	}
	if asks.Loop == nil {
		asks.Loop = s.onePass()
	}
	return s.plan(ctx, asks)
}

// onePass is a loop of one pass. If matrices rest, the pass is given features.
func (s *passesSession) onePass() *plan.Loop {
	loop := &plan.Loop{Passes: 1}
	for range s.whole.Types {
		if s.Offload != "" {
			loop.Features = append(loop.Features, worker.InputValues{
				Values: []float32{}, Differentiable: true,
			})
		}
	}
	return loop
}

// limitPasses refuses a memory limit without room for one pass. If matrices rest, it plans a pass that is
// given features.
func (s *passesSession) limitPasses(ctx context.Context) (err error) {
	var planned *plan.Plan
	ranks := s.job.ranks()
	limit, err := ranks.Largest(int64(s.MemoryLimit))
	if err != nil {
		return err
	}
	if limit > 0 || s.Offload != "" || s.Cards != nil {
		made, err := s.plan(ctx, plan.Asks{Loop: s.onePass()})
		if err := ranks.Together(err); err != nil {
			return err
		}
		planned = &made
	}
	card := s.Cards
	s.Savings, err = s.checkLimit(ctx, planned)
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
	key := func(g worker.InputValues) string { return fmt.Sprint(g.Values != nil, g.Differentiable, " ") }
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
