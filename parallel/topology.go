package parallel

import (
	"math"
	"slices"

	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// topology is one direction of a relation's edges as one worker holds it: those that lead into its own rows, in blocks by where they
// come from. Self loops are taken out of the matrices and counted per vertex, so that adding, replacing or keeping them is a choice of
// each aggregation.
type topology struct {
	rows   int
	blocks []*block // first the edges among the worker's own rows, then those from other workers' rows in the order of the sweep
	needed []*piece // own rows that other workers need, in the order in which they go there

	loops     *tensor.Matrix // Int32, rows × 1: stored self loops of each vertex; nil: none
	loopCount int            // of all vertices
	loopStart []int64        // len rows+1: where a vertex's loops begin in loopW; nil: no weights
	loopW     []float32      // the weights of the self loops, vertex by vertex
	one       *tensor.Matrix // Int32, rows × 1 of ones, made when first asked for
}

// block is the edges from some rows of one worker into the rows of this one: the columns of its matrix are those source rows. With
// several workers a block holds the edges from one piece of the other's rows that this worker needs.
type block struct {
	peer int            // whose rows the sources are
	in   *kernel.CSR    // rows × sources; values are the edge weights, nil without
	out  *kernel.CSR    // its transpose
	ids  *tensor.Matrix // Int32, the sources' vertices in the original graph; nil: their row numbers
	// targets (Int32, 1 × n) are the own rows that the rows of in are, where only few of them have edges; nil: they are all.
	targets *tensor.Matrix
}

// target is the own row that row i of the block's matrix is.
func (b *block) target(i int) int {
	if b.targets == nil {
		return i
	}
	return int(b.targets.Int32s()[i])
}

// fewTargets: a block that leads into less than one of so many own rows lists them, and so its memory is in proportion to its edges.
const fewTargets = 4

// piece is a list of own rows that go to another worker in one message.
type piece struct {
	peer int
	list *tensor.Matrix // Int32, 1 × n
}

const (
	// piecesOfPartition is how many messages the rows of one partition take at most: a worker holds a few pieces of others' rows at
	// a time, and so less than one partition's.
	piecesOfPartition = 6
	// leastPiece is how many rows are never cut further.
	leastPiece = 512
)

// pieceRows is how many rows a piece has at most, of a partition with so many rows. Both ends compute it.
func pieceRows(partition int) int {
	return max(leastPiece, (partition+piecesOfPartition-1)/piecesOfPartition)
}

// pieces calls each for the pieces of n needed rows, of a partition with so many.
func pieces(n, partition int, each func(lo, hi int)) {
	step := pieceRows(partition)
	for lo := 0; lo < n; lo += step {
		each(lo, min(lo+step, n))
	}
}

// newTopology copies the edges into the team's memory. The sources of r are positions in the order of the partitions, of which
// partition q holds starts[q] … starts[q+1]−1; r's rows are those of partition me. halo are the rows that each other partition has to
// send, ascending, nil where the team only plans. copied, unless nil, is called when r is not needed any more.
func newTopology(team *kernel.Team, r *graph.Relation, starts []int, me int, copied func()) (t *topology, halo [][]int32) {
	n := len(r.Indptr) - 1
	k := len(starts) - 1
	t = &topology{rows: n, blocks: []*block{nil}}
	halo = make([][]int32, k)
	remote := make([][]*block, k)
	s := &span{r: r, from: make([]int64, n), to: slices.Clone(r.Indptr[:n])}
	for q := range k {
		s.next(int32(starts[q+1]))
		if q == me {
			t.blocks[0] = t.newLocal(team, s, int32(starts[q]))
		} else {
			remote[q], halo[q] = newRemote(team, s, q, starts[q], starts[q+1])
		}
	}
	if copied != nil {
		copied()
	}
	for round := 1; round < k; round++ {
		t.blocks = append(t.blocks, remote[(me-round+k)%k]...)
	}
	for _, b := range t.blocks {
		b.out = team.Transpose(b.in, tensor.Graph)
	}
	return t, halo
}

// local is the block of the edges among the worker's own rows.
func (t *topology) local() *block { return t.blocks[0] }

// alone reports whether no rows come or go: the worker is the only one, or its partition has no edges to others.
func (t *topology) alone() bool { return len(t.blocks)+len(t.needed) == 1 }

// remote are the blocks of the edges from other workers' rows, in the order of the sweep; none with one worker.
func (t *topology) remote() []*block { return t.blocks[1:] }

// span is, in each row of a relation, the edges from one partition: as the sources of a row ascend, they stand side by side.
type span struct {
	r        *graph.Relation
	from, to []int64
}

// next moves on to the sources from the end of the last span to below end.
func (s *span) next(end int32) {
	for v := range s.to {
		k := s.to[v]
		s.from[v] = k
		for k < s.r.Indptr[v+1] && s.r.Sources[k] < end {
			k++
		}
		s.to[v] = k
	}
}

// each calls f for every edge of the span.
func (s *span) each(f func(v int, k int64)) {
	for v := range s.to {
		for k := s.from[v]; k < s.to[v]; k++ {
			f(v, k)
		}
	}
}

// newLocal is the block of the worker's own edges; it also sets the loops.
func (t *topology) newLocal(team *kernel.Team, s *span, start int32) *block {
	mem := team.Memory
	inner, all := 0, 0
	loops := make([]int32, t.rows)
	s.each(func(v int, k int64) {
		if all++; s.r.Sources[k]-start == int32(v) {
			loops[v]++
		} else {
			inner++
		}
	})
	b := &block{in: newCSR(team, t.rows, t.rows, inner, s.r.Weights != nil)}
	t.loopCount = all - inner
	if inner < all {
		t.loops = mem.NewElement(tensor.Graph, tensor.Int32, t.rows, 1)
		t.loopStart, t.loopW = weightsOfLoops(s, start, loops)
	}
	if team.Planning() {
		return b
	}
	if t.loops != nil {
		copy(t.loops.Int32s(), loops)
	}
	fill := newFiller(b.in)
	s.each(func(v int, k int64) {
		if source := s.r.Sources[k] - start; source != int32(v) {
			fill.add(v, source, weight(s.r, k))
		}
	})
	fill.finish()
	return b
}

// weightsOfLoops are the weights of the self loops, and where each vertex's begin; nothing where there are no weights.
func weightsOfLoops(s *span, start int32, loops []int32) (starts []int64, weights []float32) {
	if s.r.Weights == nil {
		return nil, nil
	}
	starts = make([]int64, len(loops)+1)
	for v, n := range loops {
		starts[v+1] = starts[v] + int64(n)
	}
	s.each(func(v int, k int64) {
		if s.r.Sources[k]-start == int32(v) {
			weights = append(weights, s.r.Weights[k])
		}
	})
	return starts, weights
}

// newRemote is the edges from partition q, in a block for each piece of its rows that are needed here, and the list of these rows.
func newRemote(team *kernel.Team, s *span, q, start, end int) (blocks []*block, needed []int32) {
	slot := make([]int32, end-start+1) // of each row of q: how many needed rows stand before it
	s.each(func(_ int, k int64) { slot[int(s.r.Sources[k])-start+1] = 1 })
	for row := range end - start {
		if slot[row+1] > 0 {
			needed = append(needed, int32(row))
		}
		slot[row+1] += slot[row]
	}
	step := pieceRows(end - start)
	at := func(k int64) int { return int(slot[int(s.r.Sources[k])-start]) }
	counts := make([]pieceCount, len(needed)/step+1)
	s.each(func(v int, k int64) { counts[at(k)/step].add(v) })
	mem := team.Memory
	var fillers []*filler
	pieces(len(needed), end-start, func(lo, hi int) {
		count := &counts[lo/step]
		b := &block{peer: q, ids: mem.NewElement(tensor.Graph, tensor.Int32, 1, hi-lo)}
		rows := len(s.to)
		if count.rows*fewTargets < rows {
			rows = count.rows
			b.targets = mem.NewElement(tensor.Graph, tensor.Int32, 1, rows)
		}
		b.in = newCSR(team, rows, hi-lo, count.edges, s.r.Weights != nil)
		blocks = append(blocks, b)
		if !team.Planning() {
			f := newFiller(b.in)
			if b.targets != nil {
				f.targets = b.targets.Int32s()
			}
			fillers = append(fillers, f)
		}
	})
	if team.Planning() {
		return blocks, nil
	}
	s.each(func(v int, k int64) { fillers[at(k)/step].add(v, int32(at(k)%step), weight(s.r, k)) })
	for _, f := range fillers {
		f.finish()
	}
	return blocks, needed
}

// pieceCount counts a block's edges and the rows that they lead into, of edges row by row.
type pieceCount struct {
	edges, rows int
	last        int // the row of the last edge, from 1
}

func (c *pieceCount) add(row int) {
	c.edges++
	if c.last != row+1 {
		c.rows++
		c.last = row + 1
	}
}

func newCSR(team *kernel.Team, rows, cols, entries int, weighted bool) *kernel.CSR {
	mem := team.Memory
	a := &kernel.CSR{
		Rows: rows, Cols: cols, Indptr: mem.NewElement(tensor.Graph, tensor.Int64, 1, rows+1),
		Indices: mem.NewElement(tensor.Graph, tensor.Int32, 1, entries),
	}
	if weighted {
		a.Values = mem.New(tensor.Graph, 1, entries)
	}
	return a
}

// filler writes the entries of a matrix, row by row.
type filler struct {
	a       *kernel.CSR
	indptr  []int64
	columns []int32
	values  []float32
	targets []int32 // the rows that have entries, where only these are rows of the matrix
	listed  int     // how many of them have come
	row, at int
}

func newFiller(a *kernel.CSR) *filler {
	f := &filler{a: a, indptr: a.Indptr.Int64s(), columns: a.Indices.Int32s()}
	if a.Values != nil {
		f.values = a.Values.Floats()
	}
	return f
}

// add appends an entry to a row, which is not before the last one's; the value counts where the matrix has values.
func (f *filler) add(row int, column int32, value float32) {
	if f.targets != nil {
		if f.listed == 0 || f.targets[f.listed-1] != int32(row) {
			f.targets[f.listed] = int32(row)
			f.listed++
		}
		row = f.listed - 1
	}
	f.upTo(row)
	f.columns[f.at] = column
	if f.values != nil {
		f.values[f.at] = value
	}
	f.at++
}

// weight is that of edge k, 1 where the edges have none.
func weight(r *graph.Relation, k int64) float32 {
	if r.Weights == nil {
		return 1
	}
	return r.Weights[k]
}

// upTo begins the rows up to the given one.
func (f *filler) upTo(row int) {
	for ; f.row <= row; f.row++ {
		f.indptr[f.row] = int64(f.at)
	}
}

func (f *filler) finish() {
	f.upTo(f.a.Rows)
	f.a.FindHubs()
}

// reversed is the same relation with every edge turned around, of a worker that holds all of it.
func (t *topology) reversed() *topology {
	r := *t
	r.blocks = []*block{{in: t.local().out, out: t.local().in}}
	return &r
}

// oneLoop is a self loop for each vertex.
func (t *topology) oneLoop(team *kernel.Team) *tensor.Matrix {
	if t.one == nil {
		t.one = team.Memory.NewElement(tensor.Graph, tensor.Int32, t.rows, 1)
		team.Fill(t.one, 1)
	}
	return t.one
}

// loopMatrix is the stored self loops as entries of a matrix; or one for each vertex.
func (t *topology) loopMatrix(team *kernel.Team, one bool) *kernel.CSR {
	entries := t.loopCount
	if one {
		entries = t.rows
	}
	a := newCSR(team, t.rows, t.rows, entries, t.local().in.Values != nil)
	if team.Planning() {
		return a
	}
	fill := newFiller(a)
	for v := range t.rows {
		switch {
		case one:
			fill.add(v, int32(v), 1)
		case t.loopW == nil:
			for range t.loopsOf(v) {
				fill.add(v, int32(v), 1)
			}
		default:
			for _, w := range t.loopWeights(v) {
				fill.add(v, int32(v), w)
			}
		}
	}
	fill.finish()
	return a
}

func (t *topology) loopsOf(v int) int {
	if t.loops == nil {
		return 0
	}
	return int(t.loops.Int32s()[v])
}

// loopWeights are the weights of a vertex's self loops, for a relation with weights.
func (t *topology) loopWeights(v int) []float32 { return t.loopW[t.loopStart[v]:t.loopStart[v+1]] }

// inDegrees are the numbers of edges into each own row, or with weighted set the sums of their weights, without self loops.
func (t *topology) inDegrees(weighted bool) []float64 {
	sums := make([]float64, t.rows)
	for _, b := range t.blocks {
		indptr := b.in.Indptr.Int64s()
		for i := range b.in.Rows {
			sum := &sums[b.target(i)]
			if !weighted || b.in.Values == nil {
				*sum += float64(indptr[i+1] - indptr[i])
				continue
			}
			for _, w := range b.in.Values.Floats()[indptr[i]:indptr[i+1]] {
				*sum += float64(w)
			}
		}
	}
	return sums
}

// column fills a rows × 1 matrix that belongs to the graph's structure.
func (t *topology) column(team *kernel.Team, value func(v int) float64) *tensor.Matrix {
	m := team.Memory.New(tensor.Graph, t.rows, 1)
	if team.Planning() {
		return m
	}
	for v := range m.Floats() {
		m.Floats()[v] = float32(value(v))
	}
	return m
}

// degreeColumn is column for values that follow from each row's in-degree.
func (t *topology) degreeColumn(team *kernel.Team, weighted bool, value func(v int, degree float64) float64) *tensor.Matrix {
	var degrees []float64
	if !team.Planning() {
		degrees = t.inDegrees(weighted)
	}
	return t.column(team, func(v int) float64 { return value(v, degrees[v]) })
}

// ofTargets is a column over own rows as a column over the rows of the block's matrix.
func (b *block) ofTargets(team *kernel.Team, column *tensor.Matrix) *tensor.Matrix {
	if b.targets == nil || column == nil {
		return column
	}
	m := team.Memory.New(tensor.Graph, b.in.Rows, 1)
	team.Gather(m, column, b.targets)
	return m
}

// pick is the rows of m, of which there is one for each own row, that the rows of the block's matrix are; release gives back what it
// takes for that.
func (b *block) pick(team *kernel.Team, m *tensor.Matrix) (rows *tensor.Matrix, release func()) {
	if b.targets == nil || m == nil {
		return m, func() {}
	}
	rows = team.Picked(m, b.targets)
	return rows, rows.Release
}

// onto lets compute add to the own rows of z, of which there is one for each own row, that the block leads into; with accumulate not set
// it overwrites what it is given.
func (b *block) onto(team *kernel.Team, z *tensor.Matrix, compute func(z *tensor.Matrix, accumulate bool)) {
	if b.targets == nil || z == nil {
		compute(z, true)
		return
	}
	some := team.Memory.New(tensor.Buffers, b.in.Rows, z.Cols)
	compute(some, false)
	team.ScatterAdd(z, some, b.targets)
	some.Release()
}

// inverse is 1/x, 0 for 0.
func inverse(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return 1 / x
}

func inverseRoot(x float64) float64 { return math.Sqrt(inverse(x)) }
