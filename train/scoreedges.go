package train

import (
	"context"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/task"
)

// PredictEdges computes the predictions of edges that the job's graph does not have, between its vertices:
// by source and target, with as many features as those of the relation that the model has learned. They pass
// no messages, and those of the graph do. The rows of vertices are computed on the job's mesh, and those of
// edges by worker 0, which alone has the logits, and passes them to OnLogits if the job has it.
func (j *Job) PredictEdges(ctx context.Context, weights nn.State, e *graph.Edges) (*Prediction, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	embeds := *j
	embeds.OnEmbeddings = nil
	p, err := embeds.Predict(ctx, weights, Embeddings)
	if err != nil {
		return p, err
	}
	return p, j.ranks().OnFirst(func() error {
		if err := j.scoreEdges(ctx, r, weights, e, p); err != nil || j.OnLogits == nil {
			return err
		}
		rows := RowsOf(p.Logits, p.Classes)
		p.Logits = nil
		return j.OnLogits(rows)
	})
}

// scoreEdges replaces the embeddings of a prediction by the logits of edges.
func (j *Job) scoreEdges(ctx context.Context, r *setting.Resolved, weights nn.State, e *graph.Edges,
	p *Prediction,
) error {
	share, err := j.anyShare()
	if err != nil {
		return err
	}
	if j.Graph == nil {
		defer share.Close()
	}
	p.Classes = r.OutputsIn(weights)
	d, err := r.EdgeDecoder(share, p.Classes)
	if err != nil {
		return err
	}
	if len(e.Features) != e.Len()*d.Features {
		return refusal.Errorf("%d features of %d edges, where the model reads %d of each", len(e.Features),
			e.Len(), d.Features)
	}
	kinds, err := r.Kind.Types(share)
	if err != nil {
		return err
	}
	first := map[int]int32{} // row of the first vertex of each type
	rows := int32(0)
	for _, kind := range kinds {
		first[kind] = rows
		rows += int32(share.Whole.Types[kind].Vertices)
	}
	s := &edgeScorer{
		EdgeDecoder: d, rows: p.Embeddings, first: [2]int32{first[d.Source], first[d.Target]}, edges: e,
		team: kernel.NewTeam(j.Threads(r), tensor.NewMeter()),
	}
	p.Embeddings = nil
	if p.Logits, err = s.score(ctx, r.Kind, weights); err != nil {
		return err
	}
	p.Vertices = e.Len()
	return nil
}

// anyShare is a share of the job's graph, for what all know.
func (j *Job) anyShare() (*partition.Share, error) {
	if j.Graph == nil {
		return j.Parts.Open(0)
	}
	return partition.All(j.Graph), nil
}

// edgeScorer computes the decoder of rows of vertices.
type edgeScorer struct {
	gnn.EdgeDecoder
	team  *kernel.Team
	rows  []float32 // of the vertices that the model's relation joins, one type after another
	first [2]int32  // row of the first vertex of the source's and the target's type
	edges *graph.Edges
}

// score returns the predictions of all edges.
func (s *edgeScorer) score(ctx context.Context, kind task.Kind, weights nn.State) (all []float32, err error) {
	ps := nn.NewParams(s.team, 0)
	defer ps.Release()
	rows, finish := s.Rows(ps), kind.Predicts(ps, weights)
	own := nn.State{} // of the decoder alone
	for name := range ps.State() {
		if of, there := weights[name]; there {
			own[name] = of
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
		hi := min(lo+batch, s.edges.Len())
		tape := autograd.NewTape(s.team)
		n := hi - lo
		set := &autograd.RowSet{Here: n, Total: autograd.NotVertices}
		var made []*tensor.Matrix
		matrix := func(columns int, row func(k int) []float32) *autograd.Var {
			m := s.team.Memory.New(tensor.Buffers, n, columns)
			values := m.WriteFloats()
			for k := range n {
				copy(values[k*columns:(k+1)*columns], row(lo+k))
			}
			made = append(made, m)
			return tape.Constant(m, set)
		}
		end := func(of []int32, first int32) func(k int) []float32 {
			return func(k int) []float32 { return s.rows[int(first+of[k])*s.Width:][:s.Width] }
		}
		e := gnn.Edges{
			Tape: tape, Source: matrix(s.Width, end(s.edges.Source, s.first[0])),
			Target: matrix(s.Width, end(s.edges.Target, s.first[1])),
		}
		if f := s.Features; f > 0 {
			e.Features = matrix(f, func(k int) []float32 { return s.edges.Features[k*f : (k+1)*f] })
		}
		out := tape.Scope(func() *autograd.Var { return autograd.Float32(rows(e)) })
		if finish != nil {
			finish(out.Value())
		}
		all = append(all, out.Value().ReadFloats()...)
		out.Drop()
		for _, m := range made {
			m.Release()
		}
	}
	return all, nil
}
