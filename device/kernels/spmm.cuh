// Aggregation: a thread has a vector of columns of a destination row. It adds the rows of its edges in their
// order, with the fused multiply-adds of the CPU's kernel, and writes the sum once. Threads of a row lie
// together, so that a warp reads whole stretches of x; rows of any width fill their warps.
#pragma once
#include "warp.cuh"

// A row of more edges would keep its few threads at work when others are through.
enum { SHARED_ROW = 512 };

// Edges begin … end−1 of a row, whose result is row `place`: those of a whole row, or of a segment. last: they end
// the row.
struct edge_range {
	int64_t row, place, begin, end;
	bool whole, last;
};

// Columns c … of a row. The rows of AHEAD edges are asked for before the first of them is added.
template <typename vec>
DEVICE void aggregate_columns(const weft_spmm_args &a, const edge_range &e, int64_t c) {
	enum { N = vec::N, AHEAD = N > 1 ? 8 : 16 };
	typedef typename vec::elem elem;
	typedef typename vec::raw raw;
	const char *x = (const char *)((const elem *)a.x + c);
	const int32_t stride = (int32_t)(a.x_stride * sizeof(elem));
	float sum[N] = {};
	for (int64_t k = e.begin; k < e.end; k += AHEAD) {
		const int n = (int)min(e.end - k, (int64_t)AHEAD);
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
				vec v;
				v.of(r[u]);
				UNROLL for (int i = 0; i < N; i++)
					sum[i] = fmaf(weight[u], v.x[i], sum[i]);
			}
	}
	const float own = a.self && e.last ? a.self[e.row] : 0, scale = a.row_scale ? a.row_scale[e.row] : 1;
	if (a.accumulate && e.begin == e.end && own == 0)
		return;
	vec v;
	if (own != 0) {
		v.load((const elem *)a.own + e.row * a.z_stride + a.from + c);
		UNROLL for (int i = 0; i < N; i++)
			sum[i] = fmaf(own, v.x[i], sum[i]);
	}
	const int64_t z = e.place * a.z_stride + a.from + c;
	if (a.accumulate)
		load_either(v, a.z, a.z_type, z);
	UNROLL for (int i = 0; i < N; i++) {
		sum[i] *= scale;
		v.x[i] = a.accumulate ? sum[i] + v.x[i] : sum[i];
	}
	store_either(a.z, a.z_type, z, v);
}

// The columns that the blocks of this one have: those of a slice. Blocks of the next slice follow, and begin with
// the first row again, so that what the card works on at a time reads few columns of x.
struct columns_of_rows {
	int64_t from, width, t; // the thread's number among those of the slice
	template <int N> static DEVICE columns_of_rows of(int64_t rows, int64_t cols, int64_t slice) {
		if (slice == 0)
			return {0, cols, thread_number()};
		const int64_t blocks = (rows * (slice / N) + BLOCK - 1) / BLOCK, from = blockIdx.x / blocks * slice;
		return {from, min(slice, cols - from), blockIdx.x % blocks * BLOCK + threadIdx.x};
	}
};
template <typename args> DEVICE int64_t slice(const args &) { return 0; }
DEVICE int64_t slice(const weft_spmm_args &a) { return a.slice; }

template <typename args> DEVICE const int64_t *ends(const args &a) { return a.edges.indptr + 1; }
DEVICE const int64_t *ends(const weft_spmm_args &a) { return a.end; }

// Runs over rows, cols / N threads for each, or those of a slice. All threads of the block that rows of many edges
// end in share them, a column each, so that narrow rows are taken several at a time.
template <typename vec, typename args> DEVICE void aggregate(const over_rows<args> &l) {
	const args &a = l.a;
	const auto s = columns_of_rows::of<vec::N>(l.last - l.first, a.cols, slice(a));
	const int64_t across = s.width / vec::N, t = s.t, begins = t - threadIdx.x;
	const auto range = [&](int64_t row) {
		return edge_range{row, row, a.edges.indptr[row], ends(a)[row], true, true};
	};
	const auto is_cut = [&](const edge_range &e) { return a.edges.longest && e.end - e.begin > WEFT_LONG; };
	const int64_t row = l.first + t / across;
	bool share = false;
	if (row < l.last) {
		const edge_range e = range(row);
		share = e.end - e.begin > SHARED_ROW && across < BLOCK;
		if (!share && !is_cut(e))
			aggregate_columns<vec>(a, e, s.from + (t - (row - l.first) * across) * vec::N);
	}
	if (!__syncthreads_or(share))
		return;
	const int64_t first = l.first + begins / across, stop = min(l.last, l.first + (begins + BLOCK) / across);
	const int width = (int)s.width, numbers = (int)(stop - first) * width;
	for (int n = threadIdx.x; n < numbers; n += BLOCK) {
		const edge_range e = range(first + n / width);
		if (e.end - e.begin > SHARED_ROW && !is_cut(e))
			aggregate_columns<single<typename vec::elem>>(a, e, s.from + n % width);
	}
}
// Runs over segments of rows, as many threads for each.
template <typename vec, typename args> DEVICE void aggregate(const over_segments<args> &l) {
	const int64_t across = l.a.cols / vec::N, t = thread_number(), number = t / across;
	if (number >= l.s.count)
		return;
	const weft_segment &s = l.s.of[number];
	const edge_range e = {s.row, l.place(number), s.begin, s.end, false, s.after == 0};
	aggregate_columns<vec>(l.a, e, (t - number * across) * vec::N);
}
EDGE_KERNELS(spmm, weft_spmm_args, aggregate)
