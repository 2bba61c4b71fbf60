// All kernels at one SIMD level. The file of the level includes this one. Before that it defines:
//   vf            the vector type, of VW floats
//   load_float, store_float, load_n_float, store_n_float
//                 a whole vector, or its first n lanes
//   sums_of_four, across, across_halves
//                 sums over the lanes of several vectors
//   REGISTERS     how many accumulators fit into registers beside the operands
//   NARROWER      the kernels for rows of 1, 2, … columns, narrower than a vector; some levels have none
#include "take.h"
#include "vector.h"
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

// Keeps a vector in a register after one load. Without this the compiler may use it from memory again and
// again.
#if defined(__SSE2__)
#define IN_REGISTER(vector) __asm__("" : "+v"(vector))
#else
#define IN_REGISTER(vector)
#endif

typedef uint64_t v64 __attribute__((vector_size(sizeof(vf))));
typedef double vd __attribute__((vector_size(sizeof(vf))));
typedef float hf __attribute__((vector_size(sizeof(vf) / 2)));

// t > 0 ? a : b, lane by lane
static inline vf positive(vf t, vf a, vf b) { return where_greater(t, (vf){0}, a, b); }

static inline vf leaky_v(vf t, vf slope) { return larger(t * slope, t); } // LeakyReLU, for slope ≤ 1

// The numbers from, from + 1, … in the lanes, for from ≤ VW.
static inline vi numbers(int from) {
	static const int32_t all_numbers[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
	                                        16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
	return (vi)load((const float *)all_numbers + from);
}

// Rotates the lanes by w: the lanes from w on come first, and the lanes before w follow.
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

// Whether two heads of `width` columns share a vector. A half of a vector then has at least four lanes.
static inline int in_pairs(int P, int64_t width) { return VW > 4 && P > 1 && 2 * width == VW; }

// Reorders the result of across_halves(sums_of_four): lanes 2i and 2i+1 become the sums of the lower and the
// upper half of vector i.
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

// Load and store the first n lanes of a vector. If n is the constant VW, nothing is masked.
#define part(p, n) ((n) == VW ? load(p) : load_n(p, n))
#define put(p, v, n) ((n) == VW ? store(p, v) : store_n(p, v, n))

// x in the first n lanes, fill in the others.
static inline vf first_lanes(vf x, int n, vf fill) {
	vi in = numbers(0) < n;
	return (vf)(((vi)x & in) | ((vi)fill & ~in));
}

// v with zeros behind its first n lanes.
INLINE vf only(vf v, int n) { return n == VW ? v : first_lanes(v, n, (vf){0}); }

// Converts VW/2 floats to double precision.
static inline vd wide(const float *p) {
#if defined(WIDE) // one instruction, where GCC makes two vectors and joins them
	return (vd)WIDE(p);
#endif
	hf v;
	__builtin_memcpy(&v, p, sizeof v);
	return __builtin_convertvector(v, vd);
}

// Each lane becomes the sum of the lanes whose distance from it is a multiple of P. The lanes are added in
// halves.
INLINE vf sum_of_edges(vf v, const int P) {
	for (int w = VW / 2; w >= P; w /= 2)
		v += rotate(v, w);
	return v;
}

static inline float lane_sum(vf v) { return sum_of_edges(v, 1)[0]; }

// The operations that functions.h needs, on vectors.
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

// Returns a vector whose lanes add up to ⟨a, b⟩, for n numbers each.
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

// y += c·x, for n numbers. The columns that follow the last whole vector are stored together with those
// before them, as the whole vector that ends the row. A masked store would delay the next load beside it.
// Only a row that is shorter than a vector has a masked store.
static inline void axpy(elem *y, float c, const float *x, int64_t n) {
	const int64_t end = n < VW ? 0 : n - VW;
	const int lanes = n < VW ? n : VW;
	vf last = part(y + end, lanes) + c * part(x + end, lanes);
	for (int64_t i = 0; i < end; i += VW)
		store(y + i, load(y + i) + c * load(x + i));
	put(y + end, last, lanes);
}

// Returns the kernels for rows of `cols` columns, if a vector of this level has more lanes. Else it returns
// NULL.
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
#include "softmax_sum.h"
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
