// Work on rows whose columns are those of a group of heads, one head after another: sums of gathered rows with a coefficient for
// each edge and head, and dot products with them. The loops over a run's edges are inside, so that sums stay in registers.

// A group of at most VW heads; its columns as vectors, the last of them of `tail` lanes where VW does not divide them.
typedef struct {
	int64_t head, from, width; // first head, first column, columns of a head
	int heads, vectors, tail;
	const int32_t *head_of; // of each column, its head in the group; 0 behind the last
	float *scratch;      // a row for each run of a batch
} group;

static inline int64_t row_bytes(const group *g) { return g->vectors * sizeof(vf); }

static inline void first_group(group *g, int64_t heads, int64_t width) {
	int64_t most = heads < VW ? heads : VW, columns = (most * width + VW - 1) / VW * VW;
	int64_t scratch = columns * sizeof(float) < CACHE ? CACHE : columns * sizeof(float);
	int32_t *head_of = aligned_alloc(sizeof(vf), columns * sizeof(int32_t) + scratch);
	if (!head_of)
		abort(); // a row of head numbers, and scratch of CACHE bytes or a row
	for (int64_t c = 0; c < columns; c++)
		head_of[c] = c < most * width ? c / width : 0;
	*g = (group){.head = -VW, .width = width, .head_of = head_of, .scratch = (float *)(head_of + columns)};
}

// Returns 0 after the last group, and has freed then what the first took.
static inline int next_group(group *g, int64_t heads) {
	g->head += VW;
	if (g->head >= heads) {
		free((void *)g->head_of);
		return 0;
	}
	g->from = g->head * g->width;
	g->heads = heads - g->head < VW ? heads - g->head : VW;
	g->vectors = (g->heads * g->width + VW - 1) / VW;
	g->tail = g->heads * g->width % VW;
	return 1;
}

// The heads of the lanes of vector v of a block.
static inline __attribute__((always_inline)) vi lane_heads(const group *g, int64_t v0, int v, const int nb, const int tail) {
	return (vi)load((const float *)g->head_of + v0 * VW + block_column(v, nb, tail));
}

enum extension { FROM_ZERO, FROM_ZERO_AT_FIRST, EXTENDED };

// Sums of the rows at the other ends of a batch's edges: z_c = scale_head · ([z_c +] Σ_e coef_e,head · row_ec) for each run. Rows and
// results are given by the group's first column.
typedef struct {
	const batch *b;
	int ahead; // nothing has read these rows just before: they are prefetched
	const float *rows;
	int64_t cols;
	const float *coef; // of the batch's first edge
	float *z;
	int64_t stride;           // between the results of two rows, or of two runs
	int by_run;               // which of them
	enum extension extension; // whether z is added to: with FROM_ZERO_AT_FIRST by the later parts of a row
	const float *scale;       // of each run and head; NULL: 1
	const float *coef2;       // of a second sum, may be NULL
	float *z2;                // a row of the group's vectors for each run
} row_sum;

// The coefficients of an edge for vector v of a block: one for all lanes where a head has `per` whole vectors, else by lane.
static inline __attribute__((always_inline)) vf coefficients(const float *coef, const vi *head, int v, const int per) {
	return per ? all(coef[v / per]) : spread(coef, head[v]);
}

// acc += coef·row, and acc2 with the other coefficients where there are two; `later` is asked for if not NULL.
static inline __attribute__((always_inline)) void add_row(vf *acc, vf *acc2, const float *row, const float *coef, const float *coef2, const vi *head,
                                                          const int per, const int two, const int nb, const int tail, const float *later) {
	if (later)
		prefetch_block(later, nb, tail);
	for (int v = 0; v < nb; v++) {
		vf x = load_block(row, v, nb, tail);
		acc[v] += coefficients(coef, head, v, per) * x;
		if (two)
			acc2[v] += coefficients(coef2, head, v, per) * x;
	}
}

static inline __attribute__((always_inline)) void sum_block(const row_sum *s, const group *g, const int single, const int per, const int two,
                                                            int64_t v0, const int nb, const int tail) {
	// Where an edge has one place, its vectors are few and additions would wait for each other, sums are taken in so many parts.
	enum { PARTS_OF_SUM = 4 };
	static const float zeros[BLOCK / 2 * VW];
	const int parts = !single || nb > BLOCK / 2 ? 1 : nb > BLOCK / 4 ? 2 : PARTS_OF_SUM;
	const batch *b = s->b;
	const float *rows = s->rows + v0 * VW;
	const int64_t cols = s->cols;
	const int64_t P = single ? 1 : b->P, ahead = s->ahead ? ahead_of(nb * sizeof(vf)) : 0;
	const int first = per ? g->head_of[v0 * VW] : 0; // head of the block
	vi head[BLOCK];
	for (int v = 0; v < nb; v++)
		head[v] = lane_heads(g, v0, v, nb, tail);
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		const int32_t *other = b->other + r->at;
		const float *coef = s->coef + r->at * P + first, *coef2 = two ? s->coef2 + r->at * P + first : coef;
		float *z = s->z + (s->by_run ? k : r->row) * s->stride + v0 * VW;
		int extend = s->extension == EXTENDED || (s->extension == FROM_ZERO_AT_FIRST && !r->begins);
		vf acc[BLOCK * PARTS_OF_SUM], acc2[BLOCK * PARTS_OF_SUM];
		for (int v = 0; v < nb * parts; v++)
			acc[v] = acc2[v] = (vf){0};
		if (extend)
			for (int v = 0; v < nb; v++)
				acc[v] = load_block(z, v, nb, tail);
		for (int64_t e = 0; e < r->edges; e += parts)
			for (int p = 0; p < parts; p++) {
				// Behind the last edge no row that an edge names, because 0·∞ is not 0.
				const float *row = p == 0 || e + p < r->edges ? rows + other[e + p] * cols : zeros;
				add_row(acc + p * nb, acc2 + p * nb, row, coef + (e + p) * P, coef2 + (e + p) * P, head, per, two, nb, tail,
				        ahead ? rows + other[e + p + ahead] * cols : NULL);
			}
		for (int half = parts / 2; half > 0; half /= 2)
			for (int v = 0; v < half * nb; v++) {
				acc[v] += acc[v + half * nb];
				acc2[v] += acc2[v + half * nb];
			}
		for (int v = 0; v < nb; v++) {
			if (s->scale)
				acc[v] *= coefficients(s->scale + k * P + first, head, v, per);
			store_block(z, acc[v], v, nb, tail);
			if (two)
				store_block(s->z2 + (k * (int64_t)g->vectors + v0) * VW, acc2[v], v, nb, tail);
		}
	}
}

#define SUMS(single, per) \
	if (s->coef2) { \
		EACH_BLOCK(g->vectors, g->tail, sum_block, s, g, single, per, 1) \
	} else { \
		EACH_BLOCK(g->vectors, g->tail, sum_block, s, g, single, per, 0) \
	}

static __attribute__((noinline, noclone)) void sum_rows(const row_sum *s, const group *g) {
	int64_t per = g->width % VW ? 0 : g->width / VW;
	if (s->b->P == 1) {
		SUMS(1, BLOCK)
	} else if (per == 1) {
		SUMS(0, 1)
	} else if (per == 2) {
		SUMS(0, 2)
	} else if (per == 4) {
		SUMS(0, 4)
	} else if (per && per % BLOCK == 0) {
		SUMS(0, BLOCK)
	} else {
		SUMS(0, 0)
	}
}
#undef SUMS

// The sums of GATv2's backward pass, z for each run and z2 over all of them, with t = row + fixed:
//   z_c  += a_c · Σ_e coef_e,head · LeakyReLU'(t_ec)
//   z2_c += Σ_e coef_e,head · LeakyReLU(t_ec)
typedef struct {
	const batch *b;
	const float *rows;  // of the other ends
	const float *fixed; // of the runs' rows
	const float *a;
	int64_t cols;
	float slope;
	const float *coef; // of the batch's first edge
	float *z;          // of the runs' rows
	float *z2;         // one row, may be NULL
} slope_sum;

static inline __attribute__((always_inline)) void slope_block(const slope_sum *s, const group *g, const int single, const int two, int64_t v0,
                                                              const int nb, const int tail) {
	const batch *b = s->b;
	const int P = single ? 1 : b->P;
	vf acc2[BLOCK], slope = all(s->slope), unit = all(1.0f);
	vi head[BLOCK];
	for (int v = 0; v < nb; v++) {
		head[v] = lane_heads(g, v0, v, nb, tail);
		acc2[v] = (vf){0};
	}
	for (const run *r = b->run; r < b->run + b->runs; r++) {
		const float *fixed = s->fixed + r->row * s->cols + v0 * VW, *coef = s->coef + r->at * P;
		vf acc[BLOCK];
		for (int v = 0; v < nb; v++)
			acc[v] = (vf){0};
		for (int e = 0; e < r->edges; e++) {
			const float *row = s->rows + b->other[r->at + e] * s->cols + v0 * VW;
			vf one = all(coef[e * P]);
			for (int v = 0; v < nb; v++) {
				vf t = load_block(row, v, nb, tail) + load_block(fixed, v, nb, tail);
				vf d = (single ? one : spread(coef + e * P, head[v])) * positive(t, unit, slope);
				acc[v] += d;
				if (two)
					acc2[v] += d * t;
			}
		}
		for (int v = 0; v < nb; v++)
			acc[v] *= load_block(s->a + v0 * VW, v, nb, tail);
		add_block(s->z + r->row * s->cols + v0 * VW, acc, nb, tail);
	}
	if (two)
		add_block(s->z2 + v0 * VW, acc2, nb, tail);
}

static __attribute__((noinline, noclone)) void sum_slopes(const slope_sum *s, const group *g) {
	if (s->b->P == 1 && s->z2) {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 1, 1)
	} else if (s->b->P == 1) {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 1, 0)
	} else if (s->z2) {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 0, 1)
	} else {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 0, 0)
	}
}

// Dot products, per head, of the rows of the other ends with the runs' rows.
typedef struct {
	const batch *b;
	int ahead;          // as in row_sum
	const float *rows;  // of the other ends
	const float *fixed; // of the runs' rows
	int64_t cols;
	const float *a; // NULL: out_eh = Σ_c fixed_c · row_ec; else Σ_c a_c · LeakyReLU(row_ec + fixed_c)
	float slope;
	float *out; // of the batch's first edge
} dot_rows;

static inline __attribute__((always_inline)) vf product(const dot_rows *d, const float *fixed, const float *row, int64_t c, int lanes,
                                                        const int leaky) {
	vf x = part(row + c, lanes), y = part(fixed + c, lanes);
	return leaky ? part(d->a + c, lanes) * leaky_v(x + y, all(d->slope)) : x * y;
}

// The vector of one head's products with an edge's row.
static inline __attribute__((always_inline)) vf head_product(const dot_rows *d, const float *fixed, const float *row, int h, int heads,
                                                             int64_t width, const int leaky, const int full, const int tail) {
	vf s = {0};
	int64_t c = h * width;
	if (h < heads) {
		for (int k = 0; k < full; k++)
			s += product(d, fixed, row, c + k * VW, VW, leaky);
		if (tail)
			s += product(d, fixed, row, c + full * VW, tail, leaky);
	}
	return s;
}

// Edges are taken together until their heads fill a vector, of which every lane is the sum of the lanes of one head's products. Heads
// have `full` whole vectors and a tail, or where full and tail are both 0, half a vector.
static inline __attribute__((always_inline)) void dots_of(const dot_rows *d, int heads, int64_t width, int vectors, const int P,
                                                          const int leaky, const int full, const int tail) {
	const batch *b = d->b;
	const int64_t ahead = d->ahead ? ahead_of(vectors * sizeof(vf)) : 0;
	for (const run *r = b->run; r < b->run + b->runs; r++) {
		const float *fixed = d->fixed + r->row * d->cols;
		__asm__("" : "+r"(fixed));
		for (int64_t e = r->at, end = r->at + r->edges; e < end; e += VW / P) {
			vf v[VW];
			// Where a vector has the places of many edges, those behind the last one are left as they are, for nobody reads them.
			const int64_t edges = P * 8 > VW || end - e > VW / P ? VW / P : end - e;
			for (int i = 0; i < edges; i++) {
				const float *row = d->rows + b->other[e + i] * d->cols, *later = d->rows + b->other[e + i + ahead] * d->cols;
				__asm__("" : "+r"(row), "+r"(later)); // two addresses with constant offsets
				if (ahead)
					for (int k = 0; k < vectors; k += VW < 16 ? 16 / VW : 1)
						__builtin_prefetch(later + k * VW);
				if (full || tail)
					for (int h = 0; h < P; h++)
						v[i * P + h] = head_product(d, fixed, row, h, heads, width, leaky, full, tail);
				else
					for (int k = 0; k < P / 2; k++)
						v[i * P / 2 + k] = product(d, fixed, row, k * VW, VW, leaky);
			}
			store(d->out + e * P, full || tail ? lane_sums(v) : half_sums(v));
		}
	}
}

// The common widths have loops without branches, of constant numbers of vectors.
static inline __attribute__((always_inline)) void dots_of_width(const dot_rows *d, const group *g, const int P, const int leaky) {
	int full = g->width / VW, tail = g->width % VW, whole = g->heads == P;
	if (whole && P > 1 && 2 * g->width == VW)
		dots_of(d, P, VW / 2, P / 2, P, leaky, 0, 0);
	else if (whole && full == 1 && !tail)
		dots_of(d, P, VW, P, P, leaky, 1, 0);
	else if (whole && full == 2 && !tail)
		dots_of(d, P, 2 * VW, 2 * P, P, leaky, 2, 0);
	else if (whole && full == 4 && !tail)
		dots_of(d, P, 4 * VW, 4 * P, P, leaky, 4, 0);
	else if (tail)
		dots_of(d, g->heads, g->width, g->vectors, P, leaky, full, tail);
	else
		dots_of(d, g->heads, g->width, g->vectors, P, leaky, full, 0);
}

static __attribute__((noinline, noclone)) void dots(const dot_rows *d, const group *g) {
#define DOTS(P) \
	case P: \
		if (d->a) \
			dots_of_width(d, g, P, 1); \
		else \
			dots_of_width(d, g, P, 0); \
		break;
	switch (d->b->P) {
		DOTS(1) DOTS(2) DOTS(4)
#if defined(__AVX2__)
		DOTS(8)
#endif
#if defined(__AVX512F__)
		DOTS(16)
#endif
	}
#undef DOTS
}
