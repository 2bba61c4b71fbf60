package engine

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/partition"
	"weft/tensor"
)

// results are the outputs of a pipeline for all rows of the worker. Each chunk computes some of the rows.
// Outputs of vertices are in the order of the worker's rows, and outputs of edges chunk after chunk. Other
// stages than the last have no rows.
type results struct {
	*Pipeline
	call     *Call
	vertices []int           // the vertex types of the outputs of vertices, which come first
	edges    []gnn.EdgeState // the outputs of edges, which follow
	rows     []state         // the rows of the outputs of edges
	sets     []*autograd.RowSet
	columns  []int
	values   []*tensor.Matrix // until put puts them on a tape
	outputs  []*autograd.Var  // on a tape of their own
	grads    []*tensor.Matrix // their gradients, in a backward pass
}

// results makes room for the outputs of the model without its last blocks, whose number is without.
func (p *Pipeline) results(without int, call *Call) *results {
	r, block := &results{Pipeline: p, call: call}, &p.Blocks[len(p.Blocks)-without-1]
	add := func(columns int, set autograd.RowSet) {
		if !p.last() {
			set = autograd.RowSet{Total: set.Total}
		}
		r.sets, r.columns = append(r.sets, &set), append(r.columns, columns)
	}
	kinds, widths, types := p.Outputs, block.Widths(), p.graph.Types()
	if kinds == nil {
		kinds = []int{0}
	}
	for _, kind := range kinds {
		if kind < len(widths) && widths[kind] > 0 {
			r.vertices = append(r.vertices, kind)
			add(widths[kind], *types[kind])
		}
	}
	r.edges, r.rows = block.EdgeOutputs, p.edgeStates(block.EdgeOutputs, call)
	for _, s := range r.rows {
		add(s.columns, autograd.RowSet{Here: s.before(len(s.rows)), Total: autograd.NotVertices})
	}
	return r
}

// before is the number of rows of the first k chunks.
func (s *state) before(k int) (n int) {
	for _, rows := range s.rows[:k] {
		n += rows
	}
	return n
}

// rowRange returns the rows of edges of chunk k from a matrix with the rows of all chunks.
func (r *results) rowRange(all *tensor.Matrix, output, k int) *tensor.Matrix {
	s := &r.rows[output-len(r.vertices)]
	return all.RowRange(s.before(k), s.before(k+1))
}

// join copies the rows of chunk k to their places.
func (r *results) join(k int, out gnn.State) {
	for i, v := range out.Vars() {
		part := v.Value()
		if len(r.values) == i {
			r.values = append(r.values,
				r.Team.Memory.NewElement(tensor.Activations, part.Element, r.sets[i].Here, part.Cols))
		}
		if i < len(r.vertices) {
			r.Team.Scatter(r.values[i], part, r.chunks[k].Places[r.vertices[i]])
		} else {
			r.Team.Copy(r.rowRange(r.values[i], i, k), part)
		}
	}
}

// put puts the outputs on a tape, once all chunks have joined.
func (r *results) put() {
	t := autograd.NewTape(r.Team)
	t.Recording = r.call.Recording
	for i, set := range r.sets {
		if !r.last() {
			r.values = append(r.values, r.Team.Memory.New(tensor.Activations, 0, r.columns[i]))
		}
		r.outputs = append(r.outputs, t.Received(r.values[i], set))
	}
}

// backward computes the gradients of the outputs from the gradients of the roots.
func (r *results) backward(roots []autograd.Root) {
	r.outputs[0].Tape().Backward(roots...)
	r.grads = taken(r.outputs)
}

// gradients are the gradients of the rows of chunk k. The caller owns them.
func (r *results) gradients(k int) (parts []*tensor.Matrix) {
	for i, all := range r.grads {
		var part *tensor.Matrix
		if i < len(r.vertices) {
			part = r.chunkRows(tensor.Gradients, all, r.chunks[k].Places[r.vertices[i]])
		} else {
			from := r.rowRange(all, i, k)
			part = r.Team.Memory.NewElement(tensor.Gradients, all.Element, from.Rows, from.Cols)
			r.Team.Copy(part, from)
		}
		parts = append(parts, part)
	}
	return parts
}

// edgeNumbers are the numbers, in the store, of an output's rows of edges.
func (r *results) edgeNumbers(output int, numbering *edges.Numbering) []int64 {
	return r.numbersOf(r.edges[output-len(r.vertices)], r.call, numbering)
}

// release releases the gradients.
func (r *results) release() { exchange.Release(r.grads...) }

// numbersOf are the numbers, in the store, of this worker's rows of edges on the last stage.
func (p *Pipeline) numbersOf(s gnn.EdgeState, call *Call, numbering *edges.Numbering) (numbers []int64) {
	if !p.last() {
		return []int64{}
	}
	t := autograd.NewTape(p.Team)
	call.giveEdges(t)
	for _, c := range p.chunks {
		chunk, err := c.EdgeNumbers(t, s, numbering)
		exchange.Must(err)
		numbers = append(numbers, chunk...)
	}
	return numbers
}

// EdgeNumbers implements Inference.
func (p *Pipeline) EdgeNumbers(relation *graph.Relation) (numbers []int64) {
	if !p.last() {
		return []int64{}
	}
	return p.edgeNumbers(relation, p.graph.Places, func(s gnn.EdgeState, n *edges.Numbering) []int64 {
		return p.numbersOf(s, &Call{}, n)
	})
}

// edgeNumbers are the numbers that find gives. A plan takes instead the numbers of the edges into the
// worker's rows of a vertex type, in another order. places gives these rows' places in the share; nil is all.
func (c *Config) edgeNumbers(relation *graph.Relation, places func(kind int) []int32,
	find func(gnn.EdgeState, *edges.Numbering) []int64,
) (numbers []int64) {
	state := c.Blocks[len(c.Blocks)-1].EdgeOutputs[0]
	c.Team.Serial(func() { numbers = find(state, &edges.Numbering{Relation: relation}) })
	if numbers != nil {
		return numbers
	}
	numbers = []int64{}
	i := slices.IndexFunc(c.Share.Edges.Relations, func(r partition.Relation) bool {
		return r.Name == state.Along.Relation
	})
	target := &c.Share.Edges.Types[c.Share.Edges.Relations[i].Target]
	add := func(row int) {
		v := target.ID(int32(row))
		for k := relation.Indptr[v]; k < relation.Indptr[v+1]; k++ {
			numbers = append(numbers, k)
		}
	}
	rows := places(c.Share.Edges.Relations[i].Target)
	for _, row := range rows {
		add(int(row))
	}
	for row := range target.Rows {
		if rows == nil {
			add(row)
		}
	}
	return numbers
}
