package kernel

// #include "native/weft.h"
import "C"

import (
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// shape says how a launch is cut into threads of a device.
type shape struct {
	variant string // the kernel's variant, if it has several
	threads int    // number of threads; the last block may make them more
	block   int    // threads of a block
}

// shapeTable has, by kernel, the function that returns the shape for operands of an element type. The zero
// shape says that the device has no kernel for these arguments.
type shapeTable map[C.int]func(args unsafe.Pointer, element C.enum_weft_type, n int) shape

// shapes has the kernels of devices. A shape depends on the arguments, and on the number of rows (or tiles,
// elements, columns). A kernel over segments has the threads of a row for each segment.
var shapes = shapeTable{
	C.weft_spmm: spmmShape,
	C.weft_max: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_max_args)(args)
		z, x, arg := unsafe.Pointer(a.z), unsafe.Pointer(a.x), unsafe.Pointer(a.arg)
		return inVectors(n, a.cols, vectors(element, a.cols, 0, z, x, arg))
	},
	C.weft_max_back: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_max_back_args)(args)
		g, arg := unsafe.Pointer(a.g), unsafe.Pointer(a.arg)
		return inVectors(n, a.cols, vectors(element, a.cols, 0, a.dx, g, arg))
	},
	C.weft_softmax_sum: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_softmax_sum_args)(args)
		x, t := unsafe.Pointer(a.x), unsafe.Pointer(a.t)
		maximum, sum := unsafe.Pointer(a.maximum), unsafe.Pointer(a.sum)
		return inVectors(n, a.cols, vectors(C.WEFT_FLOAT32, a.cols, 0, a.z, x, t, maximum, sum))
	},
	C.weft_softmax_sum_back: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_softmax_sum_back_args)(args)
		x, g, z := unsafe.Pointer(a.x), unsafe.Pointer(a.g), unsafe.Pointer(a.z)
		t, logSum, ds := unsafe.Pointer(a.t), unsafe.Pointer(a.log_sum), unsafe.Pointer(a.ds)
		return inVectors(n, a.cols, vectors(C.WEFT_FLOAT32, a.cols, 0, a.dx, x, g, z, t, logSum, ds))
	},
	C.weft_fill: overElements, C.weft_combine: overElements, C.weft_convert: overElements,
	C.weft_exp: overElements, C.weft_reciprocal: overElements, C.weft_gelu: overElements,
	C.weft_gelu_back: overElements, C.weft_sqrt: overElements, C.weft_sqrt_back: overElements,
	C.weft_adam: overElements, C.weft_sgd: overElements,
	C.weft_finish: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_finish_args)(args)
		if a.mask.threshold != 0 {
			return masked(&a.mask, a.cols, n)
		}
		return overElements(args, element, n*int(a.cols))
	},
	C.weft_finish_back: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_finish_back_args)(args)
		if a.mask.threshold != 0 && a.activation != C.WEFT_RELU {
			return masked(&a.mask, a.cols, n)
		}
		return overElements(args, element, n*int(a.cols))
	},
	C.weft_head_mean: overHeads, C.weft_head_mean_back: overHeads,
	C.weft_head_scale: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_head_scale_args)(args)
		return inParts(element, n*int(a.heads), a.width)
	},
	C.weft_gather: overList, C.weft_scatter: overList, C.weft_scatter_add: overList,
	C.weft_columns: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_columns_args)(args)
		width := vectors(element, a.count, a.z_cols|a.x_cols|a.from_z|a.from_x, a.z, unsafe.Pointer(a.x))
		return inVectors(n, a.count, width)
	},
	C.weft_sparse_mask: func(args unsafe.Pointer, _ C.enum_weft_type, _ int) shape {
		return shape{"", int((*C.weft_sparse_mask_args)(args).edges.entries), 256}
	},
	C.weft_densify: func(args unsafe.Pointer, _ C.enum_weft_type, _ int) shape {
		return shape{"", int((*C.weft_densify_args)(args).edges.entries), 256}
	},
	C.weft_uniform: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_uniform_args)(args).cols), 256}
	},
	C.weft_cross_entropy: blockEach, C.weft_binary_cross_entropy: blockEach, C.weft_layer_back: blockEach,
	C.weft_hits: blockEach, C.weft_finite: blockEach,
	C.weft_pair_scores: func(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n, 256} },
	C.weft_pair_rows: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_pairs_args)(args).cols), 256}
	},
	C.weft_pair_weights: spreadShape,
	C.weft_above: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * parts(int((*C.weft_above_args)(args).cols), 256) * 256, 256}
	},
	C.weft_product: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_product_args)(args)
		return inBlocks(C.int64_t(n), a.out, 1, element, a.products)
	},
	C.weft_weight: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_weight_args)(args)
		return inBlocks(a.in, a.out, n, element, a.products)
	},
	C.weft_weight_sum: func(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n, 256} },
	C.weft_encode:     warpEach, C.weft_decode: warpEach,
	C.weft_column_sum: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return tileShape(n, 0, (*C.weft_column_sum_args)(args).cols)
	},
	C.weft_moments: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return tileShape(n, 0, (*C.weft_moments_args)(args).cols)
	},
	C.weft_normalize: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_normalize_args)(args)
		return shape{"", parts(n, 2) * 16 * batches(a.mask.first, a.cols), 256}
	},
	C.weft_normalize_sums: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_normalize_sums_args)(args)
		return tileShape(n, a.mask.first, a.cols)
	},
	C.weft_normalize_back: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", parts(n, 2) * 16 * batches(0, (*C.weft_normalize_back_args)(args).cols), 256}
	},
	C.weft_layer_norm:    func(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", 16 * n, 256} },
	C.weft_sum_squares:   func(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", 16 * n, 64} },
	C.weft_merge_tiles:   spreadShape,
	C.weft_merge_moments: spreadShape, C.weft_move: spreadShape, C.weft_running: spreadShape,
	C.weft_merge_sums: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_merge_sums_args)(args).segments.count), 256}
	},
	C.weft_merge_maxima: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_merge_maxima_args)(args).segments.count), 256}
	},
	C.weft_merge_states: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", 32 * n * int((*C.weft_merge_states_args)(args).segments.count), 128}
	},
	C.weft_head_dot: dotShape, C.weft_row_dots: dotShape,
	C.weft_head_outer: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		a := (*C.weft_head_outer_args)(args)
		return inParts(element, n*int(a.heads), a.width)
	},
	C.weft_head_outer_back: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_head_outer_back_args)(args)
		return shape{"", n * parts(int(a.heads*a.width), 32) * 256, 256}
	},

	C.weft_pointwise: pointwiseShape,
	C.weft_map_columns: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_map_columns_args)(args).z_cols), 256}
	},
	C.weft_groups: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_groups_args)(args)
		return inLanes(n*int(a.groups), a.width)
	},
	C.weft_groups_back: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_groups_back_args)(args)
		return inLanes(n*int(a.groups), a.width)
	},
	C.weft_row_product: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_row_product_args)(args)
		return shape{"", n * int(a.groups*a.rows*a.cols), 256}
	},

	C.weft_attend: scoredShape, C.weft_attend_back_target: scoredShape, C.weft_attend_back_source: scoredShape,
	C.weft_attend_v2: attentionShape, C.weft_attend_back_source_v2: attentionShape,
	C.weft_attend_dot: attentionShape, C.weft_attend_back_source_dot: attentionShape,
	C.weft_attend_back_target_edges: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		return attentionShape(args, element, parts(n, int((*C.weft_attention_args)(args).sum_rows)))
	},
	C.weft_attend_back_target_dot: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		if (*C.weft_attention_args)(args).edge_weight != nil {
			return edgesShape(args, element, n)
		}
		return attentionShape(args, element, n)
	},
	C.weft_attend_back_target_v2: func(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
		if (*C.weft_attention_args)(args).edge_weight != nil {
			return edgesShape(args, element, n)
		}
		rows := C.WEFT_TILE                               // a block for a tile instead of a warp for a row
		if (*C.weft_attention_args)(args).sum_rows == 1 { // segments, each with sums of its own
			rows = 8
		}
		s := attentionShape(args, element, parts(n, rows))
		return shape{s.variant, 8 * s.threads, 2 * s.block}
	},
	C.weft_attend_pack: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		return shape{"", n * int((*C.weft_attention_args)(args).heads), 256}
	},
	C.weft_attend_end: func(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
		a := (*C.weft_attend_end_args)(args)
		return shape{"", n * int(a.heads*a.width), 256}
	},
}

// elementsPerLoad returns the number of elements of a type in 16 bytes, which a thread loads at once.
func elementsPerLoad(element C.enum_weft_type) int {
	if element == C.WEFT_BFLOAT16 {
		return 8
	}
	return 4
}

func overElements(_ unsafe.Pointer, element C.enum_weft_type, n int) shape {
	return shape{"", parts(n, elementsPerLoad(element)), 256}
}

// inParts returns the shape over rows in parts of 16 bytes. The last part of a row may be short.
func inParts(element C.enum_weft_type, rows int, width C.int64_t) shape {
	return shape{"", rows * parts(int(width), elementsPerLoad(element)), 256}
}

func overHeads(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
	return inParts(element, n, (*C.weft_head_mean_args)(args).width)
}

// batches returns the number of a mask's batches of 128 columns that cols columns from first on touch.
func batches(first, cols C.int64_t) int { return parts(int(first%128+cols), 128) }

// masked returns the shape over the counters of a mask (device/kernels/random.cuh).
func masked(m *C.weft_mask, cols C.int64_t, rows int) shape {
	return shape{"masked", rows * 16 * batches(m.first, cols), 256}
}

func overList(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
	a := (*C.weft_rows_args)(args)
	return inVectors(n, a.cols, vectors(element, a.cols, 0, a.z, unsafe.Pointer(a.x)))
}

// vectors returns how many elements a thread takes at once: 16 bytes of them, or one. It depends on the
// columns, the stride and the addresses of the rows.
func vectors(element C.enum_weft_type, cols, stride C.int64_t, at ...unsafe.Pointer) int {
	n := elementsPerLoad(element)
	if int(cols|stride)%n == 0 && aligned(at...) {
		return n
	}
	return 1
}

// aligned reports whether vectors may be loaded from these addresses. A message's rows may begin anywhere.
func aligned(at ...unsafe.Pointer) bool {
	return !slices.ContainsFunc(at, func(p unsafe.Pointer) bool { return uintptr(p)%16 != 0 })
}

// inVectors returns the shape over rows in vectors of width elements.
func inVectors(rows int, cols C.int64_t, width int) shape {
	variant := ""
	if width > 1 {
		variant = "vector"
	}
	return shape{variant, rows * int(cols) / width, 256}
}

// spmmShape returns the zero shape for a tile of x: on a device x is never tiled.
func spmmShape(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
	a := (*C.weft_spmm_args)(args)
	if a.cut != 0 || a.extend != 0 || a.sums != nil {
		return shape{}
	}
	x, own := unsafe.Pointer(a.x), unsafe.Pointer(a.own)
	width := vectors(element, a.cols, a.x_stride|a.z_stride|a.from, a.z, x, own)
	across := func(columns C.int64_t) shape {
		if width > 1 || columns == 0 {
			return inVectors(n, columns, width)
		}
		return shape{"", n * rowThreads(int(columns)), 256}
	}
	whole := across(a.cols)
	if a.slice == 0 {
		return whole
	}
	of1, last := across(a.slice), across(a.cols%a.slice) // each slice begins with a new block
	whole.threads = int(a.cols/a.slice)*parts(of1.threads, of1.block)*of1.block + last.threads
	return whole
}

// rowThreads returns the number of threads of a row of single columns, like row_threads in spmm.cuh.
func rowThreads(columns int) int {
	lanes, each := 32, 1
	switch {
	case columns > 64:
		each = 4
	case columns > 32:
		each = 2
	}
	for lanes/2 >= columns {
		lanes /= 2
	}
	return parts(columns, lanes*each) * lanes
}

func blockEach(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n * 256, 256} }

func warpEach(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n * 32, 256} }

// spreadShape is for few threads that take long, each perhaps in a block of its own.
func spreadShape(_ unsafe.Pointer, _ C.enum_weft_type, n int) shape { return shape{"", n, 32} }

// tileShape returns the shape with a block for each tile and batch of columns.
func tileShape(n int, first, cols C.int64_t) shape {
	return shape{"", n * batches(first, cols) * 256, 256}
}

// inBlocks returns the shape over blocks of results (device/kernels/product.cuh). A block has 128 rows, and a
// number of columns that the variant ends with. The variant begins with the way in which floats are
// multiplied.
func inBlocks(rows, columns C.int64_t, results int, element C.enum_weft_type, by C.int32_t) shape {
	variant, width, narrowest := "", 128, 16
	tf32 := element == C.WEFT_FLOAT32 && by == C.WEFT_OF_TF32
	if element == C.WEFT_BFLOAT16 || tf32 {
		narrowest = 32
	}
	for narrow := width / 2; narrow >= narrowest && int(columns) <= narrow; narrow /= 2 {
		variant, width = strconv.Itoa(narrow), narrow
	}
	if tf32 {
		variant = strings.TrimSuffix("tf32_"+variant, "_")
	}
	blocks := parts(int(rows), 128) * parts(int(columns), width)
	return shape{variant, results * blocks * 256, 256}
}

// parts returns n/by, rounded up.
func parts(n, by int) int { return (n + by - 1) / by }

func dotShape(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
	a := (*C.weft_head_dot_args)(args)
	return inLanes(n*int(a.heads), a.width)
}

// inLanes returns the shape over groups of width columns, each on some lanes of a warp, like lanes_of_head in
// heads.cuh.
func inLanes(groups int, width C.int64_t) shape {
	lanes := 1
	for lanes < 32 && 4*lanes < int(width) {
		lanes *= 2
	}
	return shape{"", groups * lanes, 256}
}

// pointwiseShape returns the shape of the kernel whose threads have enough registers for an expression
// (device/kernels/expression.cuh). The CPU computes an expression that needs more.
func pointwiseShape(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
	a := (*C.weft_pointwise_args)(args)
	numbers := n * int(a.cols)
	switch {
	case a.registers <= 16:
		return shape{"", parts(numbers, 4), 128}
	case a.registers <= 96:
		return shape{"96", numbers, 128}
	case a.registers <= 384:
		return shape{"384", numbers, 32}
	}
	return shape{}
}

// edgesShape returns the shape with a warp for some heads of sum_rows rows, or of a segment
// (device/kernels/attend_edges.cuh).
func edgesShape(args unsafe.Pointer, element C.enum_weft_type, n int) shape {
	s := attentionShape(args, element, parts(n, int((*C.weft_attention_args)(args).sum_rows)))
	if s.variant != "" {
		s.variant += "_"
	}
	s.variant += "edges"
	return s
}

// attentionShape returns the shape with a warp for some heads of a row, like take in attend.cuh.
func attentionShape(args unsafe.Pointer, _ C.enum_weft_type, n int) shape {
	return slabsShape(args, n, 1)
}

// scoredShape returns the shape for GATv1, whose warps have ATTEND_SLABS slabs of columns.
func scoredShape(args unsafe.Pointer, _ C.enum_weft_type, n int) shape { return slabsShape(args, n, 2) }

func slabsShape(args unsafe.Pointer, n, slabs int) shape {
	a, variant, columns := (*C.weft_attention_args)(args), "", 32
	if a.width%4 == 0 && aligned(unsafe.Pointer(a.a), unsafe.Pointer(a.source), unsafe.Pointer(a.target),
		unsafe.Pointer(a.key), unsafe.Pointer(a.edge_weight), unsafe.Pointer(a.g), a.z, a.d_source, a.d_target,
		a.d_key) {
		variant, columns = "vector", 128*slabs
	}
	heads := min(max(1, columns/int(a.width)), 8)
	return shape{variant, n * parts(int(a.heads), heads) * 32, 128}
}
