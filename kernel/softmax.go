package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// checkSoftmaxSum panics where softmax aggregation of a matrix's edges has other shapes, or what it does not
// know.
func (a Attention) checkSoftmaxSum(e *CSR) {
	if a.Width != 1 || a.Mask.Active() || a.Edges.Rows != nil {
		panic(fmt.Sprintf("kernel: softmax aggregation with heads of %d columns, dropout (%t) or features of "+
			"edges (%t)", a.Width, a.Mask.Active(), a.Edges.Rows != nil))
	}
	check("source", a.Source, e.Cols, a.Heads)
	check("inverse temperature", a.InverseTemperature, 1, a.Heads)
}

// softmaxSum is Attend for softmax aggregation.
func (t *Team) softmaxSum(s *AttentionState, a Attention, e *CSR, loops *tensor.Matrix, end Ending) {
	a.checkSoftmaxSum(e)
	e = e.cutLong()
	args := C.weft_softmax_sum_args{
		maximum: floats(s.Maximum), sum: floats(s.sum), z: either(s.Out), z_type: C.int32_t(typeOf(s.Out)),
		x: storage(a.Source), t: floats(a.InverseTemperature), edges: e.c(), loops: ints(loops),
		cols: C.int64_t(a.Heads), first: boolean(!s.begun), last: boolean(end == Last),
	}
	r := on(C.weft_softmax_sum, a.Source).needs(e.structure()...).writes(s.Out, s.Maximum).
		gathers(e.Entries(), a.Source)
	if s.begun {
		r = r.streams(s.Out, s.Maximum)
	}
	t.edges(r, unsafe.Pointer(&args), e, a.Heads)
	b := t.bySegments(e)
	partials := b.states(s, a.Heads, 1, args.first, args.last)
	args.maximum, args.sum, args.z, args.z_type = partials.partial_maximum, partials.partial_sum,
		unsafe.Pointer(partials.partial_z), C.WEFT_FLOAT32
	args.first, args.last = 1, 0
	b.runStates(r, unsafe.Pointer(&args), &partials)
}

// softmaxSumBackward is AttendBackward for softmax aggregation. d.SourceScore is the gradient of the scores,
// source rows × columns; nil: it is not computed. d.Source includes the gradient through the scores.
func (t *Team) softmaxSumBackward(d AttentionGradients, a Attention, e, transposed *CSR,
	loops *tensor.Matrix, result Attended,
) {
	a.checkSoftmaxSum(e)
	check("gradient", result.Grad, e.Rows, a.Heads)
	check("output", result.Out, e.Rows, a.Heads)
	check("log-sum-exp", result.LogSum, e.Rows, a.Heads)
	check("gradient of the source", d.Source, e.Cols, a.Heads)
	check("gradient of the scores", d.SourceScore, e.Cols, a.Heads)
	transposed = transposed.cutLong()
	args := C.weft_softmax_sum_back_args{
		dx: either(d.Source), dx_type: C.int32_t(typeOf(d.Source)), ds: floats(d.SourceScore),
		x: storage(a.Source), g: storage(result.Grad), z: storage(result.Out), log_sum: floats(result.LogSum),
		t: floats(a.InverseTemperature), edges: transposed.c(), loops: ints(loops), cols: C.int64_t(a.Heads),
	}
	r := on(C.weft_softmax_sum_back, a.Source, result.Grad, result.Out).needs(transposed.structure()...).
		needs(a.Source).writes(d.Source, d.SourceScore).streams(d.Source, d.SourceScore).
		gathers(transposed.Entries(), result.Grad, result.Out, result.LogSum)
	t.edges(r, unsafe.Pointer(&args), transposed, a.Heads)
	b := t.bySegments(transposed)
	args.dx, args.dx_type = either(b.sum(d.Source)), C.WEFT_FLOAT32
	args.ds = floats(b.sum(d.SourceScore))
	b.runSums(r, unsafe.Pointer(&args), Accumulate)
}
