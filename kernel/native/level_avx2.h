//go:build amd64

#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <stdint.h>
typedef __m256 vf;
enum { VW = 8, REGISTERS = 8 };
static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static inline __m256i first(int n) { return _mm256_loadu_si256((const __m256i *)(lanes + 8 - n)); }
static inline vf load_float(const float *p) { return _mm256_loadu_ps(p); }
static inline void store_float(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline vf load_n_float(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
static inline void store_n_float(float *p, vf v, int n) { _mm256_maskstore_ps(p, first(n), v); }
// The floats of x at VW places.
#define GATHER(x, places) _mm256_i32gather_ps(x, _mm256_loadu_si256((const __m256i *)(places)), 4)
// a > b ? a : b
static inline vf larger(vf a, vf b) { return _mm256_max_ps(a, b); }
// x > y ? a : b
static inline vf where_greater(vf x, vf y, vf a, vf b) {
	return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_GT_OQ));
}
static inline vf vsqrt(vf v) { return _mm256_sqrt_ps(v); }
// Whether any lane of v is not 0. The bits of a lane are all ones, or all 0.
static inline int any_bit(vf v) { return !_mm256_testz_ps(v, v); }
typedef __m256i vu;
static inline vu all_u(uint32_t x) { return _mm256_set1_epi32(x); }
// The products of the lower halves of each 64 bits.
static inline vu multiply(vu a, vu b) { return _mm256_mul_epu32(a, b); }
// Lane i of each 128 bits of the result is the sum of these 128 bits of v[i], for four vectors.
static inline vf sums_of_four(const vf *v) {
	__m256d a = (__m256d)(_mm256_unpacklo_ps(v[0], v[1]) + _mm256_unpackhi_ps(v[0], v[1]));
	__m256d b = (__m256d)(_mm256_unpacklo_ps(v[2], v[3]) + _mm256_unpackhi_ps(v[2], v[3]));
	return (vf)_mm256_unpacklo_pd(a, b) + (vf)_mm256_unpackhi_pd(a, b);
}
// Lane 4i + j of the result is the sum of lanes j and j+4 of u[i].
static inline vf across(const vf u[2]) {
	return _mm256_permute2f128_ps(u[0], u[1], 0x20) + _mm256_permute2f128_ps(u[0], u[1], 0x31);
}
// Lane 4k + j of the result is lane j of half k of u[0].
static inline vf across_halves(const vf u[1]) { return u[0]; }
// Bit i of above and of below says whether x[i] is above 0, and below 0, for 64 numbers.
static inline void signs(const float *x, uint64_t *above, uint64_t *below) {
	*above = *below = 0;
	for (int i = 0; i < 64; i += 8) {
		*above |=
		    (uint64_t)_mm256_movemask_ps(_mm256_cmp_ps(load_float(x + i), _mm256_setzero_ps(), _CMP_GT_OQ))
		    << i;
		*below |=
		    (uint64_t)_mm256_movemask_ps(_mm256_cmp_ps(load_float(x + i), _mm256_setzero_ps(), _CMP_LT_OQ))
		    << i;
	}
}
#define TABLE WEFT_FOR_ELEM(weft_table_avx2)
#define NARROWER &weft_narrow_avx2_1, &weft_narrow_avx2_2, &weft_narrow_avx2_4
#include "kernels.h"
#pragma GCC pop_options
