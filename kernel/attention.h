// Softmax attention over in-edges without a tensor that has an entry per edge. Per destination i and head h over the edges
// j→i, with mask_ij from attention dropout (1 without):
//   GATv1: t_ij = source_score_j + target_score_i, s_ij = LeakyReLU(t_ij)
//   GATv2: s_ij = Σ_c a_c · LeakyReLU(source_jc + target_ic)
//   o_i = Σ_j α_ij · mask_ij · source_j,  α = softmax_j(s)
// Forward extends the state (maximum m, sum d = Σ exp(s−m), z = Σ exp(s−m)·mask·source), so the edges may come in any number of
// blocks (Milakov & Gimelshein's online softmax). Backward recomputes α = exp(s − log_sum):
//   ∂α_ij = mask_ij·⟨g_i, source_j⟩ ; ∂s_ij = α_ij·(∂α_ij − ⟨g_i, o_i⟩)
//   ∂source_j += Σ_i α_ij·mask_ij·g_i ; GATv1: ∂t = ∂s·LeakyReLU'(t), summed over i or j ; GATv2: ∂s·a_c·LeakyReLU'(·) per column

enum { CHUNK = 64 }; // edges whose scores are held at a time

static inline float leaky(float t, float slope) { return t > 0 ? t : slope * t; }

// Σ_c a_c · LeakyReLU(x_c + y_c)
static inline float score2(const float *a, const float *x, const float *y, int64_t n, float slope) {
	vf s = {0};
	vf sl = all(slope);
	for (int64_t c = 0; c < n; c += VW) {
		int left = n - c < VW ? n - c : VW;
		vf t = load_n(x + c, left) + load_n(y + c, left);
		vi positive = t > (vf){0};
		s += load_n(a + c, left) * (vf)(((vi)t & positive) | ((vi)(t * sl) & ~positive));
	}
	return lane_sum(s);
}

// One edge: its source and target rows and the occurrence number among equal edges.
typedef struct {
	int32_t source, target;
	uint32_t occurrence;
} edge;

static inline float edge_mask(const weft_attention_args *a, edge e, int64_t head) {
	if (!a->mask.threshold)
		return 1.0f;
	float keep[8];
	uint32_t s = a->source_ids ? a->source_ids[e.source] : e.source, t = a->target_ids ? a->target_ids[e.target] : e.target;
	mask_edge(keep, &a->mask, s, t, e.occurrence, head / 8);
	return keep[head % 8];
}

// Fills list with up to CHUNK edges of the row from position *k on (the row's self loops come after its edges) and returns how
// many. Rows of the transposed matrix hold targets.
static inline int edges(const weft_attention_args *a, int64_t row, int64_t *k, edge *list, int transposed) {
	int64_t lo = a->indptr[row], hi = a->indptr[row + 1], end = hi + (a->loops ? a->loops[row] : 0);
	int n = 0;
	for (; *k < end && n < CHUNK; ++*k, n++) {
		int32_t other = *k < hi ? a->indices[*k] : row;
		uint32_t occurrence = 0;
		if (a->mask.threshold) {
			if (*k >= hi)
				occurrence = *k - hi;
			else
				for (int64_t b = *k; b > lo && a->indices[b - 1] == other; b--)
					occurrence++;
		}
		list[n] = transposed ? (edge){row, other, occurrence} : (edge){other, row, occurrence};
	}
	return n;
}

// s_ij of one head; *t is GATv1's score before LeakyReLU.
static inline float score(const weft_attention_args *a, edge e, int64_t h, float *t) {
	int64_t H = a->heads, W = a->width;
	if (a->target)
		return score2(a->a + h * W, a->source + (e.source * H + h) * W, a->target + (e.target * H + h) * W, W, a->slope);
	*t = a->source_score[e.source * H + h] + a->target_score[e.target * H + h];
	return leaky(*t, a->slope);
}

static void k_attend(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	int64_t H = a->heads, W = a->width;
	edge list[CHUNK];
	float p[CHUNK], t;
	for (int64_t i = lo; i < hi; i++) {
		int64_t k = a->indptr[i];
		for (int n; (n = edges(a, i, &k, list, 0)) > 0;)
			for (int64_t h = 0; h < H; h++) {
				float *z = a->z + (i * H + h) * W, *m = a->maximum + i * H + h, *d = a->sum + i * H + h, top = *m;
				for (int e = 0; e < n; e++) {
					p[e] = score(a, list[e], h, &t);
					top = p[e] > top ? p[e] : top;
				}
				if (top > *m) {
					float c = exp1(*m - top);
					*d *= c;
					for (int64_t w = 0; w < W; w++)
						z[w] *= c;
					*m = top;
				}
				for (int e = 0; e < n; e++)
					p[e] -= top;
				exp_all(p, n);
				for (int e = 0; e < n; e++) {
					*d += p[e];
					axpy(z, p[e] * edge_mask(a, list[e], h), a->source + (list[e].source * H + h) * W, W);
				}
			}
	}
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

// α_ij, and ∂s_ij through *ds.
static inline float coefficient(const weft_attention_args *a, edge e, int64_t h, float *ds, float *mask) {
	int64_t H = a->heads, W = a->width, i = e.target * H + h;
	float t = 0, alpha = exp1(score(a, e, h, &t) - a->log_sum[i]);
	*mask = edge_mask(a, e, h);
	*ds = alpha * (*mask * dot(a->g + i * W, a->source + (e.source * H + h) * W, W) - a->g_dot_out[i]);
	if (!a->target && t <= 0)
		*ds *= a->slope;
	return alpha;
}

// y_c += ds·a_c·LeakyReLU'(x_c + v_c)
static inline void add_score2_gradient(float *y, const weft_attention_args *a, edge e, int64_t h, float ds) {
	int64_t W = a->width;
	const float *x = a->source + (e.source * a->heads + h) * W, *v = a->target + (e.target * a->heads + h) * W, *att = a->a + h * W;
	for (int64_t c = 0; c < W; c++)
		y[c] += ds * att[c] * (x[c] + v[c] > 0 ? 1.0f : a->slope);
}

// Over destinations: ∂target_score (GATv1); ∂target, and ∂a per tile (GATv2). Runs over tiles of destination rows.
static void k_attend_back_target(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	int64_t H = a->heads, W = a->width;
	edge list[CHUNK];
	for (int64_t i = lo; i < hi; i++) {
		int64_t k = a->indptr[i], tile = i / WEFT_TILE;
		for (int n; (n = edges(a, i, &k, list, 0)) > 0;)
			for (int64_t h = 0; h < H; h++)
				for (int e = 0; e < n; e++) {
					float ds, mask;
					coefficient(a, list[e], h, &ds, &mask);
					if (!a->target) {
						a->d_target_score[i * H + h] += ds;
						continue;
					}
					add_score2_gradient(a->d_target + (i * H + h) * W, a, list[e], h, ds);
					double *da = a->d_a + (tile * H + h) * W;
					const float *x = a->source + (list[e].source * H + h) * W, *y = a->target + (i * H + h) * W;
					for (int64_t c = 0; c < W; c++)
						da[c] += ds * leaky(x[c] + y[c], a->slope);
				}
	}
}

// Over sources, on the transposed matrix: ∂source, and ∂source_score (GATv1).
static void k_attend_back_source(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	int64_t H = a->heads, W = a->width;
	edge list[CHUNK];
	for (int64_t j = lo; j < hi; j++) {
		int64_t k = a->indptr[j];
		for (int n; (n = edges(a, j, &k, list, 1)) > 0;)
			for (int64_t h = 0; h < H; h++) {
				float *dx = a->d_source + (j * H + h) * W;
				for (int e = 0; e < n; e++) {
					float ds, mask, alpha = coefficient(a, list[e], h, &ds, &mask);
					axpy(dx, alpha * mask, a->g + (list[e].target * H + h) * W, W);
					if (a->target)
						add_score2_gradient(dx, a, list[e], h, ds);
					else
						a->d_source_score[j * H + h] += ds;
				}
			}
	}
}
