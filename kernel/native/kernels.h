// Every kernel at one SIMD level. The level's file defines the vector type vf of VW floats with load_float,
// store_float and their forms for the first n lanes, the sums of lanes sums_of_four, across and
// across_halves, REGISTERS, how many accumulators fit beside the operands, and NARROWER, the kernels for
// narrow rows of 1, 2, … columns of floats, where it has any.
#include "take.h"
#include "vector.h"
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

// Has a vector be loaded once and then stay in a register, where the compiler would use it from memory again
// and again.
#if defined(__SSE2__)
#define IN_REGISTER(vector) __asm__("" : "+v"(vector))
#else
#define IN_REGISTER(vector)
#endif

typedef uint64_t v64 __attribute__((vector_size(sizeof(vf))));
typedef double vd __attribute__((vector_size(sizeof(vf))));
typedef float hf __attribute__((vector_size(sizeof(vf) / 2)));

static inline vf positive(vf t, vf a, vf b) { return where_greater(t, (vf){0}, a, b); } // t > 0 ? a : b

static inline vf leaky_v(vf t, vf slope) { return larger(t * slope, t); } // slope ≤ 1

// from, from + 1, … in the lanes, for from ≤ VW.
static inline vi numbers(int from) {
	static const int32_t all_numbers[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
	                                        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
	return (vi)load((const float *)all_numbers + from);
}

// The lanes from w on, and then those before.
static inline vf rotate(vf v, const int w) {
	return __builtin_shuffle(v, numbers(w) & (VW - 1));
}

// Lane i of the result is the sum of the lanes of v[i], for VW vectors.
static inline vf lane_sums(const vf *v) {
	vf u[VW / 4];
	for (int i = 0; i < VW / 4; i++)
		u[i] = sums_of_four(v + 4 * i);
	return across(u);
}

// Whether P heads of so many columns are taken two in a vector, which has halves of at least four lanes.
static inline int in_pairs(int P, int64_t width) { return VW > 4 && P > 1 && 2 * width == VW; }

// Puts what across_halves has made of sums_of_four in order: lanes 2i and 2i+1 are of the lower and the upper
// half of vector i.
static inline vf in_order(vf sums) {
	vi order;
	for (int l = 0; l < VW; l++)
		order[l] = l / 8 * 8 + l % 2 * 4 + l % 8 / 2;
	return __builtin_shuffle(sums, order);
}

// Lanes 2i and 2i+1 of the result are the sums of the lower and the upper half of v[i], for VW/2 vectors.
static inline vf half_sums(const vf *v) {
	vf u[VW / 4];
	for (int i = 0; i < VW / 8; i++)
		u[i] = sums_of_four(v + 4 * i);
	return in_order(across_halves(u));
}

// The first n of a vector's lanes; where n is the constant VW, nothing is masked.
#define part(p, n) ((n) == VW ? load(p) : load_n(p, n))
#define put(p, v, n) ((n) == VW ? store(p, v) : store_n(p, v, n))

// x in the first n lanes, fill in the others.
static inline vf first_lanes(vf x, int n, vf fill) {
	vi in = numbers(0) < n;
	return (vf)(((vi)x & in) | ((vi)fill & ~in));
}

// v with zeros behind its first n lanes.
INLINE vf only(vf v, int n) { return n == VW ? v : first_lanes(v, n, (vf){0}); }

// VW/2 numbers in double precision.
static inline vd wide(const float *p) {
#if defined(WIDE) // GCC makes two vectors and joins them
	return (vd)WIDE(p);
#endif
	hf v;
	__builtin_memcpy(&v, p, sizeof v);
	return __builtin_convertvector(v, vd);
}

// Each lane gets the sum of the lanes that are a multiple of P away, added in halves.
INLINE vf sum_of_edges(vf v, const int P) {
	for (int w = VW / 2; w >= P; w /= 2)
		v += rotate(v, w);
	return v;
}

static inline float lane_sum(vf v) { return sum_of_edges(v, 1)[0]; }

// What functions.h takes of vectors.
static inline vf choose(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
static inline vf truth(vi mask) { return (vf)((vi)all(1.0f) & mask); }
#define BITS(x) ((vi)(x))
#define OF_BITS(n) ((vf)(n))
#define WHOLE(x) __builtin_convertvector(x, vi)
#define FLOATS(n) __builtin_convertvector(n, vf)
#define FUSED(a, b, c) ((a) * (b) + (c))
static inline float sine(float x) { return sinf(x); }
static inline float cosine(float x) { return cosf(x); }
#include "functions.h"

// A vector whose lanes add up to the dot product.
static inline vf dot_lanes(const elem *a, const float *b, int64_t n) {
	vf s[4] = {{0}};
	int64_t i = 0;
	for (; i + 4 * VW <= n; i += 4 * VW)
		for (int k = 0; k < 4; k++)
			s[k] += load(a + i + k * VW) * load(b + i + k * VW);
	for (; i + VW <= n; i += VW)
		s[0] += load(a + i) * load(b + i);
	if (i < n)
		s[1] += load_n(a + i, n - i) * load_n(b + i, n - i);
	return (s[0] + s[1]) + (s[2] + s[3]);
}

// y += c·x. What is left over after whole vectors is stored with the whole vector that ends it, where there
// is one: the next load would wait for a masked store beside it.
static inline void axpy(elem *y, float c, const float *x, int64_t n) {
	const int64_t end = n < VW ? 0 : n - VW;
	const int lanes = n < VW ? n : VW;
	vf last = part(y + end, lanes) + c * part(x + end, lanes);
	for (int64_t i = 0; i < end; i += VW)
		store(y + i, load(y + i) + c * load(x + i));
	put(y + end, last, lanes);
}

// The kernels for rows of so many columns, where a vector has more lanes; else NULL.
static inline const weft_narrow *narrower(int64_t cols) {
#if defined(NARROWER) && !defined(WEFT_OF_BFLOAT16)
	static const weft_narrow *const from[] = {NARROWER};
	if (cols > 0 && cols < VW)
		return from[63 - __builtin_clzll(cols)];
#endif
	return NULL;
}

#include "random.h"
#include "block.h"
#include "spmm.h"
#include "max.h"
#include "piece.h"
#include "rows.h"
#include "coding.h"
#include "pointwise.h"
#include "norm.h"
#include "sums.h"
#include "edges.h"
#include "heads.h"
#include "attention.h"
#include "segment.h"
#include "groups.h"
#if !defined(WEFT_OF_BFLOAT16)
#include "ends.h"
#include "loss.h"
#include "pairs.h"
#include "step.h"
#include "expression.h"
#include "panels.h"
#if defined(TILES)
#include "tiles.h"
#endif
#include "weight.h"
#endif

const weft_function TABLE[] = {
#define X(name) k_##name,
	WEFT_STORAGE_KERNELS(X)
#if !defined(WEFT_OF_BFLOAT16)
	WEFT_OTHER_KERNELS(X)
#endif
#undef X
};
