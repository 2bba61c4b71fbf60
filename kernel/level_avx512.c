#include <immintrin.h>
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")
typedef __m512 vf;
enum { VW = 16, REGISTERS = 16 };
static inline vf load(const float *p) { return _mm512_loadu_ps(p); }
static inline void store(float *p, vf v) { _mm512_storeu_ps(p, v); }
static inline vf load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
static inline void store_n(float *p, vf v, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v); }
#define TABLE weft_table_avx512
#include "kernels.h"
#pragma GCC pop_options
