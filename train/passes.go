package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"weft/comm"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// Passes are forward and backward passes of a job's program, which a caller asks for one at a time. The loss,
// the optimizer and the values of the parameters are the caller's. The workers are goroutines of this
// process, and wait between two passes.
//
// A pass that records lives until Backward or Drop. Several may live, each with the parameters that it was
// computed with, but where a partition is several chunks. After an error that is no refusal the workers have
// ended.
type Passes struct {
	Types   []VertexType
	Outputs []Output // by vertex type, ascending

	given map[int]int

	mu    sync.Mutex
	asked []chan request // by rank
	done  chan struct{}  // the workers have ended
	fails sync.Once
	fault chan struct{} // a worker fails: the others end
	err   error         // with this error
	live  map[int]bool  // those that record, and have not ended
	last  [][]float32   // the parameters of the pass before
	limit int64         // of a worker's memory, in bytes; 0: none
	rests string        // setting.Options.Offload
	names []string      // of the parameters
	begun []begun       // the workers
	// plan plans a pass that is given what this one is, and planned are its plans by what that is.
	plan    func(*worker.Forward) (plan.Plan, error)
	planned map[string]plan.Plan
	state   nn.State // of the model's parameters and buffers, in the shapes that files hold
}

// VertexType is a type of the graph's vertices.
type VertexType struct {
	Name     string `json:"name"` // "": there is one
	Vertices int    `json:"vertices"`
	Features int    `json:"features"` // columns
}

// Lacking is what every pass is given of a relation's edges, as the graph has none, or of the vertices of a
// type.
type Lacking struct {
	Vertices bool // of a vertex type, which has no weights
	Number   int  // of the relation, or the vertex type
	Features int  // columns; 0: none
	Weights  bool
}

// opened opens shares with room for what every pass is given.
func opened(open func(p int, use func(*partition.Share) error) error, lacking []Lacking,
) func(p int, use func(*partition.Share) error) error {
	return func(p int, use func(*partition.Share) error) error {
		return open(p, func(share *partition.Share) error {
			of := *share
			of.Edges.Relations = slices.Clone(share.Edges.Relations)
			for _, l := range lacking {
				if l.Vertices {
					continue
				}
				r := &of.Edges.Relations[l.Number]
				if l.Features > 0 {
					r.In.EdgeColumns = l.Features
					r.In.EdgeFeatures = make([]float32, len(r.In.Sources)*l.Features)
				}
				if l.Weights {
					r.In.Weights = make([]float32, len(r.In.Sources))
					r.Out.Weights = make([]float32, len(r.Out.Sources))
				}
			}
			return use(&of)
		})
	}
}

// Output is the rows of a vertex type that a pass computes.
type Output struct{ Type, Columns int } // the type's number

// request is work of all workers.
type request struct {
	do    func(*worker.Passes) error
	reply chan<- error
}

// beginPasses is the job of passes, and begins it.
func (j *Job) beginPasses(ctx context.Context, lacking []Lacking) (of *Job, s *shared, err error) {
	passes := *j
	of = &passes
	if err := of.Options.ReadFiles(); err != nil {
		return nil, nil, err
	}
	if of.Options.Program.Program == nil {
		return nil, nil, refusal.Errorf("passes are of a program: give --program")
	}
	if of.peers().Size() > 1 {
		return nil, nil, refusal.Errorf("passes are computed by the workers of one process")
	}
	kind := task.Passes{Columns: of.Options.Program.Outputs()}
	for _, one := range of.Options.Program.OutputsByType() {
		kind.Of = append(kind.Of, one.Of)
	}
	of.kind = kind
	if err := of.giveFeatures(lacking); err != nil {
		return nil, nil, err
	}
	if s, err = of.begin(ctx, nil, false); err != nil {
		return nil, nil, err
	}
	j.chunks = of.chunks // for the passes of another program
	s.open = opened(s.open, lacking)
	return of, s, nil
}

// giveFeatures notes which features of vertices every pass is given.
func (j *Job) giveFeatures(lacking []Lacking) error {
	types := j.stored().Types
	for _, l := range lacking {
		if !l.Vertices {
			continue
		}
		if l.Number < 0 || l.Number >= len(types) || types[l.Number].FeatureColumns > 0 || l.Features <= 0 {
			return refusal.Errorf("%d features of vertex type %d: it has its own, or is not there", l.Features,
				l.Number)
		}
		if j.given == nil {
			j.given = map[int]int{}
		}
		j.given[l.Number] = l.Features
	}
	return nil
}

// outputs are the program's, by vertex type.
func (j *Job) outputs(whole *partition.Whole) (outputs []Output) {
	for k, t := range whole.Types {
		for _, one := range j.Options.Program.OutputsByType() {
			if one.Of == t.Type || len(whole.Types) == 1 {
				outputs = append(outputs, Output{k, one.Columns})
			}
		}
	}
	return outputs
}

// PlanPasses computes what the passes of a loop would take, before any work.
func (j *Job) PlanPasses(ctx context.Context, loop plan.Loop, lacking ...Lacking) (p plan.Plan, err error) {
	of, s, err := j.beginPasses(ctx, lacking)
	if err != nil {
		return p, err
	}
	return of.plan(ctx, s, plan.Asks{Loop: &loop})
}

// PlanPass plans a pass as Passes does, before any work.
func (j *Job) PlanPass(ctx context.Context, lacking ...Lacking) (p plan.Plan, err error) {
	of, s, err := j.beginPasses(ctx, lacking)
	if err != nil {
		return p, err
	}
	return of.plan(ctx, s, plan.Asks{Loop: s.onePass()})
}

// onePass is a loop of a pass. Where matrices rest it is given features.
func (s *shared) onePass() *plan.Loop {
	loop := &plan.Loop{Passes: 1}
	for range s.whole.Types {
		if s.Offload != "" {
			loop.Features = append(loop.Features, worker.Given{Values: []float32{}, Differentiable: true})
		}
	}
	return loop
}

// limitPasses refuses passes of which not one has room in the memory limit. Where matrices rest, that may be
// one that is given features.
func (j *Job) limitPasses(ctx context.Context, s *shared) (err error) {
	var planned *plan.Plan
	if s.MemoryLimit > 0 || s.Offload != "" || s.Card != nil {
		made, err := j.plan(ctx, s, plan.Asks{Loop: s.onePass()})
		if err != nil {
			return err
		}
		planned = &made
	}
	card := s.Card
	s.Savings, err = j.checkLimit(ctx, s, planned)
	s.Card = card // all that a worker may have of it: several passes may live
	return err
}

// Passes divides the graph and starts the workers, which it then describes. The caller closes it. ctx ends
// the division. lacking says what every pass is given. Before any work it refuses passes of which the memory
// limit has no room for one.
func (j *Job) Passes(ctx context.Context, lacking ...Lacking) (p *Passes, err error) {
	of, s, err := j.beginPasses(ctx, lacking)
	if err != nil {
		return nil, err
	}
	if err := of.limitPasses(ctx, s); err != nil {
		return nil, err
	}
	ranks := s.Mesh.Workers()
	if s.TakesTurns() {
		ranks = len(s.Holders())
	}
	p = &Passes{
		limit: int64(s.MemoryLimit), rests: s.Offload,
		Outputs: of.outputs(s.whole), given: of.given, state: nn.State{}, live: map[int]bool{},
		done: make(chan struct{}), fault: make(chan struct{}), planned: map[string]plan.Plan{},
	}
	p.plan = func(f *worker.Forward) (plan.Plan, error) {
		loop := plan.Loop{Passes: 1, Features: f.Features, Edges: f.Edges}
		return of.plan(context.Background(), s, plan.Asks{Loop: &loop, Saving: &s.Savings})
	}
	for _, t := range s.whole.Types {
		p.Types = append(p.Types, VertexType{t.Type, t.Vertices, t.FeatureColumns})
	}
	for range ranks {
		p.asked = append(p.asked, make(chan request))
	}
	began := make(chan struct{}, ranks)
	go func() {
		defer close(p.done)
		p.err = of.eachWorker(s, func(team *kernel.Team, c *comm.Comm, share *partition.Share) (err error) {
			defer func() {
				if fault := recover(); fault != nil {
					err = launch.Recovered(fault, fmt.Sprintf(" on worker %d", c.Rank()))
				}
				if err != nil {
					p.fails.Do(func() { close(p.fault) })
				}
			}()
			mine := s.Config
			mine.Recorder = trace.New(trace.Clock, trace.Most, nil)
			w, err := worker.NewPasses(mine, team, c, share)
			if err == nil {
				err = w.LoadInit()
			}
			if err != nil {
				return err
			}
			p.describe(w, s.Holders()[c.Rank()])
			began <- struct{}{}
			return p.serve(w, c)
		})
	}()
	for range ranks {
		select {
		case <-began:
		case <-p.done:
			return nil, p.err
		}
	}
	return p, nil
}

// describe adds a worker, with its number, and what it has of the model to what the caller is told.
func (p *Passes) describe(w *worker.Passes, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(p.begun, begun{number, w})
	for _, of := range w.Params.List {
		if _, known := p.state[of.Name]; !known {
			p.names = append(p.names, of.Name)
			p.state[of.Name] = nn.Tensor{Shape: of.Shape()}
		}
	}
	for _, b := range w.Params.Buffers {
		if b.Count != nil {
			p.state[b.Name] = nn.Tensor{Shape: []int{}, Int64: []int64{0}}
		} else {
			p.state[b.Name] = nn.Tensor{Shape: b.InFiles()}
		}
	}
}

// begun is a worker that has begun.
type begun struct {
	number int
	*worker.Passes
}

// fits refuses a pass that would exceed the memory limit with those that live.
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
		of := &planned.Workers[w.number]
		need := max(of.Resting, w.LiveBytes()) + of.Tensors + of.Graph - of.Resting
		if need > p.limit {
			return refusal.Errorf("--memory-limit %s: worker %d would need %s%s; or raise the limit to that",
				setting.Bytes(p.limit), w.number, setting.Bytes(need).RoundedUp(), during)
		}
	}
	return nil
}

// planOf is the plan of a pass that is given what this one is.
func (p *Passes) planOf(f *worker.Forward) (plan.Plan, error) {
	given := func(g worker.Given) string { return fmt.Sprint(g.Values != nil, g.Differentiable, " ") }
	var what string
	for _, g := range f.Features {
		what += given(g)
	}
	for _, e := range f.Edges {
		what += fmt.Sprint(e.Number, e.Kept != nil) + given(e.Weights) + given(e.Features)
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

// State are the parameters and buffers of the model, without values; Names are those of the parameters.
func (p *Passes) State() (state nn.State, parameters []string) { return p.state, p.names }

// serve does what is asked of a worker until the caller closes the Passes.
func (p *Passes) serve(w *worker.Passes, c *comm.Comm) error {
	for {
		var r request
		var more bool
		c.Await(func() {
			select {
			case r, more = <-p.asked[c.Rank()]:
			case <-p.fault:
			}
		})
		if !more {
			return nil
		}
		err := r.do(w)
		if common := new(Common); err != nil && !errors.As(err, &common) {
			return err // and the others follow
		}
		r.reply <- err
	}
}

// all has all workers do the same. It returns the error that they agree on, or with which they ended.
func (p *Passes) all(do func(*worker.Passes) error) error {
	reply := make(chan error, len(p.asked))
	for _, asked := range p.asked {
		select {
		case asked <- request{do, reply}:
		case <-p.done:
			return p.ended()
		}
	}
	var failed error
	for range p.asked {
		select {
		case err := <-reply:
			failed = err
		case <-p.done:
			return p.ended()
		}
	}
	return failed
}

func (p *Passes) ended() error {
	if p.err == nil {
		return errors.New("the workers have ended")
	}
	return p.err
}

// Forward runs the model forward. f.Pass is a number that no pass has had, and f.Changed its own to set.
func (p *Passes) Forward(f worker.Forward) error {
	if err := p.fits(&f); err != nil {
		return err
	}
	for kind := range p.given {
		if f.Features == nil || f.Features[kind].Values == nil {
			return refusal.Errorf("a pass is given no features of type %d, and the graph has none", kind)
		}
	}
	f.Changed = p.changed(f.Values)
	if err := p.all(func(w *worker.Passes) error { return w.Forward(f) }); err != nil {
		p.last = nil // the workers may have others
		return err
	}
	if f.Recording {
		p.live[f.Pass] = true
	}
	return nil
}

// changed reports whether the parameters differ from those of the pass before.
func (p *Passes) changed(state nn.State) (changed bool) {
	first := p.last == nil
	for k, name := range p.names {
		values := state[name].Float32
		if first {
			p.last = append(p.last, nil)
		}
		if !slices.Equal(p.last[k], values) {
			p.last[k], changed = append(p.last[k][:0], values...), true
		}
	}
	return changed
}

// Backward runs a pass backward, and ends it unless b.Again is set.
func (p *Passes) Backward(b worker.Backward) error {
	if !p.ends(b.Pass) {
		return refusal.Errorf("pass %d has no tape: it did not record, or has ended", b.Pass)
	}
	if b.Again {
		p.live[b.Pass] = true
	}
	return p.all(func(w *worker.Passes) error { return w.Backward(b) })
}

// Drop ends a pass without a backward pass, if it has not ended.
func (p *Passes) Drop(pass int) error {
	if !p.ends(pass) {
		return nil
	}
	return p.all(func(w *worker.Passes) error {
		w.Drop(pass)
		return nil
	})
}

// ends takes a pass from those that live, and reports whether it was one.
func (p *Passes) ends(pass int) (lived bool) {
	lived = p.live[pass]
	delete(p.live, pass)
	return lived
}

// Totals are the totals of the workers: of memory since they began, and of all else in the last pass that has
// run backward.
func (p *Passes) Totals() (t worker.Totals, err error) {
	err = p.all(func(w *worker.Passes) error {
		mine, err := w.Totals()
		if w.Ranks().First() {
			t = mine
		}
		return err
	})
	return t, err
}

// StartTrace records what the workers do from now on, in place of what was recorded before.
func (p *Passes) StartTrace() error {
	return p.all(func(w *worker.Passes) error {
		w.StartTrace()
		return nil
	})
}

// StopTrace ends the recording, and returns it.
func (p *Passes) StopTrace() (t *trace.Trace, err error) {
	err = p.all(func(w *worker.Passes) error {
		mine, err := w.StopTrace()
		if mine != nil {
			t = mine
		}
		return err
	})
	return t, err
}

// Close ends the workers.
func (p *Passes) Close() error {
	for _, asked := range p.asked {
		close(asked)
	}
	<-p.done
	return p.err
}
