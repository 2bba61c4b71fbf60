//go:build amd64

#include <immintrin.h>
#include "weft.h"
#pragma GCC push_options
// The last three are only used if weft_can_multiply allows it.
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2,popcnt,avx512bf16,amx-tile,amx-bf16")
typedef __m512 vf;
enum { VW = 16, REGISTERS = 16 };
static inline vf load_float(const float *p) { return _mm512_loadu_ps(p); }
static inline void store_float(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline vf load_n_float(const float *p, int n) {
	return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
static inline void store_n_float(float *p, vf v, int n) {
	_mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
}
typedef uint16_t vh __attribute__((vector_size(32)));
static inline vh load_halves(const bfloat16 *p, int n) {
	return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
}
static inline void store_halves(bfloat16 *p, vh halves, int n) {
	_mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)halves);
}
// sum + the products of both halves of the word at x with both halves of each word of g.
#define DOT_PAIRS(sum, x, g) \
	((vf)_mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(*(const int32_t *)(x)), (__m512bh)(g)))
// This level has AMX's tiles (tiles.h).
#define TILES
// The first VW/2 numbers at p, in double precision.
#define WIDE(p) _mm512_cvtps_pd(_mm256_loadu_ps(p))
// The floats of x at VW places.
#define GATHER(x, places) _mm512_i32gather_ps(_mm512_loadu_si512(places), x, 4)
// a > b ? a : b
static inline vf larger(vf a, vf b) { return _mm512_max_ps(a, b); }
// x > y ? a : b
static inline vf where_greater(vf x, vf y, vf a, vf b) {
	return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), b, a);
}
static inline vf vsqrt(vf v) { return _mm512_sqrt_ps(v); }
// Whether any lane of v is not 0. The bits of a lane are all ones, or all 0.
static inline int any_bit(vf v) { return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0; }
typedef __m512i vu;
static inline vu all_u(uint32_t x) { return _mm512_set1_epi32(x); }
// The products of the lower halves of each 64 bits.
static inline vu multiply(vu a, vu b) { return _mm512_mul_epu32(a, b); }
// Lane i of each 128 bits of the result is the sum of these 128 bits of v[i], for four vectors.
static inline vf sums_of_four(const vf *v) {
	__m512d a = (__m512d)(_mm512_unpacklo_ps(v[0], v[1]) + _mm512_unpackhi_ps(v[0], v[1]));
	__m512d b = (__m512d)(_mm512_unpacklo_ps(v[2], v[3]) + _mm512_unpackhi_ps(v[2], v[3]));
	return (vf)_mm512_unpacklo_pd(a, b) + (vf)_mm512_unpackhi_pd(a, b);
}
// Lane 4i + j of the result is the sum of lanes j, j+4, … of u[i].
static inline vf across(const vf u[4]) {
	vf x = _mm512_shuffle_f32x4(u[0], u[1], 0x88) + _mm512_shuffle_f32x4(u[0], u[1], 0xdd);
	vf y = _mm512_shuffle_f32x4(u[2], u[3], 0x88) + _mm512_shuffle_f32x4(u[2], u[3], 0xdd);
	return _mm512_shuffle_f32x4(x, y, 0x88) + _mm512_shuffle_f32x4(x, y, 0xdd);
}
// Lane 8i + 4k + j of the result is the sum of lanes j and j+4 of half k of u[i].
static inline vf across_halves(const vf u[2]) {
	return _mm512_shuffle_f32x4(u[0], u[1], 0x88) + _mm512_shuffle_f32x4(u[0], u[1], 0xdd);
}
// Bit i of above and of below says whether x[i] is above 0, and below 0, for 64 numbers.
static inline void signs(const float *x, uint64_t *above, uint64_t *below) {
	*above = *below = 0;
	for (int i = 0; i < 64; i += 16) {
		*above |= (uint64_t)_mm512_cmp_ps_mask(load_float(x + i), _mm512_setzero_ps(), _CMP_GT_OQ) << i;
		*below |= (uint64_t)_mm512_cmp_ps_mask(load_float(x + i), _mm512_setzero_ps(), _CMP_LT_OQ) << i;
	}
}
// Writes first + i for each bit i that is set, and returns how many it wrote. All set bits are places of head
// h of P heads. It may write up to VW numbers more.
static inline int write_places(int32_t *to, uint64_t bits, int first, int h, int P) {
	const __m512i places = _mm512_mullo_epi32(
	    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), _mm512_set1_epi32(P));
	int n = 0, at = first + h;
	bits = _pext_u64(bits, ~(uint64_t)0 / ((1 << P) - 1) << h);
	do { // mostly once, without a branch for no bits at all
		_mm512_storeu_si512(
		    to + n, _mm512_maskz_compress_epi32(bits, _mm512_add_epi32(_mm512_set1_epi32(at), places)));
		n += __builtin_popcount(bits & 0xffff);
		at += 16 * P;
	} while (bits >>= 16);
	return n;
}
#define TABLE WEFT_FOR_ELEM(weft_table_avx512)
#define NARROWER &weft_narrow_avx2_1, &weft_narrow_avx2_2, &weft_narrow_avx2_4, &weft_narrow_avx2_8
#include "kernels.h"
#pragma GCC pop_options
