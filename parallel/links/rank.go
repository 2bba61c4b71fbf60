package links

import (
	"math"
	"slices"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

const (
	batch       = 256 // how many edges are ranked together
	rankNumbers = 2   // how many numbers describe an edge to other workers: relation and source
	// perThread is how many edges one thread counts for. Their scores against a candidate fill a cache line.
	perThread = 16
	mostKnown = 4096 // how many scores are taken away together
)

// Ranks returns the rank of each of this worker's edges u→v of a part: the rank of v, from 1, among the
// candidates v' of its type by the score of u→v'. Candidates v' that have an edge u→v' of the relation, in
// any part, do not count (filtered ranks, Bordes et al. 2013). A candidate with an equal score counts one
// half. Each worker scores its own candidates for the edges of all workers.
func (l *Edges) Ranks(h *tensor.Matrix, d Decoder, part Part) (ranks []float64) {
	r := l.ranking(h, d, part)
	defer r.release()
	edges := walk{Edges: l, part: part}
	for range r.rounds(part, batch) {
		own := edges.next(batch)
		r.sources(own)
		counts := r.countAll()[2*batch*l.me:]
		for i := range own {
			ranks = append(ranks, 1+counts[i]+counts[batch+i]/2)
		}
	}
	return ranks
}

// ranker ranks the targets of a batch of edges at a time.
type ranker struct {
	*window
	decoder  Decoder
	among    *tensor.Matrix // tile × D: rows of candidates, unless all vertices are candidates
	scores   *tensor.Matrix // tile × batch: candidates × edges
	tile     int
	rows     *tensor.Matrix // Int32, 1 × batch: row numbers for kernels
	diagonal *tensor.Matrix // Int32, 1 × batch: the places of a batch × batch matrix's diagonal
	// Known edges' scores do not count. known has their places among the scores (Int32, 1 × mostKnown), and
	// missing is NaN (Float32, mostKnown × 1).
	known, missing *tensor.Matrix
}

// queries are a batch of edges of one worker. Other workers look for higher scores among their candidates.
type queries struct {
	rows  *tensor.Matrix // batch × D: the sources' rows times the decoder's weights
	edges []int32        // the number of edges, then rankNumbers of each; undefined after the last edge
	score *tensor.Matrix // batch × 1
}

func (l *Edges) newQueries(k tensor.Kind, columns int) *queries {
	return &queries{
		l.team.Zeros(k, batch, columns), make([]int32, 1+rankNumbers*batch), l.team.Zeros(k, batch, 1),
	}
}

// messages are the queries as messages to other workers.
func (q *queries) messages() [][]byte {
	return [][]byte{q.rows.Bytes(), comm.Bytes(q.edges), q.score.Bytes()}
}

func (l *Edges) ranking(h *tensor.Matrix, d Decoder, part Part) *ranker {
	r := &ranker{decoder: d, window: l.window(h, batch, pass{part, ranking, toScore})}
	for i := range l.ranked {
		r.tile = max(r.tile, l.ranked[i].count())
	}
	r.tile = min(max(1, r.tile), max(1, l.bytes/4/batch))
	r.queries = l.newQueries(tensor.Activations, h.Cols)
	r.rows = l.team.Memory.NewElement(tensor.Activations, tensor.Int32, 1, batch)
	diagonal := make([]int32, batch)
	for i := range diagonal {
		diagonal[i] = int32(i * (batch + 1))
	}
	r.diagonal = kernel.List(l.team, tensor.Activations, diagonal)
	return r
}

func (r *ranker) release() {
	r.window.release()
	exchange.Release(r.queries.rows, r.queries.score, r.rows, r.diagonal)
}

// listed returns a number of each edge of a batch as a matrix for kernels. It is valid until the next call.
func (r *ranker) listed(edges []Edge, number func(Edge) int) *tensor.Matrix {
	list := r.rows.Prefix(1, len(edges))
	to := list.WriteInt32s()
	for i, e := range edges {
		to[i] = int32(number(e))
	}
	return list
}

// sources fetches the rows of the sources of own edges, and scores these edges. A score has the same bits
// here and in countTile, so that targets with equal embeddings tie. In both, a target is a row of a product
// with the same sources, and the bits of a product's row do not depend on the other rows.
func (r *ranker) sources(edges []Edge) {
	var positions []int32
	for _, e := range edges {
		positions = append(positions, r.places.Position(e.Source))
	}
	r.fetch(positions)
	q := r.queries
	targets := r.team.Zeros(tensor.Buffers, batch, r.h.Cols) // the targets' rows
	// Targets × sources. The scores of the edges are the diagonal.
	scores := r.team.Memory.New(tensor.Buffers, batch, batch)
	defer exchange.Release(targets, scores)
	r.team.Gather(q.rows, r.x, r.listed(edges, func(e Edge) int { return r.at(e.Source) }))
	if w := r.decoder.Weights; w != nil { // it replaces the targets
		r.team.Gather(targets, w, r.listed(edges, func(e Edge) int { return int(e.Relation) }))
		r.team.Pointwise([]*tensor.Matrix{q.rows}, times, []kernel.Operand{{X: q.rows}, {X: targets}})
	}
	r.team.Gather(targets, r.h, r.listed(edges, func(e Edge) int {
		row, _ := r.row(e.Target)
		return row
	}))
	r.team.MatMul(scores, targets, q.rows, kernel.Transposed, kernel.Replace)
	r.team.Gather(q.score, scores.Reshape(batch*batch, 1), r.diagonal)
	q.edges[0] = int32(len(edges))
	for i, e := range edges {
		q.edges[1+rankNumbers*i], q.edges[2+rankNumbers*i] = e.Relation, e.Source
	}
}

// times is the product of two numbers.
var times = func() *kernel.Expression {
	e := &kernel.Expression{Inputs: 2}
	e.Results = []int{e.Op(kernel.OpMul, 0, 1)}
	return e
}()

// countAll returns, for each worker's edges in the order of the workers, the number of candidates with a
// higher score, and after these batch numbers the number of candidates with an equal score.
func (r *ranker) countAll() []float64 {
	counts := make([]float64, 2*batch*r.comm.Size())
	sent := r.tell()
	r.comm.LocalBarrier()
	r.countOwn(counts)
	for _, p := range sent {
		exchange.Must(p.Wait())
	}
	exchange.Must(r.comm.SumDoubles(comm.Statistics, counts))
	return counts
}

// tell starts to send the queries to the other workers. Nearby ranks read them where they lie.
func (r *ranker) tell() (sent []*comm.Pending) {
	r.eachOther(func(to, _ int) {
		if !r.comm.Nearby(to) {
			for _, data := range r.queries.messages() {
				sent = append(sent, r.comm.Send(comm.Links, data, to))
			}
		}
	})
	return sent
}

// countOwn counts this worker's candidates for the edges of all workers.
func (r *ranker) countOwn(counts []float64) {
	defer r.comm.KeepTurn()()
	r.touch()
	r.scores = r.team.Zeros(tensor.Buffers, r.tile, batch)
	theirs := r.newQueries(tensor.Buffers, r.h.Cols)
	if slices.ContainsFunc(r.ranked, func(c candidates) bool { return c.drawn != nil }) {
		r.among = r.team.Zeros(tensor.Buffers, r.tile, r.h.Cols)
	}
	r.known = r.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, mostKnown)
	r.missing = r.team.Memory.New(tensor.Buffers, mostKnown, 1)
	r.team.Fill(r.missing, float32(math.NaN()))
	defer exchange.Release(r.scores, r.among, r.known, r.missing, theirs.rows, theirs.score)
	for root := range r.comm.Size() {
		rootCounts := counts[2*batch*root:][:2*batch]
		switch {
		case root == r.me:
			r.count(rootCounts, r.queries)
		case r.comm.Nearby(root):
			near := r.there(root).queries
			r.count(rootCounts, near)
			near.rows.DontNeed()
			near.score.DontNeed()
		default:
			for _, data := range theirs.messages() {
				exchange.Must(r.comm.Receive(comm.Links, data, root).Wait())
			}
			r.count(rootCounts, theirs)
		}
	}
}

// count counts this worker's candidates for the edges of a worker.
func (r *ranker) count(counts []float64, q *queries) {
	for i := range r.ranked {
		c := &r.ranked[i]
		for lo := 0; lo < c.count(); lo += r.tile {
			r.countTile(counts, q, c, lo, min(lo+r.tile, c.count()))
		}
	}
}

// countTile counts candidates lo … hi−1 of a type, for the edges to that type.
func (r *ranker) countTile(counts []float64, q *queries, c *candidates, lo, hi int) {
	var rows *tensor.Matrix
	if c.drawn == nil {
		rows = r.h.RowRange(c.lo+lo, c.lo+hi)
	} else {
		rows = r.among.RowRange(0, hi-lo)
		r.team.Gather(rows, r.h, c.drawn.Reshape(c.drawn.Cols, 1).RowRange(lo, hi).Reshape(1, hi-lo))
	}
	scores := r.scores.Prefix(hi-lo, batch)
	r.team.MatMul(scores, rows, q.rows, kernel.Transposed, kernel.Replace)
	n := int(q.edges[0])
	r.takeAway(r.placesOf(q, c, lo, hi))
	above := r.team.Above(scores, q.score.Prefix(n, 1))
	for i := range n {
		if r.learned.Ends[q.edges[1+rankNumbers*i]].Targets == c.targets {
			counts[i] += above[i]
			counts[batch+i] += above[batch+i]
		}
	}
}

// placesOf returns the places of known edges in the scores of candidates lo … hi−1. A known edge has the same
// source and relation as a ranked one.
func (r *ranker) placesOf(q *queries, c *candidates, lo, hi int) []int32 {
	n := int(q.edges[0])
	found := make([][]int32, (n+perThread-1)/perThread)
	r.team.Parallel(len(found), func(k int) {
		for i := k * perThread; i < min(n, (k+1)*perThread); i++ {
			edge := q.edges[1+rankNumbers*i:]
			if r.learned.Ends[edge[0]].Targets != c.targets {
				continue
			}
			before := int32(-1)
			for _, row := range r.targetsOf(edge[0], edge[1]) {
				if at := c.number(row) - lo; row != before && at >= 0 && at < hi-lo {
					found[k] = append(found[k], int32(at*batch+i))
				}
				before = row
			}
		}
	})
	return slices.Concat(found...)
}

// takeAway makes scores at these places count as no scores.
func (r *ranker) takeAway(places []int32) {
	all := r.scores.Reshape(r.scores.Len(), 1)
	for some := range slices.Chunk(places, mostKnown) {
		list := r.known.Prefix(1, len(some))
		copy(list.WriteInt32s(), some)
		r.team.Scatter(all, r.missing, list)
	}
}
