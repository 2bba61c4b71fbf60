// Kernels over the columns of a group of heads, one head after another: sums of gathered rows with a
// coefficient for each edge and head, and dot products with gathered rows. The loop over a run's edges is the
// inner one, so that sums stay in registers.

// A group of at most VW heads, whose columns are taken as vectors. If VW does not divide the number of
// columns, the last vector has `tail` lanes. The groups of a layer have VW heads, but for the last one. A
// kernel that computes some heads of a layer groups them as the layer does.
typedef struct {
	int64_t head, from, width; // first head, first column, columns of a head
	int heads, vectors, tail;
	int layer_heads, layer_places; // of the layer's group: its heads, and the places of an edge
	const int32_t *head_of; // the head of each column, within the group; 0 behind the last
	float *scratch;      // a row for each run of a batch, in CACHE bytes, or one row
	float *open, *open2; // a row each
	// a row for each edge of a batch, computed from its features; only if there is an edge_weight
	float *of_edges;
} group;

static inline int64_t vectors_of_heads(int64_t heads, int64_t width) { return (heads * width + VW - 1) / VW; }

// The bytes of a row of floats, and of a row of elements.
static inline int64_t row_bytes(const group *g) { return g->vectors * sizeof(vf); }
static inline int64_t elem_bytes(int64_t vectors) { return vectors * VW * sizeof(elem); }

// The place of the group's sums in z, from the group's first column on.
static inline sum_place place_of(void *z, int type, const group *g) {
	return (sum_place){type == WEFT_BFLOAT16 ? (void *)((bfloat16 *)z + g->from) : (float *)z + g->from, type,
	                   g->open};
}

// The bytes of the second-level cache that an edge takes: `rows` rows of elements, and its row in of_edges. A
// batch with of_edges fills a quarter of that cache.
static inline int64_t bytes_of_edge(const weft_attention_args *a, int64_t vectors, int rows) {
	return rows * elem_bytes(vectors) + (a->edge_weight ? 4 * vectors * (int64_t)sizeof(vf) : 0);
}

// Prepares g for next_group. It takes a workspace.
static inline void first_group(group *g, const weft_attention_args *a) {
	const int64_t width = a->width, most = a->heads < VW ? a->heads : VW,
	              columns = weft_group_columns(a->heads, width);
	int32_t *head_of = weft_take_workspace(&a->workspaces);
	for (int64_t c = 0; c < columns; c++)
		head_of[c] = c < most * width ? c / width : 0;
	*g = (group){.width = width, .head_of = head_of, .open = (float *)(head_of + columns),
	             .open2 = (float *)(head_of + 2 * columns), .scratch = (float *)(head_of + 3 * columns),
	             .of_edges = (float *)((char *)head_of + weft_attention_workspace(a->heads, width, 0))};
}

// Moves g to the next group of heads. After the last group it leaves the workspace and returns 0.
static inline int next_group(group *g, const weft_attention_args *a) {
	g->head += g->heads;
	if (g->head >= a->heads) {
		weft_leave_workspace(&a->workspaces, g->head_of);
		return 0;
	}
	// the group's first head, and the first head of the layer's group, counted in the layer
	const int64_t at = a->first_head + g->head, begin = at / VW * VW;
	g->layer_heads = a->layer_heads - begin < VW ? a->layer_heads - begin : VW;
	g->layer_places = places_of(g->layer_heads);
	g->from = g->head * g->width;
	g->heads = begin + g->layer_heads - at < a->heads - g->head ? begin + g->layer_heads - at
	                                                            : a->heads - g->head;
	g->vectors = vectors_of_heads(g->heads, g->width);
	g->tail = g->heads * g->width % VW;
	return 1;
}

// The runs of a batch, for sums over a group's columns.
static inline row_runs runs_of(const batch *b, const group *g) {
	return (row_runs){b->run, b->runs, b->P, b->other, g->heads, g->width, g->head_of};
}

// Computes the rows of_edges of a batch: of_edges_ec = Σ_f features_ef · edge_weight_fc.
INLINE void edge_rows_block(const batch *b, const group *g, int64_t v0, const int nb, const int tail) {
	const weft_attention_args *a = b->a;
	const int64_t cols = a->heads * g->width;
	const float *weight = a->edge_weight + g->from + v0 * VW;
	for (const run *r = b->run; r < b->run + b->runs; r++)
		for (int e = 0; e < r->edges; e++) {
			const elem *features = features_of(a, r, e);
			vf acc[BLOCK];
			for (int v = 0; v < nb; v++)
				acc[v] = (vf){0};
			for (int64_t f = 0; f < a->feature_columns; f++)
				for (int v = 0; v < nb; v++)
					acc[v] += number(features + f) * load_block(weight + f * cols, v, nb, tail);
			float *to = g->of_edges + (r->at + e) * g->vectors * VW + v0 * VW;
			for (int v = 0; v < nb; v++)
				store_block(to, acc[v], v, nb, tail);
		}
}

static __attribute__((noinline, noclone)) void edge_rows(const batch *b, const group *g) {
	EACH_BLOCK(g->vectors, g->tail, edge_rows_block, b, g)
}

// sums_fc += features_f · d_c for one edge and a block of columns. Rows of sums are cols apart.
INLINE void add_outer(float *sums, int64_t cols, const elem *features, int64_t count, const vf *d,
                      const int nb, const int tail) {
	for (int64_t f = 0; f < count; f++, sums += cols) {
		vf x[BLOCK];
		for (int v = 0; v < nb; v++)
			x[v] = number(features + f) * d[v];
		add_block(sums, x, nb, tail);
	}
}

// Sums of GATv2's backward pass. z has a row for each run, and z2 has one row over all runs:
//   z_c  += a_c · Σ_e coef_e,head · LeakyReLU'(t_ec)
//   z2_c += Σ_e coef_e,head · LeakyReLU(t_ec),  t_ec = row_ec + fixed_c
// With d = coef·LeakyReLU'(t) the second sum is computed as Σ d·row + fixed·Σ d, which takes one product for
// each run. It loses digits if row and fixed are far larger than t. No run is empty.
typedef struct {
	const batch *b;
	const elem *rows;  // of the other ends
	const elem *fixed; // of the runs' rows
	const float *a;
	int64_t cols;
	float slope;
	const float *coef; // from the batch's first edge on
	sum_place z;       // of the runs' rows
	const float *more; // for each run a row of the group's vectors, which is also added to z; may be NULL
	float *z2;         // one row, may be NULL
	// with features: a row of the group's vectors for each edge of the batch, which is added to t. Else NULL.
	const float *of_edges;
	// features_ef · coef_e,head · LeakyReLU'(t_ec) is added here, over all edges; may be NULL
	float *weight;
} slope_sum;

// The row of of_edges of edge e of a run, from the block's first column on.
INLINE const float *edge_row(const float *of_edges, const group *g, const run *r, int64_t e, int64_t v0) {
	return of_edges + ((r->at + e) * g->vectors + v0) * VW;
}

// sum_slopes over the block of columns that begins with vector v0.
INLINE void slope_block(const slope_sum *s, const group *g, const int two, int64_t v0, const int nb,
                        const int tail) {
	const batch *b = s->b;
	const int P = b->P, features = s->of_edges != NULL;
	vf acc2[BLOCK], slope = all(s->slope);
	vi head[BLOCK];
	for (int v = 0; v < nb; v++) {
		head[v] = lane_heads(g->head_of, v0, v, nb, tail);
		acc2[v] = (vf){0};
	}
	for (const run *r = b->run; r < b->run + b->runs; r++) {
		const elem *fixed = s->fixed + r->row * s->cols + v0 * VW;
		const float *coef = s->coef + r->at * P;
		vf acc[BLOCK], slopes[BLOCK], below[BLOCK]; // t > 0 if the row is above −fixed
		for (int v = 0; v < nb; v++) {
			acc[v] = (vf){0};
			below[v] = -load_block(fixed, v, nb, tail);
		}
		for (int e = 0; e < r->edges; e++) {
			const elem *row = s->rows + b->other[r->at + e] * s->cols + v0 * VW;
			vf all_c = load(coef + e * P);
			IN_REGISTER(all_c);
			for (int v = 0; v < nb; v++) {
				vf x = load_block(row, v, nb, tail), c = __builtin_shuffle(all_c, head[v]);
				if (features)
					x += load_block(edge_row(s->of_edges, g, r, e, v0), v, nb, tail);
				if (two)
					IN_REGISTER(x);
				vf d = where_greater(x, below[v], c, c * slope);
				acc[v] += d;
				if (two)
					acc2[v] += d * x;
				slopes[v] = d;
			}
			if (features && two)
				add_outer(s->weight + v0 * VW, s->cols, features_of(b->a, r, e), b->a->feature_columns,
				          slopes, nb, tail);
		}
		for (int v = 0; v < nb; v++) {
			if (two)
				acc2[v] -= acc[v] * below[v];
		}
		const int64_t z = r->row * s->cols + v0 * VW;
		vf old[BLOCK];
		load_sum(old, &s->z, r, z, v0, nb, tail);
		if (s->more)
			for (int v = 0; v < nb; v++)
				old[v] += load_block(s->more + (r - b->run) * g->vectors * VW + v0 * VW, v, nb, tail);
		for (int v = 0; v < nb; v++)
			acc[v] = acc[v] * load_block(s->a + v0 * VW, v, nb, tail) + old[v];
		store_sum(&s->z, r, z, v0, acc, nb, tail);
	}
	if (two)
		add_block(s->z2 + v0 * VW, acc2, nb, tail);
}

static __attribute__((noinline, noclone)) void sum_slopes(const slope_sum *s, const group *g) {
	if (s->z2) {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 1)
	} else {
		EACH_BLOCK(g->vectors, g->tail, slope_block, s, g, 0)
	}
}

// Products, for each head, of the rows at the other ends with the rows of the runs. Both kinds are computed
// in one pass if both are wanted:
//   score_e = Σ_c a_c · LeakyReLU(row_ec + target_c)
//   dot_e   = Σ_c row_ec · factor_c
// If the rows are those of targets, `target` stands for the source: the sum is the same. With features, each
// edge has a row of its own. In a score it is added to row_ec. In a dot product it is added to row_ec, or to
// factor_c if that is the source's.
enum edge_rows { NO_EDGE_ROWS, WITH_ROWS, WITH_FACTOR };
typedef struct {
	const batch *b;
	const elem *rows, *target, *factor;
	int64_t cols;
	const float *a;
	float slope;
	float *score, *dot; // from the batch's first edge on; one may be NULL, and is with rows of edges
	enum edge_rows edge;
} dot_rows;

// The values that the edges of a run share, for the columns of a vector.
typedef struct {
	vf a, target, factor;
} fixed_part;

// The variant of the loop over edges: which products are computed, and of which columns. A head has `full`
// whole vectors, and `tail` more columns. With pairs, two heads of half a vector each are taken as one. With
// few, one head has few vectors, and the values in `fixed` stay in registers.
typedef struct {
	int score, dot, few, pairs;
	enum edge_rows edge;
	int places;               // places of an edge: its heads, or pairs of heads
	int heads, full, tail;
	int64_t vectors, ahead;
	const elem *target, *factor;  // the run's rows
	const int32_t *other, *far;   // the run's other ends
	const float *of_edges;        // from the run's first edge on
	fixed_part fixed[3];
} products;

INLINE fixed_part fixed_at(const dot_rows *d, const products *p, int64_t c, const int lanes) {
	fixed_part f = {{0}};
	if (p->score) {
		f.a = part(d->a + c, lanes);
		f.target = part(p->target + c, lanes);
	}
	if (p->dot)
		f.factor = part(p->factor + c, lanes);
	return f;
}

// Adds the products of `lanes` columns from c on to *score and *dot.
INLINE void add_products(vf *score, vf *dot, const dot_rows *d, const products *p, const elem *row,
                         const float *of_edge, int64_t c, fixed_part f, const int lanes) {
	vf x = part(row + c, lanes);
	if (p->edge == WITH_ROWS)
		x += part(of_edge + c, lanes);
	if (p->edge == WITH_FACTOR)
		f.factor += part(of_edge + c, lanes);
	if (p->score)
		*score += f.a * leaky_v(x + f.target, all(d->slope));
	if (p->dot)
		*dot += x * f.factor;
}

// The products of edge e of a run. score[h] and dot[h] become vectors, whose lanes add up to the products of
// head h.
INLINE void edge_products(vf *score, vf *dot, const dot_rows *d, const products *p, int64_t e) {
	const elem *row = d->rows + p->other[e] * d->cols, *later = d->rows + p->far[e + p->ahead] * d->cols;
	const float *of_edge = p->of_edges + e * p->vectors * VW;
	int64_t c = 0;
	__asm__("" : "+r"(row), "+r"(later)); // two addresses with constant offsets
	for (int64_t at = 0; at < p->vectors * VW; at += 64 / sizeof(elem))
		__builtin_prefetch(later + at);
	for (int h = 0; h < p->heads; h++) {
		vf s = {0}, t = {0};
		for (int k = 0; k < p->full; k++, c += VW)
			add_products(&s, &t, d, p, row, of_edge, c, p->few ? p->fixed[k] : fixed_at(d, p, c, VW), VW);
		if (p->tail) {
			add_products(&s, &t, d, p, row, of_edge, c,
			             p->few ? p->fixed[p->full] : fixed_at(d, p, c, p->tail), p->tail);
			c += p->tail;
		}
		if (p->score)
			score[h] = s;
		if (p->dot)
			dot[h] = t;
	}
}

// Several edges are taken together, so that their heads fill a vector. Each lane of that vector is the sum
// over the lanes of one head's products. Four such sums are made at a time where possible.
INLINE void dots_of(const dot_rows *d, const group *g, products p) {
	const batch *b = d->b;
	// edges_per_vector: edges whose products are added up together; at_once: how many of them have four sums
	const int P = p.pairs ? 2 * p.places : p.places, edges_per_vector = edges_of_vector(P),
	          at_once = p.places < 4 ? 4 / p.places : 1;
	vf s[VW] = {{0}}, t[VW] = {{0}};                // stays zero in places of no head
	// places of no edge keep earlier values, which nobody reads
	vf score[VW / 4] = {{0}}, dot[VW / 4] = {{0}};
	p.ahead = ahead_of(elem_bytes(p.vectors));
	// wide rows come from memory a tenth sooner if they are prefetched twice as early as for sums
	if (p.ahead < 32)
		p.ahead = 2 * p.ahead < 32 ? 2 * p.ahead : 32;
	for (const run *r = b->run; r < b->run + b->runs; r++) {
		p.target = d->target + r->row * d->cols;
		p.factor = d->factor + r->row * d->cols;
		p.other = b->other + r->at;
		p.of_edges = g->of_edges + r->at * p.vectors * VW;
		p.far = r->far;
		if (p.few) {
			for (int k = 0; k < p.full; k++)
				p.fixed[k] = fixed_at(d, &p, k * VW, VW);
			if (p.tail)
				p.fixed[p.full] = fixed_at(d, &p, p.full * VW, p.tail);
		}
		for (int64_t e = 0; e < r->edges; e += edges_per_vector) {
			const int edges = lesser(edges_per_vector, r->edges - e);
			// behind the last edge of a row the last one is repeated
			for (int i = 0; i < edges; i += at_once) {
				for (int j = 0; j < at_once; j++)
					edge_products(s + j * p.places, t + j * p.places, d, &p, e + i + j);
				for (int k = 0; k < at_once * p.places; k += 4) {
					if (p.score)
						score[(i * p.places + k) / 4] = sums_of_four(s + k);
					if (p.dot)
						dot[(i * p.places + k) / 4] = sums_of_four(t + k);
				}
			}
			if (p.score)
				store(d->score + (r->at + e) * P, p.pairs ? in_order(across_halves(score)) : across(score));
			if (p.dot)
				store(d->dot + (r->at + e) * P, p.pairs ? in_order(across_halves(dot)) : across(dot));
		}
	}
}

// The number of vectors of a head is a constant for the common widths. The number of heads is a constant if
// it is one or four. Without these constants "attention v2" of widths 64, 128 and 256 takes between a half
// and twice longer.
INLINE void dots_without_edges(const dot_rows *d, const group *g, const int score, const int dot) {
	const int P = d->b->P, heads = g->heads, full = g->width / VW, tail = g->width % VW;
	const int64_t vectors = g->vectors;
	if (heads == 8 && in_pairs(8, g->width))
		dots_of(d, g, (products){score, dot, .pairs = 1, .places = 4, .heads = 4, .full = 1, .vectors = 4});
	else if (heads == P && in_pairs(P, g->width))
		dots_of(d, g,
		        (products){score, dot, .pairs = 1, .places = P / 2, .heads = P / 2, .full = 1,
		                   .vectors = vectors});
	else if (heads == 1 && REGISTERS >= 16 && full == 0)
		dots_of(d, g, (products){score, dot, .few = 1, .places = 1, .heads = 1, .tail = tail, .vectors = 1});
	else if (heads == 1 && REGISTERS >= 16 && full == 1)
		dots_of(d, g,
		        (products){score, dot, .few = 1, .places = 1, .heads = 1, .full = 1, .tail = tail,
		                   .vectors = vectors});
	else if (heads == 1 && REGISTERS >= 16 && full == 2)
		dots_of(d, g,
		        (products){score, dot, .few = 1, .places = 1, .heads = 1, .full = 2, .tail = tail,
		                   .vectors = vectors});
	else if (heads == 4 && !tail && full == 1)
		dots_of(d, g, (products){score, dot, .places = 4, .heads = 4, .full = 1, .vectors = 4});
	else if (heads == 4 && !tail && full == 2)
		dots_of(d, g, (products){score, dot, .places = 4, .heads = 4, .full = 2, .vectors = 8});
	else if (!tail && full == 1)
		dots_of(d, g, (products){score, dot, .places = P, .heads = heads, .full = 1, .vectors = vectors});
	else if (!tail && full == 2)
		dots_of(d, g, (products){score, dot, .places = P, .heads = heads, .full = 2, .vectors = vectors});
	else if (!tail && full == 4)
		dots_of(d, g, (products){score, dot, .places = P, .heads = heads, .full = 4, .vectors = vectors});
	else
		dots_of(d, g,
		        (products){score, dot, .places = P, .heads = heads, .full = full, .tail = tail,
		                   .vectors = vectors});
}

static __attribute__((noinline, noclone)) void dots(const dot_rows *d, const group *g) {
	products of_edges = {.edge = d->edge, .places = d->b->P, .heads = g->heads, .full = g->width / VW,
	                     .tail = g->width % VW, .vectors = g->vectors};
	of_edges.score = !d->dot;
	of_edges.dot = !of_edges.score;
	if (d->edge)
		dots_of(d, g, of_edges);
	else if (!d->dot)
		dots_without_edges(d, g, 1, 0);
	else if (d->score)
		dots_without_edges(d, g, 1, 1);
	else
		dots_without_edges(d, g, 0, 1);
}
