// Softmax attention over in-edges without a tensor that has an entry per edge. Per destination i and head h over the edges
// j→i, with mask_ij from attention dropout (1 without):
//   GATv1: t_ij = source_score_j + target_score_i, s_ij = LeakyReLU(t_ij)
//   GATv2: s_ij = Σ_c a_c · LeakyReLU(source_jc + target_ic)
//   o_i = Σ_j α_ij · mask_ij · source_j,  α = softmax_j(s)
// Forward extends the state (maximum m, sum d = Σ exp(s−m), z = Σ exp(s−m)·mask·source), so the edges may come in any number of
// blocks (Milakov & Gimelshein's online softmax). Backward recomputes α = exp(s − log_sum):
//   ∂α_ij = mask_ij·⟨g_i, source_j⟩ ; ∂s_ij = α_ij·(∂α_ij − ⟨g_i, o_i⟩)
//   ∂source_j += Σ_i α_ij·mask_ij·g_i ; GATv1: ∂t = ∂s·LeakyReLU'(t), summed over i or j ; GATv2: ∂s·a_c·LeakyReLU'(·) per column
//
// A row's edges are taken in chunks, and heads in groups. Every per-edge quantity of a chunk is a small array indexed
// edge·heads of the group + head, on which the work is element-wise; the rows themselves are read once for each chunk.

enum { CHUNK = 32, GROUP = 16, MOST = CHUNK * GROUP };

static inline float leaky(float t, float slope) { return t > 0 ? t : slope * t; }

static inline vf leaky_v(vf t, vf slope) {
	vi positive = t > (vf){0};
	return (vf)(((vi)t & positive) | ((vi)(t * slope) & ~positive));
}

// The edges of a chunk and the heads of a group.
typedef struct {
	int n;               // edges
	int32_t other[CHUNK]; // the row at the edge's other end
	uint32_t occurrence[CHUNK];
	int64_t row;          // the row that they are the edges of
	int transposed;       // that row is their source, not their destination
	int64_t head;         // first head of the group
	int heads;
	int64_t last;         // the end of the edges of the kernel's range of rows
	const int32_t *index; // the chunk's place among the edges, and how many follow from there
	int64_t left;
} chunk;

// Takes up to CHUNK edges of c->row from position *k on; the row's self loops come after its edges. Returns how many.
static inline int take(chunk *c, const weft_attention_args *a, int64_t *k) {
	int64_t lo = a->indptr[c->row], hi = a->indptr[c->row + 1], end = hi + (a->loops ? a->loops[c->row] : 0);
	int n = 0;
	c->index = a->indices + *k;
	c->left = c->last - *k;
	for (; *k < end && n < CHUNK; ++*k, n++) {
		c->other[n] = *k < hi ? a->indices[*k] : c->row;
		if (!a->mask.threshold)
			continue;
		c->occurrence[n] = 0;
		if (*k >= hi)
			c->occurrence[n] = *k - hi;
		else
			for (int64_t b = *k; b > lo && a->indices[b - 1] == c->other[n]; b--)
				c->occurrence[n]++;
	}
	return c->n = n;
}

// keep[e·heads + h]: attention dropout, keyed by both ends, the occurrence number of a duplicate edge, and the head.
static inline void edge_masks(float *keep, const chunk *c, const weft_attention_args *a) {
	for (int e0 = 0; e0 < c->n; e0 += LANES)
		for (int64_t group = c->head / 8; group * 8 < c->head + c->heads; group++) {
			uint32_t counter[4][LANES] = {{0}};
			float lane[LANES];
			for (int e = e0; e < c->n && e < e0 + LANES; e++) {
				int64_t s = c->transposed ? c->row : c->other[e], t = c->transposed ? c->other[e] : c->row;
				counter[0][e - e0] = a->source_ids ? a->source_ids[s] : s;
				counter[1][e - e0] = a->target_ids ? a->target_ids[t] : t;
				counter[2][e - e0] = c->occurrence[e];
				counter[3][e - e0] = 0x80000000u | (uint32_t)group; // apart from the counters of vertices
			}
			counters r;
			__builtin_memcpy(&r, counter, sizeof r);
			philox(&r, a->mask.key);
			for (int word = 0; word < 8; word++) {
				int64_t h = group * 8 + word - c->head;
				if (h < 0 || h >= c->heads)
					continue;
				keep_lanes(lane, &r, word, &a->mask);
				for (int e = e0; e < c->n && e < e0 + LANES; e++)
					keep[e * c->heads + h] = lane[e - e0];
			}
		}
}

// How a group's columns lie in vectors: each head has `per` of them, the last of `tail` lanes where VW does not divide the width.
typedef struct {
	int per, total, tailed;
	int *offset, *head, *lanes; // of each vector
} columns;

static inline columns lay_out(const chunk *c, int64_t width) {
	columns l = {.per = (width + VW - 1) / VW, .tailed = width % VW != 0};
	l.total = l.per * c->heads;
	l.offset = malloc(3 * l.total * sizeof(int));
	l.head = l.offset + l.total;
	l.lanes = l.head + l.total;
	for (int b = 0; b < l.total; b++) {
		int k = b % l.per;
		l.head[b] = b / l.per;
		l.offset[b] = (c->head + l.head[b]) * width + k * VW;
		l.lanes[b] = k == l.per - 1 && l.tailed ? width % VW : VW;
	}
	return l;
}

// Asks for the row of the edge AHEAD places behind edge e.
static inline void prefetch_row(const chunk *c, int e, const columns *l, const float *rows, int64_t cols) {
	if (e + AHEAD < c->left) {
		const float *later = rows + c->index[e + AHEAD] * cols;
		for (int b = 0; b < l->total; b += 16 / VW)
			__builtin_prefetch(later + l->offset[b]);
	}
}

static inline __attribute__((always_inline)) vf load_lanes(const float *p, int n, const int tailed) { return tailed ? load_n(p, n) : load(p); }

// What an edge adds to a row, times its coefficient.
enum term {
	ROW,   // row_c
	SLOPE, // a_c · LeakyReLU'(row_c + fixed_c)
	LEAKY  // LeakyReLU(row_c + fixed_c)
};

// z_c += Σ_e coef_e,head(c) · term, over nb vectors from vector b0 on.
static inline __attribute__((always_inline)) void add_block(float *z, const chunk *c, const columns *l, int b0, const float *coef,
                                                            const float *rows, int64_t cols, const float *fixed, const float *att,
                                                            float slope, const int nb, const int tailed, const int term, int first) {
	vf acc[nb];
	const int *offset = l->offset + b0, *head = l->head + b0, *lanes = l->lanes + b0;
	vf sl = all(slope), one = all(1.0f);
	for (int b = 0; b < nb; b++)
		acc[b] = load_lanes(z + offset[b], lanes[b], tailed);
	for (int e = 0; e < c->n; e++) {
		const float *row = rows + c->other[e] * cols, *k = coef + e * c->heads;
		if (first)
			prefetch_row(c, e, l, rows, cols);
		for (int b = 0; b < nb; b++) {
			vf v = load_lanes(row + offset[b], lanes[b], tailed);
			if (term != ROW) {
				vf t = v + load_lanes(fixed + offset[b], lanes[b], tailed);
				if (term == LEAKY) {
					v = leaky_v(t, sl);
				} else {
					vi positive = t > (vf){0};
					v = (vf)(((vi)one & positive) | ((vi)sl & ~positive)) * load_lanes(att + offset[b], lanes[b], tailed);
				}
			}
			acc[b] += all(k[head[b]]) * v;
		}
	}
	for (int b = 0; b < nb; b++)
		if (tailed)
			store_n(z + offset[b], acc[b], lanes[b]);
		else
			store(z + offset[b], acc[b]);
}

#define CASE(nb) \
	case nb: \
		if (l->tailed) \
			add_block(z, c, l, b0, coef, rows, cols, fixed, att, slope, nb, 1, term, first && b0 == 0); \
		else \
			add_block(z, c, l, b0, coef, rows, cols, fixed, att, slope, nb, 0, term, first && b0 == 0); \
		break;

static inline __attribute__((always_inline)) void add_terms(float *z, const chunk *c, const columns *l, const float *coef, const float *rows,
                                                            int64_t cols, const float *fixed, const float *att, float slope, const int term, int first) {
	for (int b0 = 0; b0 < l->total; b0 += 8) {
		switch (l->total - b0 < 8 ? l->total - b0 : 8) {
			CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
		}
	}
}
#undef CASE

// first: nothing has read these rows just before, so they are prefetched.
static void add_rows(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, int first) {
	add_terms(z, c, l, coef, rows, cols, NULL, NULL, 0, ROW, first);
}

static void add_slopes(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, const float *fixed,
                       const float *att, float slope) {
	add_terms(z, c, l, coef, rows, cols, fixed, att, slope, SLOPE, 0);
}

static void add_leaky(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, const float *fixed,
                      float slope) {
	add_terms(z, c, l, coef, rows, cols, fixed, NULL, slope, LEAKY, 0);
}

// out_eh = Σ_c of the head: fixed_c · row_c, or with att given att_c · LeakyReLU(row_c + fixed_c). The lane sums are taken VW at a time.
static inline __attribute__((always_inline)) void dots_of(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols,
                                                          const float *fixed, const float *att, float slope, const int tailed) {
	vf queue[VW], sl = all(slope);
	int queued = 0, done = 0;
	for (int e = 0; e < c->n; e++) {
		const float *row = rows + c->other[e] * cols;
		prefetch_row(c, e, l, rows, cols);
		for (int b = 0; b < l->total;) {
			vf s = {0};
			for (int k = 0; k < l->per; k++, b++) {
				vf x = load_lanes(row + l->offset[b], l->lanes[b], tailed), y = load_lanes(fixed + l->offset[b], l->lanes[b], tailed);
				if (att)
					s += load_lanes(att + l->offset[b], l->lanes[b], tailed) * leaky_v(x + y, sl);
				else
					s += x * y;
			}
			queue[queued++] = s;
			if (queued == VW) {
				store(out + done, lane_sums(queue));
				done += VW;
				queued = 0;
			}
		}
	}
	if (queued > 0) {
		for (int q = queued; q < VW; q++)
			queue[q] = (vf){0};
		store_n(out + done, lane_sums(queue), queued);
	}
}

static void dots(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols, const float *fixed, const float *att,
                 float slope) {
	if (l->tailed)
		dots_of(out, c, l, rows, cols, fixed, att, slope, 1);
	else
		dots_of(out, c, l, rows, cols, fixed, att, slope, 0);
}

// The scores of GATv1 before LeakyReLU, into t.
static inline __attribute__((always_inline)) void sums_of_scores(float *t, const chunk *c, const float *others, int64_t stride, const float *own,
                                                                 const int heads) {
	for (int e = 0; e < c->n; e++) {
		const float *o = others + c->other[e] * stride;
		if (e + CHUNK < c->left) // a chunk ahead: all of a chunk's scores are read before its rows
			__builtin_prefetch(others + c->index[e + CHUNK] * stride);
		for (int h = 0; h < heads; h++)
			t[e * heads + h] = o[h] + own[h];
	}
}

// s = LeakyReLU(t)
static inline void leaky_all(float *s, const float *t, int n, float slope) {
	vf sl = all(slope);
	for (int i = 0; i < n; i += VW) {
		int left = n - i < VW ? n - i : VW;
		store_n(s + i, leaky_v(load_n(t + i, left), sl), left);
	}
}

static inline __attribute__((always_inline)) void add_heads(float *sum, const float *x, const chunk *c, const int heads) {
	float s[GROUP];
	for (int h = 0; h < heads; h++)
		s[h] = sum[h];
	for (int e = 0; e < c->n; e++)
		for (int h = 0; h < heads; h++)
			s[h] += x[e * heads + h];
	for (int h = 0; h < heads; h++)
		sum[h] = s[h];
}

// Rows lo … hi−1 for one group of heads, whose number is a constant where it is a common one.
static inline __attribute__((always_inline)) void attend_group(const weft_attention_args *a, int64_t lo, int64_t hi, chunk *c,
                                                               const columns *l, const int heads) {
	int64_t H = a->heads, W = a->width, cols = H * W;
	float s[MOST], keep[MOST];
	for (int64_t i = lo; i < hi; i++) {
		c->row = i;
		float *z = a->z + i * cols, *m = a->maximum + i * H + c->head, *d = a->sum + i * H + c->head, top[GROUP];
		for (int64_t k = a->indptr[i]; take(c, a, &k) > 0;) {
			int n = c->n * heads;
			if (a->target) {
				dots(s, c, l, a->source, cols, a->target + i * cols, a->a, a->slope);
			} else {
				sums_of_scores(s, c, a->source_score + c->head, H, a->target_score + i * H + c->head, heads);
				leaky_all(s, s, n, a->slope);
			}
			for (int h = 0; h < heads; h++)
				top[h] = m[h];
			for (int e = 0; e < c->n; e++)
				for (int h = 0; h < heads; h++)
					top[h] = s[e * heads + h] > top[h] ? s[e * heads + h] : top[h];
			for (int h = 0; h < heads; h++) {
				if (top[h] > m[h] && d[h] > 0) {
					float scale = exp1(m[h] - top[h]);
					d[h] *= scale;
					for (int64_t w = (c->head + h) * W; w < (c->head + h + 1) * W; w++)
						z[w] *= scale;
				}
				m[h] = top[h];
			}
			for (int e = 0; e < c->n; e++)
				for (int h = 0; h < heads; h++)
					s[e * heads + h] -= top[h];
			exp_all(s, n);
			add_heads(d, s, c, heads);
			if (a->mask.threshold) {
				edge_masks(keep, c, a);
				for (int x = 0; x < n; x++)
					s[x] *= keep[x];
			}
			add_rows(z, c, l, s, a->source, cols, !a->target);
		}
	}
}

// Calls f for each group of heads, with the number of heads a constant where it is a common one.
#define EACH_GROUP(f) \
	for (c.head = 0; c.head < a->heads; c.head += GROUP) { \
		c.heads = a->heads - c.head < GROUP ? a->heads - c.head : GROUP; \
		columns l = lay_out(&c, a->width); \
		switch (c.heads) { \
		case 1: f(a, lo, hi, &c, &l, 1); break; \
		case 2: f(a, lo, hi, &c, &l, 2); break; \
		case 4: f(a, lo, hi, &c, &l, 4); break; \
		case 8: f(a, lo, hi, &c, &l, 8); break; \
		default: f(a, lo, hi, &c, &l, c.heads); \
		} \
		free(l.offset); \
	}

static void k_attend(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	chunk c = {.transposed = 0, .last = a->indptr[hi]};
	EACH_GROUP(attend_group)
}

// o = z/d in place, and maximum becomes log_sum = m + ln d. A row without edges gives 0.
static void k_attend_end(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	int64_t H = a->heads, W = a->width;
	for (int64_t i = lo * H; i < hi * H; i++) {
		float d = a->sum[i], each = d > 0 ? 1 / d : 0;
		for (int64_t w = 0; w < W; w++)
			a->z[i * W + w] *= each;
		a->maximum[i] = d > 0 ? a->maximum[i] + logf(d) : 0;
	}
}

// pack_i = (target_score_i, log_sum_i, ⟨g_i, o_i⟩), heads each: what an edge needs of its destination besides g, in one place.
static void k_attend_pack(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	int64_t H = a->heads;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < H; h++) {
			float *p = a->pack + i * 3 * H + h;
			p[0] = a->target_score ? a->target_score[i * H + h] : 0;
			p[H] = a->log_sum[i * H + h];
			p[2 * H] = a->g_dot_out[i * H + h];
		}
}

// For the chunk's edges and heads: alpha = α·mask, the coefficient of g in ∂source, and ds = ∂s (GATv2) or ∂t (GATv1).
static inline __attribute__((always_inline)) void coefficients(float *alpha, float *ds, const chunk *c, const columns *l,
                                                               const weft_attention_args *a, const int heads) {
	int64_t H = a->heads, cols = H * a->width;
	int n = c->n * heads;
	float t[MOST], keep[MOST];
	// One end of each edge is the chunk's row, whose values stay; the other end's are gathered.
	const float *pack = a->pack + c->head, *g = a->g, *x = a->source;
	if (a->target)
		dots(alpha, c, l, c->transposed ? a->target : x, cols, (c->transposed ? x : a->target) + c->row * cols, a->a, a->slope);
	else {
		if (c->transposed)
			sums_of_scores(t, c, pack, 3 * H, a->source_score + c->row * H + c->head, heads);
		else
			sums_of_scores(t, c, a->source_score + c->head, H, pack + c->row * 3 * H, heads);
		leaky_all(alpha, t, n, a->slope);
	}
	for (int e = 0; e < c->n; e++) {
		const float *p = pack + (c->transposed ? c->other[e] : c->row) * 3 * H + H;
		for (int h = 0; h < heads; h++)
			alpha[e * heads + h] -= p[h];
	}
	exp_all(alpha, n);
	dots(ds, c, l, c->transposed ? g : x, cols, (c->transposed ? x : g) + c->row * cols, NULL, 0);
	if (a->mask.threshold) {
		edge_masks(keep, c, a);
		for (int i = 0; i < n; i++)
			ds[i] *= keep[i];
	}
	for (int e = 0; e < c->n; e++) {
		const float *p = pack + (c->transposed ? c->other[e] : c->row) * 3 * H + 2 * H;
		for (int h = 0; h < heads; h++)
			ds[e * heads + h] -= p[h];
	}
	for (int i = 0; i < n; i++)
		ds[i] *= alpha[i];
	if (!a->target)
		for (int i = 0; i < n; i++)
			ds[i] *= t[i] > 0 ? 1.0f : a->slope;
	if (a->mask.threshold)
		for (int i = 0; i < n; i++)
			alpha[i] *= keep[i];
}

static inline __attribute__((always_inline)) void back_target_group(const weft_attention_args *a, int64_t lo, int64_t hi, chunk *c,
                                                                    const columns *l, const int heads) {
	int64_t H = a->heads, W = a->width, cols = H * W;
	float alpha[MOST], ds[MOST];
	for (int64_t i = lo; i < hi; i++) {
		c->row = i;
		for (int64_t k = a->indptr[i]; take(c, a, &k) > 0;) {
			coefficients(alpha, ds, c, l, a, heads);
			if (!a->target) {
				add_heads(a->d_target_score + i * H + c->head, ds, c, heads);
				continue;
			}
			add_slopes(a->d_target + i * cols, c, l, ds, a->source, cols, a->target + i * cols, a->a, a->slope);
			add_leaky(a->da_rows + i / WEFT_TILE * cols, c, l, ds, a->source, cols, a->target + i * cols, a->slope);
		}
		if (a->target && (i + 1 == hi || (i + 1) % 16 == 0)) {
			// Moved to double precision before many rows' roundings add up.
			double *sum = a->d_a + i / WEFT_TILE * cols;
			float *da = a->da_rows + i / WEFT_TILE * cols;
			for (int64_t w = c->head * W; w < (c->head + heads) * W; w++) {
				sum[w] += da[w];
				da[w] = 0;
			}
		}
	}
}

// Over destinations: ∂target_score (GATv1); ∂target, and ∂a per tile (GATv2): the range then lies in one tile.
static void k_attend_back_target(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	chunk c = {.transposed = 0, .last = a->indptr[hi]};
	EACH_GROUP(back_target_group)
}

static inline __attribute__((always_inline)) void back_source_group(const weft_attention_args *a, int64_t lo, int64_t hi, chunk *c,
                                                                    const columns *l, const int heads) {
	int64_t H = a->heads, cols = H * a->width;
	float alpha[MOST], ds[MOST];
	for (int64_t j = lo; j < hi; j++) {
		c->row = j;
		for (int64_t k = a->indptr[j]; take(c, a, &k) > 0;) {
			coefficients(alpha, ds, c, l, a, heads);
			add_rows(a->d_source + j * cols, c, l, alpha, a->g, cols, 0);
			if (a->target)
				add_slopes(a->d_source + j * cols, c, l, ds, a->target, cols, a->source + j * cols, a->a, a->slope);
			else
				add_heads(a->d_source_score + j * H + c->head, ds, c, heads);
		}
	}
}

// Over sources, on the transposed matrix: ∂source, and ∂source_score (GATv1).
static void k_attend_back_source(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	chunk c = {.transposed = 1, .last = a->indptr[hi]};
	EACH_GROUP(back_source_group)
}
#undef EACH_GROUP
