package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// Pairs are pairs of rows of a matrix X, each with a relation. The score of source s and target t with
// relation r is Σ_c x_sc · w_rc · x_tc (DistMult, Yang et al. 2015).
type Pairs struct {
	X       *tensor.Matrix // Float32, rows × D
	Weights *tensor.Matrix // Float32, relations × D; nil: all weights are 1
	Triples *tensor.Matrix // Int32, n × 3: relation, source and target of each pair
}

func (p *Pairs) args() *C.weft_pairs_args {
	check("pairs", p.Triples, p.Triples.Rows, 3)
	return &C.weft_pairs_args{
		x: floats(p.X), w: floats(p.Weights), pairs: ints(p.Triples),
		n: C.int64_t(p.Triples.Rows), cols: C.int64_t(p.X.Cols),
	}
}

// gathers returns the kernel of that name, whose bytes count a row for each end of the pairs.
func (p *Pairs) gathers(name C.int) routine {
	r := on(name).streams(p.Triples)
	r.bytes.Streamed += 2 * p.Triples.Rows * p.X.Cols * p.X.Element.Size()
	return r
}

// PairScores sets scores (Float32, n × 1) to the scores of the pairs.
func (t *Team) PairScores(scores *tensor.Matrix, p Pairs) {
	check("scores", scores, p.Triples.Rows, 1)
	args := p.args()
	args.scores = floats(scores)
	t.rows(p.gathers(C.weft_pair_scores).streams(scores), unsafe.Pointer(args), p.Triples.Rows, p.X.Cols)
}

// PairRows sets dx (in the shape of X) to the gradient by X, where g (Float32, n × 1) is the gradient by the
// scores. Row r is in the pairs ends_e / 2 (ends is Int32, 1 × 2n) for begin_r ≤ e < begin_{r+1} (begin is
// Int32, 1 × rows+1). It is the source if ends_e is even, and the target if it is odd.
func (t *Team) PairRows(dx, g *tensor.Matrix, p Pairs, begin, ends *tensor.Matrix) {
	check("gradient", dx, p.X.Rows, p.X.Cols)
	check("gradients of scores", g, p.Triples.Rows, 1)
	check("ends", ends, 1, 2*p.Triples.Rows)
	check("begins", begin, 1, p.X.Rows+1)
	args := p.args()
	args.dx, args.g, args.begin, args.ends = floats(dx), floats(g), ints(begin), ints(ends)
	pairs := 2 * p.Triples.Rows / max(1, p.X.Rows)
	t.rows(p.gathers(C.weft_pair_rows).streams(dx, begin, ends), unsafe.Pointer(args), p.X.Rows, p.X.Cols*(1+pairs))
}

// PairWeights adds the gradient by the weights to dw (Float64, relations × D). g is as in PairRows.
func (t *Team) PairWeights(dw, g *tensor.Matrix, p Pairs) {
	check("gradients of scores", g, p.Triples.Rows, 1)
	args := p.args()
	args.dw, args.g = doubles(dw), floats(g)
	t.rows(p.gathers(C.weft_pair_weights).streams(dw, g), unsafe.Pointer(args), p.X.Cols, 2*p.Triples.Rows)
}

// Above counts, in each column of x (Float32) that has a score (Float32, n × 1: the first n columns), the
// numbers above the score and the numbers equal to it. It returns x.Cols counts of the former, and then
// x.Cols counts of the latter. NaN is neither.
func (t *Team) Above(x, scores *tensor.Matrix) []float64 {
	partial := t.scratch(tensor.Float64, tiles(x.Rows), 2*x.Cols)
	args := &C.weft_above_args{
		tiles: doubles(partial), x: floats(x), score: floats(scores),
		rows: C.int64_t(x.Rows), cols: C.int64_t(x.Cols), n: C.int64_t(scores.Rows),
	}
	t.overTiles(on(C.weft_above).streams(x), unsafe.Pointer(args), x.Rows, x.Cols)
	counts := make([]float64, 2*x.Cols)
	t.readTiles(counts, partial)
	return counts
}
