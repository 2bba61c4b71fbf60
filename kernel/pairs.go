package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// Pairs are pairs of rows of a matrix X, each of a relation, with the score Σ_c x_sc · w_rc · x_tc for source s,
// target t and relation r (DistMult, Yang et al. 2015).
type Pairs struct {
	X       *tensor.Matrix // Float32, rows × D
	Weights *tensor.Matrix // Float32, relations × D; nil: 1
	Of      *tensor.Matrix // Int32, n × 3: relation, source and target of each pair
}

func (p *Pairs) args() *C.weft_pairs_args {
	check("pairs", p.Of, p.Of.Rows, 3)
	return &C.weft_pairs_args{
		x: floats(p.X), w: floats(p.Weights), pairs: ints(p.Of),
		n: C.int64_t(p.Of.Rows), cols: C.int64_t(p.X.Cols),
	}
}

// gathers is the kernel, which reads a row of each end of the pairs.
func (p *Pairs) gathers(name C.int) routine {
	r := on(name).streams(p.Of)
	r.bytes.Streamed += 2 * p.Of.Rows * p.X.Cols * p.X.Element.Size()
	return r
}

// PairScores makes scores (Float32, n × 1) those of the pairs.
func (t *Team) PairScores(scores *tensor.Matrix, p Pairs) {
	check("scores", scores, p.Of.Rows, 1)
	args := p.args()
	args.scores = floats(scores)
	t.rows(p.gathers(C.weft_pair_scores).streams(scores), unsafe.Pointer(args), p.Of.Rows, p.X.Cols)
}

// PairRows makes dx (like X) the gradient by X, where g (Float32, n × 1) is that by the scores. The pairs of row
// r are ends_e / 2 (Int32, 1 × 2n) for begin_r ≤ e < begin_{r+1} (Int32, 1 × rows+1): it is the source of an even
// ends_e, and the target of an odd one.
func (t *Team) PairRows(dx, g *tensor.Matrix, p Pairs, begin, ends *tensor.Matrix) {
	check("gradient", dx, p.X.Rows, p.X.Cols)
	check("gradients of scores", g, p.Of.Rows, 1)
	check("ends", ends, 1, 2*p.Of.Rows)
	check("begins", begin, 1, p.X.Rows+1)
	args := p.args()
	args.dx, args.g, args.begin, args.ends = floats(dx), floats(g), ints(begin), ints(ends)
	pairs := 2 * p.Of.Rows / max(1, p.X.Rows)
	t.rows(p.gathers(C.weft_pair_rows).streams(dx, begin, ends), unsafe.Pointer(args), p.X.Rows, p.X.Cols*(1+pairs))
}

// PairWeights adds the gradient by the weights to dw (Float64, relations × D).
func (t *Team) PairWeights(dw, g *tensor.Matrix, p Pairs) {
	check("gradients of scores", g, p.Of.Rows, 1)
	args := p.args()
	args.dw, args.g = doubles(dw), floats(g)
	t.rows(p.gathers(C.weft_pair_weights).streams(dw, g), unsafe.Pointer(args), p.X.Cols, 2*p.Of.Rows)
}

// Above returns for each of the first columns of x (Float32), as many as scores (Float32, n × 1), how many of its
// numbers are above the score, and behind these x.Cols numbers how many are equal to it. NaN is neither.
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
