package kernel

// #include "native/weft.h"
import "C"

import (
	"iter"
	"slices"
	"unsafe"

	"weft/tensor"
)

// hubEntries is how many entries a row has at most that one thread works on alone.
const hubEntries = C.WEFT_HUB

// FindHubs sets Hubs to the rows of more than 16384 entries, in ascending order; it is called when Indptr is
// filled. Transpose calls it for its result.
func (a *CSR) FindHubs() {
	a.Hubs = nil
	indptr := a.Indptr.ReadInt64s()
	for row := range len(indptr) - 1 {
		if indptr[row+1]-indptr[row] > hubEntries {
			a.Hubs = append(a.Hubs, row)
		}
	}
}

// hubsOf returns a with the hubs among rows lo…hi−1 alone.
func (a *CSR) hubsOf(lo, hi int) *CSR {
	from, _ := slices.BinarySearch(a.Hubs, lo)
	to, _ := slices.BinarySearch(a.Hubs, hi)
	some := *a
	some.Hubs = a.Hubs[from:to]
	return &some
}

// parts is a matrix whose rows are parts of one row of another, a hub, so that threads share its entries: one
// part for each lane, of hubEntries at most but for equal ones, which stay together, and when these are done
// the ones that follow, until the row ends. Where a row is cut depends on the row alone, and what the parts
// give is put together in their order, so that a result has the same bits for any number of threads.
type parts struct {
	CSR
	loops *tensor.Matrix // Int32, lanes × 1: the hub's self loops are those of its last part
	ids   *tensor.Matrix // Int32, lanes × 1: the hub's vertex
	row   *tensor.Matrix // Int64, 1 × 1: the hub's row

	team          *Team
	hubs          *CSR
	hubLoops      *tensor.Matrix // of the rows of hubs, may be nil
	hubIDs        *tensor.Matrix // of the rows of hubs, may be nil
	copied, added []perPart
}

// perPart is a scratch matrix with a row for each part, and the matrix whose row of the hub it stands for.
type perPart struct {
	rows, of *tensor.Matrix
	sum      []float32 // the hub's row, while parts are added to it
}

// parts takes scratch for the hubs of a, also where it has none: a plan does not know. loops and ids (Int32)
// are the self loops and the vertices of a's rows; nil: none, and the rows themselves.
func (t *Team) parts(a *CSR, loops, ids *tensor.Matrix) *parts {
	p := &parts{team: t, hubs: a, hubLoops: loops, hubIDs: ids}
	p.CSR = CSR{
		Rows: lanes, Cols: a.Cols, Indptr: t.scratch(tensor.Int64, 1, lanes+1),
		Indices: a.Indices, Values: a.Values,
	}
	p.loops, p.ids, p.row = t.scratch(tensor.Int32, lanes, 1), t.scratch(tensor.Int32, lanes, 1),
		t.scratch(tensor.Int64, 1, 1)
	return p
}

// copies has the hub's row of m for each part; nil for nil.
func (p *parts) copies(m *tensor.Matrix) *tensor.Matrix {
	if m == nil {
		return nil
	}
	return p.rowsOf(m, m.Element, &p.copied)
}

// sums has a Float32 row for each part, which starts as zeros and is added to the hub's row of m; nil for
// nil.
func (p *parts) sums(m *tensor.Matrix) *tensor.Matrix {
	if m == nil {
		return nil
	}
	return p.rowsOf(m, tensor.Float32, &p.added)
}

func (p *parts) rowsOf(m *tensor.Matrix, element tensor.Element, list *[]perPart) *tensor.Matrix {
	rows := p.team.scratch(element, lanes, m.Cols)
	*list = append(*list, perPart{rows: rows, of: m})
	return rows
}

// sum is the hub's row of m, to which the parts' sums are added and which is rounded to m's type when the
// last of them is.
func (p *parts) sum(m *tensor.Matrix) []float32 {
	return p.added[slices.IndexFunc(p.added, func(s perPart) bool { return s.of == m })].sum
}

// run runs a kernel over the parts, each of which is worth a hand-out. Their bytes count with the other rows'.
func (p *parts) run(r routine, args unsafe.Pointer) {
	r.bytes = Bytes{}
	p.team.launch(Shape{lanes}, 0, launch{links: one(r, args), last: lanes, cost: grain, tile: 1})
}

// each goes through the parts of every hub, a matrix of them at a time, and gives the hub's row and whether
// it begins with them.
func (p *parts) each() iter.Seq2[int, bool] {
	return func(yield func(row int, begins bool) bool) {
		for _, row := range p.hubs.Hubs {
			p.enter(row)
			lo, hi := p.hubs.Indptr.Int64s()[row], p.hubs.Indptr.Int64s()[row+1]
			for k, n := 0, int((hi-lo-1)/(lanes*hubEntries)+1); k < n; k++ {
				for part := range lanes + 1 {
					p.Indptr.Int64s()[part] = lo + cut(p.hubs.Indices.Int32s()[lo:hi], k*lanes+part, n*lanes)
				}
				if p.hubLoops != nil && k == n-1 {
					p.loops.Int32s()[lanes-1] = p.hubLoops.Int32s()[row]
				}
				for _, s := range p.added {
					clear(s.rows.Floats())
				}
				if !yield(row, k == 0) {
					return
				}
				for _, s := range p.added {
					s.add()
				}
			}
			for _, s := range p.added {
				setNumbers(s.of, row, s.sum)
			}
		}
	}
}

// enter makes ready what does not change between the parts of a row.
func (p *parts) enter(row int) {
	id := vertex(p.hubIDs, row)
	for part := range lanes {
		p.ids.Int32s()[part] = id
		for _, c := range p.copied {
			copy(c.rows.RowRange(part, part+1).Bytes(), c.of.RowRange(row, row+1).Bytes())
		}
	}
	for k := range p.added {
		p.added[k].sum = numbers(p.added[k].of, row)
	}
	clear(p.loops.Int32s())
	p.row.Int64s()[0] = int64(row)
}

// cut returns where part k of n parts begins. Equal entries, which a mask numbers, stay together.
func cut(row []int32, k, n int) int64 {
	at := len(row) * k / n
	if at < len(row) {
		at, _ = slices.BinarySearch(row, row[at])
	}
	return int64(at)
}

// add adds the parts' rows, in their order, to the hub's.
func (s perPart) add() {
	for c := range s.sum {
		sum := float32(0)
		for part := range lanes {
			sum += s.rows.Floats()[part*len(s.sum)+c]
		}
		s.sum[c] += sum
	}
}

// numbers returns the numbers of a row: those of a Float32 matrix themselves, and copies of a BFloat16 one's.
func numbers(m *tensor.Matrix, row int) []float32 {
	r := m.RowRange(row, row+1)
	if m.Element == tensor.Float32 {
		return r.Floats()
	}
	of := make([]float32, m.Cols)
	for c, bits := range r.BFloat16s() {
		of[c] = tensor.FromBFloat16(bits)
	}
	return of
}

// setNumbers writes what has become of a row's numbers.
func setNumbers(m *tensor.Matrix, row int, numbers []float32) {
	if m.Element == tensor.Float32 {
		return // they are the matrix's own
	}
	bits := m.RowRange(row, row+1).BFloat16s()
	for c, x := range numbers {
		bits[c] = tensor.RoundBFloat16(x)
	}
}

// release gives the scratch back.
func (p *parts) release() {
	for _, s := range append(p.copied, p.added...) {
		s.rows.Release()
	}
	p.Indptr.Release()
	p.loops.Release()
	p.ids.Release()
	p.row.Release()
}

// vertex returns the id of a row, and hasLoop whether it has self loops besides its entries.
func vertex(ids *tensor.Matrix, row int) int32 {
	if ids == nil {
		return int32(row)
	}
	return ids.Int32s()[row]
}

func hasLoop(loops *tensor.Matrix, row int) bool { return loops != nil && loops.Int32s()[row] > 0 }
