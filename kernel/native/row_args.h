// The arguments of kernels over rows, tiles of them, columns, or elements.
#ifndef WEFT_ROW_ARGS_H
#define WEFT_ROW_ARGS_H
#include "matrices.h"
#include "workspace.h"

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
// by the formula of Chan, Golub & LeVeque (1979). Those of all rows replace the first tile's. Runs over
// columns.
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

// shift = mean − added, and rstd = 1/√(variance + ε). Runs over elements.
typedef struct {
	float *shift, *rstd;
	const float *mean, *variance, *added; // added may be NULL: 0
	double epsilon;
} weft_running_args;

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

// z_ic = a number of [0, 1) that is drawn for the row's vertex and column: 24 random bits, of which a
// bfloat16 keeps the first 8 that count. ids (may be NULL: the row itself) gives the row's vertex. Runs over
// rows.
typedef struct {
	elem *z;
	const int32_t *ids;
	uint64_t key;
	int64_t cols;
} weft_uniform_args;

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

// Partial sums of tiles, in the order of the tiles: tiles_0c = Σ_t tiles_tc, z_c−from += that, and
// mean_c−from is each times that. Runs over columns.
typedef struct {
	float *z, *mean; // may be NULL
	double *tiles; // count × cols
	int64_t count, cols, from;
	double each;
} weft_merge_tiles_args;

// Sets elements' bits.
typedef struct {
	elem *p;
	uint32_t bits;
} weft_fill_args;
#endif
