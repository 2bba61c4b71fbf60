package kernel

// #include "native/weft.h"
import "C"

import (
	"unsafe"

	"weft/tensor"
)

// AttentionGradients are the gradients that a block adds to. Source, Key and SourceScore have a row for each
// source, Target and TargetScore for each destination. Source, Key and Target have the same type, Float32 or
// BFloat16; BFloat16 sums are rounded after each block.
type AttentionGradients struct {
	Source                   *tensor.Matrix
	SourceScore, TargetScore *tensor.Matrix // GATv1; the first of softmax aggregation, too
	Target                   *tensor.Matrix // GATv2, dot products
	A                        *tensor.Matrix // GATv2
	Key                      *tensor.Matrix // dot products
	EdgeVector, EdgeWeight   *tensor.Matrix // in the shapes of EdgeFeatures.Vector and Weight
}

// Attended has what the backward pass reads for each destination: the gradient of its output (rows ×
// heads·width, of Source's element type), and for each head (rows × heads) the product ⟨gradient, output⟩ and
// the state's Maximum after the last block. Softmax aggregation reads Out, the output (of Source's element
// type), in place of the product.
type Attended struct{ Grad, GradDotOut, LogSum, Out *tensor.Matrix }

// AttendBackward adds one block's gradients to d. e and loops are as in Attend, and transposed is the
// transpose of e. Coefficients are computed again from the scores. GATv1's gradient of a target score is
// right only when all blocks have been added: it uses that the gradients of the scores of all edges of a
// destination add up to 0.
func (t *Team) AttendBackward(d AttentionGradients, a Attention, e, transposed *CSR,
	loops *tensor.Matrix, saved Attended,
) {
	if a.InverseTemperature != nil {
		t.softmaxSumBackward(d, a, e, transposed, loops, saved)
		return
	}
	d = a.gradients(d)
	args, workspaces := a.c(e), a.workspaces(t)
	args.workspaces = workspaces.c()
	check("gradient", saved.Grad, e.Rows, a.Heads*a.Width)
	check("⟨gradient, output⟩", saved.GradDotOut, e.Rows, a.Heads)
	check("log-sum-exp", saved.LogSum, e.Rows, a.Heads)
	args.log_sum, args.g, args.g_dot_out = floats(saved.LogSum), storage(saved.Grad), floats(saved.GradDotOut)
	args.picks = boolean(a.picks(e))
	pack := t.scratch(tensor.Float32, e.Rows, C.WEFT_PACK*a.Heads)
	args.pack = floats(pack)
	t.rows(on(C.weft_attend_pack).streams(pack, saved.LogSum, saved.GradDotOut, a.TargetScore),
		unsafe.Pointer(&args), e.Rows, C.WEFT_PACK*a.Heads)
	t.backTarget(args, d, a, e, loops, saved.Grad, pack)
	t.backSource(args, d, a, transposed, loops, saved.Grad, pack)
	pack.Release()
	workspaces.release()
}

// gradients returns d with only the gradients that the form of attention has.
func (a Attention) gradients(d AttentionGradients) AttentionGradients {
	if a.Key == nil {
		d.Key = nil
	}
	if v1 := a.A == nil && a.Key == nil; v1 {
		d.Target = nil
	} else {
		d.SourceScore, d.TargetScore = nil, nil
	}
	return d
}

// picks says whether GATv1's ∂target_score reads only the rows on one side of LeakyReLU's knee. Picking them
// takes time for each destination and head. So it does not pay for destinations of few edges, nor for a head
// with less than a cache line of columns.
func (a Attention) picks(e *CSR) bool {
	const few, line = 8, 16
	return e.Entries() >= few*e.Rows && a.Width >= line
}

// backTarget adds the gradients of each destination from its edges, and ∂a.
func (t *Team) backTarget(args C.weft_attention_args, d AttentionGradients, a Attention, e *CSR, loops, g,
	pack *tensor.Matrix,
) {
	over(&args, e, loops)
	part := args
	args.d_target, args.d_type, args.d_target_score = either(d.Target), C.int32_t(typeOf(d.Target)),
		floats(d.TargetScore)
	b := t.bySegments(e)
	part.whole = 0
	part.d_target, part.d_target_score = either(b.sum(d.Target)), floats(b.sum(d.TargetScore))
	if sums := a.edgeSums(d); len(sums) > 0 {
		r := a.backTargetOn(C.weft_attend_back_target_edges, d, e, g, pack)
		t.backTargetSums(r, args, part, b, a, e, sums)
	} else {
		r := a.backTargetOn(C.weft_attend_back_target, d, e, g, pack)
		t.edges(r, unsafe.Pointer(&args), e, a.Heads*a.Width)
		b.runSums(r, unsafe.Pointer(&part), Accumulate)
	}
}

// backTargetOn returns backTarget's kernel, which is v1 for GATv1.
func (a Attention) backTargetOn(v1 C.int, d AttentionGradients, e *CSR, g, pack *tensor.Matrix) routine {
	kernel := a.kernel(v1, C.weft_attend_back_target_v2, C.weft_attend_back_target_dot)
	return on(kernel, append(a.operands(), g)...).needs(e.structure()...).
		needs(a.Target, a.Edges.Rows, g, pack).writes(d.Target, d.TargetScore).streams(d.Target, d.TargetScore).
		gathers(e.Entries(), a.Source, a.Key, a.SourceScore)
}

// edgeSums returns the gradients that are sums over all edges.
func (a Attention) edgeSums(d AttentionGradients) (sums []*tensor.Matrix) {
	if a.A != nil {
		sums = append(sums, d.A)
	}
	if a.Edges.Vector != nil {
		sums = append(sums, d.EdgeVector)
	}
	if a.Edges.Weight != nil {
		sums = append(sums, d.EdgeWeight)
	}
	return sums
}

// deviceEdgeRows is the number of rows, on a device, that share the sums of edge features: one warp adds to
// them.
const deviceEdgeRows = 128

// backTargetSums is backTarget's pass over the edges that also adds to sums. It sums up for each tile of
// rows, and for each partial result of segments.
func (t *Team) backTargetSums(r routine, args, part C.weft_attention_args, b *bySegments, a Attention, e *CSR,
	sums []*tensor.Matrix,
) {
	rows, onDevice := C.WEFT_TILE, a.Edges.Rows != nil && t.backend.has(r.name)
	if onDevice {
		rows = deviceEdgeRows
	}
	n, columns := parts(e.Rows, rows), 0
	for _, m := range sums {
		columns += m.Len()
	}
	// partial has the sums of each tile, and then those of each segment's partial result. single has the sums of a
	// row, in single precision. Memory is taken for all partial results. A plan does not know the segments, so used is
	// n there, and the sums of fewer rows are added up.
	used := n + min(b.count, len(e.Segments))
	partial := t.scratch(tensor.Float64, n+b.count, columns)
	t.Zero(partial)
	var single *tensor.Matrix
	if !onDevice {
		single = t.scratch(tensor.Float32, n+b.count, columns)
		t.Zero(single)
	}
	vector := 0 // the columns before the weight of edge features
	if a.Edges.Weight != nil {
		vector = columns - a.Edges.Weight.Len()
	}
	for _, p := range []*C.weft_attention_args{&args, &part} {
		p.d_a, p.da_row, p.d_edge_vector, p.sum_stride = doubles(partial), floats(single), doubles(partial),
			C.int64_t(columns)
		p.d_edge_weight = (*C.double)(unsafe.Add(unsafe.Pointer(p.d_a), 8*vector))
		if single != nil {
			p.d_edge_row = (*C.float)(unsafe.Add(unsafe.Pointer(p.da_row), 4*vector))
		}
	}
	args.sum_rows, part.sum_rows, part.first_sum = C.int64_t(rows), 1, C.int64_t(n)
	t.launch(Shape{e.Rows, a.Heads * a.Width}, e.Entries(), launch{
		links: oneKernel(r, unsafe.Pointer(&args)), last: e.Rows, cost: grain, tile: rows,
	})
	b.runSums(r, unsafe.Pointer(&part), Accumulate)
	from := 0
	for _, m := range sums {
		t.mergeTiles(m, partial.RowRange(0, used), from, m.Len())
		from += m.Len()
	}
	partial.Release()
	single.Release()
}

// backSource adds the gradients of each source from its edges.
func (t *Team) backSource(args C.weft_attention_args, d AttentionGradients, a Attention, transposed *CSR,
	loops, g, pack *tensor.Matrix,
) {
	over(&args, transposed, loops)
	args.feature_rows = ints(a.Edges.Transposed)
	part := args
	args.d_source, args.d_type, args.d_source_score = either(d.Source), C.int32_t(typeOf(d.Source)),
		floats(d.SourceScore)
	args.d_key = either(d.Key)
	b := t.bySegments(transposed)
	part.d_source, part.d_source_score, part.d_key = either(b.sum(d.Source)), floats(b.sum(d.SourceScore)),
		either(b.sum(d.Key))
	check("rows of edge features", a.Edges.Transposed, 1, transposed.Entries())
	r := on(a.kernel(C.weft_attend_back_source, C.weft_attend_back_source_v2, C.weft_attend_back_source_dot),
		append(a.operands(), g)...).needs(transposed.structure()...).
		needs(a.Source, a.SourceScore, a.Key, a.Edges.Rows).writes(d.Source, d.SourceScore, d.Key).
		streams(d.Source, d.SourceScore, d.Key).gathers(transposed.Entries(), g, pack, a.Target)
	t.edges(r, unsafe.Pointer(&args), transposed, a.Heads*a.Width)
	b.runSums(r, unsafe.Pointer(&part), Accumulate)
}
