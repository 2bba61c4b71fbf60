// Aggregation: a thread has a vector of columns of a destination row. It adds the rows of its edges in their
// order, with the fused multiply-adds of the CPU's kernel, and writes the sum once. Threads of a row lie
// together, so that a warp reads whole stretches of x; rows of any width fill their warps.
#pragma once
#include "warp.cuh"

// A row of more edges would keep its few threads at work when others are through. All threads of the block that
// it ends in share it, a column each.
enum { SPMM_SHARED = 512 };

// Columns c … of a row whose edges are begin … end−1; the result is row `to` of z. The rows of AHEAD edges are
// asked for before the first of them is added.
template <typename elem, template <typename> class vec, int AHEAD>
__device__ __forceinline__ void spmm_columns(const weft_spmm_args &a, int64_t row, int64_t begin, int64_t end,
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
#pragma unroll
		for (int u = 0; u < AHEAD; u++) // behind the last edge that one again
			other[u] = indices[min(u, n - 1)];
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			r[u] = *(const raw *)(x + (int64_t)other[u] * stride);
#pragma unroll
		for (int u = 0; u < AHEAD; u++) {
			weight[u] = weights ? weights[min(u, n - 1)] : 1;
			if (a.col_scale)
				weight[u] *= a.col_scale[other[u]];
		}
#pragma unroll
		for (int u = 0; u < AHEAD; u++)
			if (u < n) {
				vec<elem> v;
				v.of(r[u]);
#pragma unroll
				for (int i = 0; i < N; i++)
					sum[i] = fmaf(weight[u], v.x[i], sum[i]);
			}
	}
	const float own = self ? self[row] : 0, scale = a.row_scale ? a.row_scale[row] : 1;
	if (a.accumulate && begin == end && own == 0)
		return;
	if (own != 0) {
		vec<elem> r;
		r.load((const elem *)a.own + row * a.z_stride + a.from + c);
#pragma unroll
		for (int i = 0; i < N; i++)
			sum[i] = fmaf(own, r.x[i], sum[i]);
	}
	const int64_t z = to * a.z_stride + a.from + c;
	const bool same = (a.z_type == WEFT_FLOAT32) == (sizeof(elem) == sizeof(float));
	vec<elem> r;
	if (a.accumulate && same)
		r.load((const elem *)a.z + z);
#pragma unroll
	for (int i = 0; i < N; i++) {
		sum[i] *= scale;
		if (a.accumulate)
			sum[i] += same ? r.x[i] : load_either(a.z, a.z_type, z + i);
		r.x[i] = sum[i];
	}
	if (same)
		r.store((elem *)a.z + z);
	else
#pragma unroll
		for (int i = 0; i < N; i++)
			store_either(a.z, a.z_type, z + i, sum[i]);
}

// Runs over rows: a.cols / N threads for each.
template <typename elem, template <typename> class vec, int AHEAD>
__device__ __forceinline__ void spmm(const over_rows<weft_spmm_args> &l) {
	enum { N = vec<elem>::N };
	const weft_spmm_args &a = l.a;
	const int64_t across = a.cols / N, t = thread_number(), row = l.first + t / across;
	bool share = false;
	if (row < l.last) {
		const int64_t begin = a.edges.indptr[row], end = a.end[row];
		share = end - begin > SPMM_SHARED && across < BLOCK;
		if (!share && !(a.edges.skip_long && end - begin > WEFT_LONG))
			spmm_columns<elem, vec, AHEAD>(a, row, begin, end, a.self, row, (t - (row - l.first) * across) * N);
	}
	if (!__syncthreads_or(share))
		return;
	const int64_t begins = t - threadIdx.x, last = min(l.last, l.first + (begins + BLOCK) / across);
	for (int64_t r = l.first + begins / across; r < last; r++) {
		const int64_t begin = a.edges.indptr[r], end = a.end[r];
		if (end - begin > SPMM_SHARED && !(a.edges.skip_long && end - begin > WEFT_LONG))
			for (int64_t c = threadIdx.x; c < a.cols; c += BLOCK)
				spmm_columns<elem, single, 16>(a, r, begin, end, a.self, r, c);
	}
}

// Runs over segments of rows, as many threads for each.
template <typename elem, template <typename> class vec, int AHEAD>
__device__ __forceinline__ void spmm_segments(const over_segments<weft_spmm_args> &l) {
	const int64_t across = l.a.cols / vec<elem>::N, t = thread_number(), number = t / across;
	if (number >= l.count)
		return;
	const weft_segment &s = l.of[number];
	const bool last = s.end == l.a.edges.indptr[s.row + 1];
	spmm_columns<elem, vec, AHEAD>(l.a, s.row, s.begin, s.end, last ? l.a.self : nullptr, s.place,
	                               (t - number * across) * vec<elem>::N);
}

#define SPMM(name, elem, vec, AHEAD) \
	KERNEL(name, weft_spmm_args) { spmm<elem, vec, AHEAD>(l); } \
	SEGMENTS_KERNEL(name##_segments, weft_spmm_args) { spmm_segments<elem, vec, AHEAD>(l); }
SPMM(spmm_float32, float, single, 16)
SPMM(spmm_float32_vector, float, vector, 8)
SPMM(spmm_bfloat16, bfloat16, single, 16)
SPMM(spmm_bfloat16_vector, bfloat16, vector, 8)
