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

enum { CHUNK = 32, GROUP = VW > 8 ? VW : 8, MOST = CHUNK * GROUP + VW }; // spread reads VW values from the last edge's on

static inline vf leaky_v(vf t, vf slope) {
	vi positive = t > (vf){0};
	return (vf)(((vi)t & positive) | ((vi)(t * slope) & ~positive));
}

// The edges of a chunk and the heads of a group.
typedef struct {
	int n;               // edges
	int32_t other[CHUNK]; // the row at the edge's other end
	uint32_t occurrence[CHUNK]; // of each among equal edges, for the mask
	int64_t same;         // where the equal edges begin that the last one belongs to
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
		if (*k == lo || *k == hi || (*k < hi && a->indices[*k - 1] != c->other[n]))
			c->same = *k;
		c->occurrence[n] = *k - c->same;
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

// A group's columns as vectors: all of the heads one after the other, the last vector of `tail` lanes where VW does not divide them.
typedef struct {
	int64_t from, width;      // the group's first column, and the columns of a head
	int vectors, tail;
	const vi *head;           // the head of each lane
} columns;

static inline columns lay_out(const chunk *c, int64_t width) {
	int64_t cols = c->heads * width;
	columns l = {.from = c->head * width, .width = width, .vectors = (cols + VW - 1) / VW, .tail = cols % VW};
	vi *head = aligned_alloc(sizeof(vi), l.vectors * sizeof(vi));
	if (!head)
		abort(); // a few hundred bytes
	for (int64_t k = 0; k < (int64_t)l.vectors * VW; k++)
		head[k / VW][k % VW] = k < cols ? k / width : 0;
	l.head = head;
	return l;
}

// Asks for the row of the edge AHEAD places behind edge e.
static inline void prefetch_row(const chunk *c, int e, const columns *l, const float *rows, int64_t cols) {
	if (e + AHEAD < c->left) {
		const float *later = rows + c->index[e + AHEAD] * cols + l->from;
		for (int b = 0; b < l->vectors; b += 16 / VW)
			__builtin_prefetch(later + b * VW);
	}
}

// What an edge adds to a row, times its coefficient.
enum term {
	ROW,   // row_c
	SLOPE, // a_c · LeakyReLU'(row_c + fixed_c)
	LEAKY  // LeakyReLU(row_c + fixed_c)
};

// z_c += Σ_e coef_e,head(c) · term, over nb vectors from vector b0 on, the last of them of `tail` lanes if not 0. All pointers are to
// the group's first column.
static inline __attribute__((always_inline)) void add_block(float *z, const chunk *c, const columns *l, int b0, const float *coef,
                                                            const float *rows, int64_t cols, const float *fixed, const float *att,
                                                            float slope, const int nb, const int tail, const int term, int first) {
	vf acc[8], sl = all(slope), one = all(1.0f);
	vi head[8];
	for (int b = 0; b < nb; b++) {
		head[b] = l->head[b0 + b];
		acc[b] = tail && b == nb - 1 ? load_n(z + (b0 + b) * VW, tail) : load(z + (b0 + b) * VW);
	}
	for (int e = 0; e < c->n; e++) {
		const float *row = rows + c->other[e] * cols + b0 * VW, *k = coef + e * c->heads;
		if (first)
			prefetch_row(c, e, l, rows - l->from, cols);
		for (int b = 0; b < nb; b++) {
			int last = tail && b == nb - 1;
			vf v = last ? load_n(row + b * VW, tail) : load(row + b * VW);
			if (term != ROW) {
				const float *f = fixed + (b0 + b) * VW;
				vf t = v + (last ? load_n(f, tail) : load(f));
				if (term == LEAKY) {
					v = leaky_v(t, sl);
				} else {
					const float *w = att + (b0 + b) * VW;
					vi positive = t > (vf){0};
					v = (vf)(((vi)one & positive) | ((vi)sl & ~positive)) * (last ? load_n(w, tail) : load(w));
				}
			}
			acc[b] += spread(k, (heads_of_lanes)head[b]) * v;
		}
	}
	for (int b = 0; b < nb; b++)
		if (tail && b == nb - 1)
			store_n(z + (b0 + b) * VW, acc[b], tail);
		else
			store(z + (b0 + b) * VW, acc[b]);
}

#define CASE(nb) \
	case nb: \
		if (tail) \
			add_block(z, c, l, b0, coef, rows, cols, fixed, att, slope, nb, tail, term, first && b0 == 0); \
		else \
			add_block(z, c, l, b0, coef, rows, cols, fixed, att, slope, nb, 0, term, first && b0 == 0); \
		break;

static inline __attribute__((always_inline)) void add_terms(float *z, const chunk *c, const columns *l, const float *coef, const float *rows,
                                                            int64_t cols, const float *fixed, const float *att, float slope, const int term,
                                                            int first) {
	for (int b0 = 0; b0 < l->vectors; b0 += 8) {
		int nb = l->vectors - b0 < 8 ? l->vectors - b0 : 8, tail = b0 + nb == l->vectors ? l->tail : 0;
		switch (nb) {
			CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
		}
	}
}
#undef CASE

// first: nothing has read these rows just before, so they are prefetched.
static void add_rows(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, int first) {
	add_terms(z + l->from, c, l, coef, rows + l->from, cols, NULL, NULL, 0, ROW, first);
}

static void add_slopes(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, const float *fixed,
                       const float *att, float slope) {
	add_terms(z + l->from, c, l, coef, rows + l->from, cols, fixed + l->from, att + l->from, slope, SLOPE, 0);
}

static void add_leaky(float *z, const chunk *c, const columns *l, const float *coef, const float *rows, int64_t cols, const float *fixed,
                      float slope) {
	add_terms(z + l->from, c, l, coef, rows + l->from, cols, fixed + l->from, NULL, slope, LEAKY, 0);
}

// Vectors of products whose lane sums are taken VW at a time.
typedef struct {
	vf v[VW];
	int n;
	float *out;
} queue;

static inline __attribute__((always_inline)) void enqueue(queue *q, vf v, const int halves) {
	q->v[q->n++] = v;
	if (q->n < VW)
		return;
	if (halves)
		half_sums(q->out, q->v);
	else
		store(q->out, lane_sums(q->v));
	q->out += halves ? 2 * VW : VW;
	q->n = 0;
}

static inline __attribute__((always_inline)) void flush(queue *q, const int halves) {
	int n = q->n;
	if (n == 0)
		return;
	for (int k = n; k < VW; k++)
		q->v[k] = (vf){0};
	float sums[2 * VW];
	if (halves)
		half_sums(sums, q->v);
	else
		store(sums, lane_sums(q->v));
	__builtin_memcpy(q->out, sums, (halves ? 2 * n : n) * sizeof(float));
}

static inline __attribute__((always_inline)) vf product(vf row, vf fixed, const float *att, int lanes, vf slope) {
	if (!att)
		return row * fixed;
	return (lanes < VW ? load_n(att, lanes) : load(att)) * leaky_v(row + fixed, slope);
}

// Heads of `full` whole vectors and a tail.
static inline __attribute__((always_inline)) void dots_whole(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols,
                                                             const float *fixed, const float *att, float slope, const int full, const int tail) {
	queue q = {.n = 0, .out = out};
	vf sl = all(slope);
	for (int e = 0; e < c->n; e++) {
		prefetch_row(c, e, l, rows, cols);
		const float *x = rows + c->other[e] * cols + l->from, *y = fixed + l->from, *w = att ? att + l->from : NULL;
		for (int h = 0; h < c->heads; h++) {
			vf s = {0};
			for (int k = 0; k < full; k++, x += VW, y += VW, w += att ? VW : 0)
				s += product(load(x), load(y), w, VW, sl);
			if (tail) {
				s += product(load_n(x, tail), load_n(y, tail), w, tail, sl);
				x += tail;
				y += tail;
				w += att ? tail : 0;
			}
			enqueue(&q, s, 0);
		}
	}
	flush(&q, 0);
}

// Heads of half a vector, an even number of them.
static inline __attribute__((always_inline)) void dots_half(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols,
                                                            const float *fixed, const float *att, float slope) {
	queue q = {.n = 0, .out = out};
	vf sl = all(slope);
	for (int e = 0; e < c->n; e++) {
		prefetch_row(c, e, l, rows, cols);
		const float *x = rows + c->other[e] * cols + l->from, *y = fixed + l->from;
		for (int b = 0; b < l->vectors; b++)
			enqueue(&q, product(load(x + b * VW), load(y + b * VW), att ? att + l->from + b * VW : NULL, VW, sl), 1);
	}
	flush(&q, 1);
}

// out_eh = Σ_c of the head: fixed_c · row_c, or with att given att_c · LeakyReLU(row_c + fixed_c).
static inline __attribute__((always_inline)) void dots_of(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols,
                                                          const float *fixed, const float *att, float slope) {
	int full = l->width / VW, tail = l->width % VW;
	if (2 * l->width == VW && c->heads % 2 == 0)
		dots_half(out, c, l, rows, cols, fixed, att, slope);
	else if (tail)
		dots_whole(out, c, l, rows, cols, fixed, att, slope, full, tail);
	else if (full == 1)
		dots_whole(out, c, l, rows, cols, fixed, att, slope, 1, 0);
	else if (full == 2)
		dots_whole(out, c, l, rows, cols, fixed, att, slope, 2, 0);
	else if (full == 4)
		dots_whole(out, c, l, rows, cols, fixed, att, slope, 4, 0);
	else
		dots_whole(out, c, l, rows, cols, fixed, att, slope, full, 0);
}

static void dots(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols, const float *fixed) {
	dots_of(out, c, l, rows, cols, fixed, NULL, 0);
}

static void dots_leaky(float *out, const chunk *c, const columns *l, const float *rows, int64_t cols, const float *fixed, const float *att,
                       float slope) {
	dots_of(out, c, l, rows, cols, fixed, att, slope);
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
				dots_leaky(s, c, l, a->source, cols, a->target + i * cols, a->a, a->slope);
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
		free((void *)l.head); \
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
		dots_leaky(alpha, c, l, c->transposed ? a->target : x, cols, (c->transposed ? x : a->target) + c->row * cols, a->a, a->slope);
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
	dots(ds, c, l, c->transposed ? g : x, cols, (c->transposed ? x : g) + c->row * cols);
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
