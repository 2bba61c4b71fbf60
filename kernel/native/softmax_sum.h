// Softmax aggregation (Li et al. 2020, "DeeperGCN", equation 4): for each column c of destination i, over its
// edges j→i and with t the inverse temperature,
//   z_ic = Σ_j α_ijc · x_jc,  α_ijc = exp(t_c·x_jc − log_sum_ic),  log_sum_ic = ln Σ_j exp(t_c·x_jc)
// Forward extends the state (maximum m, sum d = Σ exp(t·x − m), z = Σ exp(t·x − m)·x), so that edges may come
// in any number of blocks (Milakov & Gimelshein's online softmax). A row's edges are taken eight at a time:
// the state is scaled to the largest score once for all of them. Backward computes α again:
//   ∂s_jc = Σ_i α_ijc · g_ic · (x_jc − z_ic), the gradient of the score t_c·x_jc
//   ∂x_jc = Σ_i α_ijc · g_ic + t_c · ∂s_jc
// A column's numbers depend on no other column, so that slices of columns have the same bits.

enum {
	SOFTMAX_EDGES = 8,     // that are taken at a time
	SOFTMAX_COLUMNS = 128, // whose state is on the stack
};

// The edges of a row that are taken next, and those behind them, whose rows are asked for.
typedef struct {
	int32_t other[SOFTMAX_EDGES], soon[SOFTMAX_EDGES];
	int n;
} some_edges;

// Edges k … of the row's `all`, self loops last.
static inline void take_some(some_edges *s, const weft_edges *edges, int64_t row, int64_t k, int64_t stored,
                             int64_t all) {
	const int64_t at = edges->indptr[row] + k, last = edges->entries - 1;
	s->n = lesser(all - k, SOFTMAX_EDGES);
	for (int e = 0; e < s->n; e++)
		s->other[e] = k + e < stored ? edges->indices[at + e] : row;
	for (int e = 0; e < SOFTMAX_EDGES; e++) // of this row, or of those that follow it
		s->soon[e] = last < 0 ? row : edges->indices[lesser(at + SOFTMAX_EDGES + e, last)];
}

// Self loops are a row's last edges. A row that is cut has no edges here.
static inline int64_t edges_of_row(const weft_edges *edges, const int32_t *loops, int64_t row,
                                   int64_t *stored) {
	*stored = edges->indptr[row + 1] - edges->indptr[row];
	if (edges->longest && *stored > edges->longest)
		return -1;
	return *stored + (loops ? loops[row] : 0);
}

// Calls f for each vector of a block's columns: `whole` columns are in whole vectors, `tail` behind these.
// f gets the edges, the vector's first column, the number of edges, and the lanes. The most common number of
// edges is a constant.
#define EACH_VECTOR(e, whole, tail, f, ...) \
	if ((e)->n == SOFTMAX_EDGES) \
		for (int64_t c = 0; c < (whole); c += VW) \
			f(__VA_ARGS__, e, c, SOFTMAX_EDGES, VW); \
	else \
		for (int64_t c = 0; c < (whole); c += VW) \
			f(__VA_ARGS__, e, c, (e)->n, VW); \
	if (tail) \
		f(__VA_ARGS__, e, whole, (e)->n, tail);

// The state of some columns of a row.
typedef struct {
	float maximum[SOFTMAX_COLUMNS], sum[SOFTMAX_COLUMNS], z[SOFTMAX_COLUMNS];
} softmax_state;

// Extends a vector of the state, its `lanes` columns from c on, by n edges. x is the block's first column.
INLINE void extend_softmax(softmax_state *s, const elem *x, int64_t cols, const float *t,
                           const some_edges *e, const int64_t c, const int n, const int lanes) {
	const vf by = part(t + c, lanes), before = load(s->maximum + c);
	vf row[SOFTMAX_EDGES], score[SOFTMAX_EDGES], top = before;
	for (int k = 0; k < n; k++) {
		row[k] = part(x + e->other[k] * cols + c, lanes);
		score[k] = by * row[k];
		IN_REGISTER(score[k]); // rounded, whatever the compiler makes of the loops
		top = larger(score[k], top);
		__builtin_prefetch(x + e->soon[k] * cols + c);
	}
	const vf scale = vexp(before - top);
	vf sum = {0}, z = load(s->z + c) * scale;
	IN_REGISTER(z);
	for (int k = 0; k < n; k++) {
		const vf p = vexp(score[k] - top);
		sum += p;
		z = FUSED(p, row[k], z);
	}
	store(s->maximum + c, top);
	store(s->sum + c, FUSED(load(s->sum + c), scale, sum));
	store(s->z + c, z);
}

// Columns from `from` on, at most SOFTMAX_COLUMNS, of rows lo … hi−1.
static void softmax_columns(const weft_softmax_sum_args *a, int64_t lo, int64_t hi, int64_t from) {
	const int64_t cols = a->cols, width = lesser(cols - from, SOFTMAX_COLUMNS), whole = width / VW * VW;
	const int tail = width - whole;
	const elem *x = a->x + from;
	const float *t = a->t + from;
	softmax_state s;
	for (int64_t i = lo; i < hi; i++) {
		int64_t stored;
		const int64_t all_edges = edges_of_row(&a->edges, a->loops, i, &stored), at = i * cols + from;
		if (all_edges < 0)
			continue;
		for (int64_t c = 0; c < width; c += VW) {
			const int n = lesser(width - c, VW);
			vf z = {0};
			if (!a->first)
				load_either(&z, a->z, a->z_type, at + c, 1, n % VW);
			store(s.z + c, z);
			store(s.sum + c, a->first ? (vf){0} : part(a->sum + at + c, n));
			// finite, so that scores of −∞ have no weight
			store(s.maximum + c, a->first ? all(-FLT_MAX) : part(a->maximum + at + c, n));
		}
		for (int64_t k = 0; k < all_edges; k += SOFTMAX_EDGES) {
			some_edges e;
			take_some(&e, &a->edges, i, k, stored, all_edges);
			EACH_VECTOR(&e, whole, tail, extend_softmax, &s, x, cols, t)
		}
		for (int64_t c = 0; c < width; c += VW) {
			const int n = lesser(width - c, VW);
			const vf sum = load(s.sum + c);
			vf z = load(s.z + c), maximum = load(s.maximum + c);
			if (a->last) { // without a score above −∞ the output is 0
				const vi some = ~(sum == 0);
				z = (vf)((vi)(z / sum) & some);
				maximum = (vf)((vi)(maximum + vlog(sum)) & some);
			} else {
				put(a->sum + at + c, sum, n);
			}
			put(a->maximum + at + c, maximum, n);
			store_either(a->z, a->z_type, at + c, &z, 1, n % VW);
		}
	}
}

static void k_softmax_sum(const void *args, int64_t lo, int64_t hi) {
	const weft_softmax_sum_args *a = args;
	for (int64_t from = 0; from < a->cols; from += SOFTMAX_COLUMNS)
		softmax_columns(a, lo, hi, from);
}

// The gradients of some columns of a source.
typedef struct {
	float x[SOFTMAX_COLUMNS], dx[SOFTMAX_COLUMNS], ds[SOFTMAX_COLUMNS]; // dx without what is of the score
} softmax_gradient;

// Adds what n edges give to a vector. `from` is the block's first column.
INLINE void add_softmax_gradient(softmax_gradient *s, const weft_softmax_sum_back_args *a, int64_t from,
                                 const some_edges *e, const int64_t c, const int n, const int lanes) {
	const vf by = part(a->t + from + c, lanes), x = load(s->x + c);
	vf score = by * x, dx = load(s->dx + c), ds = load(s->ds + c);
	IN_REGISTER(score);
	for (int k = 0; k < n; k++) {
		const int64_t at = e->other[k] * a->cols + from + c, soon = e->soon[k] * a->cols + from + c;
		vf g = vexp(score - part(a->log_sum + at, lanes)) * part(a->g + at, lanes);
		IN_REGISTER(g);
		__builtin_prefetch(a->log_sum + soon);
		__builtin_prefetch(a->g + soon);
		__builtin_prefetch(a->z + soon);
		dx += g;
		ds = FUSED(g, x - part(a->z + at, lanes), ds);
	}
	store(s->dx + c, dx);
	store(s->ds + c, ds);
}

static void softmax_back_columns(const weft_softmax_sum_back_args *a, int64_t lo, int64_t hi, int64_t from) {
	const int64_t cols = a->cols, width = lesser(cols - from, SOFTMAX_COLUMNS), whole = width / VW * VW;
	const int tail = width - whole;
	softmax_gradient s;
	for (int64_t j = lo; j < hi; j++) {
		int64_t stored;
		const int64_t all_edges = edges_of_row(&a->edges, a->loops, j, &stored), at = j * cols + from;
		if (all_edges < 0)
			continue;
		for (int64_t c = 0; c < width; c += VW) {
			const int n = lesser(width - c, VW);
			store(s.x + c, part(a->x + at + c, n));
			store(s.dx + c, (vf){0});
			store(s.ds + c, (vf){0});
		}
		for (int64_t k = 0; k < all_edges; k += SOFTMAX_EDGES) {
			some_edges e;
			take_some(&e, &a->edges, j, k, stored, all_edges);
			EACH_VECTOR(&e, whole, tail, add_softmax_gradient, &s, a, from)
		}
		for (int64_t c = 0; c < width; c += VW) {
			const int n = lesser(width - c, VW);
			const vf ds = load(s.ds + c);
			vf dx;
			load_either(&dx, a->dx, a->dx_type, at + c, 1, n % VW);
			dx += FUSED(part(a->t + from + c, n), ds, load(s.dx + c));
			store_either(a->dx, a->dx_type, at + c, &dx, 1, n % VW);
			if (a->ds)
				put(a->ds + at + c, part(a->ds + at + c, n) + ds, n);
		}
	}
}

static void k_softmax_sum_back(const void *args, int64_t lo, int64_t hi) {
	const weft_softmax_sum_back_args *a = args;
	for (int64_t from = 0; from < a->cols; from += SOFTMAX_COLUMNS)
		softmax_back_columns(a, lo, hi, from);
}
#undef EACH_VECTOR
