#if defined(__x86_64__)
#include <immintrin.h>
#include <stdint.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx2,fma")
enum { VW = 16 };
#define LEVEL probe_avx512
typedef uint32_t vu __attribute__((vector_size(64)));
static inline vu load_n(const uint32_t *p, int n) { return (vu)_mm512_maskz_loadu_epi32((__mmask16)((1u << n) - 1), p); }
// a > b ? a : b
static inline __m512 larger(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
#include "probe_level.h"
#pragma GCC pop_options
#endif
