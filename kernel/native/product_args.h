// The arguments of products of matrices, and of the gradient of a weight.
#ifndef WEFT_PRODUCT_ARGS_H
#define WEFT_PRODUCT_ARGS_H
#include "matrices.h"

// How products of bfloat16s are made: of floats, by dot products of pairs (AVX512-BF16), of tiles (AMX). How
// those of floats are on a device: of floats, of parts of them by tensor cores.
enum weft_products { WEFT_OF_FLOATS, WEFT_OF_PAIRS, WEFT_OF_TILES, WEFT_OF_TF32 };

// oneDNN's product z = x·w [+ z] of as many rows as a block has, x rows × in and w in × out. It reads and
// writes elements of the types that it was made for: w is rounded to x's.
typedef struct weft_onednn weft_onednn;

// Packs w, in × out or of a transposed product out × in, for any number of x. Runs over one.
typedef struct {
	weft_onednn *product;
	const float *w;
	void *packed; // weft_onednn_packed_bytes
} weft_product_pack_args;

// z = x·w [+ z], each of either type. Runs over the blocks of the rows.
typedef struct {
	weft_onednn *product;
	const void *packed, *x; // x of x_type
	void *z;                // of z_type
	void *full_x, *full_z;  // of the product's types, for a last block of fewer rows, which zeros fill up
	int64_t rows;
	int32_t x_type, z_type;
	int32_t past; // a float z goes past the caches, which then do not read its lines before they are written
	// On a device, which has no oneDNN: runs over the rows.
	const float *w; // in × out, or transposed out × in
	int64_t in, out;
	int32_t transposed, accumulate;
	int32_t products; // of floats: WEFT_OF_FLOATS, or WEFT_OF_TF32
} weft_product_args;

// How a weight's gradient is cut into blocks: of so many rows, and columns of x and of g. Panels of a block
// of x, and the tile's sums for a block, stay in a second cache of 1 MB. The depth is odd, so that a row's
// places in all panels are not in the same sets of a cache.
enum { WEFT_WEIGHT_DEPTH = 129, WEFT_WEIGHT_IN = 288, WEFT_WEIGHT_OUT = 512 };

// What each row of a block takes in panels, at any SIMD level: of x, and of both factors of the largest
// block.
static inline int64_t weft_weight_tall(int64_t in) { return (in + 11) / 12 * 16; }
static inline int64_t weft_weight_panels(int64_t in, int64_t out) {
	in = in < WEFT_WEIGHT_IN ? in : WEFT_WEIGHT_IN;
	out = out < WEFT_WEIGHT_OUT ? out : WEFT_WEIGHT_OUT;
	return weft_weight_tall(in) + (out + 31) / 32 * 32;
}

// The rows of a block's sum with n of them, where the last of the widest vectors is filled up; and what lies
// between two rows of n columns: an odd number of cache lines, so that the rows of a panel are not in the
// same sets of a cache.
static inline int64_t weft_weight_rows(int64_t n) { return (n + 15) / 16 * 16; }
static inline int64_t weft_weight_stride(int64_t n) { return ((n + 15) / 16 | 1) * 16; }

// sum = xᵀ·g for the block from column i of x and column o of g on. Runs over rows, which are cut into tiles
// from the first on.
typedef struct {
	// weft_weight_rows(in) × weft_weight_stride(out) of at most WEFT_WEIGHT_IN × WEFT_WEIGHT_OUT; what is
	// behind in and out has no meaning
	double *sum;
	float *tile_sum; // the same of the tile at work
	float *scratch;  // WEFT_WEIGHT_DEPTH × weft_weight_panels(in, out)
	const void *x;   // rows × in, of x_type
	const void *g;   // rows × out, of g_type
	int64_t in, out, i, o, tile;
	int32_t x_type, g_type;
	// how they are made, of weft_products; of floats unless x and g are bfloat16s, or on a device
	int32_t products;
	// On a device, which runs over lanes of rows of equal whole numbers of tiles: sum is lanes × in × out.
	int64_t rows, lanes;
} weft_weight_args;

// The packing of a factor of bfloat16s for AMX's tiles, which is plain AVX-512; other levels do nothing.
typedef struct {
	float *tiles;  // 256 for each 16 columns and 32 rows
	const void *x; // depth × columns
	int64_t columns, depth;
	int32_t transposed; // as of weft_weight_args' x, and not as of its g
} weft_pack_tiles_args;

// total = sum + total, or + z or 0 where it is the first sum; and z = total where it is the last. Runs over
// the rows of a block's sum of so many columns.
typedef struct {
	float *z;          // where the block begins; z_stride between rows
	double *total;     // as sum; not used for a sum that is the first and the last
	const double *sum; // as in weft_weight_args
	int64_t columns, stride, z_stride;
	int32_t first, last, accumulate;
	// on a device, where sum is lanes × columns: z = Σ sum [+ z], in their order. Runs over columns
	int64_t lanes;
} weft_weight_sum_args;
#endif
