// Attention by dot products (transformer): ⟨target_i, key_j⟩. An edge's own row is added to key_j and
// source_j. attend_v2.cuh says how products of rows are computed.
#pragma once
#include "attend_v2.cuh"

template <typename vec, typename L> DEVICE void attend_dot(const L &l) {
	attend_rows<vec, DOT>(l, [&](auto &w) {
		row_products<TO_OTHER>(w, w.coef, l.a.key, l.a.target);
	});
}
EDGE_KERNELS(attend_dot, weft_attention_args, attend_dot)

// α·mask in coef and ∂s in ds for the edges from number k on, over destinations.
template <typename W> DEVICE void dot_coefficients(W &w, shared_cell<float> *ds, int k) {
	row_products<TO_OTHER>(w, w.coef, w.a.key, w.a.target);
	row_products<TO_OTHER>(w, ds, w.a.source, w.a.g);
	v2_coefficients<false>(w, ds, k);
}

// ∂target, where edges have no features.
template <typename vec, typename L> DEVICE void attend_back_target_dot(const L &l) {
	const weft_attention_args &a = l.a;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	if (!w.take(l))
		return;
	for (int slab = 0; slab < w.slabs(); slab++) {
		float sum[4] = {};
		for (int k = 0; k < w.edges; k += 32) {
			w.take_edges(k);
			dot_coefficients(w, ds, k);
			w.take_slab(slab);
			w.each_row(ds, a.key, [&](float c, const float *x) {
				each(sum, [&](float s, int j) { return fmaf(c, x[j], s); });
			});
		}
		w.take_slab(slab);
		w.add_to(a.d_target, a.d_type, sum);
	}
}
EDGE_KERNELS(attend_back_target_dot, weft_attention_args, attend_back_target_dot)

// ∂source and ∂key, on the transposed matrix.
template <typename vec, typename L> DEVICE void attend_back_source_dot(const L &l) {
	const weft_attention_args &a = l.a;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	if (!w.take(l))
		return;
	for (int slab = 0; slab < w.slabs(); slab++) {
		float sum[4] = {}, keys[4] = {};
		for (int k = 0; k < w.edges; k += 32) {
			w.take_edges(k);
			row_products<TO_OWN>(w, w.coef, a.target, a.key);
			row_products<TO_OWN>(w, ds, a.g, a.source);
			v2_coefficients<true>(w, ds, k);
			w.take_slab(slab);
			w.add_rows(sum, a.g);
			w.each_row(ds, a.target, [&](float c, const float *x) {
				each(keys, [&](float s, int j) { return fmaf(c, x[j], s); });
			});
		}
		w.take_slab(slab);
		w.add_to(a.d_source, a.d_type, sum);
		w.add_to(a.d_key, a.d_type, keys);
	}
}
EDGE_KERNELS(attend_back_source_dot, weft_attention_args, attend_back_source_dot)
