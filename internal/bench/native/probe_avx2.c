#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>
#pragma GCC push_options
#pragma GCC target("avx2,fma")
enum { VW = 8 };
#define LEVEL probe_avx2
typedef uint32_t vu __attribute__((vector_size(32)));
static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
static inline vu load_n(const uint32_t *p, int n) {
	return (vu)_mm256_maskload_epi32((const int *)p, _mm256_loadu_si256((const __m256i *)(lanes + 8 - n)));
}
// a > b ? a : b
static inline __m256 larger(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
#include "probe_level.h"
#pragma GCC pop_options
#endif
