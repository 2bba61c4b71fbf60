package edges

import (
	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Drop says which edges an epoch leaves out (DropEdge; Rong et al. 2020), as PyG's dropout_edge does before
// the first layer: each stored edge with a probability, independently of the others. Degrees count the edges
// that are left. Self loops that an aggregation adds are never left out.
type Drop struct {
	Key uint64  // of the epoch and the relation
	P   float64 // in [0, 1)
}

// Keeps reports whether the epoch has the edge from a source to a target, given by their original ids.
// occurrence counts the parallel edges before it. The answer does not depend on the worker that holds the
// edge.
func (d Drop) Keeps(source, target, occurrence int64) bool {
	h := autograd.Mix(autograd.Mix(d.Key^uint64(source)<<32^uint64(target)) + uint64(occurrence))
	return float64(h>>11) >= d.P*(1<<53)
}

// Thin has the edges that an epoch keeps. Its matrices have room for all edges.
type Thin struct {
	*Edges
	full     *Edges
	reversed bool // the edges are stored from the targets to the sources
	last     Drop
	drawn    bool
}

// Thin returns a Thin of the edges, of which each epoch keeps some. reversed says that e has the stored edges
// reversed.
func (e *Edges) Thin(reversed bool) *Thin {
	some := *e
	t := &Thin{Edges: &some, full: e, reversed: reversed}
	some.reset()
	some.Blocks = nil
	for _, b := range e.Blocks {
		thin := *b
		thin.featureRows = nil
		thin.In, thin.Out = emptyOf(e.team, b.In), emptyOf(e.team, b.Out)
		if b.Features != nil {
			thin.Features = e.team.Memory.NewElement(tensor.Features, b.Features.Element,
				b.Features.Rows, b.Features.Cols)
		}
		some.Blocks = append(some.Blocks, &thin)
	}
	if e.Loops != nil {
		some.Loops = e.team.Memory.NewElement(tensor.Graph, tensor.Int32, e.Rows, 1)
		if e.loopFeatures != nil {
			some.loopFeatures = e.team.Memory.NewElement(tensor.Features, e.loopFeatures.Element,
				e.loopFeatures.Rows, e.loopFeatures.Cols)
		}
	}
	return t
}

// emptyOf returns an empty matrix with room for the entries of a.
func emptyOf(team *kernel.Team, a *kernel.CSR) *kernel.CSR {
	return newCSR(team.Memory, team.Memory.NewElement, a.Rows, a.Cols, a.Entries(), a.Values != nil)
}

// Draw makes the edges the ones that d keeps. All workers draw together.
func (t *Thin) Draw(d Drop) *Edges {
	if t.drawn && t.last == d {
		return t.Edges
	}
	t.last, t.drawn = d, true
	t.forget()
	keeps := func(source, target int, occurrence int64) bool {
		if t.reversed {
			source, target = target, source
		}
		return d.Keeps(int64(source), int64(target), occurrence)
	}
	for i, b := range t.full.Blocks {
		thin := t.Blocks[i]
		source := entriesOf(b.IDs)
		target := entriesOf(t.IDs)
		rows := entriesOf(b.Targets)
		t.filter(thin.In, b.In, thin.Features, b.Features,
			func(row int, column int32, occurrence int64) bool {
				return keeps(source(int(column)), target(rows(row)), occurrence)
			})
		t.filter(thin.Out, b.Out, nil, nil, func(row int, column int32, occurrence int64) bool {
			return keeps(source(row), target(rows(int(column))), occurrence)
		})
		thin.listFeatureRows(t.team)
	}
	t.drawLoops(keeps)
	return t.Edges
}

// filter writes the entries of a that keep chooses, and the rows of features that belong to them. keep gets
// the number of entries before it that have its row and column.
func (t *Thin) filter(z, a *kernel.CSR, zf, af *tensor.Matrix,
	keep func(row int, column int32, occurrence int64) bool,
) {
	for _, m := range []*tensor.Matrix{z.Indptr, z.Indices, z.Values, zf} {
		m.SetWritable()
	}
	from := &arrays{
		a.Indptr.ReadInt64s(), a.Indices.ReadInt32s(), a.Values.ReadFloats(), af.ReadBytes(), entryBytes(af),
	}
	to := &arrays{
		z.Indptr.WriteInt64s(), z.Indices.WriteInt32s(), z.Values.WriteFloats(), zf.WriteBytes(), from.width,
	}
	t.team.Serial(func() { t.keep(to, from, keep) })
	z.FindSegments()
}

// keep copies to one matrix the entries of another for which keep reports true.
func (t *Thin) keep(to, from *arrays, keep func(row int, column int32, occurrence int64) bool) {
	const rowsOfPart = 1 << 12
	last := len(from.indptr) - 1
	counts := make([]int64, last)
	t.team.Parallel((last+rowsOfPart-1)/rowsOfPart, func(part int) { // first each row to where it begins in a
		for row := part * rowsOfPart; row < min((part+1)*rowsOfPart, last); row++ {
			begin := from.indptr[row]
			for k, occurrence := range occurrences(from.indptr, from.columns, row) {
				if keep(row, from.columns[k], occurrence) {
					to.take(begin+counts[row], from, k)
					counts[row]++
				}
			}
		}
	})
	at := int64(0)
	for row, n := range counts { // rows then move forward, to the end of the row before
		begin := from.indptr[row]
		for k := range n {
			to.take(at+k, to, begin+k)
		}
		to.indptr[row] = at
		at += n
	}
	to.indptr[last] = at
}

// arrays are the arrays of a matrix, with the features of its entries.
type arrays struct {
	indptr  []int64
	columns []int32
	values  []float32 // nil: the matrix has no values
	bytes   []byte    // the bytes of the features
	width   int64     // entryBytes
}

// entryBytes is the number of bytes of one entry's features.
func entryBytes(features *tensor.Matrix) int64 {
	if features == nil {
		return 0
	}
	return int64(features.Cols * features.Element.Size())
}

// take sets entry k to entry l of another matrix.
func (e *arrays) take(k int64, from *arrays, l int64) {
	e.columns[k] = from.columns[l]
	if e.values != nil {
		e.values[k] = from.values[l]
	}
	if w := e.width; w > 0 {
		copy(e.bytes[k*w:(k+1)*w], from.bytes[l*w:])
	}
}

// drawLoops keeps some of the stored self loops.
func (t *Thin) drawLoops(keeps func(source, target int, occurrence int64) bool) {
	if t.full.Loops == nil {
		return
	}
	t.Loops.SetWritable()
	t.loopFeatures.SetWritable()
	id := entriesOf(t.IDs)
	counts := t.Loops.WriteInt32s()
	all := t.full.Loops.ReadInt32s()
	from, to := t.full.loopFeatures.ReadBytes(), t.loopFeatures.WriteBytes()
	width := int(entryBytes(t.loopFeatures))
	weights := t.full.loopW
	t.loopStart, t.loopW = nil, nil
	if weights != nil {
		t.loopStart = make([]int64, t.Rows+1)
	}
	at, kept := 0, 0
	for v, n := range all {
		counts[v] = 0
		for k := range n {
			if keeps(id(v), id(v), int64(k)) {
				counts[v]++
				if weights != nil {
					t.loopW = append(t.loopW, weights[at])
				}
				copy(to[kept*width:(kept+1)*width], from[at*width:])
				kept++
			}
			at++
		}
		if weights != nil {
			t.loopStart[v+1] = int64(kept)
		}
	}
	if weights != nil && t.loopW == nil {
		t.loopW = []float32{}
	}
}

// forget releases what was made from the edges of the last draw.
func (t *Thin) forget() {
	for _, m := range t.made {
		m.Release()
	}
	t.reset()
}
