// Softmax attention over in-edges without a tensor that has an entry per edge. Per destination i and head h
// over the edges j→i, with mask_ij from attention dropout (1 without):
//   GATv1: t_ij = source_score_j + target_score_i [+ Σ_f features_ij,f · edge_vector_f], s_ij = LeakyReLU(t_ij)
//   GATv2: s_ij = Σ_c a_c · LeakyReLU(source_jc + target_ic [+ edge_ijc])
//   dot products: s_ij = Σ_c target_ic · (key_jc [+ edge_ijc]), and source_j + edge_ij in place of source_j
//   edge_ij = Σ_f features_ij,f · edge_weight_f, where edges have features
//   o_i = Σ_j α_ij · mask_ij · source_j,  α = softmax_j(s)
// Forward extends the state (maximum m, sum d = Σ exp(s−m), z = Σ exp(s−m)·mask·source), so the edges may
// come in any number of blocks (Milakov & Gimelshein's online softmax). Backward computes α = exp(s −
// log_sum) again:
//   ∂α_ij = mask_ij·⟨g_i, source_j⟩ ; ∂s_ij = α_ij·(∂α_ij − ⟨g_i, o_i⟩)
//   ∂source_j += Σ_i α_ij·mask_ij·g_i ; GATv1: ∂t = ∂s·LeakyReLU'(t), summed over i or j ; GATv2: ∂s·a_c·LeakyReLU'(·) per column
// GATv1 sums rows before it takes dot products, so that there is one for each vertex instead of each edge:
//   ∂source_score_j += ⟨source_j, Σ_i q_ij·g_i⟩ − Σ_i α_ij·LeakyReLU'(t_ij)·⟨g_i, o_i⟩,  q = α·mask·LeakyReLU'(t)
//   ∂target_score_i += (1 − slope)·(⟨g_i, Σ_{t_ij>0} α_ij·mask_ij·source_j⟩ − ⟨g_i, o_i⟩·Σ_{t_ij>0} α_ij)
// where the second uses that Σ_j ∂s_ij over all in-edges of i is 0. For the same reason it is the opposite of
// the sums over t_ij ≤ 0, so that those over the fewer edges are taken, and the rows of the others are not
// read. Where i's in-edges come in several blocks or batches, which have to take the same sums, the sign of
// target_score_i decides instead of the numbers of edges; and so it does where picking rows does not pay and
// all are read.
// With features of edges ∂edge_vector_f = Σ_ij ∂t_ij·features_ij,f needs each ∂t_ij. They are computed over
// destinations by a dot product for each edge, and ∂target_score_i is the sum of i's.

// Lane l of the result is x[l mod P], of `heads` values; 0 from there up to P.
static inline vf per_head(const float *x, int heads, const int P) {
	return P == 1 ? all(x[0]) : __builtin_shuffle(load_n(x, heads), numbers(0) & (P - 1));
}

// As sum_of_edges, the largest.
INLINE vf largest_of_edges(vf v, const int P) {
	for (int w = VW / 2; w >= P; w /= 2)
		v = larger(turn(v, w), v);
	return v;
}

static inline void multiply_all(float *x, const float *y, int n) {
	for (int i = 0; i < n; i++)
		x[i] *= y[i];
}

// out_eh = from_other(e),h for every edge of the batch, and 0 in places of no head; likewise further
// matrices, each `heads` columns behind the one before.
INLINE void gather_places(float *const *out, const int matrices, const batch *b, const float *from, int64_t stride, int heads, const int P) {
	const int64_t H = b->a->heads;
	for (int e = 0; e < b->edges; e++) {
		const float *x = from + b->other[e] * stride;
		for (int m = 0; m < matrices; m++, x += H)
			if (heads == P) // a constant: one load and one store
				__builtin_memcpy(out[m] + e * P, x, P * sizeof *x);
			else
				for (int h = 0; h < P; h++)
					out[m][e * P + h] = h < heads ? x[h] : 0.0f;
	}
}

INLINE void gather_heads(float *const *out, const int matrices, const batch *b, const float *from, int64_t stride, int heads) {
	switch (heads == b->P ? heads : 0) {
	case 1: gather_places(out, matrices, b, from, stride, 1, 1); break;
	case 2: gather_places(out, matrices, b, from, stride, 2, 2); break;
	case 4: gather_places(out, matrices, b, from, stride, 4, 4); break;
	case 8: gather_places(out, matrices, b, from, stride, 8, 8); break;
	default: gather_places(out, matrices, b, from, stride, heads, b->P);
	}
}

// Between arrays of PLACES numbers. Places of the same number in two of them are not near a multiple of 4 KB
// apart: a load would wait for a store to the other, as processors compare 12 bits of the addresses first,
// and one vector's exponentials for the last one's.
enum { GAP = 64 };

// What a kernel keeps of a batch: values of each edge and head, and of each run, as whole vectors or of each
// head. Some loads and stores of the values of an edge or a run take VW places.
typedef struct {
	float s[PLACES + GAP], s2[PLACES + GAP], log_sum[PLACES + GAP], g_dot_out[PLACES + GAP], keep[PLACES + GAP];
	vf own[VECTORS + GAP / VW], own2[VECTORS + GAP / VW], own3[VECTORS + GAP / VW], top[VECTORS + GAP / VW], sum[VECTORS + GAP / VW];
	float tops[PLACES + GAP], sums[PLACES + GAP], scales[PLACES + GAP], log_sums[PLACES + GAP];
} values;

// All ones where the vector is the first of its run, else zeros.
static inline vi begins_run(const batch *b, int v) { return b->begins_at[v] - (vi){0}; }

// What the lanes of a run's vectors add up to: continues sum, or begins anew.
static inline vf add_vector(vf sum, vf x, const batch *b, int v) { return (vf)((vi)sum & ~begins_run(b, v)) + x; }

// The largest of each lane of a run's vectors: as NaN, with all ones, top is not taken.
static inline vf top_vector(vf top, vf x, const batch *b, int v) { return larger((vf)((vi)top | begins_run(b, v)), x); }

// The scores of a batch in s: GATv1's from those of the other ends and the runs' own, GATv2's are there
// already; −∞ where no edge is. top becomes the largest of each run, by lane.
INLINE void score(values *x, const batch *b, vf slope, const int v2) {
	vf top = {0};
	for (int v = 0; v < b->vectors; v++) {
		int k = b->run_of[v];
		vf s = load(x->s + v * VW);
		if (!v2) {
			s += x->own[k];
			s = leaky_v(s, slope);
		}
		s = first_lanes(s, b->lanes_of[v], all(-INFINITY));
		store(x->s + v * VW, s);
		x->top[k] = top = top_vector(top, s, b, v);
	}
}

// Asks for the n numbers from `from` on in the rows at the ends of edges of the next batch: as many edges as
// vector v of this one has. A processor drops what it is asked for while rows are summed, so that this is
// done here, where nothing else waits for memory.
INLINE void fetch_soon(const batch *b, int v, const float *from, int64_t stride, int lines, const int P) {
	if (!b->soon)
		return;
	const int32_t *soon = b->soon + v * edges_of_vector(P);
	for (int i = 0; i < edges_of_vector(P); i++)
		for (int l = 0; l < lines; l++)
			__builtin_prefetch(from + soon[i] * stride + l * LINE, 0, SECOND_CACHE);
}

// Asks for a row of a group's columns that is used after this batch's coefficients are known.
static inline void fetch_row(const void *row, int64_t size, const group *g) {
	for (int64_t at = 0; at < g->vectors * VW * size; at += 64)
		__builtin_prefetch((const char *)row + at, 0, SECOND_CACHE);
}

// Adds factor times the values of a run to as many heads as there are.
static inline void add_heads(float *to, float factor, const float *from, int heads) {
	store_n(to, load_n(to, heads) + factor * load(from), heads);
}

// The values of a run for as many heads as there are.
static inline void put_heads(float *to, const float *from, int heads) { store_n(to, load(from), heads); }

// d and z of a row that holds something, times exp(before − m).
static __attribute__((noinline)) void lower(const weft_attention_args *a, const group *g, int64_t row, float *d, vf before, vf m) {
	vf scale = vexp(before - m);
	float *z = a->z_type == WEFT_BFLOAT16 ? g->open : (float *)a->z + row * a->heads * a->width + g->from;
	for (int h = 0; h < g->heads; h++) {
		if (!(d[h] > 0) || scale[h] == 1.0f)
			continue;
		d[h] *= scale[h];
		for (int64_t c = h * a->width; c < (h + 1) * a->width; c++)
			z[c] *= scale[h];
	}
}

// Whether run k is a part of the row of the one before.
static inline int goes_on(const batch *b, int k) { return k > 0 && !b->run[k].begins; }

// s becomes exp(s − top) of its run, and sums their sums. Each lane of a run's vectors is added up apart.
// The whole layer's vectors have fewer edges where it has more heads, and so do those that are added here:
// as many as take `lanes` here, a constant where that is all.
INLINE void exponentials(values *x, const batch *b, const group *g, const int v2, const int P, const int lanes) {
	vf sum = {0};
	for (int v = 0; v < b->vectors; v++) {
		int k = b->run_of[v];
		vf e = vexp(load(x->s + v * VW) - x->top[k]);
		if (!v2)
			fetch_soon(b, v, b->a->source_score + g->head, b->a->heads, 1, P);
		store(x->s + v * VW, e);
		sum = add_vector(sum, e, b, v);
		for (int l = lanes; l < VW; l += lanes)
			sum += turn(e, l);
		x->sum[k] = sum;
	}
	for (int k = 0; k < b->runs; k++)
		store(x->sums + k * P, sum_of_edges(only(x->sum[k], lanes), P));
}

// s becomes exp(s − m) for the largest score m of each run and what its row held before; tops are these and
// sums their sums.
INLINE void softmax(values *x, const batch *b, const group *g, const int v2, const int P) {
	const weft_attention_args *a = b->a;
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		// finite, so that scores of −∞ have no weight
		vf top = larger(largest_of_edges(x->top[k], P), all(-FLT_MAX));
		if (!(a->first && r->begins))
			top = larger(goes_on(b, k) ? x->top[k - 1] : per_head(a->maximum + r->row * a->heads + g->head, g->heads, P), top);
		x->top[k] = top;
		store(x->tops + k * P, top);
	}
	if (g->layer_places == P)
		exponentials(x, b, g, v2, P, VW);
	else
		exponentials(x, b, g, v2, P, VW / g->layer_places * P);
}

// lower of parts of a row that are in one batch: own2 is what the one before is to be multiplied by.
static __attribute__((noinline)) void join_parts(values *x, const batch *b, const int P) {
	for (int k = 1; k < b->runs; k++) {
		if (!goes_on(b, k))
			continue;
		x->own2[k] = vexp(x->top[k - 1] - x->top[k]);
		vf before = load(x->sums + (k - 1) * P) * x->own2[k];
		__asm__("" : "+m"(before)); // rounded, as it is there
		before += load(x->sums + k * P);
		__builtin_memcpy(x->sums + k * P, &before, P * sizeof(float));
	}
}

// Extends the rows' maximum m and sum d by a batch; an ended row has its log-sum-exp instead. scales is what
// their sums of rows are to be multiplied by. `rest` is d between the parts of a row, where the state has no
// place for it.
INLINE void extend_state(values *x, const batch *b, const group *g, float *rest, const int P) {
	const weft_attention_args *a = b->a;
	for (int k = 0; k < (a->first ? 1 : b->runs); k++) { // a batch's later rows begin in it
		const run *r = &b->run[k];
		int64_t at = r->row * a->heads + g->head;
		if (a->first && r->begins)
			break;
		if (goes_on(b, k))
			continue;
		float *d = a->sum ? a->sum + at : rest;
		lower(a, g, r->row, d, per_head(a->maximum + at, g->heads, P), x->top[k]);
		for (int h = 0; h < g->heads; h++)
			x->sums[k * P + h] += d[h];
	}
	if (b->most_of_row < b->most_edges)
		join_parts(x, b, P);
	for (int i = 0; i < b->runs * P; i += VW) {
		vf sum = load(x->sums + i);
		vi some = ~(sum == 0);
		store(x->scales + i, (vf)((vi)(1.0f / sum) & some));
		store(x->log_sums + i, (vf)((vi)(load(x->tops + i) + vlog(sum)) & some));
	}
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		int64_t at = r->row * a->heads + g->head;
		if (a->last && r->ends) {
			put_heads(a->maximum + at, x->log_sums + k * P, g->heads);
		} else {
			put_heads(a->maximum + at, x->tops + k * P, g->heads);
			put_heads(a->sum ? a->sum + at : rest, x->sums + k * P, g->heads);
			const int parts = k + 1 < b->runs && goes_on(b, k + 1);
			for (int h = 0; h < P; h++)
				x->scales[k * P + h] = parts ? x->own2[k + 1][h] : 1.0f;
		}
	}
}

enum { FEATURES = 8 }; // features of an edge that are worked on at a time

// x without the lanes that are not places of edge i among those of a vector.
INLINE vf of_edge(vf x, int i, const int P) { return (vf)((vi)x & (numbers(0) >> __builtin_ctz(P) == i)); }

// x_eh += Σ_f features_ef · edge_vector_fh for the batch's edges and n features from one on.
INLINE void add_features(float *x, const batch *b, const group *g, int64_t from, const int n, const int P) {
	const weft_attention_args *a = b->a;
	vf vector[FEATURES];
	for (int f = 0; f < n; f++)
		vector[f] = per_head(a->edge_vector + (from + f) * a->heads + g->head, g->heads, P);
	for (const run *r = b->run; r < b->run + b->runs; r++)
		for (int e = 0; e < r->edges; e += edges_of_vector(P)) {
			float *to = x + (r->at + e) * P;
			vf sum = load(to);
			for (int i = 0; i < edges_of_vector(P) && e + i < r->edges; i++) {
				const elem *features = features_of(a, r, e + i) + from;
				vf s = {0};
				for (int f = 0; f < n; f++)
					s += number(features + f) * vector[f];
				sum += of_edge(s, i, P);
			}
			store(to, sum);
		}
}

// d_fh += Σ_e x_eh · features_ef, the same way.
INLINE void sum_features(double *d, const float *x, const batch *b, const group *g, int64_t from, const int n, const int P) {
	const weft_attention_args *a = b->a;
	vf sum[FEATURES];
	for (int f = 0; f < n; f++)
		sum[f] = (vf){0};
	for (const run *r = b->run; r < b->run + b->runs; r++)
		for (int e = 0; e < r->edges; e += edges_of_vector(P)) {
			vf factors = load(x + (r->at + e) * P);
			for (int i = 0; i < edges_of_vector(P) && e + i < r->edges; i++) {
				const elem *features = features_of(a, r, e + i) + from;
				vf own = of_edge(factors, i, P);
				for (int f = 0; f < n; f++)
					sum[f] += number(features + f) * own;
			}
		}
	for (int f = 0; f < n; f++) {
		vf s = sum_of_edges(sum[f], P);
		for (int h = 0; h < g->heads; h++)
			d[(from + f) * a->heads + h] += s[h];
	}
}

// Calls f for some features at a time: a constant number as far as possible.
#define EACH_FEATURES(f, ...) \
	for (int64_t from = 0, rest = b->a->feature_columns; rest > 0; from += FEATURES, rest -= FEATURES) \
		if (rest >= FEATURES) \
			f(__VA_ARGS__, from, FEATURES, P); \
		else \
			f(__VA_ARGS__, from, rest, P);

// What the features add to the scores of the batch's edges.
INLINE void edge_scores(float *x, const batch *b, const group *g, const int P) { EACH_FEATURES(add_features, x, b, g) }

// ∂edge_vector of the batch's edges, whose ∂t are x.
INLINE void edge_vector_gradient(double *d, const float *x, const batch *b, const group *g, const int P) {
	EACH_FEATURES(sum_features, d, x, b, g)
}

enum form { V1, V2, DOT };

// Rows lo … hi−1 for one group of heads.
INLINE void attend_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi, const int products, enum form form, const int P) {
	int64_t H = a->heads, cols = H * a->width;
	float rest[VW];
	values x;
	batch b;
	const int rows = form == DOT ? 2 : 1;
	batches_of(&b, a, lo, hi, 0, P, H * sizeof(float), products ? bytes_of_edge(a, g->vectors, rows) : 0, 0);
	// A row is cut where it is among all of the layer's heads, as m changes there; of GATv2 these are whole
	// ones.
	b.most_of_row = most_edges(g->layer_places, products ? bytes_of_edge(a, vectors_of_heads(g->layer_heads, g->width), rows) : 0);
	while (next_batch(&b, a->first || a->last)) {
		for (int k = 0; k < b.runs; k++) { // where there is no vector
			x.top[k] = all(-INFINITY);
			x.sum[k] = (vf){0};
		}
		if (products && a->edge_weight)
			edge_rows(&b, g);
		if (products && form == V2) {
			const dot_rows d = {.b = &b, .rows = a->source + g->from, .target = a->target + g->from, .factor = a->target, .cols = cols,
			                    .a = a->a + g->from, .slope = a->slope, .score = x.s, .edge = a->edge_weight ? WITH_ROWS : NO_EDGE_ROWS};
			dots(&d, g);
		} else if (products) {
			const dot_rows d = {.b = &b, .rows = a->key + g->from, .target = a->target, .factor = a->target + g->from, .cols = cols,
			                    .dot = x.s, .edge = a->edge_weight ? WITH_ROWS : NO_EDGE_ROWS};
			dots(&d, g);
		} else {
			for (int k = 0; k < b.runs; k++)
				x.own[k] = per_head(a->target_score + g->head + b.run[k].row * H, g->heads, P);
			gather_heads((float *[]){x.s}, 1, &b, a->source_score + g->head, H, g->heads);
			if (a->feature_columns)
				edge_scores(x.s, &b, g, P);
		}
		score(&x, &b, all(a->slope), products);
		softmax(&x, &b, g, products, P);
		extend_state(&x, &b, g, rest, P);
		if (a->mask.threshold) {
			edge_masks(x.keep, &b, g->head, g->heads);
			multiply_all(x.s, x.keep, b.edges * P);
		}
		const row_sum sum = {.of = runs_of(&b, g), .rows = a->source + g->from, .cols = cols, .coef = x.s, .z = place_of(a->z, a->z_type, g),
		                     .stride = cols, .extension = a->first ? FROM_ZERO_AT_FIRST : EXTENDED, .scale = x.scales,
		                     .of_edges = form == DOT && a->edge_weight ? g->of_edges : NULL, .edge_stride = g->vectors * VW};
		sum_rows(&sum);
	}
}

// Calls f for a group of heads with the number of places that an edge takes: a constant where it is one.
#define WITH_PLACES(f, g, ...) \
	if ((g)->heads == 1) \
		f(g, __VA_ARGS__, 1); \
	else \
		f(g, __VA_ARGS__, places_of((g)->heads));

// The arguments, with the sums of the range that begins with row lo.
static inline weft_attention_args with_sums(const weft_attention_args *args, int64_t lo) {
	weft_attention_args a = *args;
	if (a.sum_rows) {
		const int64_t at = (a.first_sum + lo / a.sum_rows) * a.sum_stride;
		a.d_a += at;
		a.da_row += at;
		a.d_edge_vector += at;
		a.d_edge_weight += at;
		a.d_edge_row += at;
	}
	return a;
}

// A kernel over rows lo … hi−1, which does something for each group of heads g.
#define OF_GROUPS(kernel, ...) \
	static void kernel(const void *args, int64_t lo, int64_t hi) { \
		const weft_attention_args with = with_sums(args, lo), *a = &with; \
		group g; \
		for (first_group(&g, a); next_group(&g, a);) { \
			__VA_ARGS__; \
		} \
	}

// With first set the state is begun, and what it held is not read; with last set z becomes the output o =
// z/d, and maximum log_sum = m + ln d. A row without edges gives 0.
OF_GROUPS(k_attend, WITH_PLACES(attend_group, &g, a, lo, hi, 0, V1))

static __attribute__((noinline)) void attend_by_products(const weft_attention_args *a, int64_t lo, int64_t hi, enum form form) {
	group g;
	for (first_group(&g, a); next_group(&g, a);)
		WITH_PLACES(attend_group, &g, a, lo, hi, 1, form)
}

static void k_attend_v2(const void *args, int64_t lo, int64_t hi) { attend_by_products(args, lo, hi, V2); }

static void k_attend_dot(const void *args, int64_t lo, int64_t hi) { attend_by_products(args, lo, hi, DOT); }

// dots_kh = ⟨x_h, sum_h⟩ for each run k, in place k·P + h: of the run's row of x, from the group's first
// column on, and of its row of sums. Runs are taken at once until their heads fill a vector.
static __attribute__((noinline)) void run_dots(float *dots, const elem *x, const float *sums, const batch *b, const group *g) {
	const int64_t W = g->width, cols = b->a->heads * W;
	const int P = b->P, runs_per_vector = 1 << b->shift, pairs = in_pairs(P, W) && g->heads == P;
	vf v[VW] = {{0}};
	for (int k0 = 0; k0 < b->runs; k0 += runs_per_vector) {
		const int runs = b->runs - k0 < runs_per_vector ? b->runs - k0 : runs_per_vector;
		for (int i = 0; i < runs; i++) {
			const elem *row = x + b->run[k0 + i].row * cols;
			const float *of = sums + (int64_t)(k0 + i) * g->vectors * VW;
			if (pairs)
				for (int j = 0; j < P / 2; j++)
					v[i * P / 2 + j] = load(row + j * VW) * load(of + j * VW);
			else
				for (int h = 0; h < g->heads; h++)
					v[i * P + h] = dot_lanes(row + h * W, of + h * W, W);
		}
		store(dots + k0 * P, pairs ? half_sums(v) : lane_sums(v));
	}
}

// For each run and head, one head after another, the places of a batch's coefficients of one sign.
typedef struct {
	int32_t place[PLACES + FAR];
	int32_t end[PLACES];
	float below[PLACES + GAP]; // 1 where it is the negative ones, else 0; head h of run k has place k·P + h
} picked;

#if !defined(__AVX512F__) // which has instructions for it
// Writes first + i for each bit i, and returns how many there are. All are bits of head h of P. May write VW
// numbers.
static inline int write_places(int32_t *to, uint64_t bits, int first, int h, int P) {
	int n = 0;
	for (; bits; bits &= bits - 1)
		to[n++] = first + __builtin_ctzll(bits);
	return n;
}
#endif

// Picks the sign that fewer edges have: that of `own` is tried first. Where a row has other edges than these,
// that one is taken, as the choice may not depend on the edges.
static __attribute__((noinline)) void pick(picked *p, const batch *b, const group *g, const float *coef, const vf *own) {
	const int P = b->P;
	const uint64_t of_head = ~(uint64_t)0 / ((1 << P) - 1); // bits of places of head 0
	// of each place, whether it is positive, and negative
	uint64_t sign[2][PLACES / 64];
	int n = 0, part = 0;
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		const int at = r->at * P, places = r->edges * P, words = (places + 63) / 64, whole = b->a->whole && r->begins && r->ends;
		for (int w = 0; w < words; w++)
			signs(coef + at + w * 64, &sign[0][w], &sign[1][w]);
		if (places % 64) // what follows is another run's
			for (int i = 0; i < 2; i++)
				sign[i][words - 1] &= ~(~(uint64_t)0 << places % 64);
		for (int h = 0; h < g->heads; h++) {
			int below = own[k][h] > 0, picks = 0;
			if (whole) {
				for (int w = 0; w < words; w++)
					picks += __builtin_popcountll(sign[below][w] & of_head << h);
				below ^= 2 * picks > r->edges;
			}
			for (int w = 0; w < words; w++)
				n += write_places(p->place + n, sign[below][w] & of_head << h, at + w * 64, h, P);
			p->end[part++] = n;
			p->below[k * P + h] = below;
		}
	}
	for (int i = 0; i < FAR; i += VW)
		store_index(p->place + n + i, p->place[n - (n > 0)] - (vi){0});
}

// run_dots with the sums of the rows of the other ends, over a block of each head's columns: of what is
// picked alone, which need not be read for the other heads.
INLINE void picked_block(float *dots, const picked *p, const batch *b, const group *g, const float *coef, const elem *x, const elem *rows,
                         int64_t v0, const int nb, const int tail) {
	const int64_t cols = b->a->heads * g->width, ahead = ahead_of(elem_bytes(nb));
	const int P = b->P, runs_per_vector = 1 << b->shift, to_edge = __builtin_ctz(P);
	// the last vector may overlap the one before
	const vi fresh = numbers(0) >= (nb > 1 && tail ? VW - tail : 0);
	vf v[VW] = {{0}};
	int e = 0, part = 0;
	for (int k = 0; k < b->runs; k++) {
		for (int h = 0; h < g->heads; h++) {
			const int64_t from = h * g->width + v0 * VW;
			const elem *fixed = x + b->run[k].row * cols + from;
			vf acc[BLOCK], dot = {0};
			for (int i = 0; i < nb; i++)
				acc[i] = (vf){0};
			for (const int end = p->end[part++]; e < end; e++) {
				const float c = coef[p->place[e]];
				const elem *row = rows + b->other[p->place[e] >> to_edge] * cols + from;
				prefetch_block(rows + b->other[p->place[e + ahead] >> to_edge] * cols + from, nb, tail);
				for (int i = 0; i < nb; i++)
					acc[i] += c * load_block(row, i, nb, tail);
			}
			for (int i = 0; i < nb; i++) {
				vf y = load_block(fixed, i, nb, tail);
				dot += acc[i] * (tail && i == nb - 1 ? (vf)((vi)y & fresh) : y);
			}
			v[k % runs_per_vector * P + h] = dot;
		}
		if (k % runs_per_vector == runs_per_vector - 1 || k == b->runs - 1) {
			float *to = dots + k / runs_per_vector * VW;
			store(to, (v0 ? load(to) : (vf){0}) + lane_sums(v));
		}
	}
}

static __attribute__((noinline, noclone)) void picked_dots(float *dots, const picked *p, const batch *b, const group *g, const float *coef,
                                                           const elem *x, const elem *rows) {
	EACH_BLOCK((g->width + VW - 1) / VW, g->width % VW, picked_block, dots, p, b, g, coef, x, rows)
}

// GATv1's ∂target_score for one group of heads.
INLINE void back_target_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi, const int P) {
	const int64_t H = a->heads, cols = H * a->width;
	const elem *grad = a->g + g->from, *source = a->source + g->from;
	const int picks = a->picks;
	const vf slope = all(a->slope);
	values x;
	picked p;
	batch b;
	for (batches_of(&b, a, lo, hi, 0, P, H * sizeof(float), 0, picks ? 0 : row_bytes(g)); next_batch(&b, 0);) {
		for (int k = 0; k < b.runs; k++) {
			const float *pack = a->pack + b.run[k].row * WEFT_PACK * H + g->head;
			x.own[k] = per_head(pack + 2 * H, g->heads, P);
			x.own2[k] = per_head(pack, g->heads, P);
			x.own3[k] = per_head(pack + H, g->heads, P);
			fetch_row(grad + b.run[k].row * cols, sizeof *grad, g);
		}
		gather_heads((float *[]){x.s}, 1, &b, a->source_score + g->head, H, g->heads);
		// of α where t > 0, and of −α where it is not; if nothing is picked, sum is that of the side that is
		// taken
		vf sum = {0}, below = {0};
		for (int v = 0; v < b.vectors; v++) {
			int k = b.run_of[v];
			fetch_soon(&b, v, a->source_score + g->head, H, 1, P);
			vf t = load(x.s + v * VW) + x.own[k];
			vf alpha = first_lanes(vexp(leaky_v(t, slope) - x.own2[k]), b.lanes_of[v], (vf){0});
			vf up = positive(t, alpha, (vf){0}), down = up - alpha;
			if (picks) {
				store(x.s + v * VW, up + down);
				x.top[k] = below = add_vector(below, down, &b, v);
			} else {
				// one side for all of a destination's edges, wherever they are
				up = positive(x.own[k], down, up);
				store(x.s + v * VW, up);
			}
			x.sum[k] = sum = add_vector(sum, up, &b, v);
		}
		for (int k = 0; k < b.runs; k++) {
			// tops and scales, which only the softmax uses, hold the two by head
			store(x.tops + k * P, sum_of_edges(x.sum[k], P) * x.own3[k]);
			if (picks)
				store(x.scales + k * P, sum_of_edges(x.top[k], P) * x.own3[k]);
		}
		if (a->mask.threshold) {
			edge_masks(x.keep, &b, g->head, g->heads);
			multiply_all(x.s, x.keep, b.edges * P);
		}
		if (picks) {
			pick(&p, &b, g, x.s, x.own);
			picked_dots(x.sums, &p, &b, g, x.s, grad, source);
		} else {
			const row_sum rows = {.of = runs_of(&b, g), .rows = source, .cols = cols, .coef = x.s, .z = {g->scratch},
			                      .stride = g->vectors * VW, .by_run = 1};
			sum_rows(&rows);
			run_dots(x.sums, grad, g->scratch, &b, g);
		}
		for (int i = 0; i < b.runs * P; i += VW) {
			vf less = load(x.tops + i);
			if (picks)
				less = positive(load(p.below + i), load(x.scales + i), less);
			store(x.sums + i, load(x.sums + i) - less);
		}
		for (int k = 0; k < b.runs; k++)
			add_heads(a->d_target_score + b.run[k].row * H + g->head, 1 - a->slope, x.sums + k * P, g->heads);
	}
}

// GATv1's ∂target_score and ∂edge_vector for one group of heads.
INLINE void back_target_edges_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi, const int P) {
	const int64_t H = a->heads, cols = H * a->width;
	const elem *grad = a->g + g->from;
	const vf slope = all(a->slope), unit = all(1.0f);
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 0, P, H * sizeof(float), 0, 0); next_batch(&b, 0);) {
		for (int k = 0; k < b.runs; k++) {
			const float *pack = a->pack + b.run[k].row * WEFT_PACK * H + g->head;
			x.own[k] = per_head(pack + 2 * H, g->heads, P);
			x.own2[k] = per_head(pack, g->heads, P);
			x.own3[k] = per_head(pack + H, g->heads, P);
		}
		gather_heads((float *[]){x.s}, 1, &b, a->source_score + g->head, H, g->heads);
		edge_scores(x.s, &b, g, P);
		const dot_rows products = {.b = &b, .rows = a->source + g->from, .target = grad, .factor = grad, .cols = cols, .dot = x.s2};
		dots(&products, g);
		if (a->mask.threshold) {
			edge_masks(x.keep, &b, g->head, g->heads);
			multiply_all(x.s2, x.keep, b.edges * P);
		}
		vf sum = {0};
		for (int v = 0; v < b.vectors; v++) {
			int k = b.run_of[v];
			fetch_soon(&b, v, a->source_score + g->head, H, 1, P);
			vf t = load(x.s + v * VW) + x.own[k], rise = positive(t, unit, slope);
			vf ds = vexp(t * rise - x.own2[k]) * (load(x.s2 + v * VW) - x.own3[k]);
			vf dt = first_lanes(ds * rise, b.lanes_of[v], (vf){0});
			store(x.s + v * VW, dt);
			x.sum[k] = sum = add_vector(sum, dt, &b, v);
		}
		for (int k = 0; k < b.runs; k++) {
			store(x.sums, sum_of_edges(x.sum[k], P));
			add_heads(a->d_target_score + b.run[k].row * H + g->head, 1, x.sums, g->heads);
		}
		edge_vector_gradient(a->d_edge_vector + g->head, x.s, &b, g, P);
	}
}

// GATv1's ∂source and ∂source_score for one group of heads.
INLINE void back_source_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi, const int P) {
	int64_t H = a->heads, cols = H * a->width;
	const float *pack = a->pack + g->head;
	vf slope = all(a->slope), unit = all(1.0f);
	const sum_place d = place_of(a->d_source, a->d_type, g);
	const int64_t d_size = a->d_type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 1, P, WEFT_PACK * H * sizeof(float), 0, row_bytes(g)); next_batch(&b, 0);) {
		for (int k = 0; k < b.runs; k++) {
			int64_t row = b.run[k].row;
			x.own[k] = per_head(a->source_score + row * H + g->head, g->heads, P);
			fetch_row(a->source + row * cols + g->from, sizeof(elem), g);
			fetch_row((const char *)d.z + row * cols * d_size, d_size, g);
		}
		gather_heads((float *[]){x.log_sum, x.g_dot_out, x.s}, 3, &b, pack, WEFT_PACK * H, g->heads);
		if (a->feature_columns)
			edge_scores(x.s, &b, g, P);
		vf sums = {0};
		for (int v = 0; v < b.vectors; v++) {
			int k = b.run_of[v];
			fetch_soon(&b, v, pack, WEFT_PACK * H, (WEFT_PACK * g->heads + LINE - 1) / LINE, P);
			vf t = load(x.s + v * VW) + x.own[k], rise = positive(t, unit, slope);
			vf alpha = first_lanes(vexp(t * rise - load(x.log_sum + v * VW)), b.lanes_of[v], (vf){0});
			store(x.s + v * VW, alpha);
			store(x.s2 + v * VW, alpha * rise);
			x.sum[k] = sums = add_vector(sums, alpha * rise * load(x.g_dot_out + v * VW), &b, v);
		}
		for (int k = 0; k < b.runs; k++)
			store(x.tops + k * P, sum_of_edges(x.sum[k], P));
		if (a->mask.threshold) {
			edge_masks(x.keep, &b, g->head, g->heads);
			multiply_all(x.s, x.keep, b.edges * P);
			multiply_all(x.s2, x.keep, b.edges * P);
		}
		float *rows = g->scratch;
		const row_sum sum = {.of = runs_of(&b, g), .rows = a->g + g->from, .cols = cols, .coef = x.s, .z = d,
		                     .stride = cols, .extension = EXTENDED, .coef2 = x.s2, .z2 = rows, .stride2 = g->vectors * VW};
		sum_rows(&sum);
		run_dots(x.sums, a->source + g->from, rows, &b, g);
		for (int i = 0; i < b.runs * P; i += VW)
			store(x.sums + i, load(x.sums + i) - load(x.tops + i));
		for (int k = 0; k < b.runs; k++)
			add_heads(a->d_source_score + b.run[k].row * H + g->head, 1, x.sums + k * P, g->heads);
	}
}

// GATv2 and dot products: α·mask in s and ∂s in s2 for the batch's edges.
static __attribute__((noinline, noclone)) void v2_coefficients(values *x, const batch *b, const weft_attention_args *a, const group *g, enum form form) {
	const int P = b->P;
	int64_t H = a->heads, cols = H * a->width;
	const float *pack = a->pack + g->head;
	const elem *source = a->source + g->from, *target = a->target + g->from, *grad = a->g + g->from;
	if (a->edge_weight)
		edge_rows(b, g);
	const enum edge_rows with_rows = a->edge_weight ? WITH_ROWS : NO_EDGE_ROWS;
	if (form == DOT) {
		const elem *key = a->key + g->from;
		const enum edge_rows edge = b->transposed && a->edge_weight ? WITH_FACTOR : with_rows;
		const dot_rows scores = {.b = b, .rows = b->transposed ? target : key, .target = target, .factor = b->transposed ? key : target,
		                         .cols = cols, .dot = x->s, .edge = edge};
		const dot_rows products = {.b = b, .rows = b->transposed ? grad : source, .target = target, .factor = b->transposed ? source : grad,
		                           .cols = cols, .dot = x->s2, .edge = edge};
		dots(&scores, g);
		dots(&products, g);
	} else if (b->transposed || a->edge_weight) {
		const dot_rows scores = {.b = b, .rows = b->transposed ? target : source, .target = b->transposed ? source : target, .factor = source,
		                         .cols = cols, .a = a->a + g->from, .slope = a->slope, .score = x->s, .edge = with_rows};
		const dot_rows products = {.b = b, .rows = b->transposed ? grad : source, .target = source, .factor = b->transposed ? source : grad,
		                           .cols = cols, .dot = x->s2};
		dots(&scores, g);
		dots(&products, g);
	} else {
		const dot_rows both = {.b = b, .rows = source, .target = target, .factor = grad, .cols = cols, .a = a->a + g->from,
		                       .slope = a->slope, .score = x->s, .dot = x->s2};
		dots(&both, g);
	}
	if (b->transposed) {
		gather_heads((float *[]){x->log_sum, x->g_dot_out}, 2, b, pack, WEFT_PACK * H, g->heads);
	} else {
		for (int k = 0; k < b->runs; k++) {
			x->own[k] = per_head(pack + b->run[k].row * WEFT_PACK * H, g->heads, P);
			x->own2[k] = per_head(pack + b->run[k].row * WEFT_PACK * H + H, g->heads, P);
		}
	}
	if (a->mask.threshold)
		edge_masks(x->keep, b, g->head, g->heads);
	for (int v = 0; v < b->vectors; v++) {
		int k = b->run_of[v], at = v * VW;
		vf log_sum = b->transposed ? load(x->log_sum + at) : x->own[k], g_dot_out = b->transposed ? load(x->g_dot_out + at) : x->own2[k];
		vf alpha = vexp(load(x->s + at) - log_sum), keep = a->mask.threshold ? load(x->keep + at) : all(1.0f);
		store(x->s + at, first_lanes(alpha * keep, b->lanes_of[v], (vf){0}));
		store(x->s2 + at, alpha * (keep * load(x->s2 + at) - g_dot_out));
	}
}

// Adds a batch's sums to ∂edge_weight, in double precision, times a vector where one is given, and clears
// them.
static __attribute__((noinline)) void add_edge_weight(const weft_attention_args *a, const group *g, const float *vector) {
	const int64_t cols = a->heads * a->width;
	for (int64_t f = 0; f < a->feature_columns; f++) {
		float *row = a->d_edge_row + f * cols + g->from;
		double *sum = a->d_edge_weight + f * cols + g->from;
		for (int64_t c = 0; c < g->heads * g->width; c++) {
			sum[c] += vector ? row[c] * vector[c] : row[c];
			row[c] = 0;
		}
	}
}

// GATv2's ∂target, ∂a and ∂edge_weight for one group of heads.
INLINE void back_target_v2_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi) {
	int64_t cols = a->heads * a->width;
	float *da = a->da_row + g->from;
	double *sum = a->d_a + g->from;
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 0, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 1), 0); next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, V2);
		const slope_sum s = {.b = &b, .rows = a->source + g->from, .fixed = a->target + g->from, .a = a->a + g->from, .cols = cols,
		                     .slope = a->slope, .coef = x.s2, .z = place_of(a->d_target, a->d_type, g), .z2 = da,
		                     .of_edges = a->edge_weight ? g->of_edges : NULL, .weight = a->edge_weight ? a->d_edge_row + g->from : NULL};
		sum_slopes(&s, g);
		if (a->edge_weight)
			add_edge_weight(a, g, a->a + g->from);
		for (int64_t c = 0; c < g->heads * g->width; c++) { // in double precision after each batch
			sum[c] += da[c];
			da[c] = 0;
		}
	}
}

// GATv2's ∂source for one group of heads.
INLINE void back_source_v2_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi) {
	int64_t cols = a->heads * a->width;
	values x;
	batch b;
	// two sums make ∂source, which is rounded once: the first is in scratch where that is not of floats
	const int rounds = a->d_type == WEFT_BFLOAT16;
	const sum_place d = place_of(a->d_source, a->d_type, g);
	for (batches_of(&b, a, lo, hi, 1, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2), rounds ? row_bytes(g) : 0); next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, V2);
		row_sum sum = {.of = runs_of(&b, g), .rows = a->g + g->from, .cols = cols, .coef = x.s, .z = d, .stride = cols, .extension = EXTENDED};
		if (rounds) {
			sum.z = (sum_place){g->scratch};
			sum.stride = g->vectors * VW;
			sum.by_run = 1;
			sum.extension = FROM_ZERO;
		}
		sum_rows(&sum);
		const slope_sum s = {.b = &b, .rows = a->target + g->from, .fixed = a->source + g->from, .a = a->a + g->from, .cols = cols,
		                     .slope = a->slope, .coef = x.s2, .z = d, .more = rounds ? g->scratch : NULL,
		                     .of_edges = a->edge_weight ? g->of_edges : NULL};
		sum_slopes(&s, g);
	}
}

// ∂edge_weight of dot products: a batch's Σ_e features_ef · (∂s_e,head · target_c + α_e,head·mask · g_c).
INLINE void dot_weight_block(const values *x, const batch *b, const group *g, const elem *target, const elem *grad, float *sums,
                             int64_t v0, const int nb, const int tail) {
	const weft_attention_args *a = b->a;
	const int64_t cols = a->heads * g->width;
	vi head[BLOCK];
	for (int v = 0; v < nb; v++)
		head[v] = lane_heads(g->head_of, v0, v, nb, tail);
	for (const run *r = b->run; r < b->run + b->runs; r++) {
		const int64_t at = r->row * cols + v0 * VW;
		for (int e = 0; e < r->edges; e++) {
			const vf alpha = load(x->s + (r->at + e) * b->P), ds = load(x->s2 + (r->at + e) * b->P);
			vf d[BLOCK];
			for (int v = 0; v < nb; v++)
				d[v] = __builtin_shuffle(ds, head[v]) * load_block(target + at, v, nb, tail) +
				       __builtin_shuffle(alpha, head[v]) * load_block(grad + at, v, nb, tail);
			add_outer(sums + v0 * VW, cols, features_of(a, r, e), a->feature_columns, d, nb, tail);
		}
	}
}

static __attribute__((noinline, noclone)) void dot_weight(const values *x, const batch *b, const group *g) {
	const weft_attention_args *a = b->a;
	const elem *target = a->target + g->from, *grad = a->g + g->from;
	float *sums = a->d_edge_row + g->from;
	EACH_BLOCK(g->vectors, g->tail, dot_weight_block, x, b, g, target, grad, sums)
	add_edge_weight(a, g, NULL);
}

// ∂target and ∂edge_weight of dot products for one group of heads.
INLINE void back_target_dot_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi) {
	const int64_t cols = a->heads * a->width;
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 0, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2), 0); next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, DOT);
		const row_sum sum = {.of = runs_of(&b, g), .rows = a->key + g->from, .cols = cols, .coef = x.s2, .z = place_of(a->d_target, a->d_type, g),
		                     .stride = cols, .extension = EXTENDED, .of_edges = a->edge_weight ? g->of_edges : NULL, .edge_stride = g->vectors * VW};
		sum_rows(&sum);
		if (a->edge_weight)
			dot_weight(&x, &b, g);
	}
}

// ∂source and ∂key of dot products for one group of heads.
INLINE void back_source_dot_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi) {
	const int64_t cols = a->heads * a->width;
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 1, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2), 0); next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, DOT);
		row_sum sum = {.of = runs_of(&b, g), .rows = a->g + g->from, .cols = cols, .coef = x.s, .z = place_of(a->d_source, a->d_type, g),
		               .stride = cols, .extension = EXTENDED};
		sum_rows(&sum);
		sum.rows = a->target + g->from;
		sum.coef = x.s2;
		sum.z = place_of(a->d_key, a->d_type, g);
		sum.z.open = g->open2;
		sum_rows(&sum);
	}
}

// Over destinations: ∂target_score of GATv1, also with features of edges and ∂edge_vector of the range;
// ∂target of GATv2 and ∂a of the range; of dot products ∂target, and ∂edge_weight of the range.
OF_GROUPS(k_attend_back_target, WITH_PLACES(back_target_group, &g, a, lo, hi))
OF_GROUPS(k_attend_back_target_edges, back_target_edges_group(&g, a, lo, hi, places_of(g.heads)))
OF_GROUPS(k_attend_back_target_v2, back_target_v2_group(&g, a, lo, hi))
OF_GROUPS(k_attend_back_target_dot, back_target_dot_group(&g, a, lo, hi))

// Over sources, on the transposed matrix: ∂source and ∂source_score of GATv1, ∂source of GATv2, ∂source and
// ∂key of dot products.
OF_GROUPS(k_attend_back_source, WITH_PLACES(back_source_group, &g, a, lo, hi))
OF_GROUPS(k_attend_back_source_v2, back_source_v2_group(&g, a, lo, hi))
OF_GROUPS(k_attend_back_source_dot, back_source_dot_group(&g, a, lo, hi))
#undef OF_GROUPS

#if !defined(WEFT_OF_BFLOAT16)
// pack_i = (log_sum_i, ⟨g_i, o_i⟩, target_score_i, –), heads each: what an edge needs of its destination
// besides g, in one place.
INLINE void pack_rows(const weft_attention_args *a, int64_t lo, int64_t hi, const int64_t H) {
	for (int64_t i = lo; i < hi; i++) {
		float *p = a->pack + i * WEFT_PACK * H;
		for (int64_t h = 0; h < H; h++)
			p[h] = a->log_sum[i * H + h];
		for (int64_t h = 0; h < H; h++)
			p[H + h] = a->g_dot_out[i * H + h];
		for (int64_t h = 0; h < H; h++)
			p[2 * H + h] = a->target_score ? a->target_score[i * H + h] : 0;
	}
}

static void k_attend_pack(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	if (a->heads == 1)
		pack_rows(a, lo, hi, 1);
	else if (a->heads == 4)
		pack_rows(a, lo, hi, 4);
	else if (a->heads == 8)
		pack_rows(a, lo, hi, 8);
	else
		pack_rows(a, lo, hi, a->heads);
}

// A row and head without a score above −∞ has sum 0: its output is 0.
static void k_attend_end(const void *args, int64_t lo, int64_t hi) {
	const weft_attend_end_args *a = args;
	for (int64_t k = lo * a->heads; k < hi * a->heads; k++) {
		float sum = a->sum[k], scale = 1 / sum;
		for (int64_t c = 0; c < a->width; c += VW) {
			int64_t at = k * a->width + c;
			int n = lesser(a->width - c, VW);
			vf v = {0};
			if (sum > 0)
				v = part(a->z + at, n) * scale;
			put(a->z + at, v, n);
		}
		a->maximum[k] = sum > 0 ? a->maximum[k] + logf(sum) : 0;
	}
}
#endif
