package kernel

// #include "weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// Attention is softmax attention over in-edges with Heads heads of Width columns. With A nil it is GATv1: the score of j→i is
// LeakyReLU(SourceScore_j + TargetScore_i) per head. Otherwise GATv2: Σ_c A_c·LeakyReLU(Source_jc + Target_ic). The slope of LeakyReLU
// is from 0 to 1.
type Attention struct {
	Heads, Width             int
	Slope                    float64
	Source                   *tensor.Matrix // source rows × Heads·Width
	SourceScore, TargetScore *tensor.Matrix // GATv1: rows × Heads
	Target, A                *tensor.Matrix // GATv2: destination rows × Heads·Width, 1 × Heads·Width
	Mask                     Mask           // attention dropout, by both ends, head and occurrence; its ids are not used
	SourceIDs, TargetIDs     *tensor.Matrix // Int32, the rows' vertices for the mask, nil: the row itself
}

func (a Attention) c() C.weft_attention_args {
	if !(a.Slope >= 0 && a.Slope <= 1) {
		panic(fmt.Sprintf("kernel: attention with slope %v", a.Slope))
	}
	return C.weft_attention_args{
		source: floats(a.Source), target: floats(a.Target), source_score: floats(a.SourceScore), target_score: floats(a.TargetScore),
		a: floats(a.A), source_ids: ints(a.SourceIDs), target_ids: ints(a.TargetIDs), heads: C.int64_t(a.Heads), width: C.int64_t(a.Width),
		slope: C.float(a.Slope), mask: a.Mask.c(),
	}
}

func over(args *C.weft_attention_args, a *CSR, loops *tensor.Matrix) {
	args.indptr, args.indices, args.loops = longs(a.Indptr), ints(a.Indices), ints(loops)
}

// AttentionState is the running softmax of every destination row and head. It can be extended by further edges in any number of
// blocks, of which one is the last; then it can be used anew.
type AttentionState struct {
	Maximum *tensor.Matrix // rows × heads: of the scores; after the last block their log-sum-exp, which is all that the backward pass needs
	Out     *tensor.Matrix // rows × heads·width: weighted sums, after the last block the output
	sum     *tensor.Matrix // rows × heads: Σ exp(score − maximum), between blocks
	begun   bool
}

// AttentionStart returns the state before any edge.
func (t *Team) AttentionStart(rows, heads, width int) *AttentionState {
	return &AttentionState{Maximum: t.Memory.New(tensor.Activations, rows, heads), Out: t.Memory.New(tensor.Activations, rows, heads*width)}
}

// Attend extends the state by the edges of one block: row i of e lists sources of destination i. loops (Int32, rows × 1, nil: none)
// says how many self loops each row has besides; sources and destinations are then the same rows. With last set no block follows.
func (t *Team) Attend(s *AttentionState, a Attention, e *CSR, loops *tensor.Matrix, last bool) {
	if s.sum == nil && !last {
		s.sum = t.scratch(tensor.Float32, e.Rows, a.Heads)
	}
	args := a.c()
	over(&args, e, loops)
	args.maximum, args.sum, args.z = floats(s.Maximum), floats(s.sum), floats(s.Out)
	args.first, args.last = boolean(!s.begun), boolean(last)
	kernel := C.int(C.weft_attend)
	if a.A != nil {
		kernel = C.weft_attend_v2
	}
	t.edges(kernel, unsafe.Pointer(&args), e, a.Heads*a.Width)
	s.begun = !last
	if last {
		s.sum.Release()
		s.sum = nil
	}
}

// AttentionGradients are what one block adds to. Source and SourceScore have a row per source, the others per destination.
type AttentionGradients struct {
	Source                   *tensor.Matrix
	SourceScore, TargetScore *tensor.Matrix // GATv1
	Target, A                *tensor.Matrix // GATv2
}

// AttendBackward adds one block's gradients: e as in Attend and transposed its transpose, g the output's gradient, gOut the
// scalar ⟨g, output⟩ per destination and head, logSum the state's Maximum after the last block. Coefficients are computed again from
// the scores. GATv1's gradient of a target score is right when all blocks' are added: it uses that ∂ of the scores of all of a
// destination's edges have sum 0.
func (t *Team) AttendBackward(d AttentionGradients, a Attention, e, transposed *CSR, loops, g, gOut, logSum *tensor.Matrix) {
	args := a.c()
	args.log_sum, args.g, args.g_dot_out = floats(logSum), floats(g), floats(gOut)
	args.d_source, args.d_source_score = floats(d.Source), floats(d.SourceScore)
	args.d_target, args.d_target_score = floats(d.Target), floats(d.TargetScore)
	pack := t.scratch(tensor.Float32, e.Rows, 3*a.Heads)
	args.pack = floats(pack)
	t.rows(C.weft_attend_pack, unsafe.Pointer(&args), e.Rows, 3*a.Heads)
	bySource := args
	over(&args, e, loops)
	over(&bySource, transposed, loops)
	if a.A == nil {
		t.edges(C.weft_attend_back_target, unsafe.Pointer(&args), e, a.Heads*a.Width)
	} else {
		n := tiles(e.Rows)
		partial := t.scratch(tensor.Float64, n, a.Heads*a.Width)
		row := t.scratch(tensor.Float32, n, a.Heads*a.Width)
		t.Zero(partial)
		t.Zero(row)
		args.d_a, args.da_rows = doubles(partial), floats(row)
		t.Parallel(n, func(k int) {
			C.weft_run(C.weft_attend_back_target_v2, unsafe.Pointer(&args), C.int64_t(k*C.WEFT_TILE), C.int64_t(min((k+1)*C.WEFT_TILE, e.Rows)))
		})
		t.mergeTiles(partial, func(c int, v float64) { d.A.Floats()[c] += float32(v) })
		partial.Release()
		row.Release()
	}
	kernel := C.int(C.weft_attend_back_source)
	if a.A != nil {
		kernel = C.weft_attend_back_source_v2
	}
	t.edges(kernel, unsafe.Pointer(&bySource), transposed, a.Heads*a.Width)
	pack.Release()
}

// RowDots is out_ih = ⟨x_ih, y_ih⟩ over the width of each head, for x and y rows × heads·width.
func (t *Team) RowDots(out, x, y *tensor.Matrix) {
	tensor.SameShape(x, y)
	args := &C.weft_head_dot_args{out: floats(out), z: floats(x), a: floats(y), heads: C.int64_t(out.Cols), width: C.int64_t(x.Cols / out.Cols)}
	t.rows(C.weft_row_dots, unsafe.Pointer(args), x.Rows, x.Cols)
}
