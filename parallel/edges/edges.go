// Package edges holds what a worker knows of a graph's structure: the edges into its rows, in blocks by where
// they come from, the lists of rows that go to other workers, and linear aggregations as matrices over these
// blocks.
package edges

import (
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
	Rows int            // own rows, of the type that the edges lead to
	IDs  *tensor.Matrix // Int32, 1 × Rows: their vertices in the original graph; nil: their row numbers
	// Sources are the own rows of the type that the edges lead from: Rows, where that is the same type.
	Sources   int
	SourceIDs *tensor.Matrix // Int32, 1 × Sources, as IDs
	// Blocks: first the edges among own rows, then those from other workers' rows in the order of the halo
	// exchange
	Blocks  []*Block
	Needed  []*Message     // own sources' rows that other workers need, in the order in which they go there
	MostIn  int            // the rows of the largest message that comes
	MostOut int            // the rows of the largest message that goes
	Loops   *tensor.Matrix // Int32, Rows × 1: stored self loops of each vertex; nil: none

	ends      Ends
	degrees   func(degreeOf) []float64 // of all edges, where the blocks hold those of some rows; nil: they hold all
	team      *kernel.Team
	comm      *comm.Comm // the workers that hold the other rows; nil: they are at hand
	others    Others
	loopCount int       // of all vertices
	loopStart []int64   // len Rows+1: where a vertex's loops begin in loopW; nil: no weights
	loopW     []float32 // the weights of the self loops, vertex by vertex

	// Made when first asked for.
	one        *tensor.Matrix // Int32, Rows × 1 of ones
	operators  map[gnn.Reduce]Operator
	shares     map[meanOf]*tensor.Matrix    // of each own row
	roots      map[SelfLoops]*tensor.Matrix // of each own row's degree
	loopBlocks map[SelfLoops]*Block         // self loops as edges
}

// Ends says whether a relation's ends are of one vertex type.
type Ends bool

// One type at both ends, where a vertex may have an edge to itself; or two, where none has.
const (
	OneType  Ends = false
	TwoTypes Ends = true
)

// Block is the edges from some rows of one worker into the rows of this one: the columns of its matrix are
// those source rows. With several workers a block holds the edges from one message of the other's rows that
// this worker needs.
type Block struct {
	Peer int            // the rank that holds the sources' rows
	In   *kernel.CSR    // rows × sources; values are the edge weights, nil without
	Out  *kernel.CSR    // its transpose; In itself, where that is the same; nil: of Some's rows
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

// fewTargets: a block that leads into less than 1/fewTargets of the own rows lists them. Its memory is then
// in proportion to its edges.
const fewTargets = 4

// Message is a list of own rows that go to another worker in one message.
type Message struct {
	Peer int            // the rank that needs them
	Rows *tensor.Matrix // Int32, 1 × n
}

// Source is where a worker reads edges from, in a direction.
type Source struct {
	// Relation: its rows are the worker's own; its sources are positions in the order of the partitions
	Relation *graph.Relation
	Starts   []int // len K+1: the first position of each of K partitions, and V
	Me       int   // the partition whose rows they are
	Holders  []int // len K: the rank that holds each partition
	// K × K: [p][q] is how many rows partition p needs of partition q; nil with one worker
	HaloRows [][]int
	// Int32, 1 × rows: the own rows' vertices in the original graph; nil: their row numbers
	IDs *tensor.Matrix
	// Ends are TwoTypes where the sources are of another type than the rows. SourceIDs are then those of the
	// own sources' rows.
	Ends      Ends
	SourceIDs *tensor.Matrix
	// Some are the rows that are computed on, which IDs and SourceIDs are then of; nil: all.
	Some *Some
}

// Some are some of a worker's rows, by their places among all of them, ascending. What is computed for those
// whose edges are taken has the bits that it has among all rows. There is no way back: only inference can use
// them.
type Some struct {
	Rows    []int32
	Into    []int32 // those of them whose edges are taken; of the others only self loops are
	Sources []int32 // own rows of the type that the edges lead from: Rows, where that is the same type
}

// isLoop reports whether an edge into row v from the source at a position is a self loop.
func (s *Source) isLoop(v int, position int32) bool {
	if s.Some != nil {
		v = int(s.Some.Rows[v])
	}
	return s.Ends == OneType && position-int32(s.Starts[s.Me]) == int32(v)
}

// ownSources is a function that gives the row of an own source at a position.
func (s *Source) ownSources() func(position int32) int32 {
	const few = 16 // of so many rows, one is looked for; of more they are listed by their places
	start := int32(s.Starts[s.Me])
	if s.Some == nil || len(s.Some.Sources) < s.sources()/few {
		return func(position int32) int32 {
			row, _ := s.sourceRow(position - start)
			return row
		}
	}
	rows := make([]int32, s.sources())
	for i, place := range s.Some.Sources {
		rows[place] = int32(i)
	}
	return func(position int32) int32 { return rows[position-start] }
}

// sourceRow is the row of the own source that is in a place of all; found is false where it is not among
// them.
func (s *Source) sourceRow(place int32) (row int32, found bool) {
	if s.Some == nil {
		return place, place >= 0 && int(place) < s.sources()
	}
	i, found := slices.BinarySearch(s.Some.Sources, place)
	return int32(i), found
}

// sources is how many own rows of the sources there are in all.
func (s *Source) sources() int { return s.Starts[s.Me+1] - s.Starts[s.Me] }

// Others are what is known of the rows of remote blocks' sources.
type Others interface {
	// Columns is, for each remote block of e, the values that its sources have in a column over the rows that
	// have them, of which own is the part for the rows of some edges: a column × 1 of the graph's structure.
	Columns(e *Edges, own func(*Edges) *tensor.Matrix) ([]*tensor.Matrix, error)
}

// New copies edges into the team's memory. The workers of all partitions, which c connects (where the team
// only plans, one made of comm.Plan), call it together, and tell each other which of their rows they need:
// O(halo) numbers.
func New(team *kernel.Team, c *comm.Comm, s Source) (*Edges, error) {
	e, needed := read(team, s)
	e.comm, e.others = c, workers{}
	if len(s.Holders) == 1 {
		return e, nil
	}
	if err := e.connect(&s, needed); err != nil {
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

// Among copies edges into a team's memory whose remote sources' rows are at hand on this worker: r's sources
// are its own rows, and numbered behind them so many others. ids are the own rows' vertices. It returns
// beside the edges the others that are sources, ascending: those of the remote blocks, in their order. The
// blocks' IDs are undefined.
func Among(team *kernel.Team, r *graph.Relation, others int, ids *tensor.Matrix, o Others) (e *Edges, sources []int32) {
	own := len(r.Indptr) - 1
	e, needed := read(team, Source{Relation: r, Starts: []int{0, own, own + others}, Holders: []int{0, 1}, IDs: ids})
	e.others = o
	return e, needed[1]
}

// read copies edges. needed are, by partition, the rows that these need of it.
func read(team *kernel.Team, s Source) (e *Edges, needed [][]int32) {
	k := len(s.Starts) - 1
	var at, all *span // of the rows whose edges are taken, and of all, which say where those are cut
	switch {
	case s.Some == nil:
		at = s.allRows()
		all = at
	case k == 1: // nothing is cut
		at = s.someRows()
		all = at
	default:
		at, all = s.someRows(), s.allRows()
	}
	n := len(at.to)
	e = &Edges{
		Rows: n, IDs: s.IDs, Sources: n, SourceIDs: s.IDs, Blocks: []*Block{nil}, ends: s.Ends, team: team,
	}
	if s.Ends == TwoTypes {
		e.Sources, e.SourceIDs = s.sources(), s.SourceIDs
	}
	if s.Some != nil {
		e.Sources, e.degrees = len(s.Some.Sources), s.inDegrees
	}
	e.forget()
	needed = make([][]int32, k)
	remote := make([][]*Block, k) // by partition
	symmetric := false
	for q := range k {
		at.next(int32(s.Starts[q+1]))
		if at != all {
			all.next(int32(s.Starts[q+1]))
		}
		if q == s.Me {
			symmetric = s.Ends == OneType && s.Some == nil && at.symmetric(int32(s.Starts[q]))
			e.Blocks[0] = e.newLocal(&s, at)
		} else {
			remote[q], needed[q] = newRemote(team, at, all, s.Holders[q], s.Starts[q], s.Starts[q+1])
		}
	}
	for round := 1; round < k; round++ {
		e.Blocks = append(e.Blocks, remote[(s.Me-round+k)%k]...)
	}
	for i, b := range e.Blocks {
		switch {
		case s.Some != nil:
		case i == 0 && symmetric:
			b.Out = b.In
		default:
			b.Out = team.Transpose(b.In, tensor.Graph)
		}
	}
	e.Local().IDs = e.SourceIDs
	return e, needed
}

// Local is the block of the edges among the worker's own rows.
func (e *Edges) Local() *Block { return e.Blocks[0] }

// Entries is the number of edges in the blocks: of all edges into own rows but self loops.
func (e *Edges) Entries() (n int64) {
	for _, b := range e.Blocks {
		n += int64(b.In.Entries())
	}
	return n
}

// Alone reports whether no rows come or go: the worker is the only one, or its partition has no edges to
// others.
func (e *Edges) Alone() bool { return len(e.Blocks)+len(e.Needed) == 1 }

// Remote are the blocks of the edges from other workers' rows, in the order of the halo exchange; none with
// one worker.
func (e *Edges) Remote() []*Block { return e.Blocks[1:] }

// Reversed is the same relation with every edge turned around, of a worker that holds all of it.
func (e *Edges) Reversed() *Edges {
	r := *e
	r.Rows, r.IDs, r.Sources, r.SourceIDs = e.Sources, e.SourceIDs, e.Rows, e.IDs
	r.Blocks = []*Block{{In: e.Local().Out, Out: e.Local().In, IDs: r.SourceIDs}}
	r.forget()
	return &r
}

// forget has what is made when it is first asked for made again.
func (e *Edges) forget() {
	e.one, e.operators, e.shares = nil, map[gnn.Reduce]Operator{}, map[meanOf]*tensor.Matrix{}
	e.roots, e.loopBlocks = map[SelfLoops]*tensor.Matrix{}, map[SelfLoops]*Block{}
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
func (b *Block) Onto(team *kernel.Team, z *tensor.Matrix, compute func(z *tensor.Matrix, to kernel.Output)) {
	if b.Targets == nil || z == nil {
		compute(z, kernel.Accumulate)
		return
	}
	some := team.Memory.New(tensor.Buffers, b.In.Rows, z.Cols)
	compute(some, kernel.Replace)
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

// ofTargets is a column over own rows as a column over the rows of the block's matrix.
func (b *Block) ofTargets(team *kernel.Team, column *tensor.Matrix) *tensor.Matrix {
	if b.Targets == nil || column == nil {
		return column
	}
	m := team.Memory.New(tensor.Graph, b.In.Rows, 1)
	team.Gather(m, column, b.Targets)
	return m
}
