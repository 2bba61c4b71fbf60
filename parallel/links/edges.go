package links

import (
	"slices"

	"weft/comm"
	"weft/graph"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
)

// Edges holds the supervision edges into a worker's vertices. All workers call the methods that take
// embeddings together. Their argument h (rows × D) has the embedding of each of the worker's vertices.
type Edges struct {
	Draw
	// Counts has the number of edges of each part, over all workers. The counts of shared negative edges
	// follow.
	Counts [lists]int
	// Negatives is the form of the negative edges that a stored split gives.
	Negatives graph.NegativeForm

	learned         Supervised
	team            *kernel.Team
	comm            *comm.Comm
	places          *partition.Places // the vertices by worker; each worker is a partition here
	me              int               // this worker's rank: the targets are its vertices
	rows            int               // number of its vertices
	vertices        []int32           // by row, ascending; nil: the row numbers
	relations       []relation
	counts          [][lists]int // edges of each part, by rank; a plan knows only this worker's
	bytes           int          // size of a window: usualBytes
	ranked          []candidates // candidates for ranks, of each type that is a target
	storedNegatives [parts]int   // negative targets of each edge of a part, from a stored split
	fetches         *Fetches     // of a plan; nil: a run
}

// relation is the supervision edges of one relation, sorted by source, then by target. Drawn edges have no
// duplicates.
type relation struct {
	sources, targets *tensor.Matrix // Int32, 1 × n: source vertices, and target rows of this worker
	// From a stored split:
	parts *tensor.Matrix // Int32, 1 × n: the part of each edge; nil: Draw.Part
	// negatives are the negative targets of the edges of a part: Int32, 1 × n·given; nil: none.
	negatives [parts]*tensor.Matrix
}

// lists are all lists of the relation; some may be nil.
func (r *relation) lists() []*tensor.Matrix {
	return append([]*tensor.Matrix{r.sources, r.targets, r.parts}, r.negatives[:]...)
}

// Options say how edges are divided and ranked.
type Options struct {
	Draw
	// RankAmong is the number of random candidates among which a target is ranked; 0: all vertices of its
	// type.
	RankAmong int
	Fetches   *Fetches // what a plan knows of the rows that workers fetch; nil: a run
}

// New copies supervision edges of a share into the team's memory: the edges whose targets are the worker's
// vertices. vertices are these, among the share's in the numbering of Draw.Supervised, ascending; nil: all.
// The share must have all of its edges. All workers, which c connects, call New together. Each vertex of the
// numbered types belongs to one worker.
func New(team *kernel.Team, c *comm.Comm, s *partition.Share, vertices []int32, o Options) (*Edges, error) {
	learned, err := o.Supervised(s)
	if err != nil {
		return nil, err
	}
	shares, err := s.Places(learned.Numbering.Kinds...)
	if err != nil {
		return nil, err
	}
	l := &Edges{
		Draw: o.Draw, learned: learned, team: team, comm: c, places: shares, me: c.Rank(),
		bytes: usualBytes, fetches: o.Fetches,
	}
	if len(shares.Starts) == c.Size()+1 { // a share has one worker
		l.vertices = learned.Numbering.List(s, func(int) []int32 { return nil })
		for _, kind := range learned.Numbering.Kinds {
			l.rows += s.Edges.Types[kind].Rows
		}
	} else {
		l.rows, l.vertices = len(vertices), vertices
		if l.places, err = l.byWorker(learned.Numbering.Vertices()); err != nil {
			return nil, err
		}
	}
	own := make([]int64, lists)
	add := func(r relation, counts [lists]int64) {
		l.relations = append(l.relations, r)
		for part, n := range counts {
			own[part] += n
		}
	}
	if len(s.Whole.EdgeSplits) > 0 {
		if err := l.readSplits(s, add); err != nil {
			return nil, err
		}
	} else {
		for k, which := range learned.Relations {
			from := &s.Edges.Relations[which]
			sources, err := s.Places(from.Source)
			if err != nil {
				return nil, err
			}
			add(l.read(int32(k), s, sources, from))
		}
	}
	s.Unload()
	l.counts = make([][lists]int, c.Size())
	all, err := comm.Gather(c, comm.Setup, own...)
	if err != nil {
		return nil, err
	}
	for i, n := range all {
		l.counts[i/int(lists)][i%int(lists)] = int(n)
		l.Counts[i%int(lists)] += int(n)
	}
	l.rankAmong(o.RankAmong)
	return l, nil
}

// byWorker returns the order of n vertices by worker. In a plan other workers do not tell their vertices: the
// last worker gets the rest of n.
func (l *Edges) byWorker(n int) (*partition.Places, error) {
	if l.fetches.Known() {
		return &partition.Places{Starts: l.fetches.Starts}, nil
	}
	lists, err := comm.GatherLists(l.comm, comm.Setup, l.vertices)
	if err != nil {
		return nil, err
	}
	p := &partition.Places{Starts: []int{0}, IDs: slices.Concat(lists...), Positions: make([]int32, n)}
	for rank, list := range lists {
		p.Starts = append(p.Starts, p.Starts[rank]+len(list))
	}
	p.Starts[len(lists)] = n
	for position, v := range p.IDs {
		p.Positions[v] = int32(position)
	}
	return p, nil
}

// read copies the edges of relation k, and counts the edges of each part. The sources of the share's edges
// are positions.
func (l *Edges) read(k int32, s *partition.Share, places *partition.Places,
	from *partition.Relation,
) (r relation, counts [lists]int64) {
	n := 0
	between := l.learned.Ends[k]
	rows := s.Edges.Types[from.Target]
	lo, hi := l.rowsIn(between.Targets)
	each := func(use func(row int32, e Edge)) {
		shareRow := 0 // the row in the share
		for row := lo; row < hi; row++ {
			last, v := int32(-1), l.id(int32(row))
			for rows.ID(int32(shareRow)) < v-between.Targets.Low {
				shareRow++
			}
			for _, position := range from.In.Sources[from.In.Indptr[shareRow]:from.In.Indptr[shareRow+1]] {
				e := Edge{k, between.Sources.Low + places.ID(position), v}
				if position != last && e.Source != e.Target {
					last = position
					use(int32(row), e)
				}
			}
		}
	}
	each(func(_ int32, e Edge) {
		counts[l.Part(e)]++
		n++
	})
	r.sources, r.targets = l.int32s(n), l.int32s(n)
	sources, targets := r.sources.WriteInt32s(), r.targets.WriteInt32s()
	l.team.Serial(func() {
		edges := make([]uint64, 0, n)
		each(func(row int32, e Edge) { edges = append(edges, ends(e.Source, row)) })
		slices.Sort(edges)
		for i, e := range edges {
			sources[i], targets[i] = int32(e>>32), int32(uint32(e))
		}
	})
	r.sources.SetReadOnly()
	r.targets.SetReadOnly()
	return r, counts
}

func (l *Edges) int32s(n int) *tensor.Matrix {
	return l.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, n)
}

// touch brings the lists of edges and of candidates into memory, if they rest. The team's threads read them.
func (l *Edges) touch() {
	for i := range l.relations {
		tensor.Touch(l.relations[i].lists()...)
	}
	for i := range l.ranked {
		tensor.Touch(l.ranked[i].drawn)
	}
}

// candidates are the rows of a worker, of one vertex type, among which targets are ranked.
type candidates struct {
	targets Range          // all vertices of the type
	lo, hi  int            // the worker's own rows of the type: lo … hi−1
	drawn   *tensor.Matrix // Int32, 1 × n: the own rows that are candidates, ascending; nil: all
}

// count returns the number of candidates.
func (c *candidates) count() int {
	if c.drawn != nil {
		return c.drawn.Cols
	}
	return c.hi - c.lo
}

// number returns the number of an own row among the candidates, or −1 if it is not among them.
func (c *candidates) number(row int32) int {
	if c.drawn == nil {
		return int(row) - c.lo
	}
	i, found := slices.BinarySearch(c.drawn.ReadInt32s(), row)
	if !found {
		return -1
	}
	return i
}

// rankAmong sets the candidates for ranks of each type that is a target: n random vertices, or all.
func (l *Edges) rankAmong(n int) {
	for _, ends := range l.learned.Ends {
		if slices.ContainsFunc(l.ranked, func(c candidates) bool { return c.targets == ends.Targets }) {
			continue
		}
		c := candidates{targets: ends.Targets}
		c.lo, c.hi = l.rowsIn(c.targets)
		if drawn := l.Candidates(n, int(c.targets.High-c.targets.Low)); drawn != nil {
			var rows []int32
			for _, v := range drawn {
				if row, own := l.row(c.targets.Low + v); own {
					rows = append(rows, int32(row))
				}
			}
			slices.Sort(rows)
			c.drawn = kernel.List(l.team, tensor.Graph, rows)
			c.drawn.SetReadOnly()
		}
		l.ranked = append(l.ranked, c)
	}
}

// rowsIn returns the own rows of the vertices of a range: lo … hi−1.
func (l *Edges) rowsIn(r Range) (lo, hi int) {
	if l.vertices == nil {
		return min(int(r.Low), l.rows), min(int(r.High), l.rows)
	}
	lo, _ = slices.BinarySearch(l.vertices, r.Low)
	hi, _ = slices.BinarySearch(l.vertices, r.High)
	return lo, hi
}

// Vertices returns the number of vertices with embeddings, over all workers.
func (l *Edges) Vertices() int { return l.learned.Numbering.Vertices() }

// Relations returns the number of relations with supervision edges.
func (l *Edges) Relations() int { return len(l.relations) }

// targetsOf returns the targets of a source's edges in a relation, in all parts, as own rows, ascending. A
// stored split may have one several times.
func (l *Edges) targetsOf(relation, source int32) []int32 {
	r := &l.relations[relation]
	sources := r.sources.ReadInt32s()
	from, _ := slices.BinarySearch(sources, source)
	to, _ := slices.BinarySearch(sources[from:], source+1)
	return r.targets.ReadInt32s()[from : from+to]
}

// id returns the vertex of an own row.
func (l *Edges) id(row int32) int32 {
	if l.vertices == nil {
		return row
	}
	return l.vertices[row]
}

// row returns the own row of a vertex, if it has one.
func (l *Edges) row(vertex int32) (row int, own bool) {
	if l.vertices == nil {
		return int(vertex), int(vertex) < l.rows
	}
	return slices.BinarySearch(l.vertices, vertex)
}

// walk iterates over a worker's edges of a part.
type walk struct {
	*Edges
	part         Part
	relation, at int
	passed       int // how many edges of the part, in this relation, have been passed
	edges        []Edge
	numbers      []int // the numbers of the edges among the part's edges in their relation
}

// next returns the next edges, at most most of them. They are valid until the next call. In a plan there are
// none.
func (w *walk) next(most int) []Edge {
	w.edges, w.numbers = w.edges[:0], w.numbers[:0]
	w.touch()
	w.team.Serial(func() { w.collect(most) })
	return w.edges
}

// collect lists the next edges.
func (w *walk) collect(most int) {
	for w.relation < len(w.relations) && len(w.edges) < most {
		r := &w.relations[w.relation]
		if w.at == r.sources.Cols {
			w.relation, w.at, w.passed = w.relation+1, 0, 0
			continue
		}
		e := Edge{int32(w.relation), r.sources.ReadInt32s()[w.at], w.id(r.targets.ReadInt32s()[w.at])}
		part := w.partOf(r, w.at, e)
		w.at++
		if part == w.part {
			w.edges, w.numbers = append(w.edges, e), append(w.numbers, w.passed)
			w.passed++
		}
	}
}

// partOf returns the part of edge e, which is number i of a relation.
func (l *Edges) partOf(r *relation, i int, e Edge) Part {
	if r.parts == nil {
		return l.Part(e)
	}
	return Part(r.parts.ReadInt32s()[i])
}

// rounds returns the number of batches on the worker with most edges of a part. All workers go through so
// many rounds together, some with empty batches.
func (l *Edges) rounds(part Part, each int) (n int) {
	for _, counts := range l.counts {
		n = max(n, (counts[part]+each-1)/each)
	}
	return n
}
