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

// predictEdges is Predict for the job's Edges.
func (j *Job) predictEdges(ctx context.Context, weights nn.State) (*Prediction, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	over, err := j.scoring(r)
	if err != nil {
		return nil, err
	}
	p, err := j.scoreEdges(ctx, r, over, weights, func(ends *Job) (*Prediction, error) {
		return ends.Predict(ctx, weights, Embeddings)
	})
	if err != nil || j.OnLogits == nil {
		return p, err
	}
	return p, j.ranks().OnFirst(func() error {
		rows := RowsOf(p.Logits, p.Classes)
		p.Logits = nil
		return j.OnLogits(rows)
	})
}

// scoring says over which graphs the job's Edges are scored; nil: all are new, and scored over the whole
// graph.
func (j *Job) scoring(r *setting.Resolved) (*task.Scoring, error) {
	if j.Numbers == nil {
		return nil, nil
	}
	drawn, err := j.drawn()
	if err != nil {
		return nil, err
	}
	return scoringOf(r.Kind, drawn.Graph)
}

// scoreEdges computes the logits of the job's Edges. rows computes the rows of vertices for which a job asks.
func (j *Job) scoreEdges(ctx context.Context, r *setting.Resolved, over *task.Scoring, weights nn.State,
	rows func(*Job) (*Prediction, error),
) (all *Prediction, err error) {
	if j.Numbers == nil {
		return j.scoreOver(ctx, r, nil, weights, rows)
	}
	e, some := *j.Edges, *j
	e.FeatureColumns = len(e.Features) / max(1, e.Len())
	var places [task.Overs][]int // places of the edges that are scored over each graph
	for k, number := range j.Numbers {
		at := over.Over(number)
		places[at] = append(places[at], k)
	}
	g, err := j.appended()
	if err != nil {
		return nil, err
	}
	for i, listed := range places {
		if listed == nil {
			continue
		}
		passing := *g
		passing.Passes = over.Passes(task.ScoredOver(i), g.Removed)
		some.Appended, some.Edges = &passing, &graph.Edges{FeatureColumns: e.FeatureColumns}
		for _, k := range listed {
			some.Edges.Append(&e, k)
		}
		made, err := some.scoreOver(ctx, r, listed, weights, rows)
		if err != nil {
			return nil, err
		}
		n := made.Classes
		if all == nil {
			all = &Prediction{Classes: n, Vertices: e.Len(), Logits: make([]float32, e.Len()*n)}
		}
		for row, k := range listed {
			copy(all.Logits[k*n:(k+1)*n], made.Logits[row*n:])
		}
	}
	return all, nil
}

// scoreOver computes the logits of the job's Edges over one graph. Errors call them by their places.
func (j *Job) scoreOver(ctx context.Context, r *setting.Resolved, places []int, weights nn.State,
	rows func(*Job) (*Prediction, error),
) (*Prediction, error) {
	ends, err := newEdgeEnds(j, r, j.Edges, j.Appended != nil)
	if err != nil {
		return nil, err
	}
	ends.places = places
	embeds := *j
	embeds.OnEmbeddings, embeds.Query = nil, ends.query(j.Appended)
	p, err := rows(&embeds)
	if err != nil {
		return p, err
	}
	return p, j.ranks().OnFirst(func() error { return ends.score(ctx, weights, p) })
}

// edgeEnds are edges to score, and where the rows of their ends are that an EdgeScorer reads.
type edgeEnds struct {
	job      *Job
	settings *setting.Resolved
	edges    *graph.Edges
	places   []int     // the edges' positions in the caller's list, by which errors call them; nil: their own
	listed   [][]int32 // the vertices of each type that have rows, ascending; nil: all
	first    []int     // the row of the first of each type
}

// newEdgeEnds finds the rows of the ends of edges, among the rows of these ends alone or of all vertices.
func newEdgeEnds(j *Job, r *setting.Resolved, e *graph.Edges, alone bool) (*edgeEnds, error) {
	x := &edgeEnds{job: j, settings: r, edges: e}
	return x, x.withShare(func(share *partition.Share) error {
		relation, err := task.RelationOf(r.Kind, &share.Whole)
		if err != nil {
			return err
		}
		ends, rows := &share.Edges.Relations[relation], 0
		if alone {
			x.listed = make([][]int32, len(share.Whole.Types))
			add := func(kind int, vertices []int32) { x.listed[kind] = append(x.listed[kind], vertices...) }
			add(ends.Source, e.Source)
			add(ends.Target, e.Target)
			for kind, list := range x.listed {
				slices.Sort(list)
				x.listed[kind] = slices.Compact(list)
			}
		}
		for kind := range share.Whole.Types {
			x.first = append(x.first, rows)
			switch {
			case x.listed != nil:
				rows += len(x.listed[kind])
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
		ps := nn.NewParams(team, 0)
		defer ps.Release()
		s := &worker.EdgeScorer{
			EdgeScorer: d, Team: team, Function: d.Rows(ps),
			Row: func(kind int, vertex int32) []float32 {
				return rows[x.row(kind, vertex)*d.Width:][:d.Width]
			},
		}
		finish := r.Kind.Predicts(ps, weights)
		own := nn.State{} // the parameters of the EdgeScorer alone
		for name := range ps.State() {
			if value, there := weights[name]; there {
				own[name] = value
			}
		}
		if err := ps.Load(own); err != nil {
			return err
		}
		p.Embeddings, p.Vertices = nil, e.Len()
		const batch = 1 << 13
		for lo := 0; lo < e.Len(); lo += batch {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			scores := s.Score(e, lo, min(lo+batch, e.Len()))
			out := scores.Outputs
			if finish != nil {
				finish(out.Value())
			}
			values := out.Value().ReadFloats()
			if at := graph.NotFinite(values); at >= 0 {
				place := lo + at/s.Outputs
				if x.places != nil {
					place = x.places[place]
				}
				return refusal.Errorf("new edge %d: its prediction is not finite; are its features of the columns and "+
					"units that the model was trained on?", place+1)
			}
			p.Logits = append(p.Logits, values...)
			out.Drop()
			scores.Release()
		}
		return nil
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
func (x *edgeEnds) row(kind int, vertex int32) int {
	place := int(vertex)
	if x.listed != nil {
		place, _ = slices.BinarySearch(x.listed[kind], vertex)
	}
	return x.first[kind] + place
}
