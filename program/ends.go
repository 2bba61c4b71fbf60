package program

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
)

// opEnds is what a function of edges reads of the vertices at an end, side by side.
const opEnds = "ends"

// Undecoded returns the program up to the rows of vertices that its rows of the edges of a relation are made
// of. Its outputs are these, of each type at an end of the edges: what the function of an edge reads there,
// side by side, and zeros where the other end has more columns. That function computes states of edges again.
// Undecoded refuses rows of edges that depend on those of other edges.
func (p *Program) Undecoded(relation string) (*Program, error) {
	if err := p.checkEdgeOutput(relation); err != nil {
		return nil, err
	}
	of := *p
	of.undecoded = true
	of.keep(0)
	return &of, of.refuseEdgeRows(of.decoder)
}

// refuseEdgeRows refuses a function of an edge that reads rows of all edges.
func (p *Program) refuseEdgeRows(of *region) error {
	for _, x := range of.edgeRows {
		return refusal.Errorf("the model %s has a %s over the edges of the graph, of which an edge alone has "+
			"none; take a norm of each row, as torch.nn.LayerNorm", p.Class, x.describe())
	}
	return nil
}

// endsRead are the values that a function of edges reads of their sources and of their targets, each once.
func (p *Program) endsRead() (ends [2]string, read [2][]*value) {
	r := p.relation(p.decoded.Of)
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

// decode makes the built program undecoded.
func (p *Program) decode() {
	p.decoded = edgesOf(p.built)[0]
	p.decoder = p.decoded.regions[inEvaluation]
	ends, read := p.endsRead()
	next := 0
	for _, v := range reachable(p.built...) {
		next = max(next, v.number+1)
	}
	p.built = nil
	for k, of := range ends {
		if k == 1 && of == ends[0] {
			break
		}
		p.built = append(p.built, &value{
			op: opEnds, o: Operation{Op: opEnds}, in: read[k], number: next + k,
			Type: Type{Rows: Vertices, Of: of, Shape: []int{max(1, width(read[0]), width(read[1]))}},
		})
	}
}

// ends are values side by side on rows of vertices, with zeros behind them.
func (p *pass) ends(v *value) *autograd.Var {
	x, n := p.joined(v.in, v.Of), width(v.in)
	switch {
	case n == v.size():
		return x
	case n == 0:
		x = autograd.Ones(p.rowsOf(v.Of))
	}
	return autograd.MapColumns(x, p.mapOf(columnKey{opEnds, v.number}, func() *kernel.ColumnMap {
		lists := make([][]int32, v.size())
		for c := range n {
			lists[c] = []int32{int32(c)}
		}
		return kernel.NewColumnMap(x.Cols(), 1, lists...)
	}))
}

// EdgeScorer is the function of the edges of a relation that an undecoded program ends before.
func (p *Program) EdgeScorer(schema gnn.Schema, relation string) gnn.EdgeScorer {
	p = p.forFeatures(schema)
	of, v := schema.RelationOf(relation), p.decoded
	return gnn.EdgeScorer{
		Relation: relation, Source: of.Source, Target: of.Target, Width: p.built[0].size(),
		Features: of.Columns, Outputs: v.size(), Weighted: slices.ContainsFunc(p.decoder.edges.steps,
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

// split returns some of the values that lie side by side in rows.
func split(rows *autograd.Var, all, some []*value) (parts []*autograd.Var) {
	for _, v := range some {
		parts = append(parts, autograd.Columns(rows, width(all[:slices.Index(all, v)]), v.size()))
	}
	return parts
}
