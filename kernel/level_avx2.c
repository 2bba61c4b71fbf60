#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include <stdint.h>
typedef __m256 vf;
enum { VW = 8, REGISTERS = 8 };
static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static inline __m256i first(int n) { return _mm256_loadu_si256((const __m256i *)(lanes + 8 - n)); }
static inline vf load(const float *p) { return _mm256_loadu_ps(p); }
static inline void store(float *p, vf v) { _mm256_storeu_ps(p, v); }
static inline vf load_n(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
static inline void store_n(float *p, vf v, int n) { _mm256_maskstore_ps(p, first(n), v); }
// The lanes' products with m as 64 bits each: high and low halves.
static inline void multiply(__m256i a, __m256i m, __m256i *high, __m256i *low) {
	__m256i even = _mm256_mul_epu32(a, m), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
	*high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
	*low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
// Lane i of the result is the sum of the lanes of v[i].
static inline vf lane_sums(const vf v[VW]) {
	vf u[2];
	for (int k = 0; k < 2; k++) {
		vf s = _mm256_unpacklo_ps(v[4 * k], v[4 * k + 1]) + _mm256_unpackhi_ps(v[4 * k], v[4 * k + 1]);
		vf t = _mm256_unpacklo_ps(v[4 * k + 2], v[4 * k + 3]) + _mm256_unpackhi_ps(v[4 * k + 2], v[4 * k + 3]);
		__m256d a = (__m256d)s, b = (__m256d)t;
		u[k] = (vf)_mm256_unpacklo_pd(a, b) + (vf)_mm256_unpackhi_pd(a, b);
	}
	return _mm256_permute2f128_ps(u[0], u[1], 0x20) + _mm256_permute2f128_ps(u[0], u[1], 0x31);
}
typedef __m256i vu;
static inline vu all_u(uint32_t x) { return _mm256_set1_epi32(x); }
#define TABLE weft_table_avx2
#include "kernels.h"
#pragma GCC pop_options
