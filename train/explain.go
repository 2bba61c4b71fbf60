package train

import (
	"context"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/train/task"
	"weft/train/worker"
)

// Explain explains a number of the output for a vertex of the job's graph, or for an edge between two
// vertices, as worker.Explanation says. It reads only the part of the graph on which the prediction depends.
// Of Appended it reads only which edges pass messages. The mesh has one worker. The errors are those of
// Predict.
func (j *Job) Explain(ctx context.Context, weights nn.State, target worker.Explained) (x *worker.Explanation,
	err error,
) {
	job := *j
	job.Query = Query{Vertices: []int32{target.Vertex}}
	var passes appended.Rule
	if j.Appended != nil && j.Appended.Passes != nil {
		passes = j.Appended.Passes
		if job.Appended, err = job.appended(); err != nil {
			return nil, err
		}
		job.Appended.Passes = passes
	}
	if target.Edge != nil {
		r, err := job.resolve()
		if err != nil {
			return nil, err
		}
		e := &graph.Edges{Source: []int32{target.Edge.Source}, Target: []int32{target.Edge.Target}}
		ends, err := newEdgeEnds(&job, r, e, true)
		if err != nil {
			return nil, err
		}
		job.Query = ends.query(job.Appended)
	}
	s, err := beginExplanation(ctx, &job, weights)
	if err != nil {
		return nil, err
	}
	if whole, err := s.readsWhole(); err != nil {
		return nil, err
	} else if whole {
		all := job
		all.Query = Query{undecoded: job.undecoded}
		if s, err = beginExplanation(ctx, &all, weights); err != nil {
			return nil, err
		}
		if passes != nil {
			rule := func(_ *partition.Share, use func(partition.Rule) error) error { return use(passes) }
			s.Passing = partition.EdgeSubgraph(rule)
		}
	}
	err = s.eachWorker(func(team *kernel.Team, _ *comm.Comm, share *partition.Share) error {
		x, err = worker.Explain(ctx, s.Config, team, share, weights, target)
		return err
	})
	if err != nil || passes == nil {
		return x, err
	}
	return x, j.Graph.Guard(func() error {
		number(x, job.Appended)
		return nil
	})
}

// number makes the edges' numbers in an explanation count the edges before them that pass no messages, too.
func number(x *worker.Explanation, g *appended.Graph) {
	numbers := map[string]int{}
	for i, r := range partition.All(g.Graph).Edges.Relations {
		numbers[r.Name] = i
	}
	for k := range x.Edges {
		e := &x.Edges[k]
		e.Before = g.Before(numbers[e.Relation], e.Source, e.Target, e.Before)
	}
}

// beginExplanation begins a prediction by one worker.
func beginExplanation(ctx context.Context, j *Job, weights nn.State) (*session, error) {
	s, err := j.beginPrediction(ctx, weights)
	if err == nil && s.Workers > 1 {
		err = refusal.Errorf("one worker explains, and the mesh has %d; give --parallel graph=1", s.Workers)
	}
	return s, err
}

// readsWhole reports whether a block of the program has several aggregations in a row. Such a block computes
// rows between them that nothing reads. Unless the whole graph is read, these rows have no derivatives, as
// their edges may be missing.
func (s *session) readsWhole() (whole bool, err error) {
	if s.Program.Program == nil {
		return false, nil
	}
	blocks, err := s.BlocksApart(s.wholeShare(), s.Outputs)
	return slices.ContainsFunc(blocks, func(b gnn.BlockSpec) bool { return b.Rounds > 1 }), err
}

// Without is a job on the same graph without some edges, by relation. It predicts the given vertices.
func (j *Job) Without(edges [][]appended.Edge, vertices ...int32) (*Job, error) {
	g, err := j.appended()
	if err != nil {
		return nil, err
	}
	job, reduced := *j, *g
	reduced.Removed, reduced.Passes = edges, nil
	job.Appended, job.Vertices = &reduced, vertices
	return &job, nil
}

// Over is a job for predictions of one edge by PredictEdges and Explain. Its graph is the one over which
// Predict scores that edge, without some edges, by relation. If edges pass messages only to later ones, it is
// the graph of the earlier periods. edge is the edge's number in the graph, or −1 for a new edge, which is
// scored over the whole graph.
func (j *Job) Over(edge int64, without [][]appended.Edge) (*Job, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	scoring, err := scoringOf(r.Kind, drawn.Graph)
	if err != nil {
		return nil, err
	}
	job, err := j.Without(without)
	if err == nil {
		job.Appended.Passes = scoring.Passes(scoring.Over(edge), without)
	}
	return job, err
}

// scoringOf says over which graphs the edges of a graph are scored.
func scoringOf(kind task.Kind, g *graph.Graph) (s *task.Scoring, err error) {
	err = g.Guard(func() error {
		s, err = task.ScoringOf(kind, g)
		return err
	})
	return s, err
}
