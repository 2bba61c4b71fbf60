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
#define TABLE weft_table_avx2
#include "kernels.h"
#pragma GCC pop_options
