package train

import (
	"context"
	"slices"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// PredictEdges computes the predictions of edges that the job's graph does not have, between its vertices.
// They are given by source and target, with as many features as the relation that the model has learned.
// Edges of the graph pass messages, and the given edges only if Appended has them. The job's mesh computes
// the rows of vertices, and worker 0 the rows of edges. Worker 0 alone has the logits, and passes them to
// OnLogits if the job has it.
func (j *Job) PredictEdges(ctx context.Context, weights nn.State, e *graph.Edges) (*Prediction, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	ends, err := newEdgeEnds(j, r, e, j.Appended != nil)
	if err != nil {
		return nil, err
	}
	embeds := *j
	embeds.OnEmbeddings = nil
	embeds.Query = ends.query(j.Appended)
	embeds.Vertices = j.Vertices
	p, err := embeds.Predict(ctx, weights, Embeddings)
	if err != nil {
		return p, err
	}
	return p, j.ranks().OnFirst(func() error {
		if err := ends.score(ctx, weights, p); err != nil || j.OnLogits == nil {
			return err
		}
		rows := RowsOf(p.Logits, p.Classes)
		p.Logits = nil
		return j.OnLogits(rows)
	})
}

// edgeEnds are edges to score, and where the rows of their ends are that an EdgeScorer reads.
type edgeEnds struct {
	*rowsOfEnds
	job      *Job
	settings *setting.Resolved
	edges    *graph.Edges
	places   []int // the edges' positions in the caller's list, by which errors call them; nil: their own
}

// rowsOfEnds says where the rows of vertices are that an EdgeScorer reads for some edges.
type rowsOfEnds struct {
	listed [][]int32 // the vertices of each type that have rows, ascending; nil: all
	first  []int     // the row of the first of each type
}

// newEdgeEnds finds the rows of the ends of edges, among the rows of these ends alone or of all vertices.
func newEdgeEnds(j *Job, r *setting.Resolved, e *graph.Edges, alone bool) (*edgeEnds, error) {
	at := &rowsOfEnds{}
	x := &edgeEnds{rowsOfEnds: at, job: j, settings: r, edges: e}
	return x, x.withShare(func(share *partition.Share) error {
		relation, err := task.RelationOf(r.Kind, &share.Whole)
		if err != nil {
			return err
		}
		ends, rows := &share.Edges.Relations[relation], 0
		if alone {
			at.listed = make([][]int32, len(share.Whole.Types))
			add := func(kind int, vertices []int32) { at.listed[kind] = append(at.listed[kind], vertices...) }
			add(ends.Source, e.Source)
			add(ends.Target, e.Target)
			for kind, list := range at.listed {
				slices.Sort(list)
				at.listed[kind] = slices.Compact(list)
			}
		}
		for kind := range share.Whole.Types {
			at.first = append(at.first, rows)
			switch {
			case at.listed != nil:
				rows += len(at.listed[kind])
			case kind == ends.Source || kind == ends.Target:
				rows += share.Whole.Types[kind].Vertices
			}
		}
		return nil
	})
}

// query asks for the rows of the ends in the job's graph with what is appended.
func (x *edgeEnds) query(g *appended.Graph) Query {
	return Query{Appended: g, ends: x.listed, undecoded: true}
}

// score replaces the embeddings of a prediction of the query by the logits of the edges.
func (x *edgeEnds) score(ctx context.Context, weights nn.State, p *Prediction) error {
	return x.withShare(func(share *partition.Share) error {
		r, e := x.settings, x.edges
		p.Classes = r.OutputsIn(weights)
		d, err := r.EdgeScorer(share, p.Classes)
		if err != nil {
			return err
		}
		if len(e.Features) != e.Len()*d.Features {
			return refusal.Errorf("%d features of %d edges, where the model reads %d of each", len(e.Features),
				e.Len(), d.Features)
		}
		if d.Weighted && e.Weights == nil {
			return refusal.Errorf("the model %s reads weights of edges, and the new ones have none", r.Model)
		}
		rows, team := p.Embeddings, kernel.NewTeam(x.job.Threads(r), tensor.NewMeter())
		defer team.Memory.Close()
		s := &edgeScorer{edges: e, places: x.places, EdgeScorer: worker.EdgeScorer{
			EdgeScorer: d, Team: team,
			Row: func(kind int, vertex int32) []float32 {
				return rows[x.row(kind, vertex)*d.Width:][:d.Width]
			},
		}}
		p.Embeddings, p.Vertices = nil, e.Len()
		p.Logits, err = s.score(ctx, r.Kind, weights)
		return err
	})
}

// withShare opens a share of the job's graph, for what all shares have.
func (x *edgeEnds) withShare(use func(*partition.Share) error) error {
	if x.job.Graph != nil {
		return use(partition.All(x.job.Graph))
	}
	share, err := x.job.Parts.Open(0)
	if err != nil {
		return err
	}
	defer share.Close()
	return use(share)
}

// row is the row of a vertex of a type.
func (at *rowsOfEnds) row(kind int, vertex int32) int {
	place := int(vertex)
	if at.listed != nil {
		place, _ = slices.BinarySearch(at.listed[kind], vertex)
	}
	return at.first[kind] + place
}

// edgeScorer computes outputs of edges from rows of vertices.
type edgeScorer struct {
	worker.EdgeScorer
	edges  *graph.Edges
	places []int // as in edgeEnds
}

// score returns the predictions of all edges.
func (s *edgeScorer) score(ctx context.Context, kind task.Kind, weights nn.State) (all []float32, err error) {
	ps := nn.NewParams(s.Team, 0)
	defer ps.Release()
	s.Function = s.Rows(ps)
	finish := kind.Predicts(ps, weights)
	own := nn.State{} // the parameters of the EdgeScorer alone
	for name := range ps.State() {
		if value, there := weights[name]; there {
			own[name] = value
		}
	}
	if err := ps.Load(own); err != nil {
		return nil, err
	}
	const batch = 1 << 13
	for lo := 0; lo < s.edges.Len(); lo += batch {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		scores := s.Score(s.edges, lo, min(lo+batch, s.edges.Len()))
		out := scores.Outputs
		if finish != nil {
			finish(out.Value())
		}
		values := out.Value().ReadFloats()
		if at := graph.NotFinite(values); at >= 0 {
			place := lo + at/s.Outputs
			if s.places != nil {
				place = s.places[place]
			}
			return nil, refusal.Errorf("new edge %d: its prediction is not finite; are its features of the columns and "+
				"units that the model was trained on?", place+1)
		}
		all = append(all, values...)
		out.Drop()
		scores.Release()
	}
	return all, nil
}
