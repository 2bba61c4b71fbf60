// Sums of gathered rows with a coefficient for each edge and head: z_ic = Σ_e coef_e,head(c) · row_ec.
// heads.h has the groups of heads.

// A run: the edges of a row in a batch, or a part of them.
typedef struct {
	int64_t row;
	int at, edges;    // the first edge's number in the batch, and how many there are
	int begins, ends; // whether the row's first and last edges are among them
	// its other ends, from which prefetches run ahead by up to FAR edges: the other ends of the next rows
	// follow directly
	const int32_t *far;
	// the number of the first edge's entry in the matrix; how many edges are entries; and the number of the
	// first self loop that follows them, among the loops of all rows
	int64_t entry;
	int stored;
	int64_t loop;
} run;

enum extension { FROM_ZERO, FROM_ZERO_AT_FIRST, EXTENDED };

// The runs of a batch, and the heads whose columns are summed.
typedef struct {
	const run *run;
	int64_t runs, P;      // P: places of an edge
	const int32_t *other; // the other ends, from the batch's first edge on
	int64_t heads, width;
	const int32_t *head_of; // the head of each column; 0 behind the last
} row_runs;

// Where a sum is kept. z points to the group's first column. A z of bfloat16s cannot hold the sum of a row
// some of whose edges are still to come. Such a sum is in `open`, one row of floats.
typedef struct {
	void *z;
	int type;
	float *open;
} sum_place;

// load_sum: x = the current sum of a run in a block of columns, which begins at number `at` of z and vector
// v0 of a row. store_sum does the reverse.
INLINE void load_sum(vf *x, const sum_place *p, const run *r, int64_t at, int64_t v0, const int nb,
                     const int tail) {
	if (p->type == WEFT_BFLOAT16 && !r->begins)
		load_either(x, p->open, WEFT_FLOAT32, v0 * VW, nb, tail);
	else
		load_either(x, p->z, p->type, at, nb, tail);
}

INLINE void store_sum(const sum_place *p, const run *r, int64_t at, int64_t v0, const vf *x, const int nb,
                      const int tail) {
	if (p->type == WEFT_BFLOAT16 && !r->ends)
		store_either(p->open, WEFT_FLOAT32, v0 * VW, x, nb, tail);
	else
		store_either(p->z, p->type, at, x, nb, tail);
}

// Sums of the rows at the other ends of a batch's edges. For each run, over the columns of a group of heads:
//   z_c = scale_head · ([z_c +] Σ_e coef_e,head · row_ec)
// Rows and results are given by the address of the group's first column.
typedef struct row_sum {
	row_runs of;
	const elem *rows;
	int64_t cols;
	const float *coef; // from the batch's first edge on
	sum_place z;
	int64_t stride;           // between the results of two rows, or of two runs
	int by_run;               // stride is that of two runs
	// whether z is added to; with FROM_ZERO_AT_FIRST only by the later parts of a row
	enum extension extension;
	const float *scale;       // a factor for each run and head; NULL: 1
	const float *coef2;       // coefficients of a second sum; may be NULL
	float *z2;                // the second sums: a row of the group's vectors for each run, stride2 apart
	int64_t stride2;
	// a row for each edge of the batch, which is added to the gathered row; edge_stride apart. May be NULL,
	// and is NULL if there is a second sum.
	const float *of_edges;
	int64_t edge_stride;
} row_sum;

#if defined(NARROW) // one head
INLINE vf coefficients(const float *of_edge) { return all(*of_edge); }
INLINE vf spread(vf coefficients, vi head) { return coefficients; }
#else
INLINE vf coefficients(const float *of_edge) { return load(of_edge); }
INLINE vf spread(vf coefficients, vi head) { return __builtin_shuffle(coefficients, head); }
#endif

// The head of each lane of vector v of a block.
INLINE vi lane_heads(const int32_t *head_of, int64_t v0, int v, const int nb, const int tail) {
	return (vi)load((const float *)head_of + v0 * VW + block_column(v, nb, tail));
}

// acc += coef·row, and acc2 += coef2·row if `two` is set. of_edge, if not NULL, is added to the row first.
// `later` is prefetched.
INLINE void add_row(vf *acc, vf *acc2, const elem *row, const float *of_edge, const float *coef,
                    const float *coef2, const vi *head, const int two, const int nb, const int tail,
                    const elem *later) {
	prefetch_block(later, nb, tail);
	vf c = coefficients(coef), c2 = two ? coefficients(coef2) : c;
	IN_REGISTER(c);
	IN_REGISTER(c2);
	for (int v = 0; v < nb; v++) {
		vf x = load_block(row, v, nb, tail);
		if (of_edge)
			x += load_block(of_edge, v, nb, tail);
		if (two)
			IN_REGISTER(x);
		acc[v] += spread(c, head[v]) * x;
		if (two)
			acc2[v] += spread(c2, head[v]) * x;
	}
}

// sum_rows over the block of columns that begins with vector v0.
INLINE void sum_block(const row_sum *s, const int two, const int edge_rows, int64_t v0, const int nb,
                      const int tail) {
	const elem *rows = s->rows + v0 * VW;
	const int64_t cols = s->cols, P = s->of.P, ahead = ahead_of(nb * VW * sizeof(elem));
	vi head[BLOCK];
	for (int v = 0; v < nb; v++)
		head[v] = lane_heads(s->of.head_of, v0, v, nb, tail);
	for (int64_t k = 0; k < s->of.runs; k++) {
		const run *r = &s->of.run[k];
		const int32_t *other = s->of.other + r->at;
		const float *coef = s->coef + r->at * P, *coef2 = two ? s->coef2 + r->at * P : coef;
		const int64_t z = (s->by_run ? k : r->row) * s->stride + v0 * VW;
		int extend = s->extension == EXTENDED || (s->extension == FROM_ZERO_AT_FIRST && !r->begins);
		vf acc[BLOCK], acc2[BLOCK];
		for (int v = 0; v < nb; v++)
			acc[v] = acc2[v] = (vf){0};
		if (extend)
			load_sum(acc, &s->z, r, z, v0, nb, tail);
		for (int64_t e = 0; e < r->edges; e++)
			add_row(acc, acc2, rows + other[e] * cols,
			        edge_rows ? s->of_edges + (r->at + e) * s->edge_stride + v0 * VW : NULL, coef + e * P,
			        coef2 + e * P, head, two, nb, tail, rows + r->far[e + ahead] * cols);
		const vf scale = s->scale ? coefficients(s->scale + k * P) : all(1.0f);
		for (int v = 0; v < nb; v++) {
			acc[v] *= spread(scale, head[v]);
			if (two)
				store_block(s->z2 + k * s->stride2 + v0 * VW, acc2[v], v, nb, tail);
		}
		store_sum(&s->z, r, z, v0, acc, nb, tail);
	}
}

static __attribute__((noinline, noclone)) void sum_rows(const row_sum *s) {
	const int64_t columns = s->of.heads * s->of.width, vectors = (columns + VW - 1) / VW, tail = columns % VW;
	const weft_narrow *narrow = s->of.heads == 1 && !s->of_edges ? narrower(columns) : NULL;
	if (narrow) {
		narrow->sum_rows(s);
	} else if (s->coef2) {
		EACH_BLOCK(vectors, tail, sum_block, s, 1, 0)
	} else if (s->of_edges) {
		EACH_BLOCK(vectors, tail, sum_block, s, 0, 1)
	} else {
		EACH_BLOCK(vectors, tail, sum_block, s, 0, 0)
	}
}
