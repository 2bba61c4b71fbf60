package sar

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/tensor"
)

// KeptRows names the results of ApplyEdges in descriptions of a layer.
const KeptRows = "rows of edges, which are kept,"

// ApplyEdges implements gnn.Propagator.
func (p *propagator) ApplyEdges(m gnn.Message) *autograd.Var {
	_, target := p.part.Ends(p.along)
	return p.ApplyEdgesInto(m, Into{Rows: p.part.Types()[target]})
}

// ApplyEdgesInto is ApplyEdges for the edges into some targets. Like MessageInto, it computes the rows of a
// few edges at a time, and again in the backward pass. Of the function's values it keeps only the result.
func (p *propagator) ApplyEdgesInto(m gnn.Message, into Into) *autograd.Var {
	exchange.Must(m.Check(p.layer.Path, into.Rows.Here))
	m.Unmasked = true // what reads the rows applies the mask
	run, c := p.messages(KeptRows, m, into)
	team := run.tape.Team
	at, _ := into.places(c.Edges, m.Loops)
	state := gnn.EdgeState{Along: p.along, Loops: m.Loops, Columns: m.Columns, Counted: m.Counted}
	set, err := p.part.EdgeRowsInto(run.tape, state, into)
	exchange.Must(err)
	z := run.tape.New(set.Here, m.Columns)
	run.forward(c, func(b *batch, messages *tensor.Matrix) { team.Convert(at.rows(z, b), messages) })
	return run.record(c, autograd.Op{
		Value: z, Rows: set,
		Backward: func(g *tensor.Matrix) {
			run.backward(c, func(b *batch) *tensor.Matrix { return at.rows(g, b) })
			g.Release()
		},
	})
}

// EdgeRows describes rows of edges on a tape, whose values another worker computes.
func (p *Partition) EdgeRows(t *autograd.Tape, s gnn.EdgeState) (*autograd.RowSet, error) {
	_, target := p.Ends(s.Along)
	return p.EdgeRowsInto(t, s, Into{Rows: p.Types()[target]})
}

// EdgeRowsInto is EdgeRows for the edges into some targets. If a norm over all rows will be taken, it counts
// the rows of all workers.
func (p *Partition) EdgeRowsInto(t *autograd.Tape, s gnn.EdgeState, into Into) (*autograd.RowSet, error) {
	e, err := p.edgesOn(t, s.Along, edges.HaloRows)
	if err != nil {
		return nil, err
	}
	_, rows := into.places(e, s.Loops)
	set := &autograd.RowSet{Here: rows, Total: autograd.NotVertices, Peers: into.Rows.Peers}
	switch {
	case !s.Counted || into.Rows.Total == autograd.NotVertices:
		return set, nil
	case p.options.DropEdge > 0:
		return nil, refusal.Errorf("a norm over all edges, of which --drop-edge leaves some out; leave " +
			"--drop-edge out, or take a norm of each row")
	}
	n := []float64{float64(rows)}
	set.Sum(n)
	set.Total = int(n[0])
	return set, nil
}

// NoEdge is the number of a row without an edge. There are rows for all edges of the graph into some targets,
// even if a pass has fewer.
const NoEdge = -1

// EdgeNumbers are the numbers of the rows of EdgeRows. These are edges of the store: s.Loops are its own.
func (p *Partition) EdgeNumbers(t *autograd.Tape, s gnn.EdgeState, numbering *edges.Numbering,
) ([]int64, error) {
	return p.EdgeNumbersInto(t, s, Into{}, numbering)
}

// EdgeNumbersInto is EdgeNumbers for the edges into some targets.
func (p *Partition) EdgeNumbersInto(t *autograd.Tape, s gnn.EdgeState, into Into, numbering *edges.Numbering,
) (numbers []int64, err error) {
	e, err := p.edgesOn(t, s.Along, edges.HaloRows)
	if err != nil {
		return nil, err
	}
	all, before := e.Numbers(numbering, s.Along.Reversed), 0
	for k, block := range slices.Concat(e.Blocks, e.LoopBlocks(s.Loops)) {
		if into.Places == nil {
			numbers = append(numbers, all[k]...)
			continue
		}
		rows := listed{
			indptr: block.In.Indptr.ReadInt64s(), rows: block.Targets.ReadInt32s(),
			places: into.Places.ReadInt32s(),
		}
		for at := (position{}); at.row+1 < len(rows.indptr); at.row++ {
			if rows.takes(&at) {
				numbers = append(numbers, all[k][rows.indptr[at.row]:rows.indptr[at.row+1]]...)
			}
		}
		before += into.entries(block)
		for len(numbers) < before {
			numbers = append(numbers, NoEdge)
		}
	}
	return numbers, nil
}

// edgePlaces says where rows of edges are: the first row of each block.
type edgePlaces map[*edges.Block]int

// places says where the rows of a set of edges into some targets are, and how many rows there are. Edges that
// several sets share have the same places.
func (i Into) places(e *edges.Edges, loops gnn.Loops) (at edgePlaces, rows int) {
	at = edgePlaces{}
	for _, block := range slices.Concat(e.Blocks, e.LoopBlocks(loops)) {
		at[block] = rows
		rows += i.entries(block)
	}
	return at, rows
}

// entries is the number of edges of a block into the targets, at most.
func (i Into) entries(block *edges.Block) int {
	if i.Places != nil {
		return block.Owned
	}
	return block.In.Entries()
}

// rows are the rows of the batch's edges.
func (p edgePlaces) rows(m *tensor.Matrix, b *batch) *tensor.Matrix {
	first := p[b.block] + b.before
	return m.RowRange(first, first+b.n)
}

// edgeRows are Message.EdgeRows and their places.
type edgeRows struct {
	gnn.EdgeRows
	at edgePlaces
}

// beginGradient begins a backward pass. From then on there is a gradient, even without edges.
func (x edgeRows) beginGradient() {
	if x.RequiresGrad() {
		x.GradSum()
	}
}

// addGradient adds the gradient of the batch's rows. No other batch has these rows.
func (x edgeRows) addGradient(b *batch, batchRows *autograd.Var) {
	if !x.RequiresGrad() {
		return
	}
	to, grad := x.at.rows(x.GradSum(), b), batchRows.TakeGrad()
	x.Tape().Team.Axpy(to, 1, grad)
	grad.Release()
}
