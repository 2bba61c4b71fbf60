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

// Explain explains a number of the output for the one vertex, or the one edge, of the job's Query, as
// worker.Explanation says. It reads only the part of the graph on which the prediction depends, and nothing
// of Appended. The mesh has one worker. The errors are those of Predict.
func (j *Job) Explain(ctx context.Context, weights nn.State, target worker.Explained) (x *worker.Explanation,
	err error,
) {
	if n := j.Rows(); n != 1 {
		return nil, refusal.Errorf("%d rows are asked for, and one is explained; name one vertex or one edge", n)
	}
	job := *j
	job.Query = Query{Vertices: j.Vertices}
	var passes appended.Rule
	if target.Edge = j.Edges; j.Edges != nil {
		r, err := job.resolve()
		if err != nil {
			return nil, err
		}
		over, err := j.scoring(r)
		if err != nil {
			return nil, err
		}
		if over != nil {
			passes = over.Passes(over.Over(j.Numbers[0]), nil)
		}
		if passes != nil {
			if job.Appended, err = job.appended(); err != nil {
				return nil, err
			}
			job.Appended.Passes = passes
		}
		ends, err := newEdgeEnds(&job, r, j.Edges, true)
		if err != nil {
			return nil, err
		}
		job.Query = ends.query(job.Appended)
	} else {
		target.Vertex = j.Vertices[0]
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

// Without is the job on the same graph without some edges, by relation; nil: with all.
func (j *Job) Without(edges [][]appended.Edge) (*Job, error) {
	g, err := j.appended()
	if err != nil {
		return nil, err
	}
	job, reduced := *j, *g
	reduced.Removed, reduced.Passes = edges, nil
	job.Appended = &reduced
	return &job, nil
}

// scoringOf says over which graphs the edges of a graph are scored.
func scoringOf(kind task.Kind, g *graph.Graph) (s *task.Scoring, err error) {
	err = g.Guard(func() error {
		s, err = task.ScoringOf(kind, g)
		return err
	})
	return s, err
}
