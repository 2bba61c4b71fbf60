// Features of edges in GATv1: their part of the scores, and the gradient of edge_vector. attention.h has the
// equations.

enum { FEATURES = 8 }; // features of an edge that are processed together

// x with zeros in all lanes that are not places of edge i of the vector's edges.
INLINE vf of_edge(vf x, int i, const int P) { return (vf)((vi)x & (numbers(0) >> __builtin_ctz(P) == i)); }

// x_eh += Σ_f features_ef · edge_vector_fh, for the batch's edges e and n features f from number `from` on.
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

// d_fh += Σ_e x_eh · features_ef, for the same edges and features.
INLINE void sum_features(double *d, const float *x, const batch *b, const group *g, int64_t from, const int n,
                         const int P) {
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

// Calls f for FEATURES features at a time. Their number is a constant, but for the last ones.
#define EACH_FEATURES(f, ...) \
	for (int64_t from = 0, rest = b->a->feature_columns; rest > 0; from += FEATURES, rest -= FEATURES) \
		if (rest >= FEATURES) \
			f(__VA_ARGS__, from, FEATURES, P); \
		else \
			f(__VA_ARGS__, from, rest, P);

// Adds the features' part to the scores x of the batch's edges.
INLINE void edge_scores(float *x, const batch *b, const group *g,
                        const int P) {
	EACH_FEATURES(add_features, x, b, g)
}

// Adds ∂edge_vector of the batch's edges to d. x has their ∂t.
INLINE void edge_vector_gradient(double *d, const float *x, const batch *b, const group *g, const int P) {
	EACH_FEATURES(sum_features, d, x, b, g)
}
