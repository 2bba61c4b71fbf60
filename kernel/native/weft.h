// The kernels' arguments. Every kernel is a single-threaded function over a half-open range of rows (or
// tiles, or elements) of the matrices its arguments name; Go hands the ranges out. All matrices are row-major
// without gaps. A pointer that may be NULL says so.
#ifndef WEFT_H
#define WEFT_H
#include <stdint.h>

#include "workspace.h"

// The upper half of a float. No arithmetic is done in it: kernels load it as a float, and round once, to
// nearest even, what they store.
typedef struct {
	uint16_t bits;
} bfloat16;

// The elements of features, activations and their gradients. Each SIMD level is compiled once for either.
#if defined(WEFT_OF_BFLOAT16)
typedef bfloat16 elem;
#define WEFT_BFLOAT16_NAME(name) name##_bfloat16
#define WEFT_FOR_ELEM(name) WEFT_BFLOAT16_NAME(name)
#else
typedef float elem;
#define WEFT_FOR_ELEM(name) name
#endif

// Where an operand may be of the other type than a kernel's elem, its argument is a void * beside the type.
enum weft_type { WEFT_FLOAT32, WEFT_BFLOAT16 };

// Rows of one tile of a reduction over vertices. Partial results are kept per tile and added in the order of
// the tiles, so a sum does not depend on the number of threads.
enum { WEFT_TILE = 1024 };

// A matrix of more numbers lies in memory; one of less may lie in a cache, where fetching ahead costs more
// than it gains.
enum { WEFT_CACHED = 4 << 20 };

// A row of more entries is cut into segments of at most WEFT_SEGMENT (but for equal ones, which stay together),
// so that no thread waits for one that has such a row. On a device, where a warp has a row, attention cuts rows
// of more than one segment.
enum { WEFT_LONG = 16384, WEFT_SEGMENT = 2048 };

// Entries begin … end−1 of a row, of which `after` segments follow. A kernel that runs over a segment takes them
// for all of the row's and writes what it gives to a row of its results that is the segment's place. Self loops
// and the row's own term are left to the row's last segment.
typedef struct {
	int64_t row, begin, end, after;
} weft_segment;

// How many places there are: on a CPU, and on a device at most. There a launch over so many segments is as fast
// as one over more.
enum { WEFT_PARTIALS = 16, WEFT_PLACES = 4096 };

// Segments that are worked on at a time. Number k has place carried + k. With carried set, place 0 has what
// segments before gave to the first one's row.
typedef struct {
	const weft_segment *of;
	int64_t count, carried;
} weft_segments;

// Places first … end−1 have what segments of a row gave. With complete set the last of them is the row's
// last; else what they are merged to is left in place 0.
typedef struct {
	int64_t row, first, end;
	int32_t complete;
} weft_merge;

// What is merged of segment number k and those that follow it in its row. Number k is the row's first among s.
static inline weft_merge weft_merge_from(const weft_segments *s, int64_t k) {
	const int64_t left = s->count - k, after = s->of[k].after;
	const weft_merge m = {s->of[k].row, k ? s->carried + k : 0, s->carried + k + (after < left ? after + 1 : left), after < left};
	return m;
}

// The entries of a sparse matrix by rows: row i has those of numbers indptr[i] … indptr[i+1]−1, number k is
// in column indices[k].
typedef struct {
	const int64_t *indptr;
	const int32_t *indices;
	// the length of indices, which may be more than the rows' own: prefetches stay below it
	int64_t entries;
	int64_t others;    // the number of columns
	int32_t longest;   // rows of more entries are left to their segments; 0: no row has any
} weft_edges;

// Numbers for each head in a row of attention's pack. One is not used: so that fewer rows lie across cache
// lines.
enum { WEFT_PACK = 4 };

enum weft_activation { WEFT_IDENTITY, WEFT_RELU, WEFT_ELU, WEFT_LEAKY_RELU, WEFT_TANH, WEFT_SIGMOID };

// A random mask: an element is dropped where its 16 random bits are below threshold, and scaled by scale
// where it stays. The bits of (vertex, column) depend on key and nothing else; ids (may be NULL: the row
// itself) gives the row's vertex.
typedef struct {
	uint64_t key;
	uint32_t threshold; // of 65536; 0: nothing is dropped
	float scale;
	const int32_t *ids;
	int64_t first; // of a slice: its first column, or in attention its first head; 0: of the whole
} weft_mask;

// z_i = [z_i +] row_scale_i · ( Σ_{k in row i} weight_k · col_scale_j · x_j + self_i · own_i ), where j is
// the column of entry k. The entries of row i are those of numbers indptr[i] … end_i−1. Where a matrix is cut
// (cut.go), these are some of the row's, x holds the rows that they name, and with extend set the sum goes on
// from where it was broken off: in z, or in sums where z is not of floats.
typedef struct {
	void *z;                // rows × cols, of z_type
	const elem *x;          // block rows × cols
	const elem *own;        // rows × cols: what x holds of the destination rows
	int64_t z_stride, x_stride; // between rows of z and own, and of x
	weft_edges edges;
	const int64_t *end;     // per row
	int64_t first;          // of the columns in the block
	int64_t from;           // the first of z's columns, and of own's, that are worked on
	const float *weights;   // per edge, may be NULL
	const float *row_scale; // per destination row, may be NULL
	const float *col_scale; // per source row, may be NULL
	const float *self;      // per destination row, may be NULL
	int64_t cols;
	int32_t z_type;
	int32_t cut, extend, accumulate; // cut: x holds the rows of a block only
	float *sums;                     // of rows from first_sum on × sums_stride; may be NULL
	int64_t first_sum, sums_stride;
	int32_t unfinished;              // the sums are written there, not to z
	int64_t slice; // columns that a device takes at a time, of all rows; 0: all of them
} weft_spmm_args;

// end_i: where row i's entries of columns below `column` end, of those from begin_i on, which are in
// ascending order. A row that is skipped has none.
typedef struct {
	int64_t *end;
	const int64_t *begin;
	weft_edges edges;
	int32_t column;
} weft_ends_args;

// z_ic = max over k of x_jc; arg_ic = the source's id. A row starts with arg −1 and z 0, or where first is
// not set with what they hold.
typedef struct {
	elem *z;
	int32_t *arg;
	const elem *x;
	weft_edges edges;
	const int32_t *source_ids; // may be NULL: the source's row
	const int32_t *loops;      // > 0 where the row is its own in-neighbour, may be NULL
	int64_t cols;
	int32_t first;
} weft_max_args;

// dx_j += Σ_i g_ic over the out-neighbours i whose arg_ic is j. Runs over the transposed rows.
typedef struct {
	void *dx; // of dx_type
	const elem *g;
	const int32_t *arg;
	weft_edges edges;
	const int32_t *source_ids;
	const int32_t *loops;
	int64_t cols;
	int32_t dx_type;
} weft_max_back_args;

// Softmax attention over in-edges, heads × width columns; equations in attention.h.
typedef struct {
	float *maximum;   // destination rows × heads: running maximum; with last set the log-sum-exp
	// destination rows × heads: Σ exp(s − maximum); may be NULL where first and last are set
	float *sum;
	// destination rows × heads·width, of z_type: Σ exp(s − maximum)·mask·source; with last set the output.
	// With first and last set it may be of bfloat16s.
	void *z;
	const elem *source;        // source rows × heads·width
	const elem *target;        // destination rows × heads·width (GATv2, dot products), else NULL
	const elem *key;           // source rows × heads·width (dot products), else NULL
	const float *source_score; // source rows × heads (GATv1)
	const float *target_score; // destination rows × heads (GATv1)
	const float *a;            // heads·width (GATv2)
	weft_edges edges;
	// per row, how many self loops it has, may be NULL: none. Sources and destinations are then the same
	// rows.
	const int32_t *loops;
	const int32_t *source_ids;  // may be NULL: the row itself
	const int32_t *target_ids;
	// of the edges: entry k has row k, or where feature_rows is not NULL feature_rows_k; NULL: they have none
	const elem *features;
	const int32_t *feature_rows;
	const elem *loop_features;  // of the self loops, row by row: those of row i from first_loop_i on
	const int64_t *first_loop;  // NULL: there are none
	int64_t feature_columns;
	const float *edge_vector;   // feature_columns × heads (GATv1)
	const float *edge_weight;   // feature_columns × heads·width (GATv2, dot products)
	int64_t heads, width;
	int64_t first_head, layer_heads; // the first of the heads among the layer's, and how many the layer has
	float slope;
	weft_mask mask;
	int32_t first, last, z_type; // forward only: the state begins, or ends, with these edges
	// backward only
	int32_t whole;             // the edges are all that their destinations have
	// GATv1, over destinations: the rows of one side of LeakyReLU's knee are read alone
	int32_t picks;
	const float *log_sum;      // destination rows × heads: maximum + ln sum
	const elem *g;             // destination rows × heads·width: dLoss/d output
	const float *g_dot_out;    // destination rows × heads: ⟨g, output⟩
	float *d_target_score;     // GATv1, over destinations
	void *d_target;            // GATv2 and dot products, over destinations, of d_type
	void *d_key;               // dot products, over sources, of d_type
	float *d_source_score;     // GATv1, over sources
	void *d_source;            // over sources, of d_type
	int32_t d_type;
	// Over destinations, sums over a range of sum_rows rows, of which the first has number first_sum; and
	// scratch zeros. Between two ranges' lie sum_stride numbers.
	double *d_a;               // GATv2: heads·width
	float *da_row;             // scratch of d_a
	double *d_edge_vector;     // GATv1 with features: feature_columns × heads
	double *d_edge_weight;     // the others: feature_columns × heads·width
	float *d_edge_row;         // scratch of d_edge_weight
	int64_t sum_rows, first_sum, sum_stride;
	float *pack;               // destination rows × WEFT_PACK·heads, see attend_pack
	weft_workspaces workspaces;          // of weft_attention_workspace bytes
} weft_attention_args;

// out_ih = Σ_c z_ihc · a_hc, or with a row of y for each row of z in place of a
typedef struct {
	float *out;
	const elem *z, *y;
	const float *a;
	int64_t heads, width;
} weft_head_dot_args;

// z_ihc += s_ih · a_hc
typedef struct {
	elem *z;
	const float *s, *a;
	int64_t heads, width;
} weft_head_outer_args;

// da_hc = Σ_i s_ih · z_ihc per tile
typedef struct {
	const elem *z;
	const float *s;
	double *tiles;
	int64_t rows, heads, width;
} weft_head_outer_back_args;

// out_ic = mean over heads of z_ihc; backward spreads g.
typedef struct {
	elem *out;
	const elem *in;
	int64_t heads, width;
} weft_head_mean_args;

// z = mask(act(x + bias)); z may be x.
typedef struct {
	elem *z;
	const elem *x;
	const float *bias; // may be NULL
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_finish_args;

// dx = g · mask · act'(·), with act' from the output z; dx may be g.
typedef struct {
	elem *dx;
	const elem *g, *z;
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_finish_back_args;

// Element-wise: z = alpha·x + beta·y (y may be NULL), or z = alpha·x·y with multiply set. Runs over elements,
// as functions of x, or of x and y, do.
typedef struct {
	elem *z;
	const elem *x, *y;
	float alpha, beta;
	int32_t multiply;
} weft_combine_args;

// tiles_tc = Σ over the tile's rows of x_ic (times y_ic where y is given). finite: tiles_t = Σ x − x over the
// tile's rows, which is NaN where an element is NaN or an infinity, and else 0. Runs over tiles.
typedef struct {
	double *tiles;
	const elem *x, *y;
	int64_t rows, cols;
} weft_column_sum_args;

// Each column's mean over the tile's rows, and the sum of squared deviations from it. Runs over tiles.
typedef struct {
	double *tile_mean, *tile_m2; // tiles × cols
	const elem *x;
	int64_t rows, cols;
} weft_moments_args;

// What batch norm knows of all rows, from each tile's mean and m2, which are joined in the order of the tiles
// by the formula of Chan, Golub & LeVeque (1979). Those of all rows replace the first tile's. Runs over columns.
typedef struct {
	double *tile_mean, *tile_m2; // tiles × cols
	float *mean, *rstd;          // 1/√(variance + ε) of the biased variance; both may be NULL
	double *batch;               // 2 × cols: the mean of x + added, and the unbiased variance; may be NULL
	const float *added;          // to each row of x; NULL: nothing
	int64_t rows, cols;
	double epsilon;
} weft_merge_moments_args;

// running += momentum·(batch − running). Runs over elements.
typedef struct {
	float *running;
	const double *batch;
	double momentum;
} weft_move_args;

// y = γ·(x − mean)·rstd + β, each with one number for each column.
typedef struct {
	const float *mean, *rstd, *gamma, *beta;
} weft_normalization;

// z = mask(act(y)) of batch norm; z may be x. Equations in norm.h.
typedef struct {
	elem *z;
	const elem *x;
	weft_normalization norm;
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_normalize_args;

// Σ g' and Σ g'·x̂ over the tile's rows, for g' = dLoss/dy, which is written over g = dLoss/dz. Runs over
// tiles.
typedef struct {
	double *tile_g, *tile_gx; // tiles × cols
	elem *g;
	const elem *x;
	weft_normalization norm;
	int64_t rows, cols;
	int32_t activation;
	weft_mask mask;
} weft_normalize_sums_args;

// dx, from g' and the means of g' and g'·x̂ over all rows; dx may be g.
typedef struct {
	elem *dx;
	const elem *g, *x;
	weft_normalization norm;
	const float *mean_g, *mean_gx; // per column
	int64_t cols;
} weft_normalize_back_args;

// z = mask(act(y)) of layer norm, and the mean and rstd of each row.
typedef struct {
	elem *z;
	float *mean, *rstd;
	const elem *x;
	const float *gamma, *beta;
	int64_t cols;
	float epsilon;
	int32_t activation;
	weft_mask mask;
	weft_workspaces workspaces; // of weft_layer_norm_workspace bytes, where elem is not float
} weft_layer_norm_args;

// dx, and Σ g' and Σ g'·x̂ over the tile's rows; dx may be g. Runs over tiles.
typedef struct {
	elem *dx;
	double *tile_g, *tile_gx; // tiles × cols
	const elem *g, *x;
	const float *mean, *rstd, *gamma, *beta;
	int64_t rows, cols;
	int32_t activation;
	weft_mask mask;
	weft_workspaces workspaces; // as in weft_layer_norm_args
} weft_layer_back_args;

// Losses over a list of rows, and hits; equations in loss.h. Runs over tiles of the list.
typedef struct {
	float *grad;           // like logits, rows of the list are written, may be NULL
	const float *logits;
	const int32_t *rows;
	const int32_t *labels; // per vertex (cross-entropy, hits)
	const float *targets;  // like logits (binary cross-entropy)
	double *tile_loss;
	int64_t count, cols;
	float scale;           // of the gradient
} weft_loss_args;

// Scores of pairs of rows of x, and their gradients; equations in pairs.h. pair_scores runs over pairs,
// pair_rows over rows of x, and pair_weights over columns.
typedef struct {
	float *scores;        // n: pair_scores
	float *dx;            // like x: pair_rows
	double *dw;           // relations × cols, to which pair_weights adds
	const float *x, *w;   // rows × cols, relations × cols; w may be NULL: 1
	const float *g;       // n: gradients of the scores
	const int32_t *pairs; // n × 3: relation, source and target of each
	// The pairs of row r are ends_e / 2 for begin_r ≤ e < begin_{r+1}; r is the source for an even ends_e,
	// and the target for an odd one.
	const int32_t *begin, *ends;
	int64_t n, cols;
} weft_pairs_args;

// tiles_tc and tiles_t,cols+c: how many rows of the tile have x_ic above score_c, and equal to it, for the
// first n columns; 0 for others. Runs over tiles.
typedef struct {
	double *tiles;
	const float *x, *score; // rows × cols, n
	int64_t rows, cols, n;
} weft_above_args;

// One optimizer step over elements; equations in step.h.
typedef struct {
	float *w, *m, *v;
	const float *g;
	float lr, beta1, beta2, rest1, rest2, epsilon, decay, correction1, correction2, clip; // rest: 1 − beta
	int32_t decoupled;
} weft_adam_args;

typedef struct {
	float *w, *momentum; // momentum may be NULL
	const float *g;
	float lr, mu, decay, clip;
	int32_t first;
} weft_sgd_args;

// out_k = values_k masked by (vertex, column); one of row-major or transposed order. Runs over the matrix's
// rows.
typedef struct {
	float *out;
	const float *values;
	weft_edges edges;
	int32_t transposed; // rows are columns and indices are vertices
	weft_mask mask;
} weft_sparse_mask_args;

// z_ic = a number of [0, 1) that is drawn for the row's vertex and column: 24 random bits, of which a bfloat16
// keeps the first 8 that count. ids (may be NULL: the row itself) gives the row's vertex. Runs over rows.
typedef struct {
	elem *z;
	const int32_t *ids;
	uint64_t key;
	int64_t cols;
} weft_uniform_args;

// z_i,indices_k = the sum of the values of entries k of row i in that column, for z of zeros. Runs over rows.
typedef struct {
	elem *z;
	const float *values; // may be NULL: ones
	weft_edges edges;
	int64_t cols;
} weft_densify_args;

// gather: z_i = x_{rows_i}; scatter: z_{rows_i} = x_i, and scatter_add: z_{rows_i} += x_i, for rows that
// differ from each other. Runs over the list. Elements of type float may be any 32-bit words but for
// scatter_add, whose z alone may be of another type than x.
typedef struct {
	void *z; // of z_type
	const elem *x;
	const int32_t *rows;
	int64_t cols;
	int32_t z_type;
} weft_rows_args;

// The end of a running softmax: z becomes the output and maximum the log-sum-exp. Runs over rows.
typedef struct {
	float *z, *maximum;
	const float *sum;
	int64_t heads, width;
} weft_attend_end_args;

// z_i,from_z+c = [the same +] x_i,from_x+c for c = 0 … count−1; z_rows_i in place of i, and x_rows_i, where
// rows are listed. Runs over rows, or the list, whose rows of z differ from each other. What is added to may
// be of another type than x.
typedef struct {
	void *z; // of z_type
	const elem *x;
	const int32_t *z_rows, *x_rows; // may be NULL
	int64_t z_cols, x_cols, from_z, from_x, count;
	int32_t z_type, accumulate;
} weft_columns_args;

// How the numbers of a row are encoded to be sent. A row of integers begins with two floats, its smallest
// number Z and its range R; the number of code q is Z + q·R/(2^b − 1). Codes of 4 bits lie two in a byte,
// the even column's in its lower half; an odd one has a byte of its own.
enum weft_format { WEFT_FORMAT_FLOAT32, WEFT_FORMAT_BFLOAT16, WEFT_FORMAT_INT8, WEFT_FORMAT_INT4 };

// Row i of z = the encoded columns of x_i, or of x_{rows_i}: all columns, or count that are listed. Integers
// are rounded at random by (key, stream, vertex, number of the column among those encoded). Runs over z's
// rows.
typedef struct {
	void *z; // of the format
	const elem *x;
	const int32_t *rows, *columns; // may be NULL
	const int32_t *ids;            // per row of x, its vertex; NULL: the row itself
	int64_t cols, count;           // of x; of the encoded columns
	uint64_t key;
	uint32_t stream;
	int32_t format;
} weft_encode_args;

// The reverse: the same columns of z_i, or of z_{rows_i}, become row i of x, or it is added to them. Runs
// over x's rows.
typedef struct {
	elem *z;
	const void *x;                 // of the format
	const int32_t *rows, *columns; // may be NULL
	int64_t cols, count;           // of z; of the encoded columns
	int32_t format, accumulate;
} weft_decode_args;

// z_ihc = x_ihc · s_ih. z may be x.
typedef struct {
	elem *z;
	const elem *x;
	const float *s;
	int64_t heads, width;
} weft_head_scale_args;

// z = x, of any two types. Runs over elements.
typedef struct {
	void *z;
	const void *x;
	int32_t z_type, x_type;
} weft_convert_args;

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
	int32_t products; // how they are made, of weft_products; of floats unless x and g are bfloat16s, or on a device
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
	int64_t lanes; // on a device, where sum is lanes × columns: z = Σ sum [+ z], in their order. Runs over columns
} weft_weight_sum_args;

// Merging what segments gave, in their order. Sums: z_i = [z_i +] Σ over i's places. Runs over columns.
typedef struct {
	void *z;       // rows × cols, of z_type
	float *places; // of the segments × cols
	weft_segments segments;
	int64_t cols;
	int32_t z_type, accumulate;
} weft_merge_sums_args;

// Maxima and their sources, which extend what z and arg hold where first is not set. Runs over columns.
typedef struct {
	elem *z;
	int32_t *arg;
	elem *places;
	int32_t *place_args;
	weft_segments segments;
	int64_t cols;
	int32_t first;
} weft_merge_maxima_args;

// States of attention: as in weft_attention_args. Runs over heads.
typedef struct {
	float *maximum, *sum;
	void *z; // of z_type
	float *place_maximum, *place_sum, *place_z;
	weft_segments segments;
	int64_t heads, width;
	int32_t z_type, first, last;
} weft_merge_states_args;

// Partial sums of tiles, in the order of the tiles: tiles_0c = Σ_t tiles_tc, z_c−from += that, and
// mean_c−from is each times that. Runs over columns.
typedef struct {
	float *z, *mean; // may be NULL
	double *tiles; // count × cols
	int64_t count, cols, from;
	double each;
} weft_merge_tiles_args;

// The operations of an expression, in the order of package kernel's: the name, and the value. It is made of
// functions.h's functions of the registers x, y and w, as many as an operation has, and of the instruction's value.
// SINGLE operations are functions of floats, also where the others are of vectors.
#define WEFT_OPERATIONS(VECTOR, SINGLE) \
	VECTOR(constant, all(value)) \
	VECTOR(neg, -x) \
	VECTOR(abs, magnitude(x)) \
	VECTOR(sign, truth(x > 0) - truth(x < 0)) \
	VECTOR(exp, full_exp(x)) \
	VECTOR(log, full_log(x)) \
	VECTOR(log1p, vlog1p(x)) \
	VECTOR(expm1, full_expm1(x)) \
	VECTOR(sqrt, vsqrt(x)) \
	VECTOR(rsqrt, 1.0f / vsqrt(x)) \
	VECTOR(reciprocal, 1.0f / x) \
	VECTOR(square, x * x) \
	SINGLE(sin, sine(x)) \
	SINGLE(cos, cosine(x)) \
	SINGLE(atan, atanf(x)) \
	VECTOR(tanh, vtanh(x)) \
	VECTOR(sigmoid, full_sigmoid(x)) \
	VECTOR(relu, choose(x <= 0, all(0), x)) \
	VECTOR(elu, choose(x > 0, x, value * full_expm1(x))) \
	VECTOR(selu, vselu(x)) \
	VECTOR(leaky_relu, choose(x > 0, x, value * x)) \
	VECTOR(gelu, vgelu(x)) \
	VECTOR(gelu_tanh, vgelu_tanh(x)) \
	VECTOR(silu, x / (1.0f + full_exp(-x))) \
	VECTOR(softplus, vsoftplus(x)) \
	VECTOR(erf, verf(x)) \
	VECTOR(floor, vfloor(x)) \
	VECTOR(ceil, vceil(x)) \
	VECTOR(round, vround(x)) \
	VECTOR(logsigmoid, vlogsigmoid(x)) \
	VECTOR(logical_not, truth(x == 0)) \
	VECTOR(detach, x) \
	VECTOR(add, x + y) \
	VECTOR(sub, x - y) \
	VECTOR(mul, x * y) \
	VECTOR(div, x / y) \
	SINGLE(pow, powf(x, y)) \
	SINGLE(fmod, fmodf(x, y)) \
	SINGLE(atan2, atan2f(x, y)) \
	VECTOR(maximum, choose((x > y) | (x != x), x, y)) \
	VECTOR(minimum, choose((x < y) | (x != x), x, y)) \
	VECTOR(gt, truth(x > y)) \
	VECTOR(ge, truth(x >= y)) \
	VECTOR(lt, truth(x < y)) \
	VECTOR(le, truth(x <= y)) \
	VECTOR(eq, truth(x == y)) \
	VECTOR(ne, truth(x != y)) \
	VECTOR(logical_and, truth((x != 0) & (y != 0))) \
	VECTOR(logical_or, truth((x != 0) | (y != 0))) \
	VECTOR(where, choose(x != 0, y, w))

enum weft_operation {
#define X(name, value) weft_op_##name,
	WEFT_OPERATIONS(X, X)
#undef X
};

// Register z becomes the operation's result of registers a, b and c, as many as it has, and of value.
typedef struct {
	int32_t operation, z, a, b, c;
	float value;
} weft_instruction;

enum { WEFT_OPERANDS = 32 }; // at most so many inputs, and results

// An input of an expression, of a type: it has as many rows as the results, or with stride 0 one row for all.
typedef struct {
	const void *x;
	const int32_t *columns; // which column of x is the results' column c; may be NULL: column c
	int64_t stride;         // between x's rows
	int32_t type;
} weft_operand;

// z_k = register results_k, of z_types_k, for rows × cols numbers. The inputs are the first registers; the first
// `constants` of the instructions set registers that no other one does. A z may be an input without columns
// that has its shape and type.
typedef struct {
	void *z[WEFT_OPERANDS];
	weft_operand x[WEFT_OPERANDS];
	const weft_instruction *code;
	int32_t z_types[WEFT_OPERANDS], results[WEFT_OPERANDS];
	int64_t rows, cols;
	int32_t inputs, outputs, constants, instructions, registers;
	weft_workspaces workspaces; // of weft_pointwise_workspace bytes
} weft_pointwise_args;

// z_ic = Σ over k of column c of weight_k · x_i,column_k, for the k from begin_c to begin_c+1.
typedef struct {
	void *z;       // of z_type
	const void *x; // of x_type
	const int32_t *begin, *columns;
	const float *weights;
	int64_t z_cols, x_cols;
	int32_t z_type, x_type;
	int32_t single; // each column is one of x's
} weft_map_columns_args;

// A function of each group of `width` columns. A maximum, a minimum and the logarithm of a sum of exponentials
// are one number for each group. The first ones give their gradient to one number.
enum weft_group_function { WEFT_GROUP_MAX, WEFT_GROUP_MIN, WEFT_GROUP_FIRST_MAX, WEFT_GROUP_FIRST_MIN, WEFT_GROUP_SOFTMAX, WEFT_GROUP_LOG_SOFTMAX, WEFT_GROUP_LOG_SUM_EXP };

typedef struct {
	elem *z;
	const elem *x;
	int64_t groups, width;
	int32_t function;
} weft_groups_args;

// dx from dLoss/dz and the output z; dx may be g, where that has as many columns. Those of equal largest, or
// smallest, numbers have equal parts of g, or the first one has it.
typedef struct {
	elem *dx;
	const elem *g, *x, *z;
	int64_t groups, width;
	int32_t function;
} weft_groups_back_args;

// Products of the matrices that each row has, group after group: z = x·y, rows × inner times inner × cols. A
// factor that is transposed has its columns as rows; one of them at most is.
typedef struct {
	elem *z;
	const elem *x, *y;
	int64_t groups, rows, inner, cols;
	int32_t x_transposed, y_transposed;
} weft_row_product_args;

// Sets elements' bits.
typedef struct {
	elem *p;
	uint32_t bits;
} weft_fill_args;

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

// Kernels over elements of storage, and those of which only the arguments' other types vary.
#define WEFT_STORAGE_KERNELS(X) \
	X(spmm) X(max) X(max_back) X(merge_maxima) \
	X(head_dot) X(row_dots) X(head_outer) X(head_outer_back) X(head_mean) X(head_mean_back) X(head_scale) \
	X(finish) X(finish_back) X(combine) X(exp) X(reciprocal) X(fill) \
	X(column_sum) X(finite) X(moments) X(normalize) X(normalize_sums) X(normalize_back) X(layer_norm) X(layer_back) \
	X(densify) X(uniform) X(gather) X(scatter) X(scatter_add) X(columns) X(encode) X(decode) \
	X(groups) X(groups_back) X(row_product) \
	X(attend) X(attend_v2) X(attend_back_target) X(attend_back_target_edges) X(attend_back_source) X(attend_back_target_v2) X(attend_back_source_v2) \
	X(attend_dot) X(attend_back_target_dot) X(attend_back_source_dot)
#define WEFT_OTHER_KERNELS(X) \
	X(ends) X(attend_pack) X(attend_end) X(merge_sums) X(merge_states) X(merge_tiles) X(pointwise) X(map_columns) \
	X(cross_entropy) X(binary_cross_entropy) X(hits) X(pair_scores) X(pair_rows) X(pair_weights) X(above) X(adam) X(sgd) X(sum_squares) X(sparse_mask) X(convert) X(weight) X(weight_sum) X(pack_tiles)
#define WEFT_PRODUCT_KERNELS(X) X(product_pack) X(product) // oneDNN's, at any SIMD level
#define WEFT_DEVICE_KERNELS(X) /* on a CPU they are Go */ \
	X(gelu) X(gelu_back) X(sqrt) X(sqrt_back) /* over storage */ X(merge_moments) X(move)
#define WEFT_KERNELS(X) WEFT_STORAGE_KERNELS(X) WEFT_OTHER_KERNELS(X) WEFT_PRODUCT_KERNELS(X) WEFT_DEVICE_KERNELS(X)

enum weft_kernel_name {
#define X(name) weft_##name,
	WEFT_KERNELS(X)
#undef X
	WEFT_KERNEL_COUNT
};

typedef void (*weft_function)(const void *args, int64_t lo, int64_t hi);

// Every kernel, and those over storage for elements of type bfloat16.
extern const weft_function weft_table_avx512[], weft_table_avx2[], weft_table_portable[];
extern const weft_function weft_table_avx512_bfloat16[], weft_table_avx2_bfloat16[], weft_table_portable_bfloat16[];

enum weft_level { WEFT_PORTABLE, WEFT_AVX2, WEFT_AVX512 };
void weft_onednn_version(int v[3]);
// How products of bfloat16s are made: of floats, by dot products of pairs (AVX512-BF16), of tiles (AMX). How those
// of floats are on a device: of floats, of parts of them by tensor cores.
enum weft_products { WEFT_OF_FLOATS, WEFT_OF_PAIRS, WEFT_OF_TILES, WEFT_OF_TF32 };
int weft_onednn_can_multiply(enum weft_products by); // ONEDNN_MAX_CPU_ISA may take it away
void weft_onednn_without_tiles(void);                // before anything else is asked of oneDNN
int weft_best_level(void);        // what this CPU can run
void weft_set_level(int level);   // before the first weft_run
// Whether this processor can, at this level, and oneDNN. The best depends on the kind of processor alone, so
// that equal machines round alike: by pairs Intel's have half the rate of float32, and AMD's twice.
int weft_can_multiply(int level, enum weft_products by);
enum weft_products weft_best_products(int level);
const char *weft_name(int kernel);
const char *weft_operation_name(int operation);
// Runs a kernel for elements of a type; a kernel that is not over storage, for WEFT_FLOAT32.
void weft_run(int kernel, enum weft_type type, const void *args, int64_t lo, int64_t hi);
// Runs a kernel over a segment: spmm, max, max_back, or one of attention's.
void weft_run_segment(int kernel, enum weft_type type, const void *args, weft_segment segment, int64_t place);
void weft_pause(void); // well under a microsecond, in which the CPU leaves its units to another thread

// What makes a product returns 0, or oneDNN's status.
enum { WEFT_ONEDNN_MEMORY = 1 };

// A product of blocks of so many rows, with w read transposed, and added to z or not. It is freed also where
// making it fails.
int weft_onednn_new(weft_onednn **p, int64_t rows, int64_t in, int64_t out, int transposed, int accumulate, enum weft_type x_type,
                    enum weft_type z_type);
void weft_onednn_free(weft_onednn *p);
int64_t weft_onednn_packed_bytes(const weft_onednn *p);
int weft_onednn_status(weft_onednn *p); // of the kernels that ran since the last time
void weft_product_pack_run(const void *args, int64_t lo, int64_t hi);
void weft_product_run(const void *args, int64_t lo, int64_t hi);

// A field of a kernel's arguments that is the address of elements, and whether the kernel writes them.
typedef struct {
	const char *name;
	int64_t offset;
	int32_t written;
} weft_pointer;

// Those of a kernel, ended by one without a name, and the size of its arguments.
const weft_pointer *weft_pointers(int kernel, int64_t *size);
#endif
