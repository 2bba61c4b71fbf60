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
	perThread   = 16  // edges that one thread counts for: their scores against a candidate are a cache perThread
)

// Ranks returns the rank of each of this worker's edges u→v of a part: the rank of v, from 1, among the
// candidates v' by the score of u→v'. Candidates v' that have an edge u→v' of the relation, in any part, do
// not count (filtered ranks, Bordes et al. 2013). A candidate with an equal score counts one half. Each
// worker scores its own candidates for the edges of all workers.
func (l *Edges) Ranks(h *tensor.Matrix, d Decoder, part Part) (ranks []float64) {
	r := l.ranking(h, d)
	defer r.release()
	edges := walk{Edges: l, part: part}
	rounds := l.rounds(part, batch)
	if l.team.Planning() { // others may have edges where this worker has none
		rounds = 1
	}
	for range rounds {
		own := edges.next(batch)
		r.sources(own)
		for root := range l.comm.Size() {
			counts := r.count(own, root)
			if root != l.comm.Rank() {
				continue
			}
			for i := range own {
				ranks = append(ranks, 1+counts[i]+counts[batch+i]/2)
			}
		}
	}
	return ranks
}

// ranking has the buffers for a batch of edges.
type ranking struct {
	*edgeBatch
	own, all *tensor.Matrix // batch × D: the sources' rows times the decoder's weights, of own edges and of one worker's
	targets  *tensor.Matrix // batch × D: rows of the targets of own edges
	mine     *tensor.Matrix // batch × batch: own targets × own sources; the edges' scores are the diagonal
	among    *tensor.Matrix // tile × D: rows of candidates, if not all vertices are candidates
	scores   *tensor.Matrix // tile × batch: candidates × edges
	tile     int
	edges    []int32 // rankNumbers of each edge; after the last edge undefined
	score    []float32
}

func (l *Edges) ranking(h *tensor.Matrix, d Decoder) *ranking {
	r := &ranking{edgeBatch: &edgeBatch{decoder: d, ones: slices.Repeat([]float32{1}, h.Cols), window: l.window(h, batch, toScore)}}
	r.tile = min(max(1, l.ownCandidates()), max(1, l.bytes/4/batch))
	r.edges, r.score = make([]int32, rankNumbers*batch), make([]float32, batch)
	buffer := func(rows, cols int) *tensor.Matrix {
		m := l.team.Memory.New(tensor.Buffers, rows, cols)
		l.team.Zero(m)
		return m
	}
	r.own, r.all, r.targets = buffer(batch, h.Cols), buffer(batch, h.Cols), buffer(batch, h.Cols)
	r.mine, r.scores = buffer(batch, batch), buffer(r.tile, batch)
	if l.ranked != nil {
		r.among = buffer(r.tile, h.Cols)
	}
	return r
}

func (r *ranking) release() {
	r.window.release()
	exchange.Release(r.own, r.all, r.targets, r.mine, r.among, r.scores)
}

// ownCandidates returns the number of candidates among the worker's own rows.
func (l *Edges) ownCandidates() int {
	if l.ranked != nil {
		return l.ranked.Cols
	}
	return l.rows
}

// sources fetches the rows of the sources of own edges, and scores these edges. A score has the same bits
// here and in countTile, so that targets with equal embeddings tie: in both, a target is a row of a product
// with the same sources, and the bits of a product's row do not depend on the other rows.
func (r *ranking) sources(edges []Edge) {
	var positions []int32
	for _, e := range edges {
		positions = append(positions, r.places.Position(e.Source))
	}
	r.fetch(positions)
	for i, e := range edges {
		weights, row := r.decoder.weights(e.Relation, r.ones), r.row(e.Source)
		for c, x := range row {
			rowOf(r.own, i)[c] = x * weights[c]
		}
		copy(rowOf(r.targets, i), rowOf(r.h, int(r.places.Position(e.Target))-r.places.Starts[r.me]))
	}
	r.team.MatMul(r.mine, r.targets, r.own, kernel.Transposed, kernel.Replace)
}

// count returns, on all workers, for each edge of worker root the number of candidates with a higher score,
// and after these batch numbers the number of candidates with an equal score. own has the edges on worker
// root.
func (r *ranking) count(own []Edge, root int) (counts []float64) {
	counts = make([]float64, 2*batch)
	n := []int32{int32(len(own))}
	if !r.team.Planning() {
		if root == r.comm.Rank() {
			r.team.Copy(r.all, r.own)
			for i, e := range own {
				r.edges[rankNumbers*i], r.edges[rankNumbers*i+1] = e.Relation, e.Source
				r.score[i] = rowOf(r.mine, i)[i]
			}
		}
		for _, data := range [][]byte{comm.Bytes(n), r.all.Bytes(), comm.Bytes(r.edges), comm.Bytes(r.score)} {
			exchange.Must(r.comm.Broadcast(comm.Links, data, root))
		}
	}
	for lo := 0; lo < r.ownCandidates(); lo += r.tile {
		r.countTile(counts, int(n[0]), lo, min(lo+r.tile, r.ownCandidates()))
	}
	if !r.team.Planning() {
		exchange.Must(r.comm.SumDoubles(comm.Statistics, counts))
	}
	return counts
}

// countTile counts candidates lo … hi−1 for n edges.
func (r *ranking) countTile(counts []float64, n, lo, hi int) {
	var rows *tensor.Matrix
	if r.ranked == nil {
		rows = r.h.RowRange(lo, hi)
	} else {
		rows = r.among.RowRange(0, hi-lo)
		r.team.Gather(rows, r.h, r.ranked.Reshape(r.ranked.Cols, 1).RowRange(lo, hi).Reshape(1, hi-lo))
	}
	scores := r.scores.Prefix(hi-lo, batch)
	r.team.MatMul(scores, rows, r.all, kernel.Transposed, kernel.Replace)
	r.team.Parallel((n+perThread-1)/perThread, func(k int) {
		first := k * perThread
		own := r.score[first:min(first+perThread, n)]
		var above, same [perThread]int
		for v := range scores.Rows {
			of := rowOf(scores, v)[first:][:len(own)]
			for i, score := range own {
				above[i] += one(of[i] > score)
				same[i] += one(of[i] == score)
			}
		}
		for i, score := range own {
			edge := r.edges[rankNumbers*(first+i):]
			for _, row := range r.targetsOf(edge[0], edge[1]) {
				if at := r.candidate(row) - lo; at >= 0 && at < hi-lo {
					known := rowOf(scores, at)[first+i]
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

// candidate returns the number of an own row among the candidates, or −1 if it is no candidate.
func (l *Edges) candidate(row int32) int {
	if l.ranked == nil {
		return int(row)
	}
	i, found := slices.BinarySearch(l.ranked.Int32s(), row)
	if !found {
		return -1
	}
	return i
}
