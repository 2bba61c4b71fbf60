package train

import (
	"context"
	"fmt"
	"slices"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/program"
	"weft/train/plan"
	"weft/train/task"
	"weft/train/worker"
)

// Lacking is what every pass is given because the graph does not have it: features and weights of a
// relation's edges, or features of a type's vertices.
type Lacking struct {
	Kind     string `json:"of"`       // OfVertices, or any other value for edges
	Type     int    `json:"type"`     // the number of the vertex type or the relation
	Features int    `json:"features"` // columns; 0: none
	Weights  bool   `json:"weights"`
}

// OfVertices is the value of Lacking.Kind for a vertex type.
const OfVertices = "vertices"

// opened opens shares with room for what every pass is given.
func opened(open func(p int, use func(*partition.Share) error) error, lacking []Lacking,
) func(p int, use func(*partition.Share) error) error {
	return func(p int, use func(*partition.Share) error) error {
		return open(p, func(share *partition.Share) error {
			extended := *share
			extended.Edges.Relations = slices.Clone(share.Edges.Relations)
			for _, l := range lacking {
				if l.Kind == OfVertices {
					continue
				}
				r := &extended.Edges.Relations[l.Type]
				if l.Features > 0 {
					r.In.Features.Columns = l.Features
					r.In.Features.Dense = make([]float32, len(r.In.Sources)*l.Features)
				}
				if l.Weights {
					r.In.Weights = make([]float32, len(r.In.Sources))
					r.Out.Weights = make([]float32, len(r.Out.Sources))
				}
			}
			return use(&extended)
		})
	}
}

// passesSession is a session whose workers run passes.
type passesSession struct{ *session }

// beginPasses begins the job of passes. alike is as in plan.Asks.
func (j *Job) beginPasses(ctx context.Context, lacking []Lacking, alike bool) (*passesSession, error) {
	job := *j
	if err := job.Options.ReadFiles(); err != nil {
		return nil, err
	}
	if job.Options.Program.Program == nil {
		return nil, refusal.Errorf("passes are of a program: give --program")
	}
	kind := task.PassesOnly{Columns: job.Options.Program.Outputs()}
	for _, output := range job.Options.Program.OutputsByType() {
		kind.VertexTypes = append(kind.VertexTypes, output.TypeName)
	}
	job.kind = kind
	if err := job.inputs.add(lacking, job.stored().Types); err != nil {
		return nil, err
	}
	begun, err := job.begin(ctx, nil, alike)
	if err != nil {
		return nil, err
	}
	s := &passesSession{begun}
	if err := s.checkProcesses(); err != nil {
		return nil, err
	}
	j.chunks = job.chunks // a later program's passes use the same chunks
	s.open = opened(s.open, lacking)
	return s, nil
}

// outputsOf are the outputs of a program for such a graph, by vertex type, and then by relation.
func outputsOf(p *program.Program, whole *partition.Whole) (outputs []Output) {
	for k, t := range whole.Types {
		for _, output := range p.OutputsByType() {
			if output.TypeName == t.Type || len(whole.Types) == 1 {
				outputs = append(outputs, Output{Type: k, Columns: output.Columns})
			}
		}
	}
	for _, output := range p.OutputsByRelation() {
		outputs = append(outputs, Output{Edges: true, Columns: output.Columns}) // describe tells the relation
	}
	return outputs
}

// Passes divides the graph and starts the workers, which it then describes. The caller closes it. ctx ends
// the division. lacking says what every pass is given. Before any work, Passes refuses a memory limit that
// has no room for one pass.
func (j *Job) Passes(ctx context.Context, lacking ...Lacking) (p *Passes, err error) {
	s, err := j.beginPasses(ctx, lacking, false)
	if err != nil {
		return nil, err
	}
	if err := s.limitPasses(ctx); err != nil {
		return nil, err
	}
	p = newPasses(s)
	begun := make(chan struct{}, len(p.asked))
	go func() {
		defer close(p.done)
		p.err = s.eachWorker(func(team *kernel.Team, c *comm.Comm, share *partition.Share) error {
			return p.work(s, team, c, share, func() { begun <- struct{}{} })
		})
	}()
	for range p.asked {
		select {
		case <-begun:
		case <-p.done:
			return nil, p.err
		}
	}
	return p, nil
}

// newPasses are passes whose workers have not begun.
func newPasses(s *passesSession) *Passes {
	ranks, peers := s.Ranks(), s.job.ranks().Comm
	if s.Processes {
		ranks = 1
	}
	p := &Passes{
		Process: peers.Rank(), Processes: peers.Size(), Net: 1,
		Group: peers.Rank() / s.Mesh.Workers(), Groups: s.SampleGroups,
		limit: int64(s.MemoryLimit), rests: s.Offload,
		Outputs:      outputsOf(s.job.Options.Program.Program, s.whole),
		inputColumns: s.job.inputs.added, state: nn.State{}, live: map[int]int{},
		done: make(chan struct{}), fault: make(chan struct{}), planned: map[string]plan.Plan{},
	}
	p.plan = func(f *worker.Forward) (plan.Plan, error) {
		loop := plan.Loop{Passes: 1, Features: f.Features, Edges: f.Edges}
		return s.plan(context.Background(), plan.Asks{Loop: &loop, Saving: &s.Savings})
	}
	for _, t := range s.whole.Types {
		p.Types = append(p.Types, VertexType{t.Type, t.Vertices, t.FeatureColumns})
	}
	for range ranks {
		p.asked = append(p.asked, make(chan request))
	}
	return p
}

// work is a worker's work until the caller closes the Passes. It calls begins when the worker is described.
func (p *Passes) work(s *passesSession, team *kernel.Team, c *comm.Comm, share *partition.Share,
	begins func(),
) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = launch.Recovered(fault, fmt.Sprintf(" on worker %d", c.Rank()))
		}
		if err != nil {
			p.fails.Do(func() { close(p.fault) })
		}
	}()
	config := s.Config
	config.Recorder = trace.New(trace.Clock, trace.Most, nil)
	w, err := worker.NewPasses(config, team, c, share)
	if err == nil && p.Processes == 1 { // with several processes the others may have other values
		err = w.LoadInit()
	}
	if err != nil {
		return err
	}
	p.describe(w, s.Holders()[c.Rank()])
	begins()
	return p.serve(w, c, p.asked[c.Rank()%len(p.asked)])
}

// describe adds a worker with a number, and its part of the model, to what the caller reads.
func (p *Passes) describe(w *worker.Passes, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begun = append(p.begun, begun{number, w})
	if p.Processes > 1 {
		for kind := range p.Types {
			p.Types[kind].Vertices = w.RowCount(kind)
		}
		p.EdgeCounts = w.EdgeCounts()
	}
	byRelation := w.Program.OutputsByRelation()
	for k, output := range byRelation {
		p.Outputs[len(p.Outputs)-len(byRelation)+k].Type = max(0, slices.IndexFunc(w.Share.Edges.Relations,
			func(r partition.Relation) bool { return r.Name == output.TypeName }))
	}
	for _, param := range w.Params.List {
		if _, known := p.state[param.Name]; !known {
			p.names = append(p.names, param.Name)
			p.state[param.Name] = nn.Tensor{Shape: param.Shape()}
		}
	}
	p.sums = make([]uint32, len(p.names))
	for _, b := range w.Params.Buffers {
		if _, known := p.state[b.Name]; !known {
			p.buffers = append(p.buffers, b.Name)
		}
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
