// The arguments of products of matrices, and of the gradient of a weight.
#ifndef WEFT_PRODUCT_ARGS_H
#define WEFT_PRODUCT_ARGS_H
#include "matrices.h"

// How products are made. Products of bfloat16s: by floats, by dot products of pairs (AVX512-BF16), or by
// tiles (AMX). Products of floats on a device: by floats, or by tensor cores in TF32 parts.
enum weft_products { WEFT_OF_FLOATS, WEFT_OF_PAIRS, WEFT_OF_TILES, WEFT_OF_TF32 };

// A product z = x·w [+ z] of oneDNN's, for a block of rows: x is rows × in, and w is in × out. It reads and
// writes elements of the types that it was made for. w is rounded to the type of x.
typedef struct weft_onednn weft_onednn;

// Packs w into oneDNN's layout, for any number of products. w is in × out, or out × in of a transposed
// product. Runs over one item.
typedef struct {
	weft_onednn *product;
	const float *w;
	void *packed; // of weft_onednn_packed_bytes bytes
} weft_product_pack_args;

// z = x·w [+ z] for x of rows × in and z of rows × out, each of either type. Runs over the blocks of rows.
typedef struct {
	weft_onednn *product;
	const void *packed, *x; // x of x_type
	void *z;                // of z_type
	// of the product's types: a last block of fewer rows is copied there and filled up with zeros
	void *full_x, *full_z;
	int64_t rows;
	int32_t x_type, z_type;
	// a float z is written past the caches, which then do not read its lines before they are written
	int32_t past;
	// For a device, which has no oneDNN. There the kernel runs over the rows.
	const float *w; // in × out, or transposed out × in
	int64_t in, out;
	int32_t transposed, accumulate;
	int32_t products; // how products of floats are made: WEFT_OF_FLOATS or WEFT_OF_TF32
} weft_product_args;

// The gradient of a weight is computed in blocks: so many rows at a time, and so many columns of x and of g.
// The panels of a block of x, and the tile's sums for a block, stay in a second-level cache of 1 MB. The
// depth is odd, so that the positions of a row in all panels do not share a set of a cache.
enum { WEFT_WEIGHT_DEPTH = 129, WEFT_WEIGHT_IN = 288, WEFT_WEIGHT_OUT = 512 };

// How many floats a row of a block takes in panels, at any SIMD level: weft_weight_tall is for x alone, and
// weft_weight_panels for both factors of the largest block.
static inline int64_t weft_weight_tall(int64_t in) { return (in + 11) / 12 * 16; }
static inline int64_t weft_weight_panels(int64_t in, int64_t out) {
	in = in < WEFT_WEIGHT_IN ? in : WEFT_WEIGHT_IN;
	out = out < WEFT_WEIGHT_OUT ? out : WEFT_WEIGHT_OUT;
	return weft_weight_tall(in) + (out + 31) / 32 * 32;
}

// weft_weight_rows is the number of rows of a block's sum for n columns of x, rounded up to the widest
// vector. weft_weight_stride is the distance between two of its rows, for n columns of g. It is an odd number
// of cache lines, so that the rows of a panel do not share a set of a cache.
static inline int64_t weft_weight_rows(int64_t n) { return (n + 15) / 16 * 16; }
static inline int64_t weft_weight_stride(int64_t n) { return ((n + 15) / 16 | 1) * 16; }

// sum = xᵀ·g for the block that begins with column i of x and column o of g. Runs over rows. These are cut
// into tiles, of which the first begins with the range.
typedef struct {
	// weft_weight_rows(in) × weft_weight_stride(out), for the block's columns, at most WEFT_WEIGHT_IN of x
	// and WEFT_WEIGHT_OUT of g; the numbers behind the columns have no meaning
	double *sum;
	float *tile_sum; // as sum: the sum over the current tile
	float *scratch;  // WEFT_WEIGHT_DEPTH × weft_weight_panels(in, out)
	const void *x;   // rows × in, of x_type
	const void *g;   // rows × out, of g_type
	int64_t in, out, i, o, tile;
	int32_t x_type, g_type;
	// how products are made, of weft_products; WEFT_OF_FLOATS unless x and g are bfloat16s, or on a device
	int32_t products;
	// On a device the kernel runs over `lanes` parts of the rows, of equal whole numbers of tiles. sum is
	// then lanes × in × out.
	int64_t rows, lanes;
} weft_weight_args;

// Packs a factor of bfloat16s into AMX's tiles. The packing itself needs only AVX-512. At other levels the
// kernel does nothing. Tests call it.
typedef struct {
	float *tiles;  // 256 words for each 16 columns and 32 rows
	const void *x; // depth × columns
	int64_t columns, depth;
	int32_t transposed; // as x of weft_weight_args is packed; else as g
} weft_pack_tiles_args;

// Adds up the sums of a block: total = sum + total, where total is z with accumulate, or else 0, before the
// first sum. After the last sum z becomes total. Runs over the rows of a block's sum, which have `columns`
// columns.
typedef struct {
	float *z;          // the block's first element; z_stride between rows
	double *total;     // as sum; not used if the first sum is also the last
	const double *sum; // as in weft_weight_args
	int64_t columns, stride, z_stride;
	int32_t first, last, accumulate;
	// on a device sum is lanes × columns: z = Σ sum [+ z], in the order of the lanes; runs over columns
	int64_t lanes;
} weft_weight_sum_args;
#endif
