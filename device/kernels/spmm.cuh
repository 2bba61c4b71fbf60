// Aggregation: a thread has a vector of columns of a destination row. It adds the rows of its edges in their
// order, with the fused multiply-adds of the CPU's kernel, and writes the sum once. Threads of a row lie
// together, so that a warp reads whole stretches of x; rows of any width fill their warps.
#pragma once
#include "warp.cuh"

// A row of more edges would keep its few threads at work when others are through.
enum { SHARED_ROW = 512 };

// Runs over rows, cols / N threads for each, which have N columns c … of a row whose edges are begin … end−1:
// wide(row, begin, end, c). All threads of the block that a row of many edges ends in share it, a column
// each: narrow(row, begin, end, c).
template <int N, typename vectors, typename columns>
DEVICE void each_row(int64_t first, int64_t last, int64_t cols, const weft_edges &edges,
                     const int64_t *ends, vectors wide, columns narrow) {
	const int64_t across = cols / N, t = thread_number(), row = first + t / across;
	bool share = false;
	if (row < last) {
		const int64_t begin = edges.indptr[row], end = ends[row];
		share = end - begin > SHARED_ROW && across < BLOCK;
		if (!share && !(edges.skip_long && end - begin > WEFT_LONG))
			wide(row, begin, end, (t - (row - first) * across) * N);
	}
	if (!__syncthreads_or(share))
		return;
	const int64_t begins = t - threadIdx.x, stop = min(last, first + (begins + BLOCK) / across);
	for (int64_t r = first + begins / across; r < stop; r++) {
		const int64_t begin = edges.indptr[r], end = ends[r];
		if (end - begin > SHARED_ROW && !(edges.skip_long && end - begin > WEFT_LONG))
			for (int64_t c = threadIdx.x; c < cols; c += BLOCK)
				narrow(r, begin, end, c);
	}
}

// Runs over segments of rows, as many threads for each: f(segment, whether it is the row's last, c).
template <int N, typename args, typename function>
DEVICE void each_segment(const over_segments<args> &l, function f) {
	const int64_t across = l.a.cols / N, t = thread_number(), number = t / across;
	if (number >= l.count)
		return;
	const weft_segment &s = l.of[number];
	f(s, s.end == l.a.edges.indptr[s.row + 1], (t - number * across) * N);
}

// Columns c … of a row whose edges are begin … end−1; the result is row `to` of z. The rows of AHEAD edges are
// asked for before the first of them is added.
template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void spmm_columns(const weft_spmm_args &a, int64_t row, int64_t begin, int64_t end,
                         const float *self, int64_t to, int64_t c) {
	enum { N = vec<elem>::N };
	typedef typename vec<elem>::raw raw;
	float sum[N] = {};
	const char *x = (const char *)((const elem *)a.x + c);
	const int32_t stride = (int32_t)(a.x_stride * sizeof(elem));
	for (int64_t k = begin; k < end; k += AHEAD) {
		const int n = (int)min(end - k, (int64_t)AHEAD);
		const int32_t *indices = a.edges.indices + k;
		const float *weights = a.weights ? a.weights + k : nullptr;
		int32_t other[AHEAD];
		float weight[AHEAD];
		raw r[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) // behind the last edge that one again
			other[u] = indices[min(u, n - 1)];
		UNROLL for (int u = 0; u < AHEAD; u++)
			r[u] = *(const raw *)(x + (int64_t)other[u] * stride);
		UNROLL for (int u = 0; u < AHEAD; u++) {
			weight[u] = weights ? weights[min(u, n - 1)] : 1;
			if (a.col_scale)
				weight[u] *= a.col_scale[other[u]];
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			if (u < n) {
				vec<elem> v;
				v.of(r[u]);
				UNROLL for (int i = 0; i < N; i++)
					sum[i] = fmaf(weight[u], v.x[i], sum[i]);
			}
	}
	const float own = self ? self[row] : 0, scale = a.row_scale ? a.row_scale[row] : 1;
	if (a.accumulate && begin == end && own == 0)
		return;
	if (own != 0) {
		vec<elem> r;
		r.load((const elem *)a.own + row * a.z_stride + a.from + c);
		UNROLL for (int i = 0; i < N; i++)
			sum[i] = fmaf(own, r.x[i], sum[i]);
	}
	const int64_t z = to * a.z_stride + a.from + c;
	vec<elem> r;
	if (a.accumulate)
		load_either(r, a.z, a.z_type, z);
	UNROLL for (int i = 0; i < N; i++) {
		sum[i] *= scale;
		r.x[i] = a.accumulate ? sum[i] + r.x[i] : sum[i];
	}
	store_either(a.z, a.z_type, z, r);
}

template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void spmm(const over_rows<weft_spmm_args> &l) {
	const weft_spmm_args &a = l.a;
	each_row<vec<elem>::N>(l.first, l.last, a.cols, a.edges, a.end,
	    [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    spmm_columns<elem, vec, AHEAD>(a, row, begin, end, a.self, row, c);
	    }, [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    spmm_columns<elem, single, 16>(a, row, begin, end, a.self, row, c);
	    });
}
template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void spmm_segments(const over_segments<weft_spmm_args> &l) {
	each_segment<vec<elem>::N>(l, [&](const weft_segment &s, bool last, int64_t c) {
		spmm_columns<elem, vec, AHEAD>(l.a, s.row, s.begin, s.end, last ? l.a.self : nullptr, s.place, c);
	});
}

#define SPMM(name, elem, vec, AHEAD) \
	KERNEL(name, weft_spmm_args) { spmm<elem, vec, AHEAD>(l); } \
	SEGMENTS_KERNEL(name##_segments, weft_spmm_args) { spmm_segments<elem, vec, AHEAD>(l); }
SPMM(spmm_float32, float, single, 16)
SPMM(spmm_float32_vector, float, vector, 8)
SPMM(spmm_bfloat16, bfloat16, single, 16)
SPMM(spmm_bfloat16_vector, bfloat16, vector, 8)
