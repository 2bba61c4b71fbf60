package edges

import (
	"fmt"
	"iter"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// Inputs are what one pass has in place of the graph's edges, by the names of relations: some of the edges,
// or other weights or features. PassEdges makes the edges of the pass. Their messages have the rows of all
// edges.
type Inputs struct {
	Relations map[string]*Input
	// Mask is a factor of each message along an edge between two vertices, and Masked sums the gradients of
	// these factors, as for PyG's edge_mask. Self loops have none. nil: there are no factors. The pass must
	// run on one worker with its whole graph.
	Mask *float32

	made []*madeEdges
}

// Numbering numbers the edges of a relation as the graph's store does: by target, then by source, and
// parallel edges as they were given. With Held it numbers only some of the edges, by their places in Held.
type Numbering struct {
	Relation *graph.Relation // of the whole graph
	Held     []int64         // numbers in the store of the edges numbered here, ascending; nil: all
}

// Input is what a pass has in place of a relation's edges. All Inputs and requests for the edges of one Edges
// have the same Numbering.
type Input struct {
	Numbering
	// Kept says, by a number other than 0, which edges the pass has; nil: all. Self loops that an aggregation
	// adds stay.
	Kept     []float32
	Weights  []float32 // nil: the graph's weights
	Features []float32 // edges × Columns, row by row; nil: the graph's features
	Columns  int
	// WeightGradients and FeatureGradients ask for the gradients that AddGradients adds.
	WeightGradients, FeatureGradients bool
}

// Masks reports whether messages have factors.
func (g *Inputs) Masks() bool { return g.Mask != nil }

// madeEdges are the edges of a pass, made from those of the graph.
type madeEdges struct {
	full, some *Edges
	gnn.Along
}

// Number is the number of the edge from a source to a target, given by their ids. occurrence counts the
// parallel edges before it.
func (n *Numbering) Number(source, target int, occurrence int64) int64 {
	first := n.Relation.Indptr[target]
	at, _ := slices.BinarySearch(n.Relation.Sources[first:n.Relation.Indptr[target+1]], int32(source))
	number := first + int64(at) + occurrence
	if n.Held == nil {
		return number
	}
	place, found := slices.BinarySearch(n.Held, number)
	if !found {
		panic(fmt.Sprintf("edges: edge %d is none of those that have a number", number))
	}
	return int64(place)
}

// keeps reports whether the pass has an edge.
func (in *Input) keeps(number int64) bool { return in.Kept == nil || in.Kept[number] != 0 }

// PassEdges returns the pass's edges, in place of the graph's edges e. g keeps them until Release.
func (g *Inputs) PassEdges(e *Edges, a gnn.Along) *Edges {
	in := g.Relations[a.Relation]
	if in == nil && g.Mask == nil {
		return e
	}
	for _, m := range g.made {
		if m.full == e {
			return m.some
		}
	}
	var some *Edges
	if g.Mask != nil {
		some = e.masked(*g.Mask)
	} else {
		some = e.withInput(in, a.Reversed)
	}
	some.others = givenOthers{g, a, e}
	g.made = append(g.made, &madeEdges{e, some, a})
	return some
}

// Release releases the edges of the pass. Whatever is made of them later is made anew.
func (g *Inputs) Release() {
	if g == nil {
		return
	}
	for _, m := range g.made {
		for _, b := range m.some.Blocks {
			b.featureRows.Release()
		}
		for _, x := range m.some.made {
			x.Release()
		}
	}
	g.made = nil
}

// givenOthers implements Others for the edges of a pass. full are the graph's edges.
type givenOthers struct {
	pass  *Inputs
	along gnn.Along
	full  *Edges
}

// Columns implements Others.
func (o givenOthers) Columns(_ *Edges, own func(*Edges) *tensor.Matrix) ([]*tensor.Matrix, error) {
	return o.full.others.Columns(o.full, func(full *Edges) *tensor.Matrix {
		return own(o.pass.PassEdges(full, o.along))
	})
}

// withInput makes the edges of a pass with an Input. reversed says that e has the stored edges reversed.
func (e *Edges) withInput(in *Input, reversed bool) *Edges {
	some := *e
	some.reset()
	some.input = in
	some.Blocks = nil
	numbers := e.numbersOf(&in.Numbering, reversed)
	for i, b := range e.Blocks {
		some.Blocks = append(some.Blocks, some.giveBlock(b, numbers[i]))
	}
	if e.Loops != nil {
		some.giveLoops(e, numbers[len(e.Blocks)])
	}
	some.Local().IDs = e.Local().IDs
	return &some
}

// numbersOf are the numbers of the entries of each block and, last, of the stored self loops, vertex by
// vertex. It finds them once.
func (e *Edges) numbersOf(n *Numbering, reversed bool) [][]int64 {
	if e.numbers != nil {
		return e.numbers
	}
	target := entriesOf(e.IDs)
	number := func(source, target int, occurrence int64) int64 {
		if reversed {
			source, target = target, source
		}
		return n.Number(source, target, occurrence)
	}
	for _, b := range e.Blocks {
		source, row := entriesOf(b.IDs), entriesOf(b.Targets)
		indptr, columns := b.In.Indptr.ReadInt64s(), b.In.Indices.ReadInt32s()
		numbers := make([]int64, len(columns))
		inRows(e.team, b.In.Rows, func(i int) {
			for k, occurrence := range occurrences(indptr, columns, i) {
				numbers[k] = number(source(int(columns[k])), target(row(i)), occurrence)
			}
		})
		e.numbers = append(e.numbers, numbers)
	}
	loops, count := []int64{}, e.loopCounts()
	e.team.Serial(func() {
		for v := range e.Rows {
			for k := range count(v) {
				loops = append(loops, n.Number(target(v), target(v), int64(k)))
			}
		}
	})
	e.numbers = append(e.numbers, loops)
	return e.numbers
}

// Numbers are the numbers of the entries of the Blocks, followed by those of the LoopBlocks of the stored
// loops. reversed says that e has the stored edges reversed. A pass has the edges that it keeps.
func (e *Edges) Numbers(numbering *Numbering, reversed bool) (all [][]int64) {
	if e.input == nil {
		all = slices.Clone(e.numbersOf(numbering, reversed))
	} else {
		for _, b := range e.Blocks {
			all = append(all, b.numbers)
		}
		all = append(all, e.loopNumbers)
	}
	return all[:len(e.Blocks)+len(e.LoopBlocks(gnn.StoredLoops))]
}

// occurrences yields the entries of a row, each with the number of earlier entries with the same column,
// which are parallel edges.
func occurrences(indptr []int64, columns []int32, row int) iter.Seq2[int64, int64] {
	return func(yield func(entry, occurrence int64) bool) {
		occurrence := int64(0)
		for k := indptr[row]; k < indptr[row+1]; k++ {
			occurrence++
			if k == indptr[row] || columns[k] != columns[k-1] {
				occurrence = 0
			}
			if !yield(k, occurrence) {
				return
			}
		}
	}
}

// inRows calls f for each row, on the team's threads.
func inRows(team *kernel.Team, rows int, f func(row int)) {
	const rowsOfPart = 1 << 12
	team.Parallel((rows+rowsOfPart-1)/rowsOfPart, func(part int) {
		for row := part * rowsOfPart; row < min((part+1)*rowsOfPart, rows); row++ {
			f(row)
		}
	})
}

// giveBlock makes a block of the pass from one whose entries have these numbers in the graph.
func (e *Edges) giveBlock(b *Block, numbers []int64) *Block {
	in := e.input
	some := *b
	some.featureRows, some.numbers = nil, numbers
	if in.Kept != nil || in.Weights != nil {
		e.giveEntries(&some, b.In, numbers)
	}
	if b.Features != nil && (in.Kept != nil || in.Features != nil) {
		some.Features = e.giveFeatures(b.Features, b.In, &some, numbers)
	}
	e.wantGradients(&some)
	return &some
}

// giveEntries copies to a block the entries of a matrix that the pass keeps, with their weights.
func (e *Edges) giveEntries(some *Block, csr *kernel.CSR, numbers []int64) {
	in := e.input
	indptr, columns, values := csr.Indptr.ReadInt64s(), csr.Indices.ReadInt32s(), csr.Values.ReadFloats()
	starts := make([]int64, csr.Rows+1)
	inRows(e.team, csr.Rows, func(row int) {
		for k := indptr[row]; k < indptr[row+1]; k++ {
			if in.keeps(numbers[k]) {
				starts[row+1]++
			}
		}
	})
	for row := range csr.Rows {
		starts[row+1] += starts[row]
	}
	entries := csr.Entries() // a plan keeps all
	e.team.Serial(func() {
		entries = int(starts[csr.Rows])
		some.numbers = make([]int64, entries)
		owns, v := among(e.own, e.Rows), entriesOf(some.Targets)
		some.Owned = 0
		for row := range csr.Rows {
			some.Owned += oneIf(owns, v(row)) * int(starts[row+1]-starts[row])
		}
	})
	mem := e.team.Memory
	a := newCSR(mem, mem.NewElement, csr.Rows, csr.Cols, entries, in.Weights != nil || csr.Values != nil)
	copy(a.Indptr.WriteInt64s(), starts)
	toColumns, toValues := a.Indices.WriteInt32s(), a.Values.WriteFloats()
	inRows(e.team, csr.Rows, func(row int) {
		at := starts[row]
		for k := indptr[row]; k < indptr[row+1]; k++ {
			if !in.keeps(numbers[k]) {
				continue
			}
			some.numbers[at], toColumns[at] = numbers[k], columns[k]
			switch {
			case in.Weights != nil:
				toValues[at] = in.Weights[numbers[k]]
			case values != nil:
				toValues[at] = values[k]
			}
			at++
		}
	})
	a.FindSegments()
	some.In, some.Out = a, newCSR(mem, mem.NewElement, csr.Cols, csr.Rows, entries, a.Values != nil)
	some.Out.SetTranspose(a)
	some.Out.FindSegments()
	for _, m := range []*kernel.CSR{some.In, some.Out} {
		e.made = append(e.made, m.Arrays()...)
	}
}

// giveFeatures makes the features of a block's entries. The graph's own features are in the matrix all.
func (e *Edges) giveFeatures(all *tensor.Matrix, csr *kernel.CSR, some *Block, numbers []int64,
) *tensor.Matrix {
	in := e.input
	m := e.team.Memory.NewElement(tensor.Features, all.Element, some.In.Entries(), all.Cols)
	e.made = append(e.made, m)
	if in.Features != nil {
		write := m.Writer()
		inRows(e.team, m.Rows, func(row int) { write(row*m.Cols, in.features(some.numbers[row])) })
		return m
	}
	width := entryBytes(all)
	from, to := all.ReadBytes(), m.WriteBytes()
	e.team.Serial(func() {
		at := int64(0)
		for k, number := range numbers[:csr.Entries()] {
			if in.keeps(number) {
				copy(to[at*width:(at+1)*width], from[int64(k)*width:])
				at++
			}
		}
	})
	return m
}

// features are the given features of an edge.
func (in *Input) features(number int64) []float32 {
	return in.Features[int(number)*in.Columns:][:in.Columns]
}

// giveLoops keeps the stored self loops that the pass has, with their weights and features. numbers are their
// numbers in the graph.
func (e *Edges) giveLoops(full *Edges, numbers []int64) {
	in, stored := e.input, full.loopCounts()
	memory := e.team.Memory
	e.Loops = memory.NewElement(tensor.Graph, tensor.Int32, e.Rows, 1)
	counts := e.Loops.WriteInt32s()
	e.loopStart, e.loopW, e.loopNumbers = nil, nil, []int64{}
	weighted := in.Weights != nil || full.loopW != nil
	if weighted {
		e.loopStart, e.loopW = make([]int64, e.Rows+1), []float32{}
	}
	var kept []int
	e.team.Serial(func() { // in a plan the pass keeps all
		at, owns := 0, among(e.own, e.Rows)
		e.ownLoops = 0
		for v := range e.Rows {
			counts[v] = 0
			for range stored(v) {
				if in.keeps(numbers[at]) {
					counts[v]++
					e.ownLoops += oneIf(owns, v)
					kept, e.loopNumbers = append(kept, at), append(e.loopNumbers, numbers[at])
					switch {
					case in.Weights != nil:
						e.loopW = append(e.loopW, in.Weights[numbers[at]])
					case weighted:
						e.loopW = append(e.loopW, full.loopW[at])
					}
				}
				at++
			}
			if weighted {
				e.loopStart[v+1] = int64(len(kept))
			}
		}
		e.loopCount = len(kept)
	})
	e.made = append(e.made, e.Loops)
	if all := full.loopFeatures; all != nil {
		m := memory.NewElement(tensor.Features, all.Element, e.loopCount, all.Cols)
		read, write, row := all.Reader(), m.Writer(), make([]float32, all.Cols)
		for k, at := range kept {
			if in.Features != nil {
				write(k*all.Cols, in.features(numbers[at]))
				continue
			}
			read(at*all.Cols, row)
			write(k*all.Cols, row)
		}
		e.loopFeatures = m
		e.made = append(e.made, m)
	}
}

// wantGradients makes room for the sums of a block's gradients, if a pass asks for them.
func (e *Edges) wantGradients(b *Block) {
	in := e.input
	if in == nil {
		return
	}
	if in.WeightGradients && b.In.Values != nil {
		b.WeightGradients = e.team.Zeros(tensor.Gradients, b.In.Entries(), 1)
	}
	if in.FeatureGradients && b.Features != nil {
		b.FeatureGradients = e.team.Zeros(tensor.Gradients, b.Features.Rows, b.Features.Cols)
	}
	e.made = append(e.made, b.WeightGradients, b.FeatureGradients)
}

// Differentiable reports whether the pass asks for gradients of the edges' weights or features, or of masks.
func (e *Edges) Differentiable() bool {
	return e.Masked() || e.input != nil && (e.input.WeightGradients || e.input.FeatureGradients)
}

// AddGradients adds this worker's gradients of a relation's weights and features to weights and features, in
// the order of the store: a number for each edge, and a row of Columns. Either may be nil.
func (g *Inputs) AddGradients(relation string, weights, features []float32) {
	for _, m := range g.made {
		if m.Relation == relation {
			m.some.addGradients(weights, features)
		}
	}
}

func (e *Edges) addGradients(weights, features []float32) {
	blocks := slices.Clone(e.Blocks)
	for _, loops := range []gnn.Loops{gnn.OnlyLoops, gnn.LastLoops} {
		if b := e.loopBlocks[loops]; b != nil {
			b.numbers = e.numbersOfLoops(loops)
			blocks = append(blocks, b)
		}
	}
	for _, b := range blocks {
		if m := b.WeightGradients; m != nil && weights != nil {
			addRows(e.team, weights, m, b.numbers)
		}
		if m := b.FeatureGradients; m != nil && features != nil {
			addRows(e.team, features, m, b.numbers)
		}
	}
	if b := e.loopBlocks[gnn.OneLoop]; b != nil && b.FeatureGradients != nil && features != nil {
		e.addToMeans(features, b.FeatureGradients)
	}
}

// numbersOfLoops are the numbers of the stored self loops that count, vertex by vertex.
func (e *Edges) numbersOfLoops(loops gnn.Loops) (numbers []int64) {
	count, at := e.loopCounts(), 0
	for v := range e.Rows {
		n := count(v)
		numbers = append(numbers, e.loopNumbers[at+firstOf(loops, n):at+n]...)
		at += n
	}
	return numbers
}

// addRows adds the first rows of a matrix to the rows with these numbers, which are all different.
func addRows(team *kernel.Team, to []float32, m *tensor.Matrix, numbers []int64) {
	from := m.ReadFloats()
	inRows(team, len(numbers), func(row int) {
		z := to[int(numbers[row])*m.Cols:][:m.Cols]
		for k := range z {
			z[k] += from[row*m.Cols+k]
		}
	})
}

// addToMeans adds the gradients of added self loops to the edges into each vertex, of whose features theirs
// are the means.
func (e *Edges) addToMeans(to []float32, loops *tensor.Matrix) {
	degrees := e.inDegrees(countEdges)
	from, columns := loops.ReadFloats(), loops.Cols
	for _, b := range e.Blocks {
		indptr, target := b.In.Indptr.ReadInt64s(), entriesOf(b.Targets)
		inRows(e.team, b.In.Rows, func(i int) {
			v := target(i)
			for k := indptr[i]; k < indptr[i+1]; k++ {
				z := to[int(b.numbers[k])*columns:][:columns]
				for c := range z {
					z[c] += float32(float64(from[v*columns+c]) / degrees[v])
				}
			}
		})
	}
}
