package program

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
)

// opEnds puts side by side the values that a function of edges reads of the vertices at an end.
const opEnds = "ends"

// Undecoded returns the program without the function of an edge, which makes its output for the edges of a
// relation. The outputs of the program that it returns are rows of vertices, one output for each vertex type
// at an end of the edges: the values that the function reads there, side by side, and zeros where the other
// end has more columns. The function computes states of edges again (EdgeScorer). Undecoded refuses rows of
// edges that depend on other edges' rows.
func (p *Program) Undecoded(relation string) (*Program, error) {
	if err := p.checkEdgeOutput(relation); err != nil {
		return nil, err
	}
	encoder := *p
	encoder.undecoded = true
	encoder.rebuild(0)
	return &encoder, encoder.refuseEdgeRows(encoder.decoder)
}

// refuseEdgeRows refuses a function of an edge that reads rows of all edges.
func (p *Program) refuseEdgeRows(r *region) error {
	for _, x := range r.edgeRows {
		return refusal.Errorf("the model %s has a %s over the edges of the graph, of which an edge alone has "+
			"none; take a norm of each row, as torch.nn.LayerNorm", p.Class, x.describe())
	}
	return nil
}

// endsRead returns the vertex types at both ends, and the values that the function of an edge reads at each,
// each once.
func (p *Program) endsRead() (ends [2]string, read [2][]*value) {
	r := p.relation(p.decoded.TypeName)
	ends, read = [2]string{r.Source, r.Target}, [2][]*value{p.decoder.sources, p.decoder.targets}
	if r.Source == r.Target {
		both := slices.Clone(p.decoder.sources)
		for _, x := range p.decoder.targets {
			if !slices.Contains(both, x) {
				both = append(both, x)
			}
		}
		read = [2][]*value{both, both}
	}
	return ends, read
}

// decode turns the built program into the undecoded one.
func (p *Program) decode() {
	p.decoded = edgesOf(p.built)[0]
	p.decoder = p.decoded.regions[inEvaluation]
	ends, read := p.endsRead()
	next := 0
	for _, v := range reachable(p.built...) {
		next = max(next, v.number+1)
	}
	p.built = nil
	for k, end := range ends {
		if k == 1 && end == ends[0] {
			break
		}
		p.built = append(p.built, &value{
			op: opEnds, o: Operation{Op: opEnds}, in: read[k], number: next + k,
			Type: Type{Rows: Vertices, TypeName: end, Shape: []int{max(1, width(read[0]), width(read[1]))}},
		})
	}
}

// ends puts values side by side on rows of vertices, with zeros behind them.
func (p *pass) ends(v *value) *autograd.Var {
	x, n := p.joined(v.in, v.TypeName), width(v.in)
	switch {
	case n == v.size():
		return x
	case n == 0:
		x = autograd.Ones(p.rowsOf(v.TypeName))
	}
	return autograd.MapColumns(x, p.mapOf(columnKey{opEnds, v.number}, func() *kernel.ColumnMap {
		lists := make([][]int32, v.size())
		for c := range n {
			lists[c] = []int32{int32(c)}
		}
		return kernel.NewColumnMap(x.Cols(), 1, lists...)
	}))
}

// EdgeScorer returns the function of an edge that an undecoded program lacks.
func (p *Program) EdgeScorer(schema gnn.Schema, relation string) gnn.EdgeScorer {
	p = p.forFeatures(schema)
	r, v := schema.RelationOf(relation), p.decoded
	return gnn.EdgeScorer{
		Relation: relation, Source: r.Source, Target: r.Target, Width: p.built[0].size(),
		Features: r.Columns, Outputs: v.size(), Weighted: slices.ContainsFunc(p.decoder.edges.steps,
			func(s step) bool { return s.op == "edge_weight" }),
		Rows: func(ps *nn.Params) func(gnn.Edges) *autograd.Var {
			b := p.newBlock(gnn.Env{Params: ps}, p.decoder.edges, nil, nil)
			f := p.decoder.function(b, v)
			_, read := p.endsRead()
			return func(e gnn.Edges) *autograd.Var {
				e.Sources = split(e.Source, read[0], p.decoder.sources)
				e.Targets = split(e.Target, read[1], p.decoder.targets)
				return f(e)
			}
		},
	}
}

// split returns some of the values that rows hold side by side.
func split(rows *autograd.Var, all, some []*value) (parts []*autograd.Var) {
	for _, v := range some {
		parts = append(parts, autograd.Columns(rows, width(all[:slices.Index(all, v)]), v.size()))
	}
	return parts
}
