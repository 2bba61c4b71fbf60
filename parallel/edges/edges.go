// Package edges has the edges of one worker, as sparse matrices: the edges into its rows, in blocks by the
// worker that holds their sources. It also has the lists of local rows that other workers need, in-degrees,
// self loops, and the normalized adjacency matrices of linear aggregations (sum, mean, GCN).
//
// Reading order: edges.go has the types. build.go cuts the edges into blocks, one for each message that is
// received. connect.go tells the other workers which rows to send. operator.go multiplies by the matrix of a
// linear aggregation. halo.go and cover.go decide where partial sums travel in place of rows.
//
// The axes (sar, tp, chunked) aggregate along these edges.
package edges

import (
	"slices"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// Edges holds one relation in one direction on one worker: the edges into its local rows, in blocks by the
// worker that holds their sources. The matrices have no self loops; these are counted for each vertex, so
// that each aggregation can use them, add one to each vertex, or ignore them.
type Edges struct {
	Rows int            // local rows, of the targets' vertex type
	IDs  *tensor.Matrix // Int32, 1 × Rows: vertices in the original graph; nil: the row numbers
	// Sources counts the local rows of the sources' vertex type. It equals Rows if both ends are of one type.
	Sources   int
	SourceIDs *tensor.Matrix // Int32, 1 × Sources: vertices of the sources in the original graph
	// Blocks holds first the edges among local rows, and then the edges from other workers' rows in the order
	// of the halo exchange.
	Blocks  []*Block
	Needed  []*Message // local source rows that other workers need, in the order in which they are sent
	MostIn  int        // rows of the largest message received
	MostOut int        // rows of the largest message sent
	Sums    bool       // partial sums travel in place of some rows
	// MostSums is the largest number of partial sums in a sent message.
	MostSums int
	// MostSpread is the largest number of rows that the sums of a sent message list as Targets.
	MostSpread int
	Loops      *tensor.Matrix // Int32, Rows × 1: stored self loops of each vertex; nil: none

	ends Ends
	// degrees returns the in-degrees in the whole relation; nil: the blocks have all edges, and are counted.
	degrees         func(degreeOf) []float64
	team            *kernel.Team
	comm            *comm.Comm // connects the workers that hold the other rows; nil: this worker holds them
	others          Others
	loopCount       int       // of all vertices
	own, ownSources []int32   // Source.Own and OwnSources
	ownLoops        int       // stored self loops of the rows own
	loopStart       []int64   // len Rows+1: where each vertex's loops begin in loopW; nil: no weights
	loopW           []float32 // weights of the self loops, vertex by vertex
	// loopFeatures are the features of the self loops, vertex by vertex; nil: there are no loops, or no
	// features.
	loopFeatures *tensor.Matrix

	mask        *float32 // a factor of a pass's messages, as Given.Mask
	input       *Input   // of a pass's edges (Given.PassEdges); nil: the edges are the graph's
	loopNumbers []int64  // the numbers, in the graph, of a pass's self loops
	// numbers are the numbers of all edges in the graph, by block and last of the self loops; nil: not made
	// yet.
	numbers [][]int64

	// The following are made at their first use.
	counts      map[gnn.Loops]*tensor.Matrix // Int32, Rows × 1: self loops of each vertex
	operators   map[gnn.Reduce]Operator
	meanFactors map[meanOf]*tensor.Matrix     // 1/degree of each local row
	roots       map[gnn.Reduce]*tensor.Matrix // 1/√degree of each local row
	loopBlocks  map[gnn.Loops]*Block          // self loops as edges: OnlyLoops, LastLoops, OneLoop
	made        []*tensor.Matrix              // all the matrices above, to release them
}

// Ends says whether both ends of a relation are of one vertex type.
type Ends bool

// With OneType a vertex may have an edge to itself. With TwoTypes there are no self loops.
const (
	OneType  Ends = false
	TwoTypes Ends = true
)

// Block holds the edges from some rows of one worker into the local rows. The columns of its matrix are those
// source rows. A remote block's sources are the rows of one message. Partial sums that travel are columns
// behind the rows of vertices, each with one entry of value 1, in its destination's row.
type Block struct {
	Peer int         // rank of the worker that holds the sources' rows
	In   *kernel.CSR // rows × sources; the values are edge weights, nil if there are none
	Out  *kernel.CSR // the transpose of In; In itself if symmetric; nil if Source.Some has no Gradients
	// IDs (Int32) are the sources' vertices in the original graph, without sums; nil: the row numbers.
	IDs *tensor.Matrix
	// Targets (Int32, 1 × n) lists the local rows for which In has rows, if only few local rows have edges in
	// the block. A plan has it, too. It is nil if In has a row for each local row.
	Targets *tensor.Matrix
	// Features are the features of the edges, in the order of the entries of In: entries × columns. nil: the
	// relation has none, or its Source does not copy them.
	Features *tensor.Matrix
	Added    bool // the edges are self loops that the graph does not store
	// Owned counts the entries of In in the rows of Source.Own; 0 if Own is nil.
	Owned int

	// WeightGradients (entries × 1) and FeatureGradients (entries × columns) sum the gradients of a pass's
	// edges, in Float32; nil: they are not asked for.
	WeightGradients, FeatureGradients *tensor.Matrix
	// MaskGradients (entries × 1) sum the gradients of Given.Mask in the same way.
	MaskGradients *tensor.Matrix

	ownedOut int     // entries of Out in the rows of Source.OwnSources
	numbers  []int64 // the numbers, in the graph, of the entries of a pass's edges

	featureRows *tensor.Matrix // made at its first use
}

// fewTargets says when a block lists its target rows: when it has edges into fewer than 1/fewTargets of the
// local rows. Its memory is then proportional to its edges.
const fewTargets = 4

// Message lists the local rows in one message to another worker, and the partial sums that follow them.
type Message struct {
	Peer int // rank of the worker that needs them
	// Rows is Int32, 1 × n. If matrices rest on a disk, a plan of partitions that take turns has its values.
	Rows *tensor.Matrix
	// Sums are the edges whose partial sums the message holds; nil: none. They are seen from their sources:
	// In has local rows × sums. Out, sums × all local rows of the sources' type, makes the sums.
	Sums *Block
}

// Source says from where a worker reads the edges of one relation and direction.
type Source struct {
	// Relation has a row for each of the worker's rows. Its sources are positions, counted over the
	// partitions in order.
	Relation *graph.Relation
	Starts   []int // len K+1: first position of each of K partitions, and V
	Me       int   // this worker's partition
	Holders  []int // len K: rank of the worker that holds each partition
	// HaloRows[p][q] (K × K) is how many rows partition p needs of partition q; nil with one worker.
	HaloRows [][]int
	// IDs (Int32, 1 × rows) are the local rows' vertices in the original graph; nil: their row numbers.
	IDs *tensor.Matrix
	// Ends is TwoTypes if sources and targets are of different vertex types. SourceIDs are then the ids of
	// the local rows of the sources' type.
	Ends      Ends
	SourceIDs *tensor.Matrix
	allLocal  bool // this worker holds the rows of all sources
	// Halo says what travels between partitions. Unless it is HaloRows, an aggregation must be linear.
	Halo Halo
	// Back has the same edges by their sources. It has a row for each local row of the sources' type, with
	// the positions of destinations, which are counted over the partitions: those of partition q begin at
	// BackStarts[q]. With HaloRows, only a plan whose matrices rest on a disk reads it.
	Back       *graph.Relation
	BackStarts []int
	// Some selects the rows to compute on; IDs and SourceIDs then belong to these rows. nil: all rows.
	Some *Some
	// Own and OwnSources are the rows, and the local rows of the sources' type, for which this worker
	// computes messages, ascending; nil: all.
	Own, OwnSources []int32
	// Data says whether the features of the edges are copied, too.
	Data EdgeData
	// Common connects the workers that have the same partition and share its edges, because the Meters of
	// their teams share memory; nil: none do.
	Common *comm.Comm
}

// Some selects some of a worker's rows, by their numbers among all of the worker's rows, ascending. The rows
// of Into get the same bits as when all rows are computed.
type Some struct {
	Rows    []int32
	Into    []int32 // the rows whose edges are read; other Rows have only their self loops
	Sources []int32 // local rows of the sources' type; equal to Rows if both ends are of one type
	// Gradients says that there may be a backward pass, so that blocks have their transposes.
	Gradients bool
}

// isLoop reports whether the edge into row v from the source at a position is a self loop.
func (s *Source) isLoop(v int, position int32) bool {
	if s.Some != nil {
		v = int(s.Some.Rows[v])
	}
	return s.Ends == OneType && position-int32(s.Starts[s.Me]) == int32(v)
}

// localSources returns a function that finds the row of a local source by its position.
func (s *Source) localSources() func(position int32) int32 {
	const few = 16 // below 1/few of all rows, binary search finds a source; above, a table
	start := int32(s.Starts[s.Me])
	if s.Some == nil || len(s.Some.Sources) < s.sources()/few {
		return func(position int32) int32 {
			row, _ := s.sourceRow(position - start)
			return row
		}
	}
	rows := make([]int32, s.sources())
	for i, number := range s.Some.Sources {
		rows[number] = int32(i)
	}
	return func(position int32) int32 { return rows[position-start] }
}

// sourceRow returns the row of a local source. number is its place among all local sources. found is false if
// Some does not select it.
func (s *Source) sourceRow(number int32) (row int32, found bool) {
	if s.Some == nil {
		return number, number >= 0 && int(number) < s.sources()
	}
	i, found := slices.BinarySearch(s.Some.Sources, number)
	return int32(i), found
}

// sources returns how many local rows the sources' type has, selected or not.
func (s *Source) sources() int { return s.Starts[s.Me+1] - s.Starts[s.Me] }

// Others gives values of rows that this worker does not own: the sources of remote blocks.
type Others interface {
	// Columns returns for each remote block a matrix sources × 1 with one value of each source, charged to
	// the graph's structure. own computes the same values for the local rows of an Edges.
	Columns(e *Edges, own func(*Edges) *tensor.Matrix) ([]*tensor.Matrix, error)
}

// New copies edges into the team's memory. The workers of all partitions, and of Source.Common, call it
// together. c connects the former (comm.Plan if the team only plans). They tell each other which rows they
// need: O(halo) numbers.
func New(team *kernel.Team, c *comm.Comm, s Source) (*Edges, error) {
	e, needed, err := read(team, s)
	if err != nil {
		return nil, err
	}
	e.comm, e.others = c, workers{}
	if len(s.Holders) > 1 {
		if err := e.exchanged(&s, needed); err != nil {
			return nil, err
		}
	}
	return e, e.written(s.Common)
}

// exchanged finds what travels between the partitions.
func (e *Edges) exchanged(s *Source, needed [][]int32) error {
	out, err := e.readOutgoing(s)
	if err != nil {
		return err
	}
	if err := e.connect(s, needed, out); err != nil {
		return err
	}
	for _, b := range e.Remote() {
		e.MostIn = max(e.MostIn, b.In.Cols)
	}
	for _, p := range e.Needed {
		e.MostOut = max(e.MostOut, p.Len())
		if p.Sums != nil {
			e.Sums = true
			e.MostSums = max(e.MostSums, p.Sums.In.Cols)
			if p.Sums.Targets != nil {
				e.MostSpread = max(e.MostSpread, p.Sums.In.Rows)
			}
		}
	}
	return nil
}

// written waits until one worker has written what all of common share.
func (e *Edges) written(common *comm.Comm) error {
	if common == nil {
		return nil
	}
	if err := common.Barrier(comm.Setup); err != nil {
		return err
	}
	for _, b := range e.Blocks {
		b.In.FindSegments()
		if b.Out != nil {
			b.Out.FindSegments()
		}
	}
	return nil
}

// Among makes the edges of a worker that itself holds the rows of all sources. r numbers the sources: first
// own own rows, which are the rows of r if both ends have one type, and then others more rows. s says what is
// known of both ends. Among also returns which of the other rows are sources, ascending, in the order of the
// remote blocks. The IDs of remote blocks are undefined.
func Among(team *kernel.Team, r *graph.Relation, own, others int, s Source, o Others) (e *Edges,
	sources []int32,
) {
	s.Relation, s.Starts, s.Holders, s.allLocal = r, []int{0, own, own + others}, []int{0, 1}, true
	e, needed, _ := read(team, s)
	e.others = o
	return e, needed[1]
}

// read copies edges. needed[q] lists the rows of partition q that travel here.
func read(team *kernel.Team, s Source) (e *Edges, needed [][]int32, err error) {
	k := len(s.Starts) - 1
	var at, all *span // at is in the selected rows; all, in all rows, decides which rows a message has
	switch {
	case s.Some == nil:
		at = allRows(s.Relation)
		all = at
	case k == 1: // there are no messages
		at = s.someRows()
		all = at
	default:
		at, all = s.someRows(), allRows(s.Relation)
	}
	n := len(at.to)
	e = &Edges{
		Rows: n, IDs: s.IDs, Sources: n, SourceIDs: s.IDs, Blocks: []*Block{nil}, ends: s.Ends, team: team,
		own: s.Own, ownSources: s.OwnSources,
	}
	owns := among(s.Own, n)
	if s.Ends == TwoTypes {
		e.Sources = s.sources()
		e.SourceIDs = s.SourceIDs
	}
	if s.Some != nil {
		e.Sources = len(s.Some.Sources)
	}
	if s.Some != nil || s.Halo != HaloRows {
		e.degrees = s.inDegrees
	}
	e.reset()
	needed = make([][]int32, k)
	remote := make([][]*Block, k) // by partition
	symmetric, least := false, leastMessage
	if s.allLocal {
		least = leastHeld
	}
	for q := range k {
		at.next(int32(s.Starts[q+1]))
		if at != all {
			all.next(int32(s.Starts[q+1]))
		}
		if q == s.Me {
			symmetric = s.Ends == OneType && s.Some == nil && at.symmetric(int32(s.Starts[q]))
			e.Blocks[0] = e.newLocal(&s, at, owns)
		} else {
			if remote[q], needed[q], err = s.newRemote(team, at, all, owns, q,
				rowsOfBlock(s.Starts[q+1]-s.Starts[q], least)); err != nil {
				return nil, nil, err
			}
		}
	}
	for round := 1; round < k; round++ {
		e.Blocks = append(e.Blocks, remote[(s.Me-round+k)%k]...)
	}
	for i, b := range e.Blocks {
		switch {
		case s.Some != nil && !s.Some.Gradients:
		case i == 0 && symmetric:
			b.Out = b.In
		default:
			b.Out = newOut(team, b.In)
		}
	}
	e.Local().IDs = e.SourceIDs
	return e, needed, nil
}

// among says which of n rows are in a list. It is nil for a nil list.
func among(list []int32, n int) (are []bool) {
	if list != nil {
		are = make([]bool, n)
	}
	for _, row := range list {
		are[row] = true
	}
	return are
}

// newRemote makes the blocks of the span's edges, whose sources are in partition q. It also returns the list
// of the rows that travel. all is the span in all rows.
func (s *Source) newRemote(team *kernel.Team, at, all *span, owns []bool, q,
	step int,
) (blocks []*Block, needed []int32, err error) {
	start, sources := int32(s.Starts[q]), s.Starts[q+1]-s.Starts[q]
	o := outline{
		peer: s.Holders[q], items: sources, sources: sources, rows: len(at.to), allRows: len(all.to),
		step: step, relation: s.Relation, data: s.Data, owns: owns,
	}
	c, err := s.cutFrom(q, at)
	if err != nil {
		return nil, nil, err
	}
	var ofAll entryList
	if all != at {
		ofAll = all.entries(start, nil)
	}
	if c != nil {
		o.items += o.rows
	}
	blocks, needed = newBlocks(team, at.entries(start, c), ofAll, o)
	if c != nil {
		needed = needed[:c.rows]
	}
	return blocks, needed, nil
}

// readOutgoing returns what travels from the own rows, by partition; nil: the other workers say it.
func (e *Edges) readOutgoing(s *Source) ([]*sendList, error) {
	if s.Halo == HaloRows {
		return nil, nil
	}
	at := allRows(s.Back)
	out := make([]*sendList, len(s.Holders))
	for q := range out {
		at.next(int32(s.BackStarts[q+1]))
		if q == s.Me {
			continue
		}
		var err error
		if out[q], err = e.sendListTo(s, q, at); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Local returns the block of the edges among local rows.
func (e *Edges) Local() *Block { return e.Blocks[0] }

// Entries returns the number of terms that an aggregation on this worker adds up: all edges into local rows
// but self loops. A partial sum that travels is one term for its destination. Its edges are terms of the
// worker that makes it.
func (e *Edges) Entries() (n int64) {
	for _, b := range e.Blocks {
		n += int64(b.In.Entries())
	}
	for _, m := range e.Needed {
		if m.Sums != nil {
			n += int64(m.Sums.In.Entries())
		}
	}
	return n
}

// OwnEntries is Entries for messages into the rows of Source.Own.
func (e *Edges) OwnEntries() (n int64) {
	for _, b := range e.Blocks {
		n += int64(b.Owned)
	}
	return n
}

// Alone reports whether no rows are exchanged: the worker is the only one, or no edge joins its partition to
// another.
func (e *Edges) Alone() bool { return len(e.Blocks)+len(e.Needed) == 1 }

// Remote returns the blocks of the edges from other workers' rows, in the order of the halo exchange; none
// with one worker.
func (e *Edges) Remote() []*Block { return e.Blocks[1:] }

// Reversed returns the same relation with every edge reversed and without features, for a worker that holds
// the whole relation.
func (e *Edges) Reversed() *Edges {
	r := *e
	r.Rows, r.IDs, r.Sources, r.SourceIDs = e.Sources, e.SourceIDs, e.Rows, e.IDs
	b := e.Local()
	r.Blocks = []*Block{{
		In: b.Out, Out: b.In, IDs: r.SourceIDs, Owned: b.ownedOut, ownedOut: b.Owned,
	}}
	r.own, r.ownSources = e.ownSources, e.own
	r.loopFeatures, r.numbers = nil, nil
	r.reset()
	return &r
}

// reset clears what is made at its first use.
func (e *Edges) reset() {
	e.operators, e.meanFactors = map[gnn.Reduce]Operator{}, map[meanOf]*tensor.Matrix{}
	e.counts, e.roots = map[gnn.Loops]*tensor.Matrix{}, map[gnn.Reduce]*tensor.Matrix{}
	e.loopBlocks, e.made = map[gnn.Loops]*Block{}, nil
}

// Picker copies a block's rows out of matrices with a row for each local row. It releases all copies
// together.
type Picker struct {
	block *Block
	team  *kernel.Team
	taken []*tensor.Matrix
}

// Picker returns a Picker for the rows of the block's matrix.
func (b *Block) Picker(team *kernel.Team) *Picker { return &Picker{block: b, team: team} }

// Rows returns the rows of the block's matrix from m, which has a row for each local row. It returns nil for
// nil. The rows are valid until Release.
func (p *Picker) Rows(m *tensor.Matrix) *tensor.Matrix {
	if p.block.Targets == nil || m == nil {
		return m
	}
	rows := p.team.Picked(m, p.block.Targets)
	p.taken = append(p.taken, rows)
	return rows
}

// Release releases the copies.
func (p *Picker) Release() {
	for _, m := range p.taken {
		m.Release()
	}
}

// Onto adds the result of compute to the block's rows of z, which has a row for each local row. If Targets is
// set, compute overwrites a matrix of just these rows. Otherwise compute gets z itself and adds to it.
func (b *Block) Onto(team *kernel.Team, z *tensor.Matrix, compute func(z *tensor.Matrix, to kernel.Output)) {
	if b.Targets == nil || z == nil {
		compute(z, kernel.Accumulate)
		return
	}
	some := team.Memory.NewElement(tensor.Buffers, z.Element, b.In.Rows, z.Cols)
	compute(some, kernel.Replace)
	team.ScatterAdd(z, some, b.Targets)
	some.Release()
}

// Within lets compute update the block's rows of z and arg, which have a row for each local row. If Targets
// is set, compute gets copies of just these rows, which are written back. Otherwise it gets z and arg
// themselves.
func (b *Block) Within(team *kernel.Team, z, arg *tensor.Matrix, compute func(z, arg *tensor.Matrix)) {
	pick := b.Picker(team)
	someZ, someArg := pick.Rows(z), pick.Rows(arg)
	compute(someZ, someArg)
	if b.Targets != nil {
		team.Scatter(z, someZ, b.Targets)
		team.Scatter(arg, someArg, b.Targets)
	}
	pick.Release()
}

// ofTargets returns the rows of the block's matrix from a column over local rows.
func (e *Edges) ofTargets(b *Block, column *tensor.Matrix) *tensor.Matrix {
	if b.Targets == nil || column == nil {
		return column
	}
	m := e.team.Memory.New(tensor.Graph, b.In.Rows, 1)
	e.made = append(e.made, m)
	e.team.Gather(m, column, b.Targets)
	return m
}
