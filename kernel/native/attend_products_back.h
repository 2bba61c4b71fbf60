// The gradients of GATv2 and of dot products. Their scores need a product of rows for each edge. attention.h
// has the equations.

// s = α·mask and s2 = ∂s, for the edges of a batch.
static __attribute__((noinline, noclone)) void v2_coefficients(values *x, const batch *b,
                                                               const weft_attention_args *a, const group *g,
                                                               enum form form) {
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
		const dot_rows scores = {.b = b, .rows = b->transposed ? target : key, .target = target,
		                         .factor = b->transposed ? key : target, .cols = cols, .dot = x->s,
		                         .edge = edge};
		const dot_rows products = {.b = b, .rows = b->transposed ? grad : source, .target = target,
		                           .factor = b->transposed ? source : grad, .cols = cols, .dot = x->s2,
		                           .edge = edge};
		dots(&scores, g);
		dots(&products, g);
	} else if (b->transposed || a->edge_weight) {
		const dot_rows scores = {.b = b, .rows = b->transposed ? target : source,
		                         .target = b->transposed ? source : target, .factor = source, .cols = cols,
		                         .a = a->a + g->from, .slope = a->slope, .score = x->s, .edge = with_rows};
		const dot_rows products = {.b = b, .rows = b->transposed ? grad : source, .target = source,
		                           .factor = b->transposed ? source : grad, .cols = cols, .dot = x->s2};
		dots(&scores, g);
		dots(&products, g);
	} else {
		const dot_rows both = {.b = b, .rows = source, .target = target, .factor = grad, .cols = cols,
		                       .a = a->a + g->from, .slope = a->slope, .score = x->s, .dot = x->s2};
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
		vf log_sum = b->transposed ? load(x->log_sum + at) : x->own[k],
		   g_dot_out = b->transposed ? load(x->g_dot_out + at) : x->own2[k];
		vf alpha = vexp(load(x->s + at) - log_sum), keep = a->mask.threshold ? load(x->keep + at) : all(1.0f);
		store(x->s + at, first_lanes(alpha * keep, b->lanes_of[v], (vf){0}));
		store(x->s2 + at, alpha * (keep * load(x->s2 + at) - g_dot_out));
	}
}

// ∂edge_weight += the batch's sums, in double precision. If a vector is given, the sums are multiplied by it.
// The sums become zero.
static __attribute__((noinline)) void add_edge_weight(const weft_attention_args *a, const group *g,
                                                      const float *vector) {
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
	for (batches_of(&b, a, lo, hi, 0, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 1), 0);
	     next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, V2);
		const slope_sum s = {.b = &b, .rows = a->source + g->from, .fixed = a->target + g->from,
		                     .a = a->a + g->from, .cols = cols, .slope = a->slope, .coef = x.s2,
		                     .z = place_of(a->d_target, a->d_type, g), .z2 = da,
		                     .of_edges = a->edge_weight ? g->of_edges : NULL,
		                     .weight = a->edge_weight ? a->d_edge_row + g->from : NULL};
		sum_slopes(&s, g);
		if (a->edge_weight)
			add_edge_weight(a, g, a->a + g->from);
		for (int64_t c = 0; c < g->heads * g->width; c++) { // added in double precision after each batch
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
	// ∂source is made of two sums, and rounded once. If it is not of floats, the first sum is in scratch.
	const int rounds = a->d_type == WEFT_BFLOAT16;
	const sum_place d = place_of(a->d_source, a->d_type, g);
	for (batches_of(&b, a, lo, hi, 1, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2),
	                rounds ? row_bytes(g) : 0);
	     next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, V2);
		row_sum sum = {.of = runs_of(&b, g), .rows = a->g + g->from, .cols = cols, .coef = x.s, .z = d,
		               .stride = cols, .extension = EXTENDED};
		if (rounds) {
			sum.z = (sum_place){g->scratch};
			sum.stride = g->vectors * VW;
			sum.by_run = 1;
			sum.extension = FROM_ZERO;
		}
		sum_rows(&sum);
		const slope_sum s = {.b = &b, .rows = a->target + g->from, .fixed = a->source + g->from,
		                     .a = a->a + g->from, .cols = cols, .slope = a->slope, .coef = x.s2, .z = d,
		                     .more = rounds ? g->scratch : NULL,
		                     .of_edges = a->edge_weight ? g->of_edges : NULL};
		sum_slopes(&s, g);
	}
}

// ∂edge_weight of dot products: a batch's Σ_e features_ef · (∂s_e,head · target_c + α_e,head·mask · g_c).
INLINE void dot_weight_block(const values *x, const batch *b, const group *g, const elem *target,
                             const elem *grad, float *sums, int64_t v0, const int nb, const int tail) {
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
	for (batches_of(&b, a, lo, hi, 0, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2), 0);
	     next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, DOT);
		const row_sum sum = {.of = runs_of(&b, g), .rows = a->key + g->from, .cols = cols, .coef = x.s2,
		                     .z = place_of(a->d_target, a->d_type, g), .stride = cols, .extension = EXTENDED,
		                     .of_edges = a->edge_weight ? g->of_edges : NULL, .edge_stride = g->vectors * VW};
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
	for (batches_of(&b, a, lo, hi, 1, places_of(g->heads), 0, bytes_of_edge(a, g->vectors, 2), 0);
	     next_batch(&b, 0);) {
		v2_coefficients(&x, &b, a, g, DOT);
		row_sum sum = {.of = runs_of(&b, g), .rows = a->g + g->from, .cols = cols, .coef = x.s,
		               .z = place_of(a->d_source, a->d_type, g), .stride = cols, .extension = EXTENDED};
		sum_rows(&sum);
		sum.rows = a->target + g->from;
		sum.coef = x.s2;
		sum.z = place_of(a->d_key, a->d_type, g);
		sum.z.open = g->open2;
		sum_rows(&sum);
	}
}
