package kernel

// #include "native/weft.h"
import "C"

import (
	"fmt"
	"unsafe"

	"weft/tensor"
)

// Attention is softmax attention over in-edges with Heads heads of Width columns. The score of j→i per head
// is, for a slope of LeakyReLU from 0 to 1,
//
//	GATv1: LeakyReLU(SourceScore_j + TargetScore_i)
//	GATv2: Σ_c A_c·LeakyReLU(Source_jc + Target_ic), where A is set
//	dot products: Σ_c Target_ic·Key_jc, where Key is set
//	softmax aggregation: InverseTemperature·Source_j, where that is set: each column is a head
//
// The heads may be some of a layer's heads, and in GATv1 the columns some of each head's. The state and the
// output then have the same bits as in a call with the whole layer.
type Attention struct {
	Heads, Width int
	// the first head's number in the layer, and how many heads the layer has; 0: Heads
	FirstHead, LayerHeads int
	Slope                 float64
	// source rows × Heads·Width, Float32 or BFloat16, as is Target
	Source                   *tensor.Matrix
	SourceScore, TargetScore *tensor.Matrix // GATv1: rows × Heads
	Target                   *tensor.Matrix // GATv2, dot products: destination rows × Heads·Width
	A                        *tensor.Matrix // GATv2: 1 × Heads·Width
	// dot products: source rows × Heads·Width, of Source's element type
	Key *tensor.Matrix
	// softmax aggregation: 1 × Heads. Width is then 1, edges have no features, and there is no Mask
	InverseTemperature *tensor.Matrix
	Edges              EdgeFeatures
	// Whole says that the edges are all edges of their destinations. AttendBackward may then read fewer rows.
	Whole bool
	// Mask is attention dropout. It is keyed by both ends, the head in the layer, and the number among equal
	// edges. Its ids are not used.
	Mask                 Mask
	SourceIDs, TargetIDs *tensor.Matrix // Int32: the rows' vertices, for the mask; nil: row i is vertex i
}

// EdgeFeatures are features of the edges of one block. In GATv1, Σ_f features_f·Vector_f is added to the two
// scores of an edge. In the other forms, e_c = Σ_f features_f·Weight_fc: GATv2 adds it to Source_jc +
// Target_ic, and dot products add it to Key_jc, and to Source_jc wherever that is read. The zero value has no
// features.
type EdgeFeatures struct {
	// Rows is entries × features, in the order of the block's entries, with Source's element type.
	Rows *tensor.Matrix
	// Transposed (Int32, 1 × entries) has the row in Rows of each entry of the transposed block, for the
	// backward pass.
	Transposed *tensor.Matrix
	// Loops has the features of the self loops, row by row. Those of row i begin at FirstLoop_i (Int64, one
	// for each row). nil: there are no loops.
	Loops, FirstLoop *tensor.Matrix
	Vector           *tensor.Matrix // GATv1: features × Heads
	Weight           *tensor.Matrix // other forms: features × Heads·Width
}

// columns returns the number of features of an edge.
func (f EdgeFeatures) columns() int {
	if f.Rows == nil {
		return 0
	}
	return f.Rows.Cols
}

// c returns the arguments of kernels. It panics unless the shapes fit the edges: sources are e's columns, and
// destinations its rows.
func (a Attention) c(e *CSR) C.weft_attention_args {
	if a.Heads < 1 || a.Width < 1 || !(a.Slope >= 0 && a.Slope <= 1) {
		panic(fmt.Sprintf("kernel: attention with %d heads of %d columns and slope %v",
			a.Heads, a.Width, a.Slope))
	}
	layer := a.LayerHeads
	if layer == 0 {
		layer = a.Heads
	}
	if a.FirstHead < 0 || a.FirstHead+a.Heads > layer {
		panic(fmt.Sprintf("kernel: %d heads from %d on of a layer's %d", a.Heads, a.FirstHead, layer))
	}
	cols := a.Heads * a.Width
	check("source", a.Source, e.Cols, cols)
	check("source score", a.SourceScore, e.Cols, a.Heads)
	check("target score", a.TargetScore, e.Rows, a.Heads)
	check("target", a.Target, e.Rows, cols)
	check("key", a.Key, e.Cols, cols)
	check("attention vector", a.A, 1, cols)
	check("edge features", a.Edges.Rows, e.Entries(), a.Edges.columns())
	check("vector of edge features", a.Edges.Vector, a.Edges.columns(), a.Heads)
	check("weight of edge features", a.Edges.Weight, a.Edges.columns(), cols)
	if v1 := a.A == nil && a.Key == nil; a.Edges.Rows != nil &&
		((a.Edges.Vector != nil) != v1 || (a.Edges.Weight != nil) == v1) {
		panic("kernel: features of edges need a vector in GATv1, and a weight in other attention")
	}
	return C.weft_attention_args{
		source: storage(a.Source), target: storage(a.Target), source_score: floats(a.SourceScore),
		target_score: floats(a.TargetScore),
		a:            floats(a.A), source_ids: ints(a.SourceIDs), target_ids: ints(a.TargetIDs),
		heads: C.int64_t(a.Heads), width: C.int64_t(a.Width),
		features: storage(a.Edges.Rows), loop_features: storage(a.Edges.Loops),
		first_loop:      longs(a.Edges.FirstLoop),
		feature_columns: C.int64_t(a.Edges.columns()), edge_vector: floats(a.Edges.Vector),
		edge_weight: floats(a.Edges.Weight),
		key:         storage(a.Key),
		first_head:  C.int64_t(a.FirstHead), layer_heads: C.int64_t(layer),
		slope: C.float(a.Slope), mask: a.Mask.From(a.FirstHead).c(), whole: boolean(a.Whole),
	}
}

// kernel returns the kernel of the form of attention.
func (a Attention) kernel(v1, v2, dot C.int) C.int {
	switch {
	case a.Key != nil:
		return dot
	case a.A != nil:
		return v2
	}
	return v1
}

// workspaces takes the memory in which calls of the kernels compute.
func (a Attention) workspaces(t *Team) workspaces {
	return t.workspaces(C.weft_attention_workspace(C.int64_t(a.Heads), C.int64_t(a.Width),
		boolean(a.Edges.Weight != nil)))
}

// operands returns the matrices that may be Float32 or BFloat16.
func (a Attention) operands() []*tensor.Matrix {
	return []*tensor.Matrix{a.Source, a.Target, a.Key, a.Edges.Rows, a.Edges.Loops}
}

// over sets the rows of a pass to the rows of a.
func over(args *C.weft_attention_args, a *CSR, loops *tensor.Matrix) {
	args.edges, args.loops = a.c(), ints(loops)
}

// AttentionState is the running softmax of every destination row and head. Attend extends it by further
// edges, in any number of blocks. After the last block it can be used anew.
type AttentionState struct {
	// Maximum (rows × heads) is the maximum of the scores so far. After the last block it is their
	// log-sum-exp, which is all that the backward pass needs.
	Maximum *tensor.Matrix
	// Out (rows × heads·width) has weighted sums, and after the last block the output. A BFloat16 matrix
	// cannot hold sums, so there may be only one block.
	Out   *tensor.Matrix
	sum   *tensor.Matrix // rows × heads: Σ exp(score − maximum), between blocks
	begun bool
}

// AttentionStart returns the state before any edge. Its Out has the given element type.
func (t *Team) AttentionStart(rows, heads, width int, element tensor.Element) *AttentionState {
	return &AttentionState{
		Maximum: t.Memory.New(tensor.Activations, rows, heads),
		Out:     t.Memory.NewElement(tensor.Activations, element, rows, heads*width),
	}
}

// Ending says whether a block of edges is the last of a state.
type Ending bool

// More blocks follow, or this is the last.
const (
	More Ending = false
	Last Ending = true
)

// Attend extends the state by the edges of one block: row i of e lists sources of destination i. loops
// (Int32, rows × 1, nil: none) says how many self loops each row has besides; sources and destinations are
// then the same rows.
func (t *Team) Attend(s *AttentionState, a Attention, e *CSR, loops *tensor.Matrix, end Ending) {
	last := end == Last
	if s.sum == nil && !last {
		s.sum = t.scratch(tensor.Float32, e.Rows, a.Heads)
	}
	if s.Out.Element == tensor.BFloat16 && (s.begun || !last) {
		panic("kernel: a BFloat16 output of attention over several blocks")
	}
	if a.InverseTemperature != nil {
		t.softmaxSum(s, a, e, loops, end)
	} else {
		t.attend(s, a, e, loops, end)
	}
	s.begun = !last
	if last {
		s.sum.Release()
		s.sum = nil
	}
}

// attend is Attend for scores of heads.
func (t *Team) attend(s *AttentionState, a Attention, e *CSR, loops *tensor.Matrix, end Ending) {
	args, workspaces := a.c(e), a.workspaces(t)
	args.workspaces = workspaces.c()
	over(&args, e, loops)
	args.maximum, args.sum, args.z, args.z_type = floats(s.Maximum), floats(s.sum), either(s.Out),
		C.int32_t(typeOf(s.Out))
	args.first, args.last = boolean(!s.begun), boolean(end == Last)
	r := on(a.kernel(C.weft_attend, C.weft_attend_v2, C.weft_attend_dot), a.operands()...).
		needs(e.structure()...).needs(a.Target, a.TargetScore, a.Edges.Rows).writes(s.Out, s.Maximum).
		gathers(e.Entries(), a.Source, a.Key, a.SourceScore)
	if s.begun {
		r = r.streams(s.Out, s.Maximum)
	}
	t.edges(r, unsafe.Pointer(&args), e, a.Heads*a.Width)
	b := t.bySegments(e)
	partials := b.states(s, a.Heads, a.Width, args.first, args.last)
	args.maximum, args.sum, args.z, args.z_type = partials.partial_maximum, partials.partial_sum,
		unsafe.Pointer(partials.partial_z), C.WEFT_FLOAT32
	args.first, args.last = 1, 0
	b.runStates(r, unsafe.Pointer(&args), &partials)
	workspaces.release()
}

// states takes partials for the states of segments, by which those of the rows are extended.
func (b *bySegments) states(s *AttentionState, heads, width int, first, last C.int32_t) C.weft_merge_states_args {
	return C.weft_merge_states_args{
		maximum: floats(s.Maximum), sum: floats(s.sum), z: either(s.Out), z_type: C.int32_t(typeOf(s.Out)),
		partial_maximum: floats(b.partials(tensor.Float32, heads)),
		partial_sum:     floats(b.partials(tensor.Float32, heads)),
		partial_z:       floats(b.partials(tensor.Float32, heads*width)),
		heads:           C.int64_t(heads), width: C.int64_t(width), first: first, last: last,
	}
}

// runStates is run for a kernel whose results are states.
func (b *bySegments) runStates(r routine, args unsafe.Pointer, partials *C.weft_merge_states_args) {
	b.run(r, args, func(segments C.weft_segments) {
		partials.segments = segments
		b.merge(on(C.weft_merge_states), unsafe.Pointer(partials), int(partials.heads), int(partials.width))
	})
}

// RowDots is out_ih = ⟨x_ih, y_ih⟩ over the width of each head, for x and y rows × heads·width, and out rows
// × heads.
func (t *Team) RowDots(out, x, y *tensor.Matrix) {
	tensor.SameShape(x, y)
	if out.Cols == 0 {
		return
	}
	args := &C.weft_head_dot_args{
		out: floats(out), z: storage(x), y: storage(y), heads: C.int64_t(out.Cols),
		width: C.int64_t(x.Cols / out.Cols),
	}
	t.rows(on(C.weft_row_dots, x, y).streams(out, x, y), unsafe.Pointer(args), x.Rows, x.Cols)
}
