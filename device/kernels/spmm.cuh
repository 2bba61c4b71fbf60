// Sums of neighbours, or SpMM. A thread has a vector of columns of a destination row. It adds the rows at its
// edges' other ends in their order, with the fused multiply-adds of the CPU's kernel, and writes the sum
// once. The threads of a row are neighbours, so that a warp reads whole stretches of x. Rows of vectors of
// any width fill their warps. If the columns are no multiple of a vector, a warp has whole rows, or 128
// columns of one (row_threads).
//
// This kernel is the pattern for kernels over edges. The comment of such a kernel has the figures below.
// Those of a card are of sm_90.
//
// Bytes needed, for a row of d edges and N columns of s bytes: d·N·s of x, 4·d of indices, 4·d of weights and
// 4·d of col_scale if there are any, 8 for the end of the row, and N·s of the result. No number is needed
// twice, except rows of x, which other destinations read, too. So bytes bound the kernel. Sums stay in
// registers.
//
// Bytes moved, in sectors of 32 bytes: 1.01 to 1.08 times the bytes needed, if rows begin at sectors. Stores
// move exactly what is needed. Rows of 47 columns begin anywhere: the ratio is 1.17 of float32 and 1.36 of
// bfloat16. Sectors allow no less than 1.14 and 1.29 (TestTraffic, whose table docs/performance.md has).
//
// Loads in flight: the rows of AHEAD edges, 8 vectors of 16 bytes or 12 to 16 numbers, are requested before
// the first is added. Behind the last edge of a row that edge is requested again, which the first-level cache
// has. So the loop has no branch around a load, and all loads of a round are issued together.
//
// Registers (ptxas -v, as scripts/cubins compiles): spmm_float32_vector has 80, and its form for segments 72.
// spmm_bfloat16_vector has 88, and its form for segments 80. A multiprocessor has 65536, so that 3, 3, 2 and
// 3 blocks of 256 threads fit. Three blocks request 3·256·8·16 = 98,304 bytes at a time. With more than 80
// registers one block less fits.
//
// Instructions of a thread in a round of 8 edges (scripts/device/instructions.py): 215 of float32, which is
// 27 for an edge of 4 columns, and 340 of bfloat16, which is 43 for an edge of 8 columns. A card issues them
// in 0.17 and 0.27 of the time that its memory takes for the rows of x.
//
// There are no atomics. A row has one writer, so that z needs no zeros before, and the result has the same
// bits in each run and on the CPU. One thread sums a column. So the work on a row of many edges is divided by
// columns, not by edges:
//
//   - With more than SHARED_ROW edges, all threads of the block in which the row ends have a column each.
//   - With more than WEFT_LONG edges, the host cuts the row into segments of about WEFT_SEGMENT edges
//     (kernel/segment.go), as on the CPU. One launch (over_segments) computes the sums of all segments, and
//     merge_sums in sums.cuh adds them in their order.
//
// If x exceeds the second-level cache, the blocks first have a slice of the columns of all rows, and then the
// next slice (kernel/slice.go). The bits of a column do not depend on that.
//
// TestConformance/spmm, TestHubRow and TestSlices compare the results with float64, with the CPU, and with
// whole rows. scripts/device/mutants.py lists wrong lines of this file. One of the tests notices each.
#pragma once
#include "warp.cuh"

// A row of more edges would keep its few threads busy after the others have finished.
enum { SHARED_ROW = 512 };

// Edges begin … end−1 of a row: the edges of a whole row, or of a segment. The result is row `result` of z.
// last: they are the row's last edges.
struct edge_range {
	int64_t row, result, begin, end;
	bool whole, last;
};

// COUNT single numbers of a row, 32 columns apart. Those exist whose distance from the first is less than
// `left`.
template <typename T, int COUNT> struct spread {
	enum { N = COUNT, AHEAD = 16 / N };
	typedef T elem;
	struct raw {
		T e[N];
	};
	float x[N];
	static DEVICE raw read(const T *p, int left) {
		raw v = {};
		UNROLL for (int i = 0; i < N; i++)
			if (32 * i < left)
				v.e[i] = p[32 * i];
		return v;
	}
	DEVICE void of(const raw &v) {
		UNROLL for (int i = 0; i < N; i++)
			x[i] = number(v.e[i]);
	}
	DEVICE void load(const void *p, int32_t type, int64_t k, int left) {
		UNROLL for (int i = 0; i < N; i++)
			x[i] = 32 * i < left ? load_either(p, type, k + 32 * i) : 0;
	}
	DEVICE void store(void *p, int32_t type, int64_t k, int left) const {
		UNROLL for (int i = 0; i < N; i++)
			if (32 * i < left)
				store_either(p, type, k + 32 * i, x[i]);
	}
};

// A vector of numbers side by side, or one number.
template <typename vec> struct side_by_side : vec {
	enum { AHEAD = vec::N > 1 ? 8 : 12 };
	typedef typename vec::raw raw;
	static DEVICE raw read(const typename vec::elem *p, int) { return *(const raw *)p; }
	DEVICE void load(const void *p, int32_t type, int64_t k, int) { load_either(*(vec *)this, p, type, k); }
	DEVICE void store(void *p, int32_t type, int64_t k, int) const {
		store_either(p, type, k, *(const vec *)this);
	}
};

// Computes the columns of a thread from c on, of which `left` exist. The rows of AHEAD edges are requested
// before the first of them is added.
template <typename vec>
DEVICE void sum_columns(const weft_spmm_args &a, const edge_range &e, int64_t c, int left) {
	enum { N = vec::N, AHEAD = vec::AHEAD };
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
		UNROLL for (int u = 0; u < AHEAD; u++) // behind the last edge that edge is repeated
			other[u] = indices[min(u, n - 1)];
		UNROLL for (int u = 0; u < AHEAD; u++)
			r[u] = vec::read((const elem *)(x + (int64_t)other[u] * stride), left);
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
		v.of(vec::read((const elem *)a.own + e.row * a.z_stride + a.from + c, left));
		UNROLL for (int i = 0; i < N; i++)
			sum[i] = fmaf(own, v.x[i], sum[i]);
	}
	const int64_t z = e.result * a.z_stride + a.from + c;
	if (a.accumulate)
		v.load(a.z, a.z_type, z, left);
	UNROLL for (int i = 0; i < N; i++) {
		sum[i] *= scale;
		v.x[i] = a.accumulate ? sum[i] + v.x[i] : sum[i];
	}
	v.store(a.z, a.z_type, z, left);
}
template <typename vec>
DEVICE void aggregate_columns(const weft_spmm_args &a, const edge_range &e, int64_t c) {
	sum_columns<side_by_side<vec>>(a, e, c, vec::N);
}

// The threads of a row, and their columns. Threads with vectors have columns that follow each other. Sums of
// neighbours whose columns are single numbers give whole rows to a warp, or 128 columns of one. There rows
// begin anywhere in a sector. If two warps had columns that follow each other, both would read the sector
// between them, and both would read all indices.
template <int N, typename args> struct row_threads {
	int64_t across;
	DEVICE row_threads(const args &, int64_t width) : across(width / N) {}
	template <typename vec>
	DEVICE void aggregate(const args &a, const edge_range &e, int64_t from, int64_t, int64_t thread) const {
		aggregate_columns<vec>(a, e, from + thread * N);
	}
};
template <> struct row_threads<1, weft_spmm_args> {
	int64_t across;
	int lanes, each; // lanes that take columns side by side, and how many columns each lane has
	DEVICE row_threads(const weft_spmm_args &, int64_t width) : lanes(32) {
		each = width > 64 ? 4 : width > 32 ? 2 : 1;
		while (lanes / 2 >= width)
			lanes /= 2;
		across = (width + lanes * each - 1) / (lanes * each) * lanes;
	}
	template <typename vec>
	DEVICE void aggregate(const weft_spmm_args &a, const edge_range &e, int64_t from, int64_t width,
	                      int64_t thread) const {
		typedef typename vec::elem elem;
		const int64_t c = thread / lanes * (lanes * each) + thread % lanes;
		const int left = (int)(width - c);
		if (left <= 0)
			return;
		if (each == 1)
			aggregate_columns<vec>(a, e, from + c);
		else if (each == 2)
			sum_columns<spread<elem, 2>>(a, e, from + c, left);
		else
			sum_columns<spread<elem, 4>>(a, e, from + c, left);
	}
};

// The columns of this thread's block and the blocks beside it: a slice. The blocks of the next slice follow,
// and begin with the first row again. So the card reads few columns of x at a time.
struct columns_of_rows {
	int64_t from, width, t; // the thread's number in the slice
	template <int N, typename args>
	static DEVICE columns_of_rows of(const args &a, int64_t rows, int64_t slice) {
		if (slice == 0)
			return {0, a.cols, thread_number()};
		const int64_t blocks = (rows * row_threads<N, args>(a, slice).across + BLOCK - 1) / BLOCK;
		const int64_t from = blockIdx.x / blocks * slice;
		return {from, min(slice, a.cols - from), blockIdx.x % blocks * BLOCK + threadIdx.x};
	}
};
template <typename args> DEVICE int64_t slice(const args &) { return 0; }
DEVICE int64_t slice(const weft_spmm_args &a) { return a.slice; }

template <typename args> DEVICE const int64_t *ends(const args &a) { return a.edges.indptr + 1; }
DEVICE const int64_t *ends(const weft_spmm_args &a) { return a.end; }

// Runs over rows, or over a slice of their columns. Rows of many edges are shared by all threads of the block
// in which they end, a column for each thread. So several narrow rows are taken at a time.
template <typename vec, typename args> DEVICE void aggregate(const over_rows<args> &l) {
	const args &a = l.a;
	const auto s = columns_of_rows::of<vec::N>(a, l.last - l.first, slice(a));
	const row_threads<vec::N, args> threads(a, s.width);
	const int64_t across = threads.across, t = s.t, begins = t - threadIdx.x;
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
			threads.template aggregate<vec>(a, e, s.from, s.width, t - (row - l.first) * across);
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
// Runs over segments of rows. Each segment has as many threads as a row.
template <typename vec, typename args> DEVICE void aggregate(const over_segments<args> &l) {
	const row_threads<vec::N, args> threads(l.a, l.a.cols);
	const int64_t across = threads.across, t = thread_number(), number = t / across;
	if (number >= l.s.count)
		return;
	const weft_segment &s = l.s.of[number];
	const edge_range e = {s.row, l.partial(number), s.begin, s.end, false, s.after == 0};
	threads.template aggregate<vec>(l.a, e, 0, l.a.cols, t - number * across);
}
EDGE_KERNELS(spmm, weft_spmm_args, aggregate)
