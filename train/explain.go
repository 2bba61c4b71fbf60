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

// Explain explains a number of the output for a vertex of the job's graph, or for an edge between two, as
// worker.Explanation says. It reads what a prediction of it depends on, and no more of the graph. The mesh
// has one worker. The errors are those of Predict.
func (j *Job) Explain(ctx context.Context, weights nn.State, of worker.Explained) (x *worker.Explanation,
	err error,
) {
	job := *j
	job.Vertices, job.Appended = []int32{of.Vertex}, nil
	if of.Edge != nil {
		if err := job.endsAlone(of.Edge); err != nil {
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
		job.Vertices, job.ends = nil, nil
		if s, err = job.beginExplanation(ctx, weights); err != nil {
			return nil, err
		}
	}
	err = job.eachWorker(s, func(team *kernel.Team, _ *comm.Comm, share *partition.Share) error {
		x, err = worker.Explain(ctx, s.Config, team, share, weights, of)
		return err
	})
	return x, err
}

// endsAlone has the job compute the rows of an edge's ends, as an EdgeScorer reads them.
func (j *Job) endsAlone(of *worker.ExplainedEdge) error {
	r, err := j.resolve()
	if err != nil {
		return err
	}
	divided, err := j.drawn()
	if err != nil {
		return err
	}
	whole := divided.Counts()
	if task.PassesEarlier(r.Kind, &whole) {
		return refusal.Errorf("--pass-messages: edges pass messages to later ones alone, and what is explained has all "+
			"of the graph; train with --pass-messages %s to explain", task.PassAll)
	}
	at, err := j.rowsOfEnds(r, &graph.Edges{Source: []int32{of.Source}, Target: []int32{of.Target}}, true)
	if err != nil {
		return err
	}
	j.Vertices, j.ends, j.undecoded = nil, at.listed, true
	return nil
}

func (j *Job) beginExplanation(ctx context.Context, weights nn.State) (*shared, error) {
	s, err := j.beginPrediction(ctx, weights)
	if err == nil && s.Workers > 1 {
		err = refusal.Errorf("one worker explains, and the mesh has %d; give --parallel graph=1", s.Workers)
	}
	return s, err
}

// between reports whether a block of the program has several aggregations, one after the other. Between these
// it computes rows that nothing reads, and that have no derivatives where their edges are not there.
func (j *Job) between(s *shared) (whole bool, err error) {
	if s.Program.Program == nil {
		return false, nil
	}
	share := partition.All(j.Graph)
	j.arrange(share)
	blocks, err := s.BlocksApart(share, s.Outputs)
	return slices.ContainsFunc(blocks, func(b gnn.BlockSpec) bool { return b.Rounds > 1 }), err
}

// Without is the job for predictions of the vertices, or with none of edges, on its graph without some edges,
// by relation.
func (j *Job) Without(edges [][]appended.Edge, vertices ...int32) (*Job, error) {
	b, err := j.Base()
	if err != nil {
		return nil, err
	}
	job := *j
	if job.Appended, err = b.With(nil); err != nil {
		return nil, err
	}
	job.Appended.Removed, job.Vertices = edges, vertices
	return &job, nil
}
