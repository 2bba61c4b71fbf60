// Aggregation: a thread has a vector of columns of a destination row. It adds the rows of its edges in their
// order, with the fused multiply-adds of the CPU's kernel, and writes the sum once. Threads of a row lie
// together, so that a warp reads whole stretches of x. Rows of vectors of any width fill their warps. Where
// columns are no multiple of a vector, a warp has whole rows, or 128 columns of one (row_threads).
//
// It is the pattern of a kernel over edges, whose comment has these figures. Those of a card are of sm_90.
//
// Bytes needed, for a row of d edges and N columns of s bytes: d·N·s of x, 4·d of indices, 4·d of weights and
// 4·d of col_scale where there are some, 8 for where the row ends, and N·s of the result. No number is needed
// twice, but for rows of x, which other destinations read: bytes bound it. Sums stay in registers.
//
// Bytes moved, in sectors of 32 bytes: 1.01 to 1.08 times as many where rows begin at sectors, and stores are
// what is needed. It is 1.17 and 1.36 for 47 columns of float32 and bfloat16, whose rows begin anywhere: 1.14
// and 1.29 is the least that sectors allow (TestTraffic, whose table docs/performance.md has).
//
// Loads in flight: the rows of AHEAD edges, 8 vectors of 16 bytes or 12 to 16 numbers, are asked for before
// the first is added. Behind a row's last edge that edge is asked for again, which the first cache has. So
// the loop has no branch around a load, and all loads of a round are issued together.
//
// Registers (ptxas -v, as scripts/cubins compiles): spmm_float32_vector 80, its form for segments 72,
// spmm_bfloat16_vector 88 and 80. A multiprocessor has 65536, so that 3 blocks of 256 threads fit, 3, 2 and
// 3: three ask for 3·256·8·16 = 98,304 bytes at a time. With more than 80 registers one block less fits.
//
// Instructions of a thread in a round of 8 edges (scripts/device/instructions.py): 215 for float32, 27 an
// edge of 4 columns, and 340 for bfloat16, 43 an edge of 8 columns. A card issues them in 0.17 and 0.27 of
// the time that its memory takes for the rows of x.
//
// There are no atomics: a row has one writer, the result the same bits in each run and on the CPU, and z
// needs no zeros before. A sum over a column is one thread's. So a row of many edges is shared by columns,
// not by edges:
//
// - more than SHARED_ROW edges: all threads of the block that the row ends in have a column each;
// - more than WEFT_LONG: the host cuts the row into segments of about WEFT_SEGMENT edges (kernel/segment.go),
//   on the CPU, too. One launch (over_segments) has the sums of all, and merge_sums in sums.cuh adds them in
//   their order.
//
// Where rows of x exceed the second cache, blocks have a slice of columns of all rows, and then the next
// slice (kernel/slice.go): a column's bits do not depend on it.
//
// Right is what TestConformance/spmm, TestHubRow and TestSlices compare with float64, with the CPU and with
// whole rows. scripts/device/mutants.py has wrong lines of it, each of which one of them notices.
#pragma once
#include "warp.cuh"

// A row of more edges would keep its few threads at work when others are through.
enum { SHARED_ROW = 512 };

// Edges begin … end−1 of a row, whose result is row `place`: those of a whole row, or of a segment. last:
// they end the row.
struct edge_range {
	int64_t row, result, begin, end;
	bool whole, last;
};

// COUNT single numbers of a row, 32 columns apart, of which those exist that are less than `left` behind the
// first.
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

// A vector of them, or one.
template <typename vec> struct side_by_side : vec {
	enum { AHEAD = vec::N > 1 ? 8 : 12 };
	typedef typename vec::raw raw;
	static DEVICE raw read(const typename vec::elem *p, int) { return *(const raw *)p; }
	DEVICE void load(const void *p, int32_t type, int64_t k, int) { load_either(*(vec *)this, p, type, k); }
	DEVICE void store(void *p, int32_t type, int64_t k, int) const {
		store_either(p, type, k, *(const vec *)this);
	}
};

// A thread's columns from c on, of `left` that the row has from there on. The rows of AHEAD edges are asked
// for before the first of them is added.
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
		UNROLL for (int u = 0; u < AHEAD; u++) // behind the last edge that one again
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

// The threads of a row, and their columns. Vectors follow each other. A sum of neighbours whose columns are
// single numbers gives whole rows to a warp, or 128 columns of one: rows begin anywhere in a sector, and of
// columns that follow each other two warps would read the sector between them, and both all indices.
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
	int lanes, each; // lanes that take columns side by side, and how many of these a lane has
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

// The columns that the blocks of this one have: those of a slice. Blocks of the next slice follow, and begin
// with the first row again, so that what the card works on at a time reads few columns of x.
struct columns_of_rows {
	int64_t from, width, t; // the thread's number among those of the slice
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

// Runs over rows, or over a slice of their columns. All threads of the block that rows of many edges
// end in share them, a column each, so that narrow rows are taken several at a time.
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
// Runs over segments of rows, as many threads for each.
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
