// Every kernel at one SIMD level. The level's file defines the vector type vf of VW floats with load, store and their forms
// for the first n lanes, and REGISTERS, how many accumulators fit beside the operands.
#include "weft.h"
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

typedef int32_t vi __attribute__((vector_size(sizeof(vf))));
typedef uint32_t v32 __attribute__((vector_size(sizeof(vf))));
typedef uint64_t v64 __attribute__((vector_size(sizeof(vf))));
typedef double vd __attribute__((vector_size(sizeof(vf))));
typedef float hf __attribute__((vector_size(sizeof(vf) / 2)));

static inline vf all(float x) { return x - (vf){0}; }
static inline vf larger(vf a, vf b) { return (vf)(((vi)a & (a > b)) | ((vi)b & ~(a > b))); }

// The first n of a vector's lanes; where n is the constant VW, nothing is masked.
static inline __attribute__((always_inline)) vf part(const float *p, int n) { return n == VW ? load(p) : load_n(p, n); }

static inline __attribute__((always_inline)) void put(float *p, vf v, int n) {
	if (n == VW)
		store(p, v);
	else
		store_n(p, v, n);
}

// v with zeros behind its first n lanes.
static inline __attribute__((always_inline)) vf only(vf v, int n) {
	if (n == VW)
		return v;
	float first[VW] = {0};
	store_n(first, v, n);
	return load(first);
}

// VW/2 numbers in double precision.
static inline vd wide(const float *p) {
	hf v;
	__builtin_memcpy(&v, p, sizeof v);
	return __builtin_convertvector(v, vd);
}

// The sum of the lanes, added in halves.
static inline float lane_sum(vf v) {
	float s[VW];
	store(s, v);
	for (int w = VW / 2; w > 0; w /= 2)
		for (int i = 0; i < w; i++)
			s[i] += s[i + w];
	return s[0];
}

// x = n·ln2 + r with |r| ≤ ln2/2, and e^r − 1 (Cephes' polynomial).
typedef struct {
	vi n, under;
	vf rest;
} exponent;

static inline exponent reduce(vf x) {
	const vf low = all(-87.3365f), high = all(88.3762f);
	vi under = x < low;
	x = larger(low, x); // in this order NaN stays NaN
	x = -larger(-high, -x);
	vf half = (vf)(((vi)x & (vi)all(-0.0f)) | (vi)all(0.5f)); // 0.5 with the sign of x
	vi n = __builtin_convertvector(x * 1.44269504088896341f + half, vi);
	vf f = __builtin_convertvector(n, vf);
	vf r = x - f * 0.693359375f + f * 2.12194440e-4f;
	vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	return (exponent){n, under, p * r * r + r};
}

// e^x within 2 units in the last place, 0 below the normal numbers.
static inline vf vexp(vf x) {
	exponent e = reduce(x);
	vf y = (e.rest + 1.0f) * (vf)((e.n + 127) << 23);
	return (vf)((vi)y & ~e.under);
}

// e^x − 1, exact also where x is small.
static inline vf vexpm1(vf x) {
	exponent e = reduce(x);
	vf y = (e.rest + 1.0f) * (vf)((e.n + 127) << 23) - 1.0f;
	vi small = e.n == 0;
	return (vf)(((vi)e.rest & small) | ((vi)y & ~small));
}

static inline float exp1(float x) { return vexp(all(x))[0]; }

static inline void exp_all(float *p, int64_t n) {
	int64_t i = 0;
	for (; i + VW <= n; i += VW)
		store(p + i, vexp(load(p + i)));
	if (i < n)
		store_n(p + i, vexp(load_n(p + i, n - i)), n - i);
}

static inline float dot(const float *a, const float *b, int64_t n) {
	vf s = {0};
	int64_t i = 0;
	for (; i + VW <= n; i += VW)
		s += load(a + i) * load(b + i);
	if (i < n)
		s += load_n(a + i, n - i) * load_n(b + i, n - i);
	return lane_sum(s);
}

// y += c·x
static inline void axpy(float *y, float c, const float *x, int64_t n) {
	int64_t i = 0;
	for (; i + VW <= n; i += VW)
		store(y + i, load(y + i) + c * load(x + i));
	if (i < n)
		store_n(y + i, load_n(y + i, n - i) + c * load_n(x + i, n - i), n - i);
}

#include "random.h"
#include "spmm.h"
#include "attention.h"
#include "piece.h"
#include "pointwise.h"
#include "norm.h"
#include "loss.h"
#include "step.h"

const weft_function TABLE[] = {
#define X(name) k_##name,
	WEFT_KERNELS(X)
#undef X
};
