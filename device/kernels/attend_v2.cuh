// GATv2. Its scores and gradients need a product of the rows at both ends of each edge. For these products a
// warp reads the rows of 32 edges, and then reads them again to sum them. In between they stay in the caches.
// attend.cuh says how edges are taken. An edge with features has a row of its own, which is computed each
// time it is added.
#pragma once
#include "attend_back.cuh"

// A lane's columns of the warp's own row.
struct row_columns {
	float x[4];
	template <typename W> DEVICE row_columns(const W &w, const void *of) { w.load(x, of, w.row); }
};

// The values of the own row that GATv2 needs beside the rows at the other ends.
struct own_columns : row_columns {
	float a[4];
	template <typename W> DEVICE own_columns(const W &w, const void *of) : row_columns(w, of) {
		w.load_of(a, w.a.a, 0);
	}
	// Σ_c a_c · LeakyReLU(row_c + x_c)
	DEVICE float score(const float *row, float slope) const {
		float sum = 0;
		UNROLL for (int j = 0; j < 4; j++) {
			const float t = row[j] + x[j];
			sum = fmaf(a[j], larger(t * slope, t), sum);
		}
		return sum;
	}
};

// ⟨x, y⟩ of four numbers.
DEVICE float dot4(const float *x, const float *y) {
	return fmaf(x[3], y[3], fmaf(x[2], y[2], fmaf(x[1], y[1], x[0] * y[0])));
}

// The factor of a product to which an edge's own row is added, if it has features: the row at the other end,
// or the warp's own row.
enum edge_rows { NO_EDGES, TO_OTHER, TO_OWN };

// K sums over the columns of each head, for each edge of the batch. of_slab() returns a function f. f(p, x)
// sets p to the parts that the lane's columns x of an edge's row give to the sums. The lanes write their
// parts to shared memory. Then each lane adds the parts of one edge and one head. The call changes the
// current slab.
template <edge_rows EDGES, int K, typename W, typename F>
DEVICE void edge_products(W &w, shared_cell<float> *const (&to)[K], const void *rows, F of_slab) {
	enum { AT_ONCE = 8, STRIDE = 33 }; // so that the parts of a head's lanes are in different banks
	__shared__ shared_cell<float> all[ATTEND_WARPS][K][AT_ONCE * STRIDE];
	shared_cell<float>(*parts)[AT_ONCE * STRIDE] = all[threadIdx.x / 32];
	const int lanes = min(w.QUADS ? w.width / 4 : w.width, 32);
	for (int slab = 0; slab < w.slabs(); slab++) {
		w.take_slab(slab);
		const auto f = of_slab();
		for (int from = 0; from < w.n; from += AT_ONCE) {
			UNROLL_BY(1) for (int e = 0; e < AT_ONCE; e += ATTEND_AHEAD) {
				float x[ATTEND_AHEAD][4];
				UNROLL for (int i = 0; i < ATTEND_AHEAD; i++)
					if (from + e + i < w.n)
						w.load(x[i], rows, w.other[from + e + i]);
				if (EDGES == TO_OTHER && w.a.edge_weight)
					w.add_edge_rows(x, from + e);
				UNROLL for (int i = 0; i < ATTEND_AHEAD; i++)
					if (from + e + i < w.n) {
						float p[K];
						f(p, x[i]);
						if (EDGES == TO_OWN && w.a.edge_weight) {
							float of_edge[1][4] = {};
							w.add_edge_rows(of_edge, from + e + i);
							p[0] += dot4(x[i], of_edge[0]);
						}
						UNROLL for (int k = 0; k < K; k++)
							parts[k][(e + i) * STRIDE + w.lane] = w.left > 0 ? p[k] : 0.0f;
					}
			}
			__syncwarp();
			for (int q = w.lane; q < AT_ONCE * w.places; q += 32) {
				const int e = q / w.places, h = q % w.places, place = from * w.places + q;
				if (h < w.heads && from + e < w.n)
					UNROLL for (int k = 0; k < K; k++) {
						float sum = slab ? (float)to[k][place] : 0.0f;
						for (int l = 0; l < lanes; l++)
							sum += parts[k][e * STRIDE + h * lanes + l];
						to[k][place] = sum;
					}
			}
			__syncwarp();
		}
	}
}

// to = ⟨row, own row⟩ for each edge of the batch and each head. `rows` has the rows at the other ends,
// own_rows the warp's own.
template <edge_rows EDGES, typename W>
DEVICE void row_products(W &w, shared_cell<float> *to, const void *rows, const void *own_rows) {
	edge_products<EDGES>(w, {to}, rows, [&] {
		const row_columns own(w, own_rows);
		return [=](float (&p)[1], const float *x) { p[0] = dot4(x, own.x); };
	});
}

// GATv2's scores of the batch's edges, from the rows at the other ends and the warp's own row.
template <typename W> DEVICE void scores(W &w, const void *rows, const void *own_rows) {
	edge_products<TO_OTHER>(w, {w.coef}, rows, [&] {
		const own_columns own(w, own_rows);
		return [=, &w](float (&p)[1], const float *x) { p[0] = own.score(x, w.a.slope); };
	});
}

template <typename vec, typename L> DEVICE void attend_v2(const L &l) {
	attend_rows<vec, V2>(l, [&](auto &w) { scores(w, l.a.source, l.a.target); });
}
EDGE_KERNELS(attend_v2, weft_attention_args, attend_v2)

// A warp's memory for ∂s, beside the coefficients.
DEVICE shared_cell<float> *more_coefficients() {
	__shared__ shared_cell<float> all[ATTEND_WARPS][32 * ATTEND_HEADS];
	return all[threadIdx.x / 32];
}

// Replaces the scores in coef by α·mask, and ⟨g_i, source_j⟩ in ds by ∂s.
template <bool TRANSPOSED, typename W> DEVICE void v2_coefficients(W &w, shared_cell<float> *ds, int k) {
	const unsigned kept = w.template kept<TRANSPOSED>(k);
	for (int place = w.lane; place < 32 * w.places; place += 32) {
		const int e = place / w.places;
		const float keep = w.keep(kept, place);
		float alpha = 0, d = 0;
		if (e < w.n && w.has_head()) {
			const attend_packed target(w, TRANSPOSED ? (int)w.other[e] : w.row, true);
			alpha = exponential(w.coef[place] - target.log_sum);
			d = alpha * (keep * ds[place] - target.g_dot_out);
		}
		w.coef[place] = alpha * keep, ds[place] = d;
	}
	__syncwarp();
}

// Adds da to the sums for ∂a with this number.
template <typename W> DEVICE void add_to_sums(const W &w, int64_t number, const double (&da)[4]) {
	double *d = w.a.d_a + number * w.a.sum_stride + w.at(0);
	UNROLL for (int j = 0; j < 4; j++)
		if (w.has(j))
			d[w.QUADS ? j : 32 * j] += da[j];
}
DEVICE int64_t sums_of(const over_rows<weft_attention_args> &l, int64_t tile) {
	return l.a.first_sum + l.first / WEFT_TILE + tile;
}
DEVICE int64_t sums_of(const over_segments<weft_attention_args> &, int64_t) { return -1; }
DEVICE int rows_of_block(const over_rows<weft_attention_args> &) { return WEFT_TILE; }
DEVICE int rows_of_block(const over_segments<weft_attention_args> &) { return ATTEND_WARPS; }

// ∂target, and ∂a of a tile of rows, or of a segment. A block has a tile, or a segment for each warp, and
// some heads.
template <typename vec, typename L> DEVICE void attend_back_target_v2(const L &l) {
	__shared__ shared_cell<double> sums[ATTEND_WARPS][ATTEND_COLUMNS];
	const weft_attention_args &a = l.a;
	const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	const int64_t tile = w.take_heads(blockIdx.x);
	for (int slab = 0; slab < w.slabs(); slab++) {
		double da[4] = {};
		for (int r = warp; r < rows_of_block(l); r += warps) {
			if (!w.take_row(l, tile * rows_of_block(l) + r))
				continue;
			float sum[4] = {}, sum_a[4] = {}, old[4] = {};
			for (int k = 0; k < w.edges; k += 32) {
				w.take_edges(k);
				edge_products<NO_EDGES>(w, {w.coef, ds}, a.source, [&] {
					const own_columns own(w, a.target), grad(w, a.g);
					return [=, &w](float (&p)[2], const float *x) {
						p[0] = own.score(x, w.a.slope), p[1] = dot4(x, grad.x);
					};
				});
				v2_coefficients<false>(w, ds, k);
				w.take_slab(slab);
				const own_columns own(w, a.target);
				w.each_row(ds, a.source, [&](float c, const float *x) {
					UNROLL for (int j = 0; j < 4; j++) {
						const float t = x[j] + own.x[j], d = t > 0 ? c : c * a.slope;
						sum[j] += d, sum_a[j] = fmaf(d, t, sum_a[j]);
					}
				});
			}
			w.take_slab(slab);
			const own_columns own(w, a.target);
			if (w.adds)
				w.load(old, a.d_target, a.d_type, w.result);
			UNROLL for (int j = 0; j < 4; j++)
				old[j] = fmaf(own.a[j], sum[j], old[j]), da[j] += sum_a[j];
			w.store(a.d_target, a.d_type, w.result, old);
			if (!w.adds) {
				add_to_sums(w, a.first_sum + w.result, da);
				da[0] = da[1] = da[2] = da[3] = 0;
			}
		}
		const int64_t number = sums_of(l, tile);
		if (number < 0)
			continue;
		w.take_slab(slab);
		UNROLL for (int j = 0; j < 4; j++)
			sums[warp][w.column(j)] = da[j];
		__syncthreads();
		for (int j = 0; warp == 0 && j < 4; j++)
			for (int k = 1; k < warps; k++)
				da[j] += sums[k][w.column(j)];
		if (warp == 0)
			add_to_sums(w, number, da);
		__syncthreads();
	}
}
EDGE_KERNELS(attend_back_target_v2, weft_attention_args, attend_back_target_v2)

// ∂source, on the transposed matrix.
template <typename vec, typename L> DEVICE void attend_back_source_v2(const L &l) {
	const weft_attention_args &a = l.a;
	shared_cell<float> *ds = more_coefficients();
	attention<vec> w(a);
	if (!w.take(l))
		return;
	for (int slab = 0; slab < w.slabs(); slab++) {
		float sum[4] = {}, slopes[4] = {};
		for (int k = 0; k < w.edges; k += 32) {
			w.take_edges(k);
			scores(w, a.target, a.source);
			row_products<NO_EDGES>(w, ds, a.g, a.source);
			v2_coefficients<true>(w, ds, k);
			w.take_slab(slab);
			w.add_rows(sum, a.g);
			const own_columns own(w, a.source);
			w.template each_row<true>(ds, a.target, [&](float c, const float *x) {
				each(slopes, [&](float s, int j) { return s + (x[j] + own.x[j] > 0 ? c : c * a.slope); });
			});
		}
		w.take_slab(slab);
		const own_columns own(w, a.source);
		each(sum, [&](float s, int j) { return fmaf(own.a[j], slopes[j], s); });
		w.add_to(a.d_source, a.d_type, sum);
	}
}
EDGE_KERNELS(attend_back_source_v2, weft_attention_args, attend_back_source_v2)
