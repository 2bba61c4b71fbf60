package bench

import (
	"fmt"

	"weft/kernel"
	"weft/tensor"
)

// aggregation is one shape of work along edges: rows of width columns, from a matrix that a cache holds or
// none does.
type aggregation struct {
	kind   string
	degree int
	width  int
	cached bool
}

const (
	// Of the rows that are read: more than a core's own caches hold, less than the shared one
	cachedBytes = 4 << 20
	// That a kernel gathers from a matrix beyond the caches: rows of the graph are left out above it
	mostBytes = 3 << 30
)

// vertices is how many rows the source matrix has.
func (s aggregation) vertices(b *bench) int {
	size := b.large
	if s.cached {
		size = min(cachedBytes, b.large/4)
	}
	return max(64, powerOfTwo(size/4/s.width, !s.cached))
}

// rows is how many of the graph's rows are computed.
func (s aggregation) rows(b *bench) int {
	n := s.vertices(b)
	return max(1, min(n, mostBytes/4/s.width/s.degree))
}

func (s aggregation) String() string {
	place := "memory"
	if s.cached {
		place = "cache"
	}
	return fmt.Sprintf("%s E/V=%d width=%d %s", s.kind, s.degree, s.width, place)
}

// graph is the shape's graph; with transposed set, the matrix of its backward pass.
func (s aggregation) graph(b *bench, transposed bool) *kernel.CSR {
	g := b.graph(graphKey{s.kind, s.vertices(b), s.degree})
	a := g.in
	if transposed {
		a = g.transposed()
	}
	if n := s.rows(b); n < a.Rows {
		return firstRows(a, n)
	}
	return a
}

var (
	kinds  = []string{uniform, rmat}
	widths = []int{16, 41, 64, 100, 128, 256, 512}
)

// everyShape is each width at 15 edges per vertex, and other degrees at one width, on both graphs, cached and
// not.
func everyShape() (shapes []aggregation) {
	for _, kind := range kinds {
		for _, width := range widths {
			shapes = append(shapes, aggregation{kind, 15, width, true}, aggregation{kind, 15, width, false})
		}
		for _, degree := range []int{5, 50, 200} {
			shapes = append(shapes, aggregation{kind, degree, 64, true}, aggregation{kind, degree, 512, false})
		}
	}
	return shapes
}

// someShapes are some of each.
func someShapes() []aggregation {
	return []aggregation{
		{uniform, 15, 16, true},
		{rmat, 15, 41, true},
		{uniform, 50, 64, true},
		{rmat, 50, 512, true},
		{rmat, 15, 16, false},
		{uniform, 15, 100, false},
		{rmat, 15, 128, false},
		{uniform, 5, 256, false},
	}
}

func (b *bench) aggregations() (cases []testCase) {
	add := func(name string, shapes []aggregation, build func(s aggregation, a *arrays) *job) {
		if b.Quick {
			shapes = []aggregation{shapes[0], shapes[len(shapes)-1]}
		}
		for _, s := range shapes {
			cases = append(cases, testCase{name, s.String(), func() (*job, func()) {
				a := &arrays{team: b.team}
				return build(s, a), a.release
			}})
		}
	}
	add("spmm sum", everyShape(), func(s aggregation, a *arrays) *job {
		return b.spmm(s.graph(b, false), s.width, nil, nil, a)
	})
	add("spmm sum bfloat16", someShapes()[2:], func(s aggregation, a *arrays) *job {
		return b.storedSpMM(s.graph(b, false), s.width, a)
	})
	// The mean's factor is one of the destination's row, in its backward pass one of the source's.
	add("spmm mean backward", someShapes(), func(s aggregation, a *arrays) *job {
		e := s.graph(b, true)
		return b.spmm(e, s.width, nil, a.matrix(e.Cols, 1), a)
	})
	add("spmm symmetric", someShapes(), func(s aggregation, a *arrays) *job {
		e := s.graph(b, false)
		return b.spmm(e, s.width, a.matrix(e.Rows, 1), a.matrix(e.Cols, 1), a)
	})
	add("spmm weighted", someShapes()[2:6], func(s aggregation, a *arrays) *job {
		e := *s.graph(b, false)
		e.Values = a.matrix(1, e.Entries())
		return b.spmm(&e, s.width, nil, nil, a)
	})
	add("max", someShapes(), func(s aggregation, a *arrays) *job { return b.max(s.graph(b, false), s.width, a) })
	add("max backward", someShapes(), func(s aggregation, a *arrays) *job { return b.maxBackward(s.graph(b, true), s.width, a) })
	return cases
}

// spmm gathers source rows, and with col set (sources × 1) their factors; it streams the structure and row
// (destinations × 1), and writes the output.
func (b *bench) spmm(e *kernel.CSR, width int, row, col *tensor.Matrix, a *arrays) *job {
	x, z := a.matrix(e.Cols, width), a.zeros(e.Rows, width)
	g := along(e, x)
	perEdge := 1
	if col != nil {
		g.matrices, perEdge = append(g.matrices, col), 2
	} else if e.Values != nil {
		perEdge = 2
	}
	return &job{
		run:   func() { b.team.SpMM(z, e, x, kernel.Scales{Row: row, Col: col}, kernel.Replace) },
		flops: float64(perEdge * e.Entries() * width), gathers: []gather{g}, read: structure(e, row), written: 4 * z.Len(),
	}
}

// storedSpMM gathers rows of bfloat16s, of which a word has two, and writes such.
func (b *bench) storedSpMM(e *kernel.CSR, width int, a *arrays) *job {
	words := a.matrix(e.Cols, width/2) // of as many bytes
	x, z := a.element(tensor.BFloat16, e.Cols, width), a.element(tensor.BFloat16, e.Rows, width)
	b.team.Fill(x, .1)
	return &job{
		run:   func() { b.team.SpMM(z, e, x, kernel.Scales{}, kernel.Replace) },
		flops: float64(e.Entries() * width), gathers: []gather{along(e, words)}, read: structure(e), written: 2 * z.Len(),
	}
}

// max gathers source rows, and writes the maximum and the id that gave it.
func (b *bench) max(e *kernel.CSR, width int, a *arrays) *job {
	x := a.matrix(e.Cols, width)
	z, arg := a.zeros(e.Rows, width), a.element(tensor.Int32, e.Rows, width)
	return &job{
		run:   func() { b.team.Max(z, arg, e, x, nil, nil, kernel.Replace) },
		flops: float64(e.Entries() * width), gathers: []gather{along(e, x)}, read: structure(e), written: 8 * z.Len(),
	}
}

// maxBackward gathers, over the transposed matrix, each destination's gradient and its ids, and adds to the
// sources' gradient.
func (b *bench) maxBackward(e *kernel.CSR, width int, a *arrays) *job {
	g, arg, dx := a.matrix(e.Cols, width), a.ids(e.Cols, width, e.Rows), a.zeros(e.Rows, width)
	return &job{
		run:   func() { b.team.MaxBackward(dx, e, g, arg, nil, nil) },
		flops: float64(e.Entries() * width), gathers: []gather{along(e, g, arg)}, read: structure(e), updated: 4 * dx.Len(),
	}
}
