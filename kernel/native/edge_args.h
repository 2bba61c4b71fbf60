// The arguments of kernels over the entries of a sparse matrix, and of those that merge what its segments
// gave.
#ifndef WEFT_EDGE_ARGS_H
#define WEFT_EDGE_ARGS_H
#include "matrices.h"
#include "workspace.h"

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

// out_k = values_k masked by (vertex, column); one of row-major or transposed order. Runs over the matrix's
// rows.
typedef struct {
	float *out;
	const float *values;
	weft_edges edges;
	int32_t transposed; // rows are columns and indices are vertices
	weft_mask mask;
} weft_sparse_mask_args;

// z_i,indices_k = the sum of the values of entries k of row i in that column, for z of zeros. Runs over rows.
typedef struct {
	elem *z;
	const float *values; // may be NULL: ones
	weft_edges edges;
	int64_t cols;
} weft_densify_args;

// The end of a running softmax: z becomes the output and maximum the log-sum-exp. Runs over rows.
typedef struct {
	float *z, *maximum;
	const float *sum;
	int64_t heads, width;
} weft_attend_end_args;

// Merging what segments gave, in their order. Sums: z_i = [z_i +] Σ over i's places. Runs over columns.
typedef struct {
	void *z;       // rows × cols, of z_type
	float *partials; // of the segments × cols
	weft_segments segments;
	int64_t cols;
	int32_t z_type, accumulate;
} weft_merge_sums_args;

// Maxima and their sources, which extend what z and arg hold where first is not set. Runs over columns.
typedef struct {
	elem *z;
	int32_t *arg;
	elem *partials;
	int32_t *partial_args;
	weft_segments segments;
	int64_t cols;
	int32_t first;
} weft_merge_maxima_args;

// States of attention: as in weft_attention_args. Runs over heads.
typedef struct {
	float *maximum, *sum;
	void *z; // of z_type
	float *partial_maximum, *partial_sum, *partial_z;
	weft_segments segments;
	int64_t heads, width;
	int32_t z_type, first, last;
} weft_merge_states_args;
#endif
