// Package edges holds what a worker knows of a graph's structure: the edges into its rows, in blocks by where
// they come from, the lists of rows that go to other workers, and linear aggregations as matrices over these
// blocks.
package edges

import (
	"math"
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// Edges is one direction of a relation as one worker holds it: the edges that lead into its own rows, in
// blocks by where they come from. Self loops are taken out of the matrices and counted per vertex, so that
// adding, replacing or keeping them is a choice of each aggregation.
type Edges struct {
	Rows int            // own rows
	IDs  *tensor.Matrix // Int32, 1 × Rows: their vertices in the original graph; nil: their row numbers
	// Blocks: first the edges among own rows, then those from other workers' rows in the order of the sweep
	Blocks  []*Block
	Needed  []*Piece       // own rows that other workers need, in the order in which they go there
	MostIn  int            // the rows of the largest piece that comes
	MostOut int            // the rows of the largest piece that goes
	Loops   *tensor.Matrix // Int32, Rows × 1: stored self loops of each vertex; nil: none

	team      *kernel.Team
	comm      *comm.Comm // the workers that hold the other rows
	loopCount int        // of all vertices
	loopStart []int64    // len Rows+1: where a vertex's loops begin in loopW; nil: no weights
	loopW     []float32  // the weights of the self loops, vertex by vertex

	// Made when first asked for.
	one        *tensor.Matrix // Int32, Rows × 1 of ones
	operators  map[gnn.Reduce]Operator
	shares     map[bool]*tensor.Matrix // 1/in-degree of each own row; true: with one self loop for each
	loopBlocks map[bool]*Block         // self loops as edges; true: one for each vertex
}

// Block is the edges from some rows of one worker into the rows of this one: the columns of its matrix are
// those source rows. With several workers a block holds the edges from one piece of the other's rows that
// this worker needs.
type Block struct {
	Peer int            // whose rows the sources are
	In   *kernel.CSR    // rows × sources; values are the edge weights, nil without
	Out  *kernel.CSR    // its transpose
	IDs  *tensor.Matrix // Int32, the sources' vertices in the original graph; nil: their row numbers
	// Targets (Int32, 1 × n) are the own rows that the rows of In are, where only few of them have edges;
	// nil: they are all.
	Targets *tensor.Matrix
}

// Target is the own row that row i of the block's matrix is.
func (b *Block) Target(i int) int {
	if b.Targets == nil {
		return i
	}
	return int(b.Targets.Int32s()[i])
}

// fewTargets: a block that leads into less than one of so many own rows lists them, and so its memory is in
// proportion to its edges.
const fewTargets = 4

// Piece is a list of own rows that go to another worker in one message.
type Piece struct {
	Peer int
	Rows *tensor.Matrix // Int32, 1 × n
}

const (
	// piecesOfPartition is how many messages the rows of one partition take at most: a worker holds a few
	// pieces of others' rows at a time, and so less than one partition's.
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

// Source is where a worker reads edges from, in a direction.
type Source struct {
	// Relation: its rows are the worker's own; its sources are positions in the order of the partitions
	Relation *graph.Relation
	Starts   []int // len K+1: the first position of each of K partitions, and V
	Me       int   // whose rows they are
	// K × K: [p][q] is how many rows partition p needs of partition q; nil with one worker
	HaloRows [][]int
	// Int32, 1 × rows: the own rows' vertices in the original graph; nil: their row numbers
	IDs    *tensor.Matrix
	Copied func() // called when Relation is not needed any more; nil: not
}

// New copies edges into the team's memory. The workers of all partitions, which c connects (where the team
// only plans, one made of comm.Plan), call it together, and tell each other which of their rows they need:
// O(halo) numbers.
func New(team *kernel.Team, c *comm.Comm, s Source) (*Edges, error) {
	n, k := len(s.Relation.Indptr)-1, len(s.Starts)-1
	e := &Edges{
		Rows: n, IDs: s.IDs, Blocks: []*Block{nil}, team: team, comm: c,
		operators: map[gnn.Reduce]Operator{}, shares: map[bool]*tensor.Matrix{}, loopBlocks: map[bool]*Block{},
	}
	// The rows that each other partition has to send, ascending, nil where the team only plans
	halo := make([][]int32, k)
	remote := make([][]*Block, k)
	at := &span{r: s.Relation, from: make([]int64, n), to: slices.Clone(s.Relation.Indptr[:n])}
	for q := range k {
		at.next(int32(s.Starts[q+1]))
		if q == s.Me {
			e.Blocks[0] = e.newLocal(at, int32(s.Starts[q]))
		} else {
			remote[q], halo[q] = newRemote(team, at, q, s.Starts[q], s.Starts[q+1])
		}
	}
	if s.Copied != nil {
		s.Copied()
	}
	for round := 1; round < k; round++ {
		e.Blocks = append(e.Blocks, remote[(s.Me-round+k)%k]...)
	}
	for _, b := range e.Blocks {
		b.Out = team.Transpose(b.In, tensor.Graph)
	}
	e.Local().IDs = s.IDs
	if k == 1 {
		return e, nil
	}
	if err := e.connect(s.Me, halo, s.HaloRows); err != nil {
		return nil, err
	}
	for _, b := range e.Remote() {
		e.MostIn = max(e.MostIn, b.In.Cols)
	}
	for _, p := range e.Needed {
		e.MostOut = max(e.MostOut, p.Rows.Cols)
	}
	return e, nil
}

// Local is the block of the edges among the worker's own rows.
func (e *Edges) Local() *Block { return e.Blocks[0] }

// Alone reports whether no rows come or go: the worker is the only one, or its partition has no edges to
// others.
func (e *Edges) Alone() bool { return len(e.Blocks)+len(e.Needed) == 1 }

// Remote are the blocks of the edges from other workers' rows, in the order of the sweep; none with one
// worker.
func (e *Edges) Remote() []*Block { return e.Blocks[1:] }

// span is, in each row of a relation, the edges from one partition: as the sources of a row ascend, they
// stand side by side.
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
func (e *Edges) newLocal(s *span, start int32) *Block {
	team, mem := e.team, e.team.Memory
	inner, all := 0, 0
	loops := make([]int32, e.Rows)
	s.each(func(v int, k int64) {
		if all++; s.r.Sources[k]-start == int32(v) {
			loops[v]++
		} else {
			inner++
		}
	})
	b := &Block{In: newCSR(team, e.Rows, e.Rows, inner, s.r.Weights != nil)}
	e.loopCount = all - inner
	if inner < all {
		e.Loops = mem.NewElement(tensor.Graph, tensor.Int32, e.Rows, 1)
		e.loopStart, e.loopW = weightsOfLoops(s, start, loops)
	}
	if team.Planning() {
		return b
	}
	if e.Loops != nil {
		copy(e.Loops.Int32s(), loops)
	}
	fill := newFiller(b.In)
	s.each(func(v int, k int64) {
		if source := s.r.Sources[k] - start; source != int32(v) {
			fill.add(v, source, weight(s.r, k))
		}
	})
	fill.finish()
	return b
}

// weightsOfLoops are the weights of the self loops, and where each vertex's begin; nothing where there are no
// weights.
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

// newRemote is the edges from partition q, in a block for each piece of its rows that are needed here, and
// the list of these rows.
func newRemote(team *kernel.Team, s *span, q, start, end int) (blocks []*Block, needed []int32) {
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
		b := &Block{Peer: q, IDs: mem.NewElement(tensor.Graph, tensor.Int32, 1, hi-lo)}
		rows := len(s.to)
		if count.rows*fewTargets < rows {
			rows = count.rows
			b.Targets = mem.NewElement(tensor.Graph, tensor.Int32, 1, rows)
		}
		b.In = newCSR(team, rows, hi-lo, count.edges, s.r.Weights != nil)
		blocks = append(blocks, b)
		if !team.Planning() {
			f := newFiller(b.In)
			if b.Targets != nil {
				f.targets = b.Targets.Int32s()
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

// add appends an entry to a row, which is not before the last one's; the value counts where the matrix has
// values.
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

// Reversed is the same relation with every edge turned around, of a worker that holds all of it.
func (e *Edges) Reversed() *Edges {
	r := *e
	r.Blocks = []*Block{{In: e.Local().Out, Out: e.Local().In, IDs: e.Local().IDs}}
	r.one, r.operators, r.shares, r.loopBlocks = nil, map[gnn.Reduce]Operator{}, map[bool]*tensor.Matrix{}, map[bool]*Block{}
	return &r
}

// OneLoop is a self loop for each vertex: Int32, Rows × 1 of ones.
func (e *Edges) OneLoop() *tensor.Matrix {
	if e.one == nil {
		e.one = e.team.Memory.NewElement(tensor.Graph, tensor.Int32, e.Rows, 1)
		e.team.Fill(e.one, 1)
	}
	return e.one
}

// loopMatrix is the stored self loops as entries of a matrix; or one for each vertex.
func (e *Edges) loopMatrix(one bool) *kernel.CSR {
	team := e.team
	entries := e.loopCount
	if one {
		entries = e.Rows
	}
	a := newCSR(team, e.Rows, e.Rows, entries, e.Local().In.Values != nil)
	if team.Planning() {
		return a
	}
	fill := newFiller(a)
	for v := range e.Rows {
		switch {
		case one:
			fill.add(v, int32(v), 1)
		case e.loopW == nil:
			for range e.loopsOf(v) {
				fill.add(v, int32(v), 1)
			}
		default:
			for _, w := range e.loopWeights(v) {
				fill.add(v, int32(v), w)
			}
		}
	}
	fill.finish()
	return a
}

func (e *Edges) loopsOf(v int) int {
	if e.Loops == nil {
		return 0
	}
	return int(e.Loops.Int32s()[v])
}

// loopWeights are the weights of a vertex's self loops, for a relation with weights.
func (e *Edges) loopWeights(v int) []float32 { return e.loopW[e.loopStart[v]:e.loopStart[v+1]] }

// inDegrees are the numbers of edges into each own row, or with weighted set the sums of their weights,
// without self loops.
func (e *Edges) inDegrees(weighted bool) []float64 {
	sums := make([]float64, e.Rows)
	for _, b := range e.Blocks {
		indptr := b.In.Indptr.Int64s()
		for i := range b.In.Rows {
			sum := &sums[b.Target(i)]
			if !weighted || b.In.Values == nil {
				*sum += float64(indptr[i+1] - indptr[i])
				continue
			}
			for _, w := range b.In.Values.Floats()[indptr[i]:indptr[i+1]] {
				*sum += float64(w)
			}
		}
	}
	return sums
}

// column fills a rows × 1 matrix that belongs to the graph's structure.
func (e *Edges) column(value func(v int) float64) *tensor.Matrix {
	m := e.team.Memory.New(tensor.Graph, e.Rows, 1)
	if e.team.Planning() {
		return m
	}
	for v := range m.Floats() {
		m.Floats()[v] = float32(value(v))
	}
	return m
}

// degreeColumn is column for values that follow from each row's in-degree.
func (e *Edges) degreeColumn(weighted bool, value func(v int, degree float64) float64) *tensor.Matrix {
	var degrees []float64
	if !e.team.Planning() {
		degrees = e.inDegrees(weighted)
	}
	return e.column(func(v int) float64 { return value(v, degrees[v]) })
}

// ofTargets is a column over own rows as a column over the rows of the block's matrix.
func (b *Block) ofTargets(team *kernel.Team, column *tensor.Matrix) *tensor.Matrix {
	if b.Targets == nil || column == nil {
		return column
	}
	m := team.Memory.New(tensor.Graph, b.In.Rows, 1)
	team.Gather(m, column, b.Targets)
	return m
}

// Picker takes rows for a block and gives back together what that took.
type Picker struct {
	block *Block
	team  *kernel.Team
	taken []*tensor.Matrix
}

// Picker returns a Picker for the rows of the block's matrix.
func (b *Block) Picker(team *kernel.Team) *Picker { return &Picker{block: b, team: team} }

// Of is the rows of m, of which there is one for each own row, that the rows of the block's matrix are; nil
// of nil. They are there until Release.
func (p *Picker) Of(m *tensor.Matrix) *tensor.Matrix {
	if p.block.Targets == nil || m == nil {
		return m
	}
	rows := p.team.Picked(m, p.block.Targets)
	p.taken = append(p.taken, rows)
	return rows
}

// Release gives back what was taken.
func (p *Picker) Release() {
	for _, m := range p.taken {
		m.Release()
	}
}

// Onto adds compute's result to the rows of z, of which there is one for each own row, that the block leads
// into. compute gets z itself and accumulates, or, where Targets is set, a matrix of those rows to overwrite.
func (b *Block) Onto(team *kernel.Team, z *tensor.Matrix, compute func(z *tensor.Matrix, accumulate bool)) {
	if b.Targets == nil || z == nil {
		compute(z, true)
		return
	}
	some := team.Memory.New(tensor.Buffers, b.In.Rows, z.Cols)
	compute(some, false)
	team.ScatterAdd(z, some, b.Targets)
	some.Release()
}

// Within lets compute change the rows of z and arg, of which there is one for each own row, that the block
// leads into. compute gets z and arg themselves, or, where Targets is set, copies of those rows, which are
// written back.
func (b *Block) Within(team *kernel.Team, z, arg *tensor.Matrix, compute func(z, arg *tensor.Matrix)) {
	pick := b.Picker(team)
	someZ, someArg := pick.Of(z), pick.Of(arg)
	compute(someZ, someArg)
	if b.Targets != nil {
		team.Scatter(z, someZ, b.Targets)
		team.Scatter(arg, someArg, b.Targets)
	}
	pick.Release()
}

// inverse is 1/x, 0 for 0.
func inverse(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return 1 / x
}

func inverseRoot(x float64) float64 { return math.Sqrt(inverse(x)) }
