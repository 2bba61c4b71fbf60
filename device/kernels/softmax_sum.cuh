// Softmax aggregation and its gradient; kernel/native/softmax_sum.h has the equations. A thread has four
// columns of a row, or one where columns are no multiple of four, as in spmm.cuh, and their state in
// registers. It takes edges eight at a time, in the CPU's order and with the CPU's operations, so that both
// give the same bits.
//
// Bytes needed, for a row of d edges and N columns of s bytes: 4·d of indices; forward d·N·s of x, and N·s of
// the result and 4·N of the log-sum-exp; backward d·N·(2·s + 4) of gradients, outputs and log-sum-exps, and
// what the row has of x and of the gradients. Bytes moved are 1.02 to 1.13 times as many (TestTraffic): a
// warp reads t for each of its rows.
//
// Registers (ptxas -v) of sm_90 and sm_120: forward 90 to 96, backward 77 to 82 for float32 and 84 to 96 for
// bfloat16. Of sm_90 a thread issues in a round of 8 edges forward 959 instructions for float32 and 1005 for
// bfloat16, 30 a number, of which an exponential has 18: 0.75 and 1.57 of the time that memory takes for the
// rows of x. So bfloat16s save no half of the time there. Backward it is 223 for 2 edges and 495 for 4: 0.23
// and 0.40 of memory's time.
#pragma once
#include "pointwise.cuh"
#include "spmm.cuh"

// vexp, with the same bits. A card's NaN has other bits than a CPU's, of which adding n to the exponent's
// bits would make a number: multiplied by 2^n it stays NaN. Nothing is skipped by a branch.
DEVICE float weight(float x) {
	const exponent e = reduce(-larger(-88.3762f, -x));
	const float power = OF_BITS(e.power + BITS(1.0f));
	return choose(x < -87.3365f, 0, OF_BITS(afresh(BITS(fmaf(e.rest, power, power)))));
}

// x·|t|/t
DEVICE float signed_by(float x, float t) { return OF_BITS(BITS(x) ^ (BITS(t) & 0x80000000)); }

// Calls f(other, n) for the rows at the other ends of COUNT edges at a time, self loops last. There are n of
// them; behind the last edge follows that one again.
template <int COUNT, typename F>
DEVICE void each_edges(const weft_edges &edges, const int32_t *loops, const edge_range &e, F f) {
	const int stored = (int)(e.end - e.begin), all = stored + (loops && e.last ? loops[e.row] : 0);
	const int32_t *indices = edges.indices + e.begin;
	for (int k = 0; k < all; k += COUNT) {
		int32_t other[COUNT];
		UNROLL for (int u = 0; u < COUNT; u++) {
			const int edge = min(k + u, all - 1);
			other[u] = edge < stored ? indices[edge] : (int32_t)e.row;
		}
		f(other, min(all - k, COUNT));
	}
}

// The kernels of a pass. Vectors have four columns of either type.
typedef several<bfloat16, 4> four_bfloat16s;
#define FOUR_COLUMNS(name, args) \
	EDGE_KERNELS_OF(name##_float32, args, aggregate, single<float>) \
	EDGE_KERNELS_OF(name##_float32_vector, args, aggregate, vector<float>) \
	EDGE_KERNELS_OF(name##_bfloat16, args, aggregate, single<bfloat16>) \
	EDGE_KERNELS_OF(name##_bfloat16_vector, args, aggregate, four_bfloat16s)

template <typename vec>
DEVICE void aggregate_columns(const weft_softmax_sum_args &a, const edge_range &e, int64_t c) {
	enum { N = vec::N, AHEAD = 8 };
	typedef typename vec::elem elem;
	typedef typename vec::raw raw;
	const char *x = (const char *)((const elem *)a.x + c);
	const int32_t stride = (int32_t)(a.cols * sizeof(elem));
	const int64_t at = e.result * a.cols + c;
	words<float, N> t, maximum, sum;
	vec z = {}, v;
	t.load(a.t + c);
	if (a.first)
		UNROLL for (int i = 0; i < N; i++) // finite, so that scores of −∞ have no weight
			maximum[i] = -3.402823466e38f, sum[i] = 0;
	else
		load_either(z, a.z, a.z_type, at), maximum.load(a.maximum + at), sum.load(a.sum + at);
	each_edges<AHEAD>(a.edges, a.loops, e, [&](const int32_t (&other)[AHEAD], int n) {
		raw r[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++)
			r[u] = *(const raw *)(x + (int64_t)other[u] * stride);
		float largest[N], scale[N], some[N] = {}; // of ±x, whose score is the largest
		UNROLL for (int u = 0; u < AHEAD; u++) {
			v.of(r[u]);
			UNROLL for (int i = 0; i < N; i++) {
				const float x = signed_by(v.x[i], t[i]);
				largest[i] = u ? fmaxf(x, largest[i]) : x;
			}
		}
		UNROLL for (int i = 0; i < N; i++) {
			const float top = fmaxf(fabsf(t[i]) * largest[i], maximum[i]);
			scale[i] = weight(maximum[i] - top), z.x[i] *= scale[i], maximum[i] = top;
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			if (u < n) {
				v.of(r[u]);
				UNROLL for (int i = 0; i < N; i++) {
					const float p = weight(t[i] * v.x[i] - maximum[i]);
					some[i] += p, z.x[i] = fmaf(p, v.x[i], z.x[i]);
				}
			}
		UNROLL for (int i = 0; i < N; i++)
			sum[i] = fmaf(sum[i], scale[i], some[i]);
	});
	if (a.last)
		UNROLL for (int i = 0; i < N; i++) { // without a score above −∞ the output is 0
			z.x[i] = sum[i] == 0 ? 0 : z.x[i] / sum[i];
			maximum[i] = sum[i] == 0 ? 0 : maximum[i] + vlog(sum[i]);
		}
	else
		sum.store(a.sum + at);
	maximum.store(a.maximum + at), store_either(a.z, a.z_type, at, z);
}
FOUR_COLUMNS(softmax_sum, weft_softmax_sum_args)

// The same of a source's out-neighbours. A segment's sums begin at 0.
template <typename vec>
DEVICE void aggregate_columns(const weft_softmax_sum_back_args &a, const edge_range &e, int64_t c) {
	enum { N = vec::N, AHEAD = N == 1 ? 8 : 8 / sizeof(typename vec::elem) };
	typedef typename vec::elem elem;
	typedef typename vec::raw raw;
	const char *g = (const char *)((const elem *)a.g + c), *z = (const char *)((const elem *)a.z + c);
	const char *log_sums = (const char *)(a.log_sum + c);
	const int32_t stride = (int32_t)(a.cols * sizeof(elem)), log_stride = (int32_t)(a.cols * sizeof(float));
	const int64_t at = e.result * a.cols + c;
	words<float, N> t, old, ds = {};
	vec x, dx = {}, sum = {}, of_g, of_z;
	float score[N];
	t.load(a.t + c), x.load((const elem *)a.x + e.row * a.cols + c);
	UNROLL for (int i = 0; i < N; i++)
		score[i] = t[i] * x.x[i];
	each_edges<AHEAD>(a.edges, a.loops, e, [&](const int32_t (&other)[AHEAD], int n) {
		raw gs[AHEAD], zs[AHEAD];
		words<float, N> log_sum[AHEAD];
		UNROLL for (int u = 0; u < AHEAD; u++) {
			const int64_t row = (int64_t)other[u] * stride;
			gs[u] = *(const raw *)(g + row), zs[u] = *(const raw *)(z + row);
			log_sum[u].load((const float *)(log_sums + (int64_t)other[u] * log_stride));
		}
		UNROLL for (int u = 0; u < AHEAD; u++)
			if (u < n) {
				of_g.of(gs[u]), of_z.of(zs[u]);
				UNROLL for (int i = 0; i < N; i++) {
					const float part = weight(score[i] - log_sum[u][i]) * of_g.x[i];
					sum.x[i] += part, ds[i] = fmaf(part, x.x[i] - of_z.x[i], ds[i]);
				}
			}
	});
	if (e.whole)
		load_either(dx, a.dx, a.dx_type, at);
	UNROLL for (int i = 0; i < N; i++)
		dx.x[i] += fmaf(t[i], ds[i], sum.x[i]);
	store_either(a.dx, a.dx_type, at, dx);
	if (!a.ds)
		return;
	if (e.whole) {
		old.load(a.ds + at);
		UNROLL for (int i = 0; i < N; i++)
			ds[i] += old[i];
	}
	ds.store(a.ds + at);
}
FOUR_COLUMNS(softmax_sum_back, weft_softmax_sum_back_args)
