// Operations on a vector type vf of VW floats, which is a SIMD level's or a narrower one (narrow.h).
#include "weft.h"

// These passes of the compiler take a fifth of its time, and gain nothing for the kernels. Loops of kernels
// already are over vectors, and the code itself says for which constants it is specialised.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize( \
    "no-tree-slp-vectorize,no-tree-pre,no-ipa-cp,no-gcse,no-split-loops,no-split-paths,no-version-loops-for-strides,no-schedule-insns2")
#endif

// A function that is called with constants is compiled once for each of them.
#define INLINE static inline __attribute__((always_inline))

typedef int32_t vi __attribute__((vector_size(sizeof(vf))));

static inline vf all(float x) { return x - (vf){0}; }

#include "bfloat16.h"

typedef uint32_t v32 __attribute__((vector_size(sizeof(vf))));
typedef uint16_t vh __attribute__((vector_size(sizeof(vf) / 2))); // a vector's bfloat16s

static inline vf widen(vh halves) { return (vf)(WORDS_OF(halves) << 16); }

// Rounds to bfloat16: to nearest, ties to even. NaN stays NaN: the addition to its bits could turn it into
// another number.
static inline vh rounded(vf v) {
	v32 bits = (v32)v, up = bits + 0x7fffu + (bits >> 16 & 1), nan = (v32)(v != v);
	return HALVES_OF(((up & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
}

static inline vf load_bfloat16(const bfloat16 *p) {
	vh halves = {0};
	__builtin_memcpy(&halves, p, VW * sizeof *p);
	return widen(halves);
}
static inline void store_bfloat16(bfloat16 *p, vf v) {
	vh halves = rounded(v);
	__builtin_memcpy(p, &halves, VW * sizeof *p);
}

// Loads one number.
static inline float number_float(const float *p) { return *p; }
static inline float number_bfloat16(const bfloat16 *p) {
	const uint32_t bits = (uint32_t)p->bits << 16;
	float x;
	__builtin_memcpy(&x, &bits, sizeof x);
	return x;
}

// Loads and stores of whole vectors, and of their first n lanes. The type of p selects the function.
#define FOR_TYPE(p, f) \
	_Generic((p), float *: f##_float, const float *: f##_float, \
	         bfloat16 *: f##_bfloat16, const bfloat16 *: f##_bfloat16)
#define number(p) FOR_TYPE(p, number)(p)
#define load(p) FOR_TYPE(p, load)(p)
#define store(p, v) FOR_TYPE(p, store)(p, v)

#if defined(NARROW) // a row is at least a vector: there are no partial vectors
#define load_n(p, n) load(p)
#define store_n(p, v, n) store(p, v)
#else
#if !defined(__AVX512F__) // AVX-512 has instructions for it
typedef uint64_t words __attribute__((vector_size(sizeof(vh))));

static inline vh load_halves(const bfloat16 *p, int n) {
	uint64_t low = 0, rest = 0;
	const bfloat16 *last = p + (n & ~3);
	if (n & 2)
		__builtin_memcpy(&rest, last, 4);
	if (n & 1)
		rest |= (uint64_t)p[n - 1].bits << 16 * (n & 2);
	if (n < 4)
		low = rest;
	else
		__builtin_memcpy(&low, p, 8);
	words w = {low};
	if (VW > 4)
		w[VW / 4 - 1] = n < 4 ? 0 : rest;
	return (vh)w;
}
static inline void store_halves(bfloat16 *p, vh halves, int n) {
	const words w = (words)halves;
	uint64_t rest = w[0];
	if (n >= 4) {
		__builtin_memcpy(p, &rest, 8);
		p += 4;
		rest = w[VW / 4 - 1];
	}
	if (n & 2) {
		__builtin_memcpy(p, &rest, 4);
		p += 2;
		rest >>= 32;
	}
	if (n & 1)
		__builtin_memcpy(p, &rest, 2);
}
#endif
static inline vf load_n_bfloat16(const bfloat16 *p, int n) { return widen(load_halves(p, n)); }
static inline void store_n_bfloat16(bfloat16 *p, vf v, int n) { store_halves(p, rounded(v), n); }
#define load_n(p, n) FOR_TYPE(p, load_n)(p, n)
#define store_n(p, v, n) FOR_TYPE(p, store_n)(p, v, n)
#endif

struct row_sum;

// The kernels for rows that have fewer columns than a level's vectors have lanes. There is one set for each
// power of two of lanes. Their arguments are those of the level's kernels.
typedef struct {
	weft_function spmm, max, max_back;
	void (*sum_rows)(const struct row_sum *);
} weft_narrow;

extern const weft_narrow weft_narrow_avx2_1, weft_narrow_avx2_2, weft_narrow_avx2_4, weft_narrow_avx2_8;
