// The softmax of a batch of edges. Scores become exponentials, and extend the maximum and the sum of their
// rows over earlier batches. attention.h has the equations.

// Lane l of the result is x[l mod P]. x has `heads` values; those from there up to P are 0.
static inline vf per_head(const float *x, int heads, const int P) {
	return P == 1 ? all(x[0]) : __builtin_shuffle(load_n(x, heads), numbers(0) & (P - 1));
}

// Like sum_of_edges, with the largest lane in place of the sum.
INLINE vf largest_of_edges(vf v, const int P) {
	for (int w = VW / 2; w >= P; w /= 2)
		v = larger(rotate(v, w), v);
	return v;
}

static inline void multiply_all(float *x, const float *y, int n) {
	for (int i = 0; i < n; i++)
		x[i] *= y[i];
}

// out_m,eh = from_{other(e)},h for every edge e of the batch, and 0 in places of no head. Each further matrix
// of `from` begins `heads` columns behind the one before.
INLINE void gather_places(float *const *out, const int matrices, const batch *b, const float *from,
                          int64_t stride, int heads, const int P) {
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

INLINE void gather_heads(float *const *out, const int matrices, const batch *b, const float *from,
                         int64_t stride, int heads) {
	switch (heads == b->P ? heads : 0) {
	case 1: gather_places(out, matrices, b, from, stride, 1, 1); break;
	case 2: gather_places(out, matrices, b, from, stride, 2, 2); break;
	case 4: gather_places(out, matrices, b, from, stride, 4, 4); break;
	case 8: gather_places(out, matrices, b, from, stride, 8, 8); break;
	default: gather_places(out, matrices, b, from, stride, heads, b->P);
	}
}

// The gap between arrays of PLACES numbers. With it, equal places of two arrays do not lie near a multiple of
// 4 KB apart. Else a load would wait for a store to the other array, as processors first compare 12 bits of
// the addresses. So one vector's exponentials would wait for those of the vector before.
enum { GAP = 64 };

// The values that a kernel keeps of a batch: of each edge and head, and of each run, as whole vectors or for
// each head. Some loads and stores of an edge or a run take VW places.
typedef struct {
	float s[PLACES + GAP], s2[PLACES + GAP], log_sum[PLACES + GAP], g_dot_out[PLACES + GAP],
	    keep[PLACES + GAP];
	vf own[VECTORS + GAP / VW], own2[VECTORS + GAP / VW], own3[VECTORS + GAP / VW], top[VECTORS + GAP / VW],
	    sum[VECTORS + GAP / VW];
	float tops[PLACES + GAP], sums[PLACES + GAP], scales[PLACES + GAP], log_sums[PLACES + GAP];
} values;

// All ones if the vector is the first of its run, else zeros.
static inline vi begins_run(const batch *b, int v) { return b->begins_at[v] - (vi){0}; }

// sum + x, or x if vector v is the first of its run: the sums of the lanes over a run's vectors.
static inline vf add_vector(vf sum, vf x, const batch *b, int v) {
	return (vf)((vi)sum & ~begins_run(b, v)) + x;
}

// The largest of top and x, or x if vector v is the first of its run: top then has all ones, which is NaN and
// never taken.
static inline vf top_vector(vf top, vf x, const batch *b, int v) {
	return larger((vf)((vi)top | begins_run(b, v)), x);
}

// The scores of a batch, in s. GATv1's are computed from the scores of the other ends and of the runs.
// GATv2's are there already. Lanes without an edge get −∞. top becomes the largest score of each run, lane by
// lane.
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

// Prefetches `lines` cache lines from `from` on, in the rows at the other ends of the next batch's edges: for
// as many edges as vector v of this batch has. A processor drops prefetches while rows are summed. So they
// are made here, where nothing else waits for memory.
INLINE void fetch_soon(const batch *b, int v, const float *from, int64_t stride, int lines, const int P) {
	if (!b->soon)
		return;
	const int32_t *soon = b->soon + v * edges_of_vector(P);
	for (int i = 0; i < edges_of_vector(P); i++)
		for (int l = 0; l < lines; l++)
			__builtin_prefetch(from + soon[i] * stride + l * LINE, 0, SECOND_CACHE);
}

// Prefetches a row of a group's columns, which is used after the coefficients of this batch are known.
static inline void fetch_row(const void *row, int64_t size, const group *g) {
	for (int64_t at = 0; at < g->vectors * VW * size; at += 64)
		__builtin_prefetch((const char *)row + at, 0, SECOND_CACHE);
}

// to_h += factor · from_h for `heads` heads.
static inline void add_heads(float *to, float factor, const float *from, int heads) {
	store_n(to, load_n(to, heads) + factor * load(from), heads);
}

// to_h = from_h for `heads` heads.
static inline void put_heads(float *to, const float *from, int heads) { store_n(to, load(from), heads); }

// Multiplies d and z of a row by exp(before − m), for the heads whose d is above 0.
static __attribute__((noinline)) void lower(const weft_attention_args *a, const group *g, int64_t row,
                                            float *d, vf before, vf m) {
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

// Whether run k continues the row of run k−1.
static inline int goes_on(const batch *b, int k) { return k > 0 && !b->run[k].begins; }

// s = exp(s − top) with the top of each edge's run, and sums = their sums. Each lane of a run's vectors is
// summed by itself. If the layer has more heads than this group, a vector of the layer's has fewer edges.
// Then the sums here are over as few edges at a time, which are those of `lanes` lanes.
INLINE void exponentials(values *x, const batch *b, const group *g, const int v2, const int P,
                         const int lanes) {
	vf sum = {0};
	for (int v = 0; v < b->vectors; v++) {
		int k = b->run_of[v];
		vf e = vexp(load(x->s + v * VW) - x->top[k]);
		if (!v2)
			fetch_soon(b, v, b->a->source_score + g->head, b->a->heads, 1, P);
		store(x->s + v * VW, e);
		sum = add_vector(sum, e, b, v);
		for (int l = lanes; l < VW; l += lanes)
			sum += rotate(e, l);
		x->sum[k] = sum;
	}
	for (int k = 0; k < b->runs; k++)
		store(x->sums + k * P, sum_of_edges(only(x->sum[k], lanes), P));
}

// s = exp(s − m), where m is the largest of the scores of the run and of its row before. tops becomes m, and
// sums the sums of the exponentials.
INLINE void softmax(values *x, const batch *b, const group *g, const int v2, const int P) {
	const weft_attention_args *a = b->a;
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		// finite, so that scores of −∞ have no weight
		vf top = larger(largest_of_edges(x->top[k], P), all(-FLT_MAX));
		if (!(a->first && r->begins))
			top = larger(goes_on(b, k) ? x->top[k - 1]
			                           : per_head(a->maximum + r->row * a->heads + g->head, g->heads, P),
			             top);
		x->top[k] = top;
		store(x->tops + k * P, top);
	}
	if (g->layer_places == P)
		exponentials(x, b, g, v2, P, VW);
	else
		exponentials(x, b, g, v2, P, VW / g->layer_places * P);
}

// lower for parts of a row that are in one batch. own2 of a part is the factor of the part before.
static __attribute__((noinline)) void join_parts(values *x, const batch *b, const int P) {
	for (int k = 1; k < b->runs; k++) {
		if (!goes_on(b, k))
			continue;
		x->own2[k] = vexp(x->top[k - 1] - x->top[k]);
		vf before = load(x->sums + (k - 1) * P) * x->own2[k];
		__asm__("" : "+m"(before)); // rounded, as the sum in memory is
		before += load(x->sums + k * P);
		__builtin_memcpy(x->sums + k * P, &before, P * sizeof(float));
	}
}

// Extends the maximum m and the sum d of the rows by a batch. A row that ends gets its log-sum-exp in place
// of m. scales becomes the factors of the sums of rows. `rest` holds d between the parts of a row, if the
// state has no memory for it.
INLINE void extend_state(values *x, const batch *b, const group *g, float *rest, const int P) {
	const weft_attention_args *a = b->a;
	for (int k = 0; k < (a->first ? 1 : b->runs); k++) { // the later rows of a batch begin in it
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
