package bench

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// Thin slices: rows of few columns, as each worker has where these are divided. Indices weigh as much as what
// they name, and a cache line for each weighs more, so that the bound counts lines.

// thin is one shape: the rows of a block of edges, and a matrix of thin rows that a core's second-level
// cache, the last-level one, or none holds.
type thin struct {
	kind   string
	degree int
	width  int
	place  place
}

type place string

const (
	inCore   place = "core"
	inCache  place = "cache"
	inMemory place = "memory"
)

const (
	coreBytes   = 256 << 10
	thinEntries = 4 << 20 // that a block has at most: they take some milliseconds
)

func (s thin) String() string {
	return fmt.Sprintf("%s E/V=%d width=%d %s", s.kind, s.degree, s.width, s.place)
}

// block is the shape's edges: as many rows as columns, fewer where they would have more than thinEntries.
func (s thin) block(b *bench) *kernel.CSR {
	size := b.large
	switch s.place {
	case inCore:
		size = min(coreBytes, b.large/16)
	case inCache:
		size = min(cachedBytes, b.large/4)
	}
	cols := powerOfTwo(size/4/s.width, s.place == inMemory)
	rows := min(cols, powerOfTwo(thinEntries/s.degree, false))
	if b.Quick {
		rows = min(rows, 1<<10)
	}
	return b.sample(sampleKey{s.kind, rows, cols, s.degree})
}

// sampleKey describes a block of random edges, with duplicates and self loops. Rows and columns are powers
// of two.
type sampleKey struct {
	kind               string
	rows, cols, degree int
}

type sampled struct {
	key   sampleKey
	edges *kernel.CSR
}

// sample draws a block of edges. It is valid until the next one: shapes with the same block follow each
// other.
func (b *bench) sample(k sampleKey) *kernel.CSR {
	if b.last.key == k {
		return b.last.edges
	}
	if b.last.edges != nil {
		b.last.edges.Release()
	}
	edges := make([]uint64, k.rows*k.degree) // destination and source
	probes{b.team}.ranges(len(edges), 1<<12, func(lo, hi int) {
		draw := rand.New(rand.NewPCG(uint64(lo), 1))
		for i := lo; i < hi; i++ {
			row, col := k.edge(draw)
			edges[i] = row<<32 | col
		}
	})
	slices.Sort(edges)
	e := &kernel.CSR{
		Rows: k.rows, Cols: k.cols, Indptr: b.team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, k.rows+1),
		Indices: b.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(edges)),
	}
	indptr, indices := e.Indptr.Int64s(), e.Indices.Int32s()
	clear(indptr)
	for i, edge := range edges {
		indptr[edge>>32+1]++
		indices[i] = int32(uint32(edge))
	}
	for row := range k.rows {
		indptr[row+1] += indptr[row]
	}
	e.FindHubs()
	b.last = sampled{k, e}
	return e
}

// edge draws a row and a column: uniformly, or as R-MAT does, in quarters of a square of which rows or
// columns that are too many are put together.
func (k sampleKey) edge(draw *rand.Rand) (row, col uint64) {
	if k.kind == uniform {
		return draw.Uint64N(uint64(k.rows)), draw.Uint64N(uint64(k.cols))
	}
	const a, b, c = 57, 19, 19 // percent; the last quarter has the rest
	for range bits.Len(uint(max(k.rows, k.cols) - 1)) {
		q := draw.Uint64N(100)
		row, col = row<<1, col<<1
		switch {
		case q < a:
		case q < a+b:
			col |= 1
		case q < a+b+c:
			row |= 1
		default:
			row, col = row|1, col|1
		}
	}
	return scramble(row, uint64(k.rows)), scramble(col, uint64(k.cols))
}

// scramble spreads numbers over 0 … n−1, for n a power of two: below n, each has a place of its own.
func scramble(x, n uint64) uint64 {
	half := (bits.Len64(n-1) + 1) / 2
	for range 2 {
		x = x * 0x9e3779b97f4a7c15 & (n - 1)
		x ^= x >> half
	}
	return x
}

// thinWidths are columns of a slice: whole parts of a cache line, and rows that may lie across two.
var thinWidths = []int{1, 2, 3, 4, 5, 8, 11, 12, 16}

// everyThin is each width on each graph in each place, and someThin some of them.
func everyThin() (shapes []thin) {
	for _, g := range []thin{{kind: uniform, degree: 15}, {kind: uniform, degree: 100}, {kind: rmat, degree: 15}} {
		for _, at := range []place{inCore, inCache, inMemory} {
			for _, width := range thinWidths {
				shapes = append(shapes, thin{g.kind, g.degree, width, at})
			}
		}
	}
	return shapes
}

func someThin() (shapes []thin) {
	for _, width := range []int{1, 3, 4, 8, 11, 16} {
		shapes = append(shapes, thin{uniform, 15, width, inCore})
	}
	for _, width := range []int{1, 4, 11} {
		shapes = append(shapes, thin{rmat, 15, width, inCache}, thin{uniform, 100, width, inMemory})
	}
	return shapes
}

func (b *bench) thinSlices() (cases []testCase) {
	add := func(name string, shapes []thin, build func(s thin, e *kernel.CSR, a *arrays) *job) {
		if b.Quick {
			shapes = []thin{shapes[0], shapes[len(shapes)-1]}
		}
		for _, s := range shapes {
			cases = append(cases, testCase{"thin " + name, s.String(), func() (*job, func()) {
				a := &arrays{team: b.team}
				return byLines(build(s, s.block(b), a)), a.release
			}})
		}
	}
	add("sum", everyThin(), func(s thin, e *kernel.CSR, a *arrays) *job { return b.spmm(e, s.width, nil, nil, a) })
	add("mean", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job { return b.spmm(e, s.width, a.matrix(e.Rows, 1), nil, a) })
	add("mean backward", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job {
		return b.spmm(e, s.width, nil, a.matrix(e.Cols, 1), a)
	})
	add("symmetric", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job {
		return b.spmm(e, s.width, a.matrix(e.Rows, 1), a.matrix(e.Cols, 1), a)
	})
	add("weighted", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job {
		weighted := *e
		weighted.Values = a.matrix(1, e.Entries())
		return b.spmm(&weighted, s.width, nil, nil, a)
	})
	add("max", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job { return b.max(e, s.width, a) })
	add("max backward", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job { return b.maxBackward(e, s.width, a) })
	oneHead := func(s thin) heads { return heads{aggregation{width: s.width}, 1} }
	add("attention", someThin(), func(s thin, e *kernel.CSR, a *arrays) *job { return b.attend(oneHead(s), e, false, a) })
	// A block of few rows of many sources has as many almost empty rows the other way
	backward := slices.DeleteFunc(someThin(), func(s thin) bool { return s.place == inMemory })
	add("attention backward", backward, func(s thin, e *kernel.CSR, a *arrays) *job {
		t := b.team.Transpose(e, tensor.Graph)
		a.made = append(a.made, t.Indptr, t.Indices)
		return b.attendBackward(oneHead(s), e, t, false, a)
	})
	return cases
}

// byLines has the bound count the cache lines of what is gathered, and the indices with them.
func byLines(j *job) *job {
	for i := range j.gathers {
		g := &j.gathers[i]
		g.lines = true
		j.read = slices.DeleteFunc(j.read, func(m *tensor.Matrix) bool { return m == g.indices })
	}
	return j
}
