package links

import (
	"slices"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

const (
	batch       = 256 // edges that are ranked together
	rankNumbers = 2   // numbers that describe an edge to other workers: relation and source
	// edges that one thread counts for: their scores against a candidate are a cache perThread
	perThread = 16
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
	*edgeBatch
	among  *tensor.Matrix // tile × D: rows of candidates, if not all vertices are candidates
	scores *tensor.Matrix // tile × batch: candidates × edges
	tile   int
}

// queries are a batch of edges of one worker. Other workers look for higher scores among their candidates.
type queries struct {
	rows  *tensor.Matrix // batch × D: the sources' rows times the decoder's weights
	edges []int32        // the number of edges, and rankNumbers of each; after the last edge undefined
	score []float32
}

func (l *Edges) newQueries(k tensor.Kind, columns int) *queries {
	return &queries{
		l.team.Zeros(k, batch, columns), make([]int32, 1+rankNumbers*batch),
		make([]float32, batch),
	}
}

// messages are what other workers need to know.
func (q *queries) messages() [][]byte {
	return [][]byte{q.rows.Bytes(), comm.Bytes(q.edges), comm.Bytes(q.score)}
}

func (l *Edges) ranking(h *tensor.Matrix, d Decoder, part Part) *ranker {
	r := &ranker{edgeBatch: &edgeBatch{
		decoder: d, ones: slices.Repeat([]float32{1}, h.Cols),
		window: l.window(h, batch, pass{part, ranking, toScore}),
	}}
	for i := range l.ranked {
		r.tile = max(r.tile, l.ranked[i].count())
	}
	r.tile = min(max(1, r.tile), max(1, l.bytes/4/batch))
	r.queries = l.newQueries(tensor.Activations, h.Cols)
	return r
}

func (r *ranker) release() {
	r.window.release()
	r.queries.rows.Release()
}

// sources fetches the rows of the sources of own edges, and scores these edges. A score has the same bits
// here and in countTile, so that targets with equal embeddings tie: in both, a target is a row of a product
// with the same sources, and the bits of a product's row do not depend on the other rows.
func (r *ranker) sources(edges []Edge) {
	var positions []int32
	for _, e := range edges {
		positions = append(positions, r.places.Position(e.Source))
	}
	r.fetch(positions)
	q := r.queries
	targets := r.team.Zeros(tensor.Buffers, batch, r.h.Cols) // their rows
	// targets × sources; the edges' are the diagonal
	scores := r.team.Memory.New(tensor.Buffers, batch, batch)
	defer exchange.Release(targets, scores)
	columns := r.h.Cols
	weightsOf := r.decoder.weights(r.ones)
	r.team.OnHost("ranks", r.x, r.h)
	x, h := r.x.ReadFloats(), r.h.ReadFloats()
	toSources, toTargets := q.rows.WriteFloats(), targets.WriteFloats()
	for i, e := range edges {
		weights, to := weightsOf(e.Relation), rowOf(toSources, columns, i)
		for c, value := range rowOf(x, columns, r.at(e.Source)) {
			to[c] = value * weights[c]
		}
		target, _ := r.row(e.Target)
		copy(rowOf(toTargets, columns, i), rowOf(h, columns, target))
	}
	r.team.MatMul(scores, targets, q.rows, kernel.Transposed, kernel.Replace)
	q.edges[0] = int32(len(edges))
	for i, e := range edges {
		q.edges[1+rankNumbers*i], q.edges[2+rankNumbers*i] = e.Relation, e.Source
		q.score[i] = rowOf(scores.ReadFloats(), batch, i)[i]
	}
}

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

// tell starts to send the queries to the other workers. Nearby ranks look at them.
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
	r.use()
	r.scores = r.team.Zeros(tensor.Buffers, r.tile, batch)
	theirs := r.newQueries(tensor.Buffers, r.h.Cols)
	if slices.ContainsFunc(r.ranked, func(c candidates) bool { return c.drawn != nil }) {
		r.among = r.team.Zeros(tensor.Buffers, r.tile, r.h.Cols)
	}
	defer exchange.Release(r.scores, r.among, theirs.rows)
	for root := range r.comm.Size() {
		of := counts[2*batch*root:][:2*batch]
		switch {
		case root == r.me:
			r.count(of, r.queries)
		case r.comm.Nearby(root):
			near := r.there(root).queries
			r.count(of, near)
			near.rows.DontNeed()
		default:
			for _, data := range theirs.messages() {
				exchange.Must(r.comm.Receive(comm.Links, data, root).Wait())
			}
			r.count(of, theirs)
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
	r.team.OnHost("ranks", scores)
	values := scores.ReadFloats()
	r.team.Parallel((n+perThread-1)/perThread, func(k int) {
		first := k * perThread
		own := q.score[first:min(first+perThread, n)]
		var above, same [perThread]int
		for v := range scores.Rows {
			of := rowOf(values, batch, v)[first:][:len(own)]
			for i, score := range own {
				above[i] += one(of[i] > score)
				same[i] += one(of[i] == score)
			}
		}
		for i, score := range own {
			edge := q.edges[1+rankNumbers*(first+i):]
			if r.learned.Ends[edge[0]].Targets != c.targets {
				continue
			}
			before := int32(-1)
			for _, row := range r.targetsOf(edge[0], edge[1]) {
				if row == before {
					continue
				}
				before = row
				if at := c.number(row) - lo; at >= 0 && at < hi-lo {
					known := rowOf(values, batch, at)[first+i]
					above[i] -= one(known > score)
					same[i] -= one(known == score)
				}
			}
			counts[first+i] += float64(above[i])
			counts[batch+first+i] += float64(same[i])
		}
	})
}

// one returns 1 if holds, else 0. It compiles to code without a branch, which would be mispredicted.
func one(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
