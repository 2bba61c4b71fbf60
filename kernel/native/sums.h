// Sums of gathered rows with a coefficient for each edge and head (heads.h).

// A row's edges in a batch, or a part of them.
typedef struct {
	int64_t row;
	int at, edges;    // the first edge's number in the batch, and how many there are
	int begins, ends; // whether the row's first and last edges are among them
	// its other ends again, where those of the rows that follow come right behind them, as far as FAR
	const int32_t *far;
	// the first edge's entry in the matrix, how many edges are entries, and the number of the first self loop
	// behind these among all rows' loops
	int64_t entry;
	int stored;
	int64_t loop;
} run;

enum extension { FROM_ZERO, FROM_ZERO_AT_FIRST, EXTENDED };

// The runs of a batch, and the heads whose columns are summed.
typedef struct {
	const run *run;
	int64_t runs, P;      // places of an edge
	const int32_t *other; // of the batch's first edge
	int64_t heads, width;
	const int32_t *head_of; // of each column; 0 behind the last
} row_runs;

// Where a sum is kept, for rows from the group's first column on. What is not of floats cannot hold the sum
// of a row some of whose edges are still to come: that is in `open`, one row of floats.
typedef struct {
	void *z;
	int type;
	float *open;
} sum_place;

// x = the block of a run's sum, which is number `at` of z, so far, and the reverse.
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

// Sums of the rows at the other ends of a batch's edges: z_c = scale_head · ([z_c +] Σ_e coef_e,head ·
// row_ec) for each run, over the columns of a group of heads. Rows and results are given by the group's
// first column.
typedef struct row_sum {
	row_runs of;
	const elem *rows;
	int64_t cols;
	const float *coef; // of the batch's first edge
	sum_place z;
	int64_t stride;           // between the results of two rows, or of two runs
	int by_run;               // which of them
	enum extension extension; // whether z is added to: with FROM_ZERO_AT_FIRST by the later parts of a row
	const float *scale;       // of each run and head; NULL: 1
	const float *coef2;       // of a second sum, may be NULL
	float *z2;                // a row of the group's vectors for each run, stride2 behind each other
	int64_t stride2;
	// a row for each edge of the batch, which is added to the gathered one, behind each other as z2 is; may
	// be NULL, and is where there is a second sum
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

// The heads of the lanes of vector v of a block.
INLINE vi lane_heads(const int32_t *head_of, int64_t v0, int v, const int nb, const int tail) {
	return (vi)load((const float *)head_of + v0 * VW + block_column(v, nb, tail));
}

// acc += coef·row, and acc2 with the other coefficients where there are two; `later` is asked for. What is of
// the edge, or NULL, is added to the row.
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
