// The arguments of kernels over rows, tiles of rows, columns, or elements. A kernel runs over rows unless its
// comment says otherwise. z_ihc is column c of head h in row i: a row has heads × width columns.
#ifndef WEFT_ROW_ARGS_H
#define WEFT_ROW_ARGS_H
#include "matrices.h"
#include "workspace.h"

// head_dot: out_ih = Σ_c z_ihc · a_hc, for a of heads × width. row_dots: out_ih = Σ_c z_ihc · y_ihc.
typedef struct {
	float *out;
	const elem *z, *y;
	const float *a;
	int64_t heads, width;
} weft_head_dot_args;

// z_ihc += s_ih · a_hc, for s of rows × heads.
typedef struct {
	elem *z;
	const float *s, *a;
	int64_t heads, width;
} weft_head_outer_args;

// tiles_t,hc = Σ_i s_ih · z_ihc over the rows i of tile t: the parts of ∂a. Runs over tiles.
typedef struct {
	const elem *z;
	const float *s;
	double *tiles;
	int64_t rows, heads, width;
} weft_head_outer_back_args;

// head_mean: out_ic = 1/heads · Σ_h in_ihc. head_mean_back: out_ihc = in_ic / heads.
typedef struct {
	elem *out;
	const elem *in;
	int64_t heads, width;
} weft_head_mean_args;

// z = mask(act(x + bias)), with the activation and dropout's mask. z may be x.
typedef struct {
	elem *z;
	const elem *x;
	const float *bias; // may be NULL
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_finish_args;

// dx = g · mask · act'(·), where act' is computed from the output z. dx may be g.
typedef struct {
	elem *dx;
	const elem *g, *z;
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_finish_back_args;

// z = alpha·x + beta·y, where y may be NULL, or with multiply set z = alpha·x·y. Runs over elements. The
// other functions of one or two matrices, as exp and gelu_back, have these arguments, too.
typedef struct {
	elem *z;
	const elem *x, *y;
	float alpha, beta;
	int32_t multiply;
} weft_combine_args;

// column_sum: tiles_tc = Σ_i x_ic over the rows i of tile t, or Σ_i x_ic · y_ic if y is given. finite:
// tiles_t = Σ (x − x) over the tile, which is 0, or NaN if an element is NaN or infinite. sum_squares:
// tiles_t = Σ x². Runs over tiles.
typedef struct {
	double *tiles;
	const elem *x, *y;
	int64_t rows, cols;
} weft_column_sum_args;

// The mean of each column over the rows of a tile, and m2, the sum of the squared deviations from it. Runs
// over tiles.
typedef struct {
	double *tile_mean, *tile_m2; // tiles × cols
	const elem *x;
	int64_t rows, cols;
} weft_moments_args;

// The statistics of batch norm over all rows. The mean and m2 of the tiles are joined in the order of the
// tiles, by the formula of Chan, Golub & LeVeque (1979). The result replaces the values of the first tile.
// Runs over columns.
typedef struct {
	double *tile_mean, *tile_m2; // tiles × cols
	float *mean, *rstd;          // 1/√(variance + ε) of the biased variance; both may be NULL
	double *batch;               // 2 × cols: the mean of x + added, and the unbiased variance; may be NULL
	const float *added;          // is added to each row of x; NULL: nothing
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

// y = γ·(x − mean)·rstd + β. Each of the four vectors has one number for each column.
typedef struct {
	const float *mean, *rstd, *gamma, *beta;
} weft_normalization;

// Batch norm: z = mask(act(y)). z may be x. norm.h has the equations.
typedef struct {
	elem *z;
	const elem *x;
	weft_normalization norm;
	int64_t cols;
	int32_t activation;
	weft_mask mask;
} weft_normalize_args;

// tile_g = Σ g' and tile_gx = Σ g'·x̂ over the rows of a tile, for g' = dLoss/dy. g is dLoss/dz, and g' is
// written over it. Runs over tiles.
typedef struct {
	double *tile_g, *tile_gx; // tiles × cols
	elem *g;
	const elem *x;
	weft_normalization norm;
	int64_t rows, cols;
	int32_t activation;
	weft_mask mask;
} weft_normalize_sums_args;

// dx of batch norm from g', and from the means of g' and g'·x̂ over all rows. dx may be g.
typedef struct {
	elem *dx;
	const elem *g, *x;
	weft_normalization norm;
	const float *mean_g, *mean_gx; // per column
	int64_t cols;
} weft_normalize_back_args;

// Layer norm: z = mask(act(y)), and the mean and rstd of each row.
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

// dx of layer norm, and Σ g' and Σ g'·x̂ over the rows of a tile. dx may be g. Runs over tiles.
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

// Losses over a list of rows, and the number of hits. loss.h has the equations. Runs over tiles of the list.
typedef struct {
	float *grad;           // like logits: the rows of the list are written; may be NULL
	const float *logits;
	const int32_t *rows;
	const int32_t *labels; // per vertex (cross-entropy, hits)
	const float *targets;  // like logits (binary cross-entropy)
	double *tile_loss;
	int64_t count, cols;
	float scale;           // of the gradient
} weft_loss_args;

// Scores of pairs of rows of x, and their gradients. pairs.h has the equations. pair_scores runs over pairs,
// pair_rows over rows of x, and pair_weights over columns.
typedef struct {
	float *scores;        // n: pair_scores writes them
	float *dx;            // like x: pair_rows writes it
	double *dw;           // relations × cols, to which pair_weights adds
	const float *x, *w;   // rows × cols, relations × cols; w may be NULL: 1
	const float *g;       // n: gradients of the scores
	const int32_t *pairs; // n × 3: relation, source and target of each
	// Row r takes part in the pairs ends_e / 2, for begin_r ≤ e < begin_{r+1}. It is the pair's source if
	// ends_e is even, and its target if ends_e is odd.
	const int32_t *begin, *ends;
	int64_t n, cols;
} weft_pairs_args;

// Counts scores, for the rank of an edge: tiles_tc is the number of the tile's rows with x_ic > score_c, and
// tiles_t,cols+c the number with x_ic = score_c. They are 0 for columns from n on. Runs over tiles.
typedef struct {
	double *tiles;
	const float *x, *score; // rows × cols, n
	int64_t rows, cols, n;
} weft_above_args;

// Steps of optimizers. step.h has the equations. Both run over elements.
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

// z_ic = a random number of [0, 1) for the vertex of row i and column c. It has 24 random bits. A bfloat16
// keeps its first 8 significant bits. ids_i is the vertex of row i; NULL: i itself.
typedef struct {
	elem *z;
	const int32_t *ids;
	uint64_t key;
	int64_t cols;
} weft_uniform_args;

// gather: z_i = x_{rows_i}. scatter: z_{rows_i} = x_i. scatter_add: z_{rows_i} += x_i. The rows of a scatter
// differ from each other. Runs over the list. gather and scatter also move elements that are any 32-bit
// words. In scatter_add z may have another type than x.
typedef struct {
	void *z; // of z_type
	const elem *x;
	const int32_t *rows;
	int64_t cols;
	int32_t z_type;
} weft_rows_args;

// z_i,from_z+c = [z_i,from_z+c +] x_i,from_x+c for c = 0 … count−1. If z_rows or x_rows are listed, row
// z_rows_i or x_rows_i stands for row i. The listed rows of z differ from each other. Runs over rows, or over
// the list. With accumulate z may have another type than x.
typedef struct {
	void *z; // of z_type
	const elem *x;
	const int32_t *z_rows, *x_rows; // may be NULL
	int64_t z_cols, x_cols, from_z, from_x, count;
	int32_t z_type, accumulate;
} weft_columns_args;

// The format in which the numbers of a row are sent. A row of integers begins with two floats: its smallest
// number Z and its range R. Code q of b bits means Z + q·R/(2^b − 1). Two codes of 4 bits share a byte: the
// even column has the lower half. The last of an odd number of columns has a byte of its own.
enum weft_format { WEFT_FORMAT_FLOAT32, WEFT_FORMAT_BFLOAT16, WEFT_FORMAT_INT8, WEFT_FORMAT_INT4 };

// Row i of z = the encoded columns of x_i, or of x_{rows_i}. The columns are all, or the count listed ones.
// Integers are rounded at random by (key, stream, vertex, number of the column among the encoded ones). Runs
// over the rows of z.
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

// The reverse of encode: row i of x is decoded into the columns of z_i, or of z_{rows_i}, or is added to
// them. Runs over the rows of x.
typedef struct {
	elem *z;
	const void *x;                 // of the format
	const int32_t *rows, *columns; // may be NULL
	int64_t cols, count;           // of z; of the encoded columns
	int32_t format, accumulate;
} weft_decode_args;

// z_ihc = x_ihc · s_ih, for s of rows × heads. z may be x.
typedef struct {
	elem *z;
	const elem *x;
	const float *s;
	int64_t heads, width;
} weft_head_scale_args;

// z = x, rounded to the type of z. Runs over elements.
typedef struct {
	void *z;
	const void *x;
	int32_t z_type, x_type;
} weft_convert_args;

// Adds up the partial sums of tiles, in the order of the tiles:
//   tiles_0c = Σ_t tiles_tc ; z_{c−from} += tiles_0c ; mean_{c−from} = each · tiles_0c
// Runs over columns.
typedef struct {
	float *z, *mean; // may be NULL
	double *tiles; // count × cols
	int64_t count, cols, from;
	double each;
} weft_merge_tiles_args;

// Sets each element to the given bits. Runs over elements.
typedef struct {
	elem *p;
	uint32_t bits;
} weft_fill_args;
#endif
