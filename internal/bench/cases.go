package bench

import (
	"fmt"
	"slices"

	"weft/kernel"
	"weft/tensor"
)

// testCase is one kernel on one shape, not yet made.
type testCase struct {
	name, shape string
	build       func(a *arrays) *job
}

// shape is one of work along edges: rows of width columns, those of all heads together, from a matrix that is
// in that place.
type shape struct {
	kind   string
	degree int
	width  int
	place  place
	heads  int // 0: it is no attention
}

// place is what holds a matrix: a core's own cache, the one that cores share, or neither.
type place string

const (
	inCore   place = "core"
	inCache  place = "cache"
	inMemory place = "memory"
)

const (
	coreBytes   = 256 << 10
	cachedBytes = 4 << 20
	// That a kernel gathers from a matrix beyond the caches: rows of the graph are left out above it
	mostBytes = 3 << 30
)

func (s shape) String() string {
	text := fmt.Sprintf("%s E/V=%d width=%d %s", s.kind, s.degree, s.width, s.place)
	if s.heads > 0 {
		text += fmt.Sprintf(" heads=%d", s.heads)
	}
	return text
}

var (
	sums = []shape{
		{uniform, 15, 16, inCache, 0},
		{rmat, 15, 41, inCache, 0},
		{uniform, 50, 64, inCache, 0},
		{rmat, 50, 512, inCache, 0},
		{uniform, 15, 100, inMemory, 0},
		{rmat, 15, 128, inMemory, 0},
		{uniform, 5, 256, inMemory, 0},
	}
	attentions = []shape{
		{uniform, 15, 128, inCache, 4},
		{rmat, 50, 128, inCache, 4},
		{rmat, 15, 41, inCache, 1},
		{uniform, 15, 64, inCache, 8},
		{rmat, 15, 128, inMemory, 4},
		{uniform, 15, 256, inMemory, 4},
	}
	// thin are slices of few columns, as each worker has where these are divided: whole parts of a cache
	// line, and rows that may lie across two. Indices weigh as much as what they name, and a cache line for
	// each weighs more, so that the bound counts lines.
	thin = []shape{
		{uniform, 15, 1, inCore, 0},
		{uniform, 15, 3, inCore, 0},
		{uniform, 15, 4, inCore, 0},
		{uniform, 15, 8, inCore, 0},
		{rmat, 15, 1, inCache, 0},
		{rmat, 15, 4, inCache, 0},
		{rmat, 15, 11, inCache, 0},
		{uniform, 100, 16, inCache, 0},
	}
)

// edgeKernels are those that go along edges.
var edgeKernels = []struct {
	name   string
	shapes []shape
	build  func(b *bench, s shape, a *arrays) *job
}{
	{"spmm sum", sums, (*bench).sum},
	// The mean's factor is one of the destination's row, in its backward pass one of the source's.
	{"spmm mean backward", sums, func(b *bench, s shape, a *arrays) *job {
		e := s.graph(b, true)
		return b.spmm(e, s.width, nil, a.matrix(e.Cols, 1), a)
	}},
	{"max", sums, (*bench).max},
	{"max backward", sums, (*bench).maxBackward},
	{"attention", attentions, of(gat, (*bench).attend)},
	{"attention backward", attentions, of(gat, (*bench).attendBackward)},
	{"attention v2", attentions, of(gatV2, (*bench).attend)},
	{"attention v2 backward", attentions, of(gatV2, (*bench).attendBackward)},
	{"thin sum", thin, func(b *bench, s shape, a *arrays) *job { return byLines(b.sum(s, a)) }},
	{"thin attention backward", thin, func(b *bench, s shape, a *arrays) *job {
		s.heads = 1
		return byLines(b.attendBackward(s, gat, a))
	}},
}

// scores are those of an attention.
type scores bool

const (
	gat   scores = false
	gatV2 scores = true
)

// of builds an attention with these scores.
func of(v2 scores, build func(*bench, shape, scores, *arrays) *job) func(*bench, shape, *arrays) *job {
	return func(b *bench, s shape, a *arrays) *job { return build(b, s, v2, a) }
}

func (b *bench) cases() (all []testCase) {
	add := func(name, shape string, build func(a *arrays) *job) {
		all = append(all, testCase{name, shape, build})
	}
	for _, k := range edgeKernels {
		shapes := k.shapes
		if b.Quick {
			shapes = []shape{shapes[0], shapes[len(shapes)-1]}
		}
		for _, s := range shapes {
			add(k.name, s.String(), func(a *arrays) *job { return k.build(b, s, a) })
		}
	}
	for _, k := range productKernels {
		shapes := products
		if b.Quick {
			shapes = []product{{2048, 256, 256}, {4096, 41, 64}}
		}
		for _, p := range shapes {
			add(k.name, p.String(), func(a *arrays) *job { return k.build(b.team, p, a) })
		}
	}
	for _, k := range rowKernels {
		shapes := [][2]int{{4096, 256}, {b.large / 4 / 256, 256}, {b.large / 4 / 41, 41}}
		if b.Quick {
			shapes = [][2]int{{512, 41}}
		}
		for _, s := range shapes {
			size := fmt.Sprintf("%d×%d", s[0], s[1])
			add(k.name, size, func(a *arrays) *job { return k.build(b.team, s[0], s[1], a) })
		}
	}
	return all
}

// graph is the shape's graph; with transposed set, the matrix of its backward pass.
func (s shape) graph(b *bench, transposed bool) *kernel.CSR {
	whole := s.sparse(b)
	a := whole.in
	if transposed {
		a = whole.transposed()
	}
	if n := max(1, mostBytes/4/s.width/s.degree); n < a.Rows {
		return firstRows(a, n)
	}
	return a
}

// square is the shape's graph and its transpose. Rows that are left out of the graph are left out of both.
func (s shape) square(b *bench) (e, t *kernel.CSR) {
	e = s.graph(b, false)
	g := s.sparse(b)
	if e.Rows == g.in.Rows {
		return e, g.transposed()
	}
	if g.part == nil || g.part.Cols != e.Rows {
		g.part = b.team.Transpose(e, tensor.Graph)
	}
	return e, g.part
}

// sparse is the whole graph of which the shape has perhaps the first rows.
func (s shape) sparse(b *bench) *sparse {
	size := b.large
	switch s.place {
	case inCore:
		size = min(coreBytes, b.large/16)
	case inCache:
		size = min(cachedBytes, b.large/4)
	}
	return b.graph(graphKey{s.kind, max(64, powerOfTwo(size/4/s.width, s.place == inMemory)), s.degree})
}

// structure is what a kernel streams of a matrix besides the rows that its indices name.
func structure(a *kernel.CSR, more ...*tensor.Matrix) []*tensor.Matrix {
	s := []*tensor.Matrix{a.Indptr, a.Indices}
	for _, m := range more {
		if m != nil {
			s = append(s, m)
		}
	}
	return s
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

// sum is the sum over in-neighbours.
func (b *bench) sum(s shape, a *arrays) *job { return b.spmm(s.graph(b, false), s.width, nil, nil, a) }

// spmm gathers source rows, and with col set (sources × 1) their factors; it streams the structure and row
// (destinations × 1), and writes the output.
func (b *bench) spmm(e *kernel.CSR, width int, row, col *tensor.Matrix, a *arrays) *job {
	x, z := a.matrix(e.Cols, width), a.zeros(e.Rows, width)
	g := along(e, x)
	perEdge := 1
	if col != nil {
		g.matrices, perEdge = append(g.matrices, col), 2
	}
	return &job{
		run:   func() { b.team.SpMM(z, e, x, kernel.Scales{Row: row, Col: col}, kernel.Replace) },
		flops: float64(perEdge * e.Entries() * width), gathers: []gather{g},
		read: structure(e, row), written: 4 * z.Len(),
	}
}

// max gathers source rows, and writes the maximum and the id that gave it.
func (b *bench) max(s shape, a *arrays) *job {
	e := s.graph(b, false)
	x := a.matrix(e.Cols, s.width)
	z, arg := a.zeros(e.Rows, s.width), a.element(tensor.Int32, e.Rows, s.width)
	return &job{
		run:   func() { b.team.Max(z, arg, e, x, nil, nil, kernel.Replace) },
		flops: float64(e.Entries() * s.width), gathers: []gather{along(e, x)},
		read: structure(e), written: 8 * z.Len(),
	}
}

// maxBackward gathers, over the transposed matrix, each destination's gradient and its ids, and adds to the
// sources' gradient.
func (b *bench) maxBackward(s shape, a *arrays) *job {
	e := s.graph(b, true)
	g, arg, dx := a.matrix(e.Cols, s.width), a.ids(e.Cols, s.width, e.Rows), a.zeros(e.Rows, s.width)
	return &job{
		run:   func() { b.team.MaxBackward(dx, e, g, arg, nil, nil) },
		flops: float64(e.Entries() * s.width), gathers: []gather{along(e, g, arg)},
		read: structure(e), updated: 4 * dx.Len(),
	}
}

// attention is the kernel's description of a graph attention layer between as many rows as e has.
func (s shape) attention(e *kernel.CSR, v2 scores, a *arrays) kernel.Attention {
	k := kernel.Attention{Heads: s.heads, Width: s.width / s.heads, Slope: 0.2, Whole: true}
	k.Source = a.matrix(e.Cols, s.width)
	if v2 {
		k.Target, k.A = a.matrix(e.Rows, s.width), a.matrix(1, s.width)
	} else {
		k.SourceScore, k.TargetScore = a.matrix(e.Cols, s.heads), a.matrix(e.Rows, s.heads)
	}
	return k
}

// attend gathers source rows, and for GATv1 their scores; it streams the structure and what stands for the
// destination (GATv1 its scores, GATv2 its row) and writes the output and the log-sum-exp. There is one
// exponential for each edge and head, and GATv2 has one term of a score for each edge and column: unlike
// GATv1's, its scores are sums over columns that belong to the edge.
//
// Operations per edge and column: 2 for the weighted sum; GATv2 5 more for a·LeakyReLU(x+y).
func (b *bench) attend(s shape, v2 scores, a *arrays) *job {
	e := s.graph(b, false)
	k := s.attention(e, v2, a)
	state := a.state(e.Rows, s.heads, k.Width)
	j := &job{
		run:     func() { b.team.Attend(state, k, e, nil, kernel.Last) },
		flops:   float64(2 * e.Entries() * s.width),
		written: 4 * (state.Out.Len() + state.Maximum.Len()), exps: e.Entries() * s.heads,
	}
	if v2 {
		j.flops += float64(5 * e.Entries() * s.width)
		j.scores = e.Entries() * s.width
		j.gathers, j.read = []gather{along(e, k.Source)}, structure(e, k.Target)
	} else {
		j.gathers, j.read = []gather{along(e, k.Source, k.SourceScore)}, structure(e, k.TargetScore)
	}
	return j
}

// attendBackward goes over the edges and over their transpose, and has one exponential for each edge
// and head, and GATv2's terms of scores, both times.
//
// By destination, for the gradient of what stands for it: gathers source rows (and GATv1's source scores),
// and streams the structure, the destination's row of the gradient g, its log-sum-exp and ⟨g, output⟩, and
// GATv1's scores or GATv2's row; updates that gradient.
//
// By source, for the gradient of its row: gathers the destinations' g, log-sum-exp and ⟨g, output⟩, with
// GATv1's scores (two or three numbers per head) or GATv2's rows; streams the transposed structure, the
// source's row and scores; updates their gradients.
//
// Of the source rows GATv1 reads those on one side of LeakyReLU's knee, where destinations have some edges
// and a head a cache line of columns. Which these are depends on the scores, so the bound and the operations
// count all: a fraction above 1 is possible.
//
// Operations per edge and column: three weighted sums, 6. GATv2 has two dot products and a weighted sum
// instead, a·LeakyReLU(x+y) both times, and weighted sums of slopes and of LeakyReLU, 18 more.
func (b *bench) attendBackward(s shape, v2 scores, a *arrays) *job {
	e, t := s.square(b)
	k := s.attention(e, v2, a)
	// Log-sum-exps are above all scores
	g, gOut, logSum := a.matrix(e.Rows, s.width), a.matrix(e.Rows, s.heads), a.filled(e.Rows, s.heads, 4)
	d := kernel.AttentionGradients{Source: a.zeros(e.Cols, s.width)}
	numbers := 3
	if v2 {
		numbers = 2
	}
	packed := a.matrix(e.Rows, numbers*s.heads)
	j := &job{
		run: func() {
			b.team.AttendBackward(d, k, e, t, nil, kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: logSum})
		},
		flops: float64(6 * e.Entries() * s.width), exps: 2 * e.Entries() * s.heads,
		read: append(structure(e, g, gOut, logSum), structure(t, k.Source)...), updated: 4 * d.Source.Len(),
	}
	if v2 {
		d.Target, d.A = a.zeros(e.Rows, s.width), a.zeros(1, s.width)
		j.flops += float64(18 * e.Entries() * s.width)
		j.scores = 2 * e.Entries() * s.width
		j.gathers = []gather{along(e, k.Source), along(t, g, k.Target, packed)}
		j.read, j.updated = append(j.read, k.Target), j.updated+4*d.Target.Len()
	} else {
		d.SourceScore, d.TargetScore = a.zeros(e.Cols, s.heads), a.zeros(e.Rows, s.heads)
		j.gathers = []gather{along(e, k.Source, k.SourceScore), along(t, g, packed)}
		j.read, j.updated = append(j.read, k.SourceScore, k.TargetScore),
			j.updated+4*(d.SourceScore.Len()+d.TargetScore.Len())
	}
	return j
}

// rowKernels are those that go over a matrix row by row. Their bound is what they stream: each is told what
// it reads, writes, and updates in place. None of them draws random numbers here: what dropout costs is
// arithmetic, which this bound does not know.
var rowKernels = []struct {
	name  string
	build func(team *kernel.Team, rows, cols int, a *arrays) *job
}{
	{"bias and relu", func(team *kernel.Team, rows, cols int, a *arrays) *job {
		x, bias := a.matrix(rows, cols), a.matrix(1, cols)
		return &job{
			run:   func() { team.Finish(x, x, bias, kernel.ReLU, kernel.Mask{}) },
			flops: 2 * elements(x), updated: 4 * x.Len(),
		}
	}},
	{"normalize", func(team *kernel.Team, rows, cols int, a *arrays) *job {
		x, z, n := a.matrix(rows, cols), a.zeros(rows, cols), a.normalization(cols)
		return &job{
			run: func() { team.Normalize(z, x, n, kernel.ReLU, kernel.Mask{}) }, flops: 4 * elements(x),
			read: []*tensor.Matrix{x}, written: 4 * z.Len(),
		}
	}},
	{"normalize backward", func(team *kernel.Team, rows, cols int, a *arrays) *job {
		g, x, n, row := a.matrix(rows, cols), a.matrix(rows, cols), a.normalization(cols), a.matrix(1, cols)
		return &job{
			run: func() { team.NormalizeBackward(g, g, x, n, row, row) }, flops: 5 * elements(x),
			read: []*tensor.Matrix{x}, updated: 4 * g.Len(),
		}
	}},
	{"adam", func(team *kernel.Team, rows, cols int, a *arrays) *job {
		w, g, m, v := a.matrix(rows, cols), a.matrix(rows, cols), a.zeros(rows, cols), a.zeros(rows, cols)
		step := kernel.AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Clip: 1, Step: 1}
		return &job{
			run:   func() { team.Adam(w, g, m, v, step) },
			flops: 12 * elements(w), read: []*tensor.Matrix{g}, updated: 12 * w.Len(),
		}
	}},
}

func elements(m *tensor.Matrix) float64 { return float64(m.Len()) }
