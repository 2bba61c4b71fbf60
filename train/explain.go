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
	"weft/train/setting"
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
		if err := job.endsAlone(target.Edge); err != nil {
			return nil, err
		}
	}
	s, err := job.beginExplanation(ctx, weights)
	if err != nil {
		return nil, err
	}
	if whole, err := job.between(s); err != nil {
		return nil, err
	} else if whole {
		all := job
		all.Query = Query{undecoded: job.undecoded}
		if s, err = all.beginExplanation(ctx, weights); err != nil {
			return nil, err
		}
		if passes != nil {
			rule := func(_ *partition.Share, use func(partition.Rule) error) error { return use(passes) }
			s.Passing = partition.EdgeSubgraph(rule)
		}
	}
	err = job.eachWorker(s, func(team *kernel.Team, _ *comm.Comm, share *partition.Share) error {
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

// endsAlone has the job compute only the rows of an edge's ends, as an EdgeScorer reads them.
func (j *Job) endsAlone(edge *worker.ExplainedEdge) error {
	r, err := j.resolve()
	if err != nil {
		return err
	}
	at, err := j.rowsOfEnds(r, &graph.Edges{Source: []int32{edge.Source}, Target: []int32{edge.Target}}, true)
	if err != nil {
		return err
	}
	j.Query = Query{Appended: j.Appended, ends: at.listed, undecoded: true}
	return nil
}

func (j *Job) beginExplanation(ctx context.Context, weights nn.State) (*shared, error) {
	s, err := j.beginPrediction(ctx, weights)
	if err == nil && s.Workers > 1 {
		err = refusal.Errorf("one worker explains, and the mesh has %d; give --parallel graph=1", s.Workers)
	}
	return s, err
}

// between reports whether a block of the program has several aggregations in a row. Such a block computes
// rows between them that nothing reads. These rows have no derivatives, as their edges may be missing.
func (j *Job) between(s *shared) (whole bool, err error) {
	if s.Program.Program == nil {
		return false, nil
	}
	share := partition.All(j.Graph)
	j.arrange(share)
	blocks, err := s.BlocksApart(share, s.Outputs)
	return slices.ContainsFunc(blocks, func(b gnn.BlockSpec) bool { return b.Rounds > 1 }), err
}

// Without is a job on the same graph without some edges, by relation. It predicts the given vertices.
func (j *Job) Without(edges [][]appended.Edge, vertices ...int32) (*Job, error) {
	return j.left(edges, nil, vertices)
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
	scoring, err := j.scoring(r)
	if err != nil {
		return nil, err
	}
	return j.left(without, scoring.Passes(scoring.Over(edge), without), nil)
}

// left is a job on the same graph without some edges, by relation. It predicts the given vertices, or edges
// if there are none. Of the edges that are left, those pass messages for which the rule passes says so.
func (j *Job) left(without [][]appended.Edge, passes appended.Rule, vertices []int32) (*Job, error) {
	g, err := j.appended()
	if err != nil {
		return nil, err
	}
	job, reduced := *j, *g
	reduced.Removed, reduced.Passes = without, passes
	job.Appended, job.Vertices = &reduced, vertices
	return &job, nil
}

// scoring says over which graphs the edges of the job's graph are scored.
func (j *Job) scoring(r *setting.Resolved) (s *task.Scoring, err error) {
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	err = drawn.Graph.Guard(func() error {
		s, err = task.ScoringOf(r.Kind, drawn.Graph)
		return err
	})
	return s, err
}
