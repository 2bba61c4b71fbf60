// Maximum over neighbours, with the source that has it, and its gradient (kernel/native/max.h). A thread has
// a vector of columns of a row, as in spmm.cuh. NaN is larger than any number. Of equal values the one with
// the smallest id wins.
#pragma once
#include "spmm.cuh"

// z = max(z, x) and arg = the id of the larger one. An arg of −1 says that there is no value yet.
DEVICE void extend(float &z, int32_t &arg, float x, int32_t id) {
	const bool smaller = id < arg;
	if (arg < 0 || x > z || (x == z && smaller) || (x != x && (z == z || smaller)))
		z = x, arg = id;
}

DEVICE int32_t id_of(const int32_t *ids, int64_t row) { return ids ? ids[row] : (int32_t)row; }

template <typename vec>
DEVICE void aggregate_columns(const weft_max_args &a, const edge_range &e, int64_t c) {
	enum { N = vec::N, AHEAD = 8 };
	typedef typename vec::elem elem;
	typedef typename vec::raw raw;
	const elem *x = (const elem *)a.x + c;
	const int64_t at = e.result * a.cols + c;
	vec z = {}, v;
	words<int32_t, N> arg;
	const auto extend_by = [&](const vec &v, int32_t id) {
		UNROLL for (int i = 0; i < N; i++)
			extend(z.x[i], arg[i], v.x[i], id);
	};
	if (a.first)
		UNROLL for (int i = 0; i < N; i++)
			arg[i] = -1;
	else
		z.load((const elem *)a.z + at), arg.load(a.arg + at);
	for (int64_t k = e.begin; k < e.end; k += AHEAD) {
		raw r[AHEAD];
		int32_t id[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) { // behind the last edge that edge is repeated
			const int64_t other = a.edges.indices[min(k + u, e.end - 1)];
			r[u] = *(const raw *)(x + other * a.cols), id[u] = id_of(a.source_ids, other);
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			v.of(r[u]), extend_by(v, id[u]);
	}
	if (e.last && a.loops && a.loops[e.row] > 0)
		v.load(x + e.row * a.cols), extend_by(v, id_of(a.source_ids, e.row));
	z.store((elem *)a.z + at), arg.store(a.arg + at);
}
EDGE_KERNELS(max, weft_max_args, aggregate)

// The gradient, for a source j and its out-neighbours i: dx_jc += Σ g_ic over the i whose arg_ic is j. A
// duplicate edge counts once. The sum of a segment begins at 0.
template <typename vec>
DEVICE void aggregate_columns(const weft_max_back_args &a, const edge_range &e, int64_t c) {
	enum { N = vec::N, AHEAD = N > 1 ? 4 : 8 };
	typedef typename vec::raw raw;
	const typename vec::elem *g = (const typename vec::elem *)a.g + c;
	const int32_t id = id_of(a.source_ids, e.row);
	vec sum = {}, v;
	const auto add = [&](const words<int32_t, N> &arg) {
		UNROLL for (int i = 0; i < N; i++)
			sum.x[i] += arg[i] == id ? v.x[i] : 0;
	};
	if (e.whole)
		load_either(sum, a.dx, a.dx_type, e.result * a.cols + c);
	for (int64_t k = e.begin; k < e.end; k += AHEAD) {
		raw r[AHEAD];
		words<int32_t, N> arg[AHEAD];
		bool again[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) {
			const int64_t edge = min(k + u, e.end - 1), other = a.edges.indices[edge];
			r[u] = *(const raw *)(g + other * a.cols), arg[u].load(a.arg + other * a.cols + c);
			again[u] = edge != k + u || (edge > e.begin && a.edges.indices[edge - 1] == other);
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			if (!again[u])
				v.of(r[u]), add(arg[u]);
	}
	if (e.last && a.loops && a.loops[e.row] > 0) {
		words<int32_t, N> arg;
		v.load(g + e.row * a.cols), arg.load(a.arg + e.row * a.cols + c), add(arg);
	}
	store_either(a.dx, a.dx_type, e.result * a.cols + c, sum);
}
EDGE_KERNELS(max_back, weft_max_back_args, aggregate)

// Merges the partial results of segments, as merge_sums in sums.cuh does.
STORAGE_KERNEL(merge_maxima, weft_merge_maxima_args) {
	const int64_t columns = last - first, segment = thread_number() / columns,
	              c = first + thread_number() % columns;
	if (segment >= a.segments.count || !begins_row(a.segments, segment))
		return;
	const weft_merge m = weft_merge_from(&a.segments, segment);
	T *z = (T *)(m.complete ? a.z : a.partials) + (m.complete ? m.row * a.cols : 0) + c;
	int32_t *arg = (m.complete ? a.arg + m.row * a.cols : a.partial_args) + c;
	const bool begins = m.complete ? a.first : m.first > 0;
	float x = begins ? 0 : number(*z);
	int32_t source = begins ? -1 : *arg;
	UNROLL_BY(4) for (int64_t p = m.first; p < m.end; p++)
		extend(x, source, number(((const T *)a.partials)[p * a.cols + c]), a.partial_args[p * a.cols + c]);
	round_to(z, x), *arg = source;
}
