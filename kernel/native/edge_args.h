// The arguments of kernels over the entries of a sparse matrix, and of the kernels that merge the partial
// results of segments.
#ifndef WEFT_EDGE_ARGS_H
#define WEFT_EDGE_ARGS_H
#include "matrices.h"
#include "workspace.h"

// Sums of neighbours:
//   z_i = [z_i +] row_scale_i · (Σ_k weight_k · col_scale_j · x_j + self_i · own_i)
// over the entries k of row i, whose column is j. They have the numbers indptr[i] … end_i−1. If a matrix is
// cut into blocks of columns (cut.go), these are the row's entries in one block, and x holds the rows of the
// block. With extend the sum continues the row's sum over earlier blocks. That is in z, or in sums if z is
// not of floats.
typedef struct {
	void *z;                // rows × cols, of z_type
	const elem *x;          // block rows × cols
	const elem *own;        // rows × cols: the part of x that belongs to the destination rows
	int64_t z_stride, x_stride; // between rows of z and own, and of x
	weft_edges edges;
	const int64_t *end;     // per row
	int64_t first;          // the first column of the block
	int64_t from;           // the first column of z, and of own, that is computed
	const float *weights;   // per edge, may be NULL
	const float *row_scale; // per destination row, may be NULL
	const float *col_scale; // per source row, may be NULL
	const float *self;      // per destination row, may be NULL
	int64_t cols;
	int32_t z_type;
	int32_t cut, extend, accumulate; // cut: x holds the rows of one block
	float *sums;                     // sums of the rows from first_sum on, × sums_stride; may be NULL
	int64_t first_sum, sums_stride;
	int32_t unfinished;              // the results are written to sums, not to z
	int64_t slice; // how many columns of all rows a device computes at a time; 0: all columns
} weft_spmm_args;

// end_i = the end of row i's entries whose column is below `column`, of the entries from begin_i on. Columns
// ascend in a row. For a row that is skipped end_i = begin_i.
typedef struct {
	int64_t *end;
	const int64_t *begin;
	weft_edges edges;
	int32_t column;
} weft_ends_args;

// z_ic = max_k x_jc over the entries k of row i, and arg_ic = the id of the source j that has it. With first
// set a row begins with arg −1 and z 0, else with the values that it holds.
typedef struct {
	elem *z;
	int32_t *arg;
	const elem *x;
	weft_edges edges;
	const int32_t *source_ids; // may be NULL: the source's row
	const int32_t *loops;      // > 0 if the row is its own in-neighbour; may be NULL
	int64_t cols;
	int32_t first;
} weft_max_args;

// dx_jc += Σ_i g_ic over the out-neighbours i of j with arg_ic = j. Runs over the rows of the transposed
// matrix.
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

// Softmax attention over in-edges, with heads × width columns. attention.h has the equations.
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
	// the number of self loops of each row; NULL: none. With them sources and destinations are the same rows.
	const int32_t *loops;
	const int32_t *source_ids;  // may be NULL: the row itself
	const int32_t *target_ids;
	// features of edges: row k is of entry k, or row feature_rows_k if feature_rows is not NULL. NULL: edges
	// have no features.
	const elem *features;
	const int32_t *feature_rows;
	const elem *loop_features;  // of the self loops, row by row: row i's begin at first_loop_i
	const int64_t *first_loop;  // NULL: there are no self loops with features
	int64_t feature_columns;
	const float *edge_vector;   // feature_columns × heads (GATv1)
	const float *edge_weight;   // feature_columns × heads·width (GATv2, dot products)
	int64_t heads, width;
	// the first of these heads in the layer, and the number of the layer's heads
	int64_t first_head, layer_heads;
	float slope;
	weft_mask mask;
	int32_t first, last, z_type; // forward only: the state begins, or ends, with these edges
	// backward only
	int32_t whole;             // the edges are all in-edges of their destinations
	// GATv1, over destinations: only the rows of edges on one side of LeakyReLU's knee are read
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
	// Over destinations: sums over ranges of sum_rows rows, of which the first has number first_sum. Scratch
	// is zeros. The sums of two ranges lie sum_stride numbers apart.
	double *d_a;               // GATv2: heads·width
	float *da_row;             // scratch of d_a
	double *d_edge_vector;     // GATv1 with features: feature_columns × heads
	double *d_edge_weight;     // the others: feature_columns × heads·width
	float *d_edge_row;         // scratch of d_edge_weight
	int64_t sum_rows, first_sum, sum_stride;
	float *pack;               // destination rows × WEFT_PACK·heads, see attend_pack
	weft_workspaces workspaces;          // of weft_attention_workspace bytes
} weft_attention_args;

// Softmax aggregation; equations in softmax_sum.h.
typedef struct {
	float *maximum; // destination rows × cols: the running maximum of t·x; with last set the log-sum-exp
	float *sum;     // destination rows × cols: Σ exp(t·x − maximum); may be NULL where first and last are set
	// destination rows × cols, of z_type: Σ exp(t·x − maximum)·x; with last set the output. With first and
	// last set it may be of bfloat16s.
	void *z;
	const elem *x;  // source rows × cols
	const float *t; // cols: the inverse temperature
	weft_edges edges;
	const int32_t *loops; // per row, how many self loops it has, may be NULL: none
	int64_t cols;
	int32_t z_type, first, last; // first, last: the state begins, or ends, with these edges
} weft_softmax_sum_args;

// Its gradients, which are added. Runs over the transposed rows.
typedef struct {
	void *dx;       // source rows × cols, of dx_type
	float *ds;      // source rows × cols: of the scores t·x, may be NULL
	const elem *x;  // source rows × cols
	const elem *g;  // destination rows × cols: dLoss/d output
	const elem *z;  // destination rows × cols: the output
	const float *log_sum; // destination rows × cols
	const float *t; // cols
	weft_edges edges;
	const int32_t *loops;
	int64_t cols;
	int32_t dx_type;
} weft_softmax_sum_back_args;

// out_k = values_k · mask(vertex, column), in row-major or transposed order. Runs over the matrix's rows.
typedef struct {
	float *out;
	const float *values;
	weft_edges edges;
	int32_t transposed; // rows are columns and indices are vertices
	weft_mask mask;
} weft_sparse_mask_args;

// z_i,j = the sum of the values of row i's entries in column j. z holds zeros before. Runs over rows.
typedef struct {
	elem *z;
	const float *values; // may be NULL: ones
	weft_edges edges;
	int64_t cols;
} weft_densify_args;

// Ends a running softmax: z becomes the output, z / sum, and maximum the log-sum-exp. Runs over rows.
typedef struct {
	float *z, *maximum;
	const float *sum;
	int64_t heads, width;
} weft_attend_end_args;

// Merges the partial sums of segments in the order of the segments: z_i = [z_i +] Σ_p partials_p, over the
// partial results p of row i. Runs over columns.
typedef struct {
	void *z;       // rows × cols, of z_type
	float *partials; // one row for each partial result, × cols
	weft_segments segments;
	int64_t cols;
	int32_t z_type, accumulate;
} weft_merge_sums_args;

// Merges partial maxima and their sources. If first is not set, they extend the values in z and arg. Runs
// over columns.
typedef struct {
	elem *z;
	int32_t *arg;
	elem *partials;
	int32_t *partial_args;
	weft_segments segments;
	int64_t cols;
	int32_t first;
} weft_merge_maxima_args;

// Merges the partial states of attention, with the fields of weft_attention_args. Runs over heads.
typedef struct {
	float *maximum, *sum;
	void *z; // of z_type
	float *partial_maximum, *partial_sum, *partial_z;
	weft_segments segments;
	int64_t heads, width;
	int32_t z_type, first, last;
} weft_merge_states_args;
#endif
