package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// AttentionGradients are what one block adds to. Source and SourceScore have a row per source, the others per
// destination. Source and Target are Float32 or BFloat16, which is rounded after each block.
type AttentionGradients struct {
	Source                   *tensor.Matrix
	SourceScore, TargetScore *tensor.Matrix // GATv1
	Target, A                *tensor.Matrix // GATv2
}

// Attended is what the backward pass takes of each destination: the gradient of its output (rows ×
// heads·width, of Source's element type), and for each head (rows × heads) the product ⟨gradient, output⟩
// and the state's Maximum after the last block.
type Attended struct{ Grad, GradDotOut, LogSum *tensor.Matrix }

// AttendBackward adds one block's gradients to d. e and loops are as in Attend, and transposed is the
// transpose of e. Coefficients are computed again from the scores. GATv1's gradient of a target score is
// right when all blocks' are added: it uses that ∂ of the scores of all of a destination's edges have sum 0.
func (t *Team) AttendBackward(d AttentionGradients, a Attention, e, transposed *CSR, loops *tensor.Matrix, of Attended) {
	args := a.c(e)
	check("gradient", of.Grad, e.Rows, a.Heads*a.Width)
	check("⟨gradient, output⟩", of.GradDotOut, e.Rows, a.Heads)
	check("log-sum-exp", of.LogSum, e.Rows, a.Heads)
	args.log_sum, args.g, args.g_dot_out = floats(of.LogSum), storage(of.Grad), floats(of.GradDotOut)
	args.picks = boolean(a.picks(e))
	pack := t.scratch(tensor.Float32, e.Rows, C.WEFT_PACK*a.Heads)
	args.pack = floats(pack)
	t.rows(on(C.weft_attend_pack), unsafe.Pointer(&args), e.Rows, C.WEFT_PACK*a.Heads)
	t.backTarget(args, d, a, e, loops, of.Grad, pack)
	t.backSource(args, d, a, transposed, loops, of.Grad)
	pack.Release()
}

// picks says whether GATv1's ∂target_score picks the rows of one side of LeakyReLU's knee and leaves the
// others unread. That takes time for each destination and head, so it does not pay where these have few
// edges, nor where the heads of an edge share a cache line.
func (a Attention) picks(e *CSR) bool {
	const few, line = 8, 16
	return e.Entries() >= few*e.Rows && (a.Heads == 1 || a.Width >= line)
}

// backTarget adds what the edges of a destination give it, and ∂a.
func (t *Team) backTarget(args C.weft_attention_args, d AttentionGradients, a Attention, e *CSR, loops, g, pack *tensor.Matrix) {
	p := t.parts(e, loops, a.TargetIDs)
	part := args
	overParts(&part, p)
	part.whole = 0
	part.target, part.target_ids = storage(p.copies(a.Target)), ints(p.ids)
	part.g, part.pack = storage(p.copies(g)), floats(p.copies(pack))
	part.d_target, part.d_target_score = either(p.sums(d.Target)), floats(p.sums(d.TargetScore))
	over(&args, e, loops)
	args.d_target, args.d_type, args.d_target_score = either(d.Target), C.int32_t(typeOf(d.Target)), floats(d.TargetScore)
	if a.A == nil {
		r := on(C.weft_attend_back_target, a.Source, g)
		t.edges(r, unsafe.Pointer(&args), e, e.Hubs, a.Heads*a.Width)
		for range p.each() {
			p.run(r, unsafe.Pointer(&part))
		}
	} else {
		r, n := on(C.weft_attend_back_target_v2, a.Source, a.Target, g), tiles(e.Rows)
		// Of each tile, and then of each part of hubs
		partial := t.scratch(tensor.Float64, n+lanes, a.Heads*a.Width)
		row := t.scratch(tensor.Float32, n+lanes, a.Heads*a.Width)
		t.Zero(partial)
		t.Zero(row)
		run := func(args C.weft_attention_args, k, lo, hi int) {
			args.d_a, args.da_row = doubles(partial.RowRange(k, k+1)), floats(row.RowRange(k, k+1))
			r.run(unsafe.Pointer(&args), lo, hi)
		}
		call := Call{names[r.name], Shape{e.Rows, a.Heads * a.Width}, e.Entries()}
		t.make(call, n, func(k int) { run(args, k, k*C.WEFT_TILE, min((k+1)*C.WEFT_TILE, e.Rows)) })
		for range p.each() {
			t.make(Call{Kernel: call.Kernel, Shape: Shape{lanes}}, lanes, func(k int) { run(part, n+k, k, k+1) })
		}
		t.mergeTiles(partial, func(c int, v float64) { d.A.Floats()[c] += float32(v) })
		partial.Release()
		row.Release()
	}
	p.release()
}

// backSource adds what the edges of a source give it.
func (t *Team) backSource(args C.weft_attention_args, d AttentionGradients, a Attention, transposed *CSR, loops, g *tensor.Matrix) {
	kernel := C.int(C.weft_attend_back_source)
	if a.A != nil {
		kernel = C.weft_attend_back_source_v2
	}
	p := t.parts(transposed, loops, a.SourceIDs)
	part := args
	overParts(&part, p)
	part.source, part.source_score, part.source_ids = storage(p.copies(a.Source)), floats(p.copies(a.SourceScore)), ints(p.ids)
	part.d_source, part.d_source_score = either(p.sums(d.Source)), floats(p.sums(d.SourceScore))
	over(&args, transposed, loops)
	args.d_source, args.d_type, args.d_source_score = either(d.Source), C.int32_t(typeOf(d.Source)), floats(d.SourceScore)
	r := on(kernel, a.Source, a.Target, g)
	t.edges(r, unsafe.Pointer(&args), transposed, transposed.Hubs, a.Heads*a.Width)
	for range p.each() {
		p.run(r, unsafe.Pointer(&part))
	}
	p.release()
}
