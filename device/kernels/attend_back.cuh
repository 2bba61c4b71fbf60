// The gradients of GATv1. Edges are taken as attend.cuh says.
#pragma once
#include "attend.cuh"

// pack_i = (log_sum_i, ⟨g_i, o_i⟩, target_score_i, –), each for all heads. A thread has a head of a row.
KERNEL(attend_pack_float32, weft_attention_args) {
	const int64_t H = l.a.heads, k = l.first * H + thread_number();
	if (k >= l.last * H)
		return;
	float *p = l.a.pack + k / H * WEFT_PACK * H + k % H;
	p[0] = l.a.log_sum[k], p[H] = l.a.g_dot_out[k], p[2 * H] = l.a.target_score ? l.a.target_score[k] : 0.0f;
}

// So many edges of a row share a dot product, so that a long row does not lose digits by cancellation.
enum { BACK_EDGES = 256 };

// The values of a destination that the backward pass needs, for the lane's head; zeros if it has none.
struct attend_packed {
	float log_sum, g_dot_out, target_score;
	template <typename W> DEVICE attend_packed(const W &w, int row, bool some) {
		const int heads = (int)w.a.heads;
		const float *p = w.a.pack + w.at_head(0) + (int64_t)row * (WEFT_PACK * heads);
		log_sum = some ? p[0] : 0, g_dot_out = some ? p[heads] : 0, target_score = some ? p[2 * heads] : 0;
	}
};

// Σ_c x_c · sum_c over the columns of SLABS slabs from number `slab` on, for each head. Lane l gets the
// result of head l mod places. x are the row's columns in a matrix.
template <typename W>
DEVICE float column_products(W &w, int slab, const void *matrix, const float (&sum)[W::SLABS][4]) {
	__syncwarp();
	w.each_slab(slab, [&](int i) {
		float x[4];
		w.load(x, matrix, w.row);
		UNROLL for (int j = 0; j < 4; j++)
			w.coef[i * ATTEND_COLUMNS + w.column(j)] = w.has(j) ? x[j] * sum[i][j] : 0.0f;
	});
	__syncwarp();
	const int left = w.heads * w.width - slab * ATTEND_COLUMNS;
	const int width = min(min(w.width, left), W::SLABS * ATTEND_COLUMNS);
	float dot = 0;
	for (int c = w.lane / w.places; c < width && w.has_head(); c += 32 / w.places)
		dot += w.coef[w.lane % w.places * width + c];
	for (int with = 16; with >= w.places; with /= 2)
		dot += __shfl_xor_sync(ALL, dot, with);
	return dot;
}

// The coefficients of ∂target_score: ±α for edges on one side of LeakyReLU's knee, and 0 for the others. The
// mask is multiplied afterwards. sum += Σ ±α.
template <int P, typename W> DEVICE void one_side(const W &w, const attend_packed &own, float &sum) {
	float s[P];
	w.each_place(s, 0, [&](int e, int) {
		const float t = w.a.source_score[w.at_head(w.other[e])] + own.target_score;
		const float alpha = exponential((t > 0 ? t : t * w.a.slope) - own.log_sum), up = t > 0 ? alpha : 0.0f;
		return own.target_score > 0 ? up - alpha : up;
	});
	w.set_coefficients(s);
	sum += over_edges<P>(s);
}

// ∂target_score, from the edges on one side. The sign of target_score selects the side, as mostly fewer edges
// are on it.
template <typename vec, typename L> DEVICE void attend_back_target(const L &l) {
	const weft_attention_args &a = l.a;
	attention<vec, ATTEND_SLABS> w(a);
	if (!w.take(l))
		return;
	const attend_packed own(w, w.row, w.has_head());
	float d = 0;
	for (int slab = 0; slab < w.slabs(); slab += w.SLABS)
		for (int from = 0; from < w.edges; from += BACK_EDGES) {
			float sum[w.SLABS][4] = {}, side = 0;
			for (int k = from; k < w.edges && k < from + BACK_EDGES; k += 32) {
				w.take_edges(k);
				OF_PLACES(w.places, one_side, w, own, side)
				w.template drop<false>(k);
				w.each_slab(slab, [&](int i) { w.add_rows(sum[i], a.source); });
			}
			d += column_products(w, slab, a.g, sum) - (slab ? 0.0f : side * own.g_dot_out);
		}
	if (w.lane >= w.heads)
		return;
	float *to = a.d_target_score + w.at_head(w.result);
	*to = fmaf(1 - a.slope, d, w.adds ? *to : 0.0f);
}
EDGE_KERNELS(attend_back_target, weft_attention_args, attend_back_target)

// The coefficients of ∂source: α, negative if t ≤ 0; sum += Σ α·LeakyReLU'(t)·⟨g_i, o_i⟩. The mask is
// multiplied afterwards.
template <int P, typename W> DEVICE void both_sides(const W &w, float source_score, float &sum) {
	float s[P], d[P] = {};
	w.each_place(s, 0, [&](int e, int v) {
		const attend_packed target(w, w.other[e], true);
		const float t = target.target_score + source_score + w.of_features(v),
		            rise = t > 0 ? 1.0f : w.a.slope;
		const float alpha = exponential(t * rise - target.log_sum);
		d[v] = alpha * rise * target.g_dot_out;
		return t > 0 ? alpha : -alpha;
	});
	w.set_coefficients(s);
	sum += over_edges<P>(d);
}

// ∂source and ∂source_score, on the transposed matrix.
template <typename vec, typename L> DEVICE void attend_back_source(const L &l) {
	const weft_attention_args &a = l.a;
	attention<vec, ATTEND_SLABS> w(a);
	if (!w.take(l))
		return;
	const float source_score = w.has_head() ? a.source_score[w.at_head(w.row)] : 0.0f;
	float d = 0;
	for (int slab = 0; slab < w.slabs(); slab += w.SLABS) {
		float sum[w.SLABS][4] = {};
		for (int from = 0; from < w.edges; from += BACK_EDGES) {
			float sum2[w.SLABS][4] = {}, less = 0;
			for (int k = from; k < w.edges && k < from + BACK_EDGES; k += 32) {
				w.take_edges(k);
				w.score_features();
				OF_PLACES(w.places, both_sides, w, source_score, less)
				w.template drop<true>(k);
				w.each_slab(slab, [&](int i) {
					w.each_row(w.coef, a.g, [&](float c, const float *x) {
						const float c2 = c < 0 ? -c * a.slope : c;
						each(sum[i], [&](float s, int j) { return fmaf(fabsf(c), x[j], s); });
						each(sum2[i], [&](float s, int j) { return fmaf(c2, x[j], s); });
					});
				});
			}
			d += column_products(w, slab, a.source, sum2) - (slab ? 0.0f : less);
		}
		w.each_slab(slab, [&](int i) { w.add_to(a.d_source, a.d_type, sum[i]); });
	}
	if (w.lane < w.heads) {
		float *to = a.d_source_score + w.at_head(w.result);
		*to = d + (w.adds ? *to : 0.0f);
	}
}
EDGE_KERNELS(attend_back_source, weft_attention_args, attend_back_source)
