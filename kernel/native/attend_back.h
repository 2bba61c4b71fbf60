// The gradients of GATv1, which sums rows before it takes dot products. attention.h has the equations.

// dots_kh = ⟨x_h, sum_h⟩ for each run k and head h, at place k·P + h. x is the row of the run in a matrix,
// from the group's first column on, and sum its row of sums. Several runs are taken together, so that their
// heads fill a vector.
static __attribute__((noinline)) void run_dots(float *dots, const elem *x, const float *sums, const batch *b,
                                               const group *g) {
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

// The coefficients of a batch that have the picked sign: their places, for each run and one head after
// another.
typedef struct {
	int32_t place[PLACES + FAR];
	int32_t end[PLACES];
	float below[PLACES + GAP]; // 1 if the negative ones are picked, else 0; head h of run k has place k·P + h
} picked;

#if !defined(__AVX512F__) // AVX-512 has instructions for it
// Writes first + i for each bit i that is set, and returns how many it wrote. All set bits are places of head
// h of P heads. It may write up to VW numbers more.
static inline int write_places(int32_t *to, uint64_t bits, int first, int h, int P) {
	int n = 0;
	for (; bits; bits &= bits - 1)
		to[n++] = first + __builtin_ctzll(bits);
	return n;
}
#endif

// Picks the sign that fewer edges have, for each run and head. If both have as many, it is the one that `own`
// selects. If the row has edges outside the run, `own` alone decides, as the choice may not depend on which
// edges are in the run.
static __attribute__((noinline)) void pick(picked *p, const batch *b, const group *g, const float *coef,
                                           const vf *own) {
	const int P = b->P;
	const uint64_t of_head = ~(uint64_t)0 / ((1 << P) - 1); // the bits of head 0
	// one bit for each place: whether its coefficient is positive, and whether it is negative
	uint64_t sign[2][PLACES / 64];
	int n = 0, part = 0;
	for (int k = 0; k < b->runs; k++) {
		const run *r = &b->run[k];
		const int at = r->at * P, places = r->edges * P, words = (places + 63) / 64,
		          whole = b->a->whole && r->begins && r->ends;
		for (int w = 0; w < words; w++)
			signs(coef + at + w * 64, &sign[0][w], &sign[1][w]);
		if (places % 64) // the bits that follow belong to the next run
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

// run_dots of the sums Σ_e coef_e,head · row_e, over a block of each head's columns. The sums are over the
// picked edges of each head. So the rows of edges that only other heads picked need not be read.
INLINE void picked_block(float *dots, const picked *p, const batch *b, const group *g, const float *coef,
                         const elem *x, const elem *rows, int64_t v0, const int nb, const int tail) {
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

static __attribute__((noinline, noclone)) void picked_dots(float *dots, const picked *p, const batch *b,
                                                           const group *g, const float *coef, const elem *x,
                                                           const elem *rows) {
	EACH_BLOCK((g->width + VW - 1) / VW, g->width % VW, picked_block, dots, p, b, g, coef, x, rows)
}

// GATv1's ∂target_score for one group of heads.
INLINE void back_target_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi,
                              const int P) {
	const int64_t H = a->heads, cols = H * a->width;
	const elem *grad = a->g + g->from, *source = a->source + g->from;
	const int picks = a->picks;
	const vf slope = all(a->slope);
	values x;
	picked p;
	batch b;
	for (batches_of(&b, a, lo, hi, 0, P, H * sizeof(float), 0, picks ? 0 : row_bytes(g));
	     next_batch(&b, 0);) {
		for (int k = 0; k < b.runs; k++) {
			const float *pack = a->pack + b.run[k].row * WEFT_PACK * H + g->head;
			x.own[k] = per_head(pack + 2 * H, g->heads, P);
			x.own2[k] = per_head(pack, g->heads, P);
			x.own3[k] = per_head(pack + H, g->heads, P);
			fetch_row(grad + b.run[k].row * cols, sizeof *grad, g);
		}
		gather_heads((float *[]){x.s}, 1, &b, a->source_score + g->head, H, g->heads);
		// sum is of α with t > 0, and below of −α with t ≤ 0; without picks sum is of the side that is taken
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
				// all edges of a destination take the same side, in whatever block they are
				up = positive(x.own[k], down, up);
				store(x.s + v * VW, up);
			}
			x.sum[k] = sum = add_vector(sum, up, &b, v);
		}
		for (int k = 0; k < b.runs; k++) {
			// tops and scales, which only the softmax uses, hold the two sums by head
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
			const row_sum rows = {.of = runs_of(&b, g), .rows = source, .cols = cols, .coef = x.s,
			                      .z = {g->scratch}, .stride = g->vectors * VW, .by_run = 1};
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
INLINE void back_target_edges_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi,
                                    const int P) {
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
		const dot_rows products = {
		    .b = &b, .rows = a->source + g->from, .target = grad, .factor = grad, .cols = cols, .dot = x.s2};
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
INLINE void back_source_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi,
                              const int P) {
	int64_t H = a->heads, cols = H * a->width;
	const float *pack = a->pack + g->head;
	vf slope = all(a->slope), unit = all(1.0f);
	const sum_place d = place_of(a->d_source, a->d_type, g);
	const int64_t d_size = a->d_type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	values x;
	batch b;
	for (batches_of(&b, a, lo, hi, 1, P, WEFT_PACK * H * sizeof(float), 0, row_bytes(g));
	     next_batch(&b, 0);) {
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
		                     .stride = cols, .extension = EXTENDED, .coef2 = x.s2, .z2 = rows,
		                     .stride2 = g->vectors * VW};
		sum_rows(&sum);
		run_dots(x.sums, a->source + g->from, rows, &b, g);
		for (int i = 0; i < b.runs * P; i += VW)
			store(x.sums + i, load(x.sums + i) - load(x.tops + i));
		for (int k = 0; k < b.runs; k++)
			add_heads(a->d_source_score + b.run[k].row * H + g->head, 1, x.sums + k * P, g->heads);
	}
}
