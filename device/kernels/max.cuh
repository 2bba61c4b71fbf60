// Aggregation by the largest value, with the source that gave it, and its gradient. A thread has a vector of
// columns of a row, as in spmm.cuh. NaN is larger than any number, and the smallest id wins a tie.
#pragma once
#include "spmm.cuh"

// Extends z and arg by x of a source; an arg of −1 stands for no value yet.
DEVICE void extend(float &z, int32_t &arg, float x, int32_t id) {
	const bool smaller = id < arg;
	if (arg < 0 || x > z || (x == z && smaller) || (x != x && (z == z || smaller)))
		z = x, arg = id;
}

// N words at a multiple of 16 bytes, or one word.
template <int N> struct words {
	int32_t w[N];
	enum { AT_ONCE = N < 4 ? N : 4 };
	typedef together<int32_t, AT_ONCE> some;
	DEVICE void load(const int32_t *p) {
		UNROLL for (int i = 0; i < N; i++)
			w[i] = ((const some *)p)[i / AT_ONCE].e[i % AT_ONCE];
	}
	DEVICE void store(int32_t *p) const {
		UNROLL for (int i = 0; i < N; i += AT_ONCE) {
			some s;
			UNROLL for (int k = 0; k < AT_ONCE; k++)
				s.e[k] = w[i + k];
			((some *)p)[i / AT_ONCE] = s;
		}
	}
};

DEVICE int32_t id_of(const int32_t *ids, int64_t row) {
	return ids ? ids[row] : (int32_t)row;
}

// Columns c … of a row whose edges are begin … end−1; the result is row `to` of z and arg.
template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void max_columns(const weft_max_args &a, int64_t row, int64_t begin, int64_t end,
                        const int32_t *loops, int64_t to, int64_t c) {
	enum { N = vec<elem>::N };
	const elem *x = (const elem *)a.x + c;
	const int64_t at = to * a.cols + c;
	vec<elem> z, v;
	words<N> arg;
	if (a.first) {
		UNROLL for (int i = 0; i < N; i++)
			z.x[i] = 0, arg.w[i] = -1;
	} else {
		z.load((const elem *)a.z + at), arg.load(a.arg + at);
	}
	for (int64_t k = begin; k < end; k += AHEAD) {
		typename vec<elem>::raw r[AHEAD];
		int32_t id[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) { // behind the last edge that one again
			const int64_t other = a.edges.indices[min(k + u, end - 1)];
			r[u] = *(const typename vec<elem>::raw *)(x + other * a.cols);
			id[u] = id_of(a.source_ids, other);
		}
		UNROLL for (int u = 0; u < AHEAD; u++) {
			v.of(r[u]);
			UNROLL for (int i = 0; i < N; i++)
				extend(z.x[i], arg.w[i], v.x[i], id[u]);
		}
	}
	if (loops && loops[row] > 0) {
		v.load(x + row * a.cols);
		UNROLL for (int i = 0; i < N; i++)
			extend(z.x[i], arg.w[i], v.x[i], id_of(a.source_ids, row));
	}
	z.store((elem *)a.z + at), arg.store(a.arg + at);
}

// The same of a source's out-neighbours: what each of them that it is the maximum of passes back is added to
// dx. A duplicate edge counts once. What dx holds is added to where it is not begun.
template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void max_back_columns(const weft_max_back_args &a, int64_t row, int64_t begin,
                             int64_t end, const int32_t *loops, bool begun, int64_t to,
                                                 int64_t c) {
	enum { N = vec<elem>::N };
	const int32_t id = id_of(a.source_ids, row);
	vec<elem> sum, v;
	const auto add = [&](const vec<elem> &g, const words<N> &arg) {
		UNROLL for (int i = 0; i < N; i++)
			sum.x[i] += arg.w[i] == id ? g.x[i] : 0;
	};
	if (begun)
		load_either(sum, a.dx, a.dx_type, to * a.cols + c);
	else
		UNROLL for (int i = 0; i < N; i++)
			sum.x[i] = 0;
	for (int64_t k = begin; k < end; k += AHEAD) {
		typename vec<elem>::raw r[AHEAD];
		words<N> arg[AHEAD];
		bool again[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) {
			const int64_t edge = min(k + u, end - 1), other = a.edges.indices[edge], at = other * a.cols + c;
			r[u] = *(const typename vec<elem>::raw *)((const elem *)a.g + at);
			arg[u].load(a.arg + at);
			again[u] = edge != k + u || (edge > begin && a.edges.indices[edge - 1] == other);
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			if (!again[u])
				v.of(r[u]), add(v, arg[u]);
	}
	if (loops && loops[row] > 0) {
		words<N> arg;
		v.load((const elem *)a.g + row * a.cols + c), arg.load(a.arg + row * a.cols + c);
		add(v, arg);
	}
	store_either(a.dx, a.dx_type, to * a.cols + c, sum);
}

template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void max_rows(const over_rows<weft_max_args> &l) {
	const weft_max_args &a = l.a;
	each_row<vec<elem>::N>(l.first, l.last, a.cols, a.edges, a.edges.indptr + 1,
	    [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    max_columns<elem, vec, AHEAD>(a, row, begin, end, a.loops, row, c);
	    }, [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    max_columns<elem, single, 8>(a, row, begin, end, a.loops, row, c);
	    });
}
template <typename elem, template <typename> class vec, int AHEAD>
DEVICE void max_back_rows(const over_rows<weft_max_back_args> &l) {
	const weft_max_back_args &a = l.a;
	each_row<vec<elem>::N>(l.first, l.last, a.cols, a.edges, a.edges.indptr + 1,
	    [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    max_back_columns<elem, vec, AHEAD / 2>(a, row, begin, end, a.loops, true, row, c);
	    }, [&](int64_t row, int64_t begin, int64_t end, int64_t c) {
		    max_back_columns<elem, single, 8>(a, row, begin, end, a.loops, true, row, c);
	    });
}

#define MAX_KERNELS(suffix, elem, vec, AHEAD) \
	KERNEL(max##suffix, weft_max_args) { max_rows<elem, vec, AHEAD>(l); } \
	KERNEL(max_back##suffix, weft_max_back_args) { max_back_rows<elem, vec, AHEAD>(l); } \
	SEGMENTS_KERNEL(max##suffix##_segments, weft_max_args) { \
		each_segment<vec<elem>::N>(l, [&](const weft_segment &s, bool last, int64_t c) { \
			const int32_t *loops = last ? l.a.loops : nullptr; \
			max_columns<elem, vec, AHEAD>(l.a, s.row, s.begin, s.end, loops, s.place, c); \
		}); \
	} \
	SEGMENTS_KERNEL(max_back##suffix##_segments, weft_max_back_args) { \
		each_segment<vec<elem>::N>(l, [&](const weft_segment &s, bool last, int64_t c) { \
			const int32_t *loops = last ? l.a.loops : nullptr; \
			max_back_columns<elem, vec, AHEAD / 2>(l.a, s.row, s.begin, s.end, loops, false, s.place, c); \
		}); \
	}
MAX_KERNELS(_float32, float, single, 16)
MAX_KERNELS(_float32_vector, float, vector, 8)
MAX_KERNELS(_bfloat16, bfloat16, single, 16)
MAX_KERNELS(_bfloat16_vector, bfloat16, vector, 8)

// What segments gave, merged as sums.cuh's merge_sums does it. Runs over columns, one a thread.
template <typename T> DEVICE void merge_maxima(const over_rows<weft_merge_maxima_args> &l) {
	const weft_merge_maxima_args &a = l.a;
	const int64_t c = l.first + thread_number();
	if (c >= l.last)
		return;
	for (int k = 0; k < a.merges.count; k++) {
		const weft_merge &m = a.merges.of[k];
		T *z = (T *)(m.complete ? a.z : a.places) + (m.complete ? m.row * a.cols : 0) + c;
		int32_t *arg = (m.complete ? a.arg + m.row * a.cols : a.place_args) + c;
		const bool begins = m.complete ? a.first : m.first > 0;
		float x = begins ? 0 : number(*z);
		int32_t source = begins ? -1 : *arg;
		for (int p = m.first; p < m.end; p++)
			extend(x, source, number(((const T *)a.places)[p * a.cols + c]), a.place_args[p * a.cols + c]);
		round_to(z, x), *arg = source;
	}
}
STORAGE_KERNELS(merge_maxima, weft_merge_maxima_args, merge_maxima)
