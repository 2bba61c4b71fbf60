// The gradients over destinations for edges with features. They have sums over all edges: ∂edge_vector of
// GATv1, and ∂edge_weight of the others. A warp has sum_rows rows, or one segment, and some of their heads.
// It has sums of its own, to which it adds after each batch of edges. These sums are merged in order.
#pragma once
#include "attend_dot.cuh"

enum { EDGE_FEATURES = 2 }; // features that are summed at a time

// The number of the sums to which a warp adds. The warp has piece `piece` of the rows.
DEVICE int64_t sums_of_piece(const over_rows<weft_attention_args> &l, int64_t piece, int) {
	return l.a.first_sum + l.first / l.a.sum_rows + piece;
}
DEVICE int64_t sums_of_piece(const over_segments<weft_attention_args> &l, int64_t, int partial) {
	return l.a.first_sum + partial;
}

// GATv1: ds = ∂t of the batch's edges. Returns the lane's part of Σ ∂t for its head.
template <typename W> DEVICE float v1_coefficients(W &w, shared_cell<float> *ds, int k) {
	const attend_packed own(w, w.row, w.has_head());
	row_products<NO_EDGES>(w, ds, w.a.source, w.a.g);
	w.score_features();
	const unsigned kept = w.template kept<false>(k);
	float total = 0;
	for (int place = w.lane; place < 32 * w.places; place += 32) {
		const int e = place / w.places;
		const float keep = w.keep(kept, place);
		float dt = 0;
		if (e < w.n && w.has_head()) {
			const float t = w.a.source_score[w.at_head(w.other[e])] + own.target_score + w.coef[place];
			const float rise = t > 0 ? 1.0f : w.a.slope;
			dt = exponential(t * rise - own.log_sum) * (keep * ds[place] - own.g_dot_out) * rise;
		}
		ds[place] = dt, total += dt;
	}
	__syncwarp();
	return total;
}

// d_fh += Σ_e ∂t_eh · features_ef. A lane has its own head. The lanes of a head share the features: 32/places
// at a time.
template <typename W> DEVICE void add_edge_vector(const W &w, const shared_cell<float> *ds, double *d) {
	for (int f = w.lane / w.places; w.has_head() && f < (int)w.a.feature_columns; f += 32 / w.places) {
		float sum = 0;
		UNROLL_BY(1) for (int e = 0; e < w.n; e++)
			sum = fmaf(number(w.features_of(e)[f]), ds[e * w.places + w.lane % w.places], sum);
		d[w.at_head(f)] += sum;
	}
}

// ∂target_score and ∂edge_vector of GATv1.
template <typename vec, typename L> DEVICE void attend_back_target_edges(const L &l) {
	const weft_attention_args &a = l.a;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	const int64_t piece = w.take_heads(thread_number() / 32);
	for (int r = 0; r < (int)a.sum_rows; r++) {
		if (!w.take_row(l, piece * a.sum_rows + r))
			continue;
		double *d = a.d_edge_vector + sums_of_piece(l, piece, w.result) * a.sum_stride;
		float total = 0;
		for (int k = 0; k < w.edges; k += 32) {
			w.take_edges(k);
			total += v1_coefficients(w, ds, k);
			add_edge_vector(w, ds, d);
		}
		for (int with = 16; with >= w.places; with /= 2)
			total += __shfl_xor_sync(ALL, total, with);
		if (w.lane < w.heads) {
			float *to = a.d_target_score + w.at_head(w.result);
			*to = total + (w.adds ? *to : 0.0f);
		}
	}
}
EDGE_KERNELS(attend_back_target_edges, weft_attention_args, attend_back_target_edges)

// d_fc += Σ_e features_ef · x_ec over the batch's edges, for a lane's columns c. x(e, to) sets to = x_e, or
// returns false if it is 0.
template <typename W, typename F> DEVICE void add_edge_weight(const W &w, double *d, F x) {
	const int features = (int)w.a.feature_columns;
	UNROLL_BY(1) for (int f = 0; f < features; f += EDGE_FEATURES) {
		float sum[EDGE_FEATURES][4] = {};
		UNROLL_BY(1) for (int e = 0; e < w.n; e++) {
			float of[4];
			if (!x(e, of))
				continue;
			const auto *p = w.features_of(e) + f;
			UNROLL for (int i = 0; i < EDGE_FEATURES; i++) {
				const float feature = f + i < features ? number(p[i]) : 0.0f;
				UNROLL for (int j = 0; j < 4; j++)
					sum[i][j] = fmaf(feature, of[j], sum[i][j]);
			}
		}
		UNROLL for (int i = 0; i < EDGE_FEATURES; i++)
			if (f + i < features)
				UNROLL for (int j = 0; j < 4; j++)
					if (w.has(j))
						d[w.at(f + i) + (w.QUADS ? j : 32 * j)] += sum[i][j];
	}
}

// ∂target and ∂edge_weight of GATv2 or of dot products, and ∂a of GATv2.
template <typename vec, form FORM, typename L> DEVICE void back_target_weights(const L &l) {
	const weft_attention_args &a = l.a;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	const int64_t piece = w.take_heads(thread_number() / 32);
	for (int slab = 0; slab < w.slabs(); slab++)
		for (int r = 0; r < (int)a.sum_rows; r++) {
			if (!w.take_row(l, piece * a.sum_rows + r))
				continue;
			const int64_t sums = sums_of_piece(l, piece, w.result);
			double *d = a.d_edge_weight + sums * a.sum_stride;
			float sum[4] = {}, sum_a[4] = {};
			for (int k = 0; k < w.edges; k += 32) {
				w.take_edges(k);
				if constexpr (FORM == V2) {
					scores(w, a.source, a.target);
					row_products<NO_EDGES>(w, ds, a.source, a.g);
					v2_coefficients<false>(w, ds, k);
					w.take_slab(slab);
					const own_columns own(w, a.target);
					w.template each_row<true>(ds, a.source, [&](float c, const float *x) {
						UNROLL for (int j = 0; j < 4; j++) {
							const float t = x[j] + own.x[j], d = t > 0 ? c : c * a.slope;
							sum[j] += d, sum_a[j] = fmaf(d, t, sum_a[j]);
						}
					});
					add_edge_weight(w, d, [&](int e, float (&of)[4]) {
						const float c = ds[e * w.places + w.of];
						float x[1][4];
						if (c == 0)
							return false;
						w.load(x[0], a.source, w.other[e]);
						w.add_edge_rows(x, e);
						UNROLL for (int j = 0; j < 4; j++)
							of[j] = (x[0][j] + own.x[j] > 0 ? c : c * a.slope) * own.a[j];
						return true;
					});
				} else {
					dot_coefficients(w, ds, k);
					w.take_slab(slab);
					w.template each_row<true>(ds, a.key, [&](float c, const float *x) {
						each(sum, [&](float s, int j) { return fmaf(c, x[j], s); });
					});
					const row_columns own(w, a.target), grad(w, a.g);
					add_edge_weight(w, d, [&](int e, float (&of)[4]) {
						const float alpha = w.coef[e * w.places + w.of], c = ds[e * w.places + w.of];
						UNROLL for (int j = 0; j < 4; j++)
							of[j] = fmaf(c, own.x[j], alpha * grad.x[j]);
						return true;
					});
				}
			}
			w.take_slab(slab);
			if constexpr (FORM == V2) {
				const own_columns own(w, a.target);
				each(sum, [&](float s, int j) { return own.a[j] * s; });
				const double da[4] = {sum_a[0], sum_a[1], sum_a[2], sum_a[3]};
				add_to_sums(w, sums, da);
			}
			w.add_to(a.d_target, a.d_type, sum);
		}
}
template <typename vec, typename L> DEVICE void attend_back_target_v2_edges(const L &l) {
	back_target_weights<vec, V2>(l);
}
template <typename vec, typename L> DEVICE void attend_back_target_dot_edges(const L &l) {
	back_target_weights<vec, DOT>(l);
}

// The variants for edges with features.
#define WEIGHT_KERNELS(name) \
	EDGE_KERNELS_OF(name##_float32_edges, weft_attention_args, name##_edges, single<float>) \
	EDGE_KERNELS_OF(name##_float32_vector_edges, weft_attention_args, name##_edges, vector<float>) \
	EDGE_KERNELS_OF(name##_bfloat16_edges, weft_attention_args, name##_edges, single<bfloat16>) \
	EDGE_KERNELS_OF(name##_bfloat16_vector_edges, weft_attention_args, name##_edges, vector<bfloat16>)
WEIGHT_KERNELS(attend_back_target_v2)
WEIGHT_KERNELS(attend_back_target_dot)
