package train

import (
	"cmp"
	"context"
	"sync"

	"weft/comm"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/train/task"
	"weft/train/worker"
)

// Predictor predicts some rows at a time, as Predict does with a Query of vertices or edges. It keeps the
// graph, the model and its weights, and some memory for each prediction at a time. Any number of goroutines
// may use it. On a card their predictions run one after the other.
type Predictor struct {
	job     Job
	learned int           // the relation whose edges it predicts; −1: it predicts vertices
	scoring *task.Scoring // of the graph's edges; nil: it does not tell over which they are scored
	config  worker.Config // of each prediction
	base    *appended.Base
	alone   *appended.Graph // the graph with nothing appended
	weights nn.State
	threads int
	seat    *seat        // where the model is
	end     func() error // gives the seat back
	card    sync.Mutex   // held by a prediction on a card

	mu   sync.Mutex
	free []*workspace // workspaces of earlier predictions
}

// workspace is where one prediction at a time computes.
type workspace struct {
	team    *kernel.Team // with the memory of the prediction
	scratch mfg.Scratch
}

// mostIdle is how many bytes of memory a prediction leaves to the next one, at most.
const mostIdle = 64 << 20

// Predictor returns a Predictor with the given weights. The caller closes it. The mesh has one worker, and
// the job's graph stays open. It predicts a vertex, or an edge, so that it refuses now what no prediction
// would be possible with.
func (j *Job) Predictor(ctx context.Context, weights nn.State) (p *Predictor, err error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	p = &Predictor{job: *drawn, weights: weights, threads: j.Threads(r), end: func() error { return nil }}
	whole := partition.WholeOf(drawn.Graph)
	if p.learned, err = task.RelationOf(r.Kind, &whole); err != nil {
		return nil, err
	}
	if p.scoring, err = scoringOf(r.Kind, drawn.Graph); err != nil && !refusal.Is(err) {
		return nil, err
	}
	first := Query{Vertices: []int32{0}}
	if p.job.Query = first; p.learned >= 0 {
		first = Query{Edges: &graph.Edges{
			Source: []int32{0}, Target: []int32{0},
			Features: make([]float32, drawn.Graph.Relations[p.learned].Features.Columns),
		}}
		ends, err := newEdgeEnds(&p.job, r, first.Edges, true)
		if err != nil {
			return nil, err
		}
		p.job.Query = ends.query(nil)
	}
	if !r.OnCard() {
		p.job.Options.Threads = 1
	}
	if err = p.load(ctx); err == nil {
		_, err = p.Predict(ctx, first, Logits)
	}
	if err != nil {
		return nil, cmp.Or(err, p.Close())
	}
	return p, nil
}

// load makes what all predictions share.
func (p *Predictor) load(ctx context.Context) error {
	s, err := p.job.beginPrediction(ctx, p.weights)
	if err != nil {
		return err
	}
	p.config = s.Config
	seats, end, err := s.seats(0, 1)
	if p.end = end; err != nil {
		return err
	}
	p.seat = seats[0]
	if p.base, err = p.job.Base(); err != nil {
		return err
	}
	if p.alone, err = p.base.With(nil); err != nil {
		return err
	}
	whole := s.wholeShare()
	return s.guarded(whole, func() (err error) {
		team := p.seat.team(p.job.Threads(s.Resolved))
		p.config.Loaded, err = worker.NewLoaded(s.Config, team, whole, p.weights)
		return err
	})
}

// Close gives the Predictor's memory back. No prediction may be under way. The error is a card's.
func (p *Predictor) Close() error {
	for _, at := range p.free {
		at.team.Memory.Close()
	}
	p.free = nil
	return p.end()
}

// Base is the graph to which additions are appended. New vertices have features of Columns.
func (p *Predictor) Base() *appended.Base { return p.base }

// Columns are the columns of which features are made, as in Job.Columns.
func (p *Predictor) Columns() columns.ByType { return p.job.Columns() }

// KnowsEdges reports whether Query.Numbers may name edges of the graph. If edges passed messages only to
// later ones, they may only if the graph divides them by time.
func (p *Predictor) KnowsEdges() bool { return p.scoring != nil }

// NewEdgesPass is task.Goal.NewEdgesPass.
func (p *Predictor) NewEdgesPass() bool { return p.job.Options.NewEdgesPass() }

// Learned is the number of the relation whose edges are predicted; −1: vertices are predicted.
func (p *Predictor) Learned() int { return p.learned }

// Predict computes the logits of a Query's Vertices or Edges, in Base or its Appended. It takes one thread,
// or the card. The errors are those of Job.Predict. ctx ends it before it begins, or between two kernels.
func (p *Predictor) Predict(ctx context.Context, q Query, asked Outputs) (*Prediction, error) {
	job := p.job
	if job.Query = q; job.Appended == nil {
		job.Appended = p.alone
	}
	if job.Edges == nil {
		return p.infer(ctx, &job, asked)
	}
	return job.scoreEdges(ctx, p.config.Resolved, p.scoring, p.weights, func(ends *Job) (*Prediction, error) {
		return p.infer(ctx, ends, Embeddings)
	})
}

// infer computes the vertices of a job that differs from the Predictor's only in them and in what is
// appended.
func (p *Predictor) infer(ctx context.Context, job *Job, asked Outputs) (r *Prediction, err error) {
	end := &Common{Err: context.Canceled}
	if ctx.Err() != nil {
		return nil, end
	}
	if p.config.OnCard() {
		p.card.Lock()
		defer p.card.Unlock()
	}
	at := p.begin()
	whole := false
	defer func() {
		if !whole { // what it remembers may be half-written, too
			p.seat.settle()
			at.team.Memory.Close()
		}
	}()
	at.team.Watch = func(_ kernel.Call, run func()) {
		if ctx.Err() != nil {
			panic(exchange.Failure{Err: end})
		}
		run()
	}
	err = p.job.Graph.Guard(func() error {
		r, err = p.predict(ctx, at, job, asked)
		return err
	})
	whole = err == nil
	if whole {
		p.keep(at)
	}
	return r, err
}

func (p *Predictor) predict(ctx context.Context, at *workspace, job *Job,
	asked Outputs,
) (r *Prediction, err error) {
	s := &session{Config: p.config, job: job}
	s.Vertices = job.listed()
	if err := s.openSome(&at.scratch); err != nil {
		return nil, err
	}
	if err := s.checkVertices(); err != nil {
		return nil, err
	}
	err = s.open(0, func(share *partition.Share) error {
		w, err := worker.NewInference(s.Config, at.team, comm.Alone(), share)
		if err == nil {
			r, err = s.predict(ctx, w, p.weights, asked)
		}
		return err
	})
	return r, err
}

// begin returns the workspace of a prediction.
func (p *Predictor) begin() *workspace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		at := p.free[n-1]
		p.free = p.free[:n-1]
		return at
	}
	return &workspace{team: p.seat.sibling().team(p.job.Threads(p.config.Resolved))}
}

// keep keeps a prediction's workspace for the next one.
func (p *Predictor) keep(at *workspace) {
	if p.config.OnCard() { // the model's memory is on the card
		at.team.Memory.Close()
	} else {
		at.team.Memory.Clear(mostIdle)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, at)
}

// Threads is how many predictions to compute at a time: as many as the job's settings give threads, or one on
// a card.
func (p *Predictor) Threads() int {
	if p.config.OnCard() {
		return 1
	}
	return p.threads
}
