// The forward pass over rows, batch by batch. attention.h has the equations.

enum form { V1, V2, DOT };

// The forward pass of rows lo … hi−1 for one group of heads.
INLINE void attend_group(const group *g, const weft_attention_args *a, int64_t lo, int64_t hi,
                         const int products, enum form form, const int P) {
	int64_t H = a->heads, cols = H * a->width;
	float rest[VW];
	values x;
	batch b;
	const int rows = form == DOT ? 2 : 1;
	batches_of(&b, a, lo, hi, 0, P, H * sizeof(float), products ? bytes_of_edge(a, g->vectors, rows) : 0, 0);
	// A row is cut at the same edges as with all of the layer's heads, because m changes there. Heads of
	// GATv2 are whole groups of the layer.
	b.most_of_row = most_edges(
	    g->layer_places, products ? bytes_of_edge(a, vectors_of_heads(g->layer_heads, g->width), rows) : 0);
	while (next_batch(&b, a->first || a->last)) {
		for (int k = 0; k < b.runs; k++) { // for runs without a vector
			x.top[k] = all(-INFINITY);
			x.sum[k] = (vf){0};
		}
		if (products && a->edge_weight)
			edge_rows(&b, g);
		if (products && form == V2) {
			const dot_rows d = {.b = &b, .rows = a->source + g->from, .target = a->target + g->from,
			                    .factor = a->target, .cols = cols, .a = a->a + g->from, .slope = a->slope,
			                    .score = x.s, .edge = a->edge_weight ? WITH_ROWS : NO_EDGE_ROWS};
			dots(&d, g);
		} else if (products) {
			const dot_rows d = {.b = &b, .rows = a->key + g->from, .target = a->target,
			                    .factor = a->target + g->from, .cols = cols, .dot = x.s,
			                    .edge = a->edge_weight ? WITH_ROWS : NO_EDGE_ROWS};
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
		const row_sum sum = {.of = runs_of(&b, g), .rows = a->source + g->from, .cols = cols, .coef = x.s,
		                     .z = place_of(a->z, a->z_type, g), .stride = cols,
		                     .extension = a->first ? FROM_ZERO_AT_FIRST : EXTENDED, .scale = x.scales,
		                     .of_edges = form == DOT && a->edge_weight ? g->of_edges : NULL,
		                     .edge_stride = g->vectors * VW};
		sum_rows(&sum);
	}
}
