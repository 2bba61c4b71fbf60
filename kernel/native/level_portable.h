// On processors other than x86 this is the only level. On x86 it runs where AVX2 is missing, which is rare.
// There its gain from optimisation is not worth the compiler's time in every build.
#if defined(__x86_64__)
#pragma GCC optimize("O1")
#endif
#include <stdint.h>
typedef float vf __attribute__((vector_size(16)));
enum { VW = 4, REGISTERS = 8 };
static inline vf load_float(const float *p) {
	vf v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline void store_float(float *p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
static inline vf load_n_float(const float *p, int n) {
	vf v = {0};
	for (int i = 0; i < n; i++)
		v[i] = p[i];
	return v;
}
static inline void store_n_float(float *p, vf v, int n) {
	for (int i = 0; i < n; i++)
		p[i] = v[i];
}
static inline vf vsqrt(vf v) {
	for (int i = 0; i < VW; i++)
		v[i] = __builtin_sqrtf(v[i]);
	return v;
}
typedef uint32_t vu __attribute__((vector_size(16)));
static inline vu all_u(uint32_t x) { return (vu){x, x, x, x}; }
// a > b ? a : b
static inline vf larger(vf a, vf b) { return (vf)(((vu)a & (vu)(a > b)) | ((vu)b & ~(vu)(a > b))); }
// x > y ? a : b
static inline vf where_greater(vf x, vf y, vf a, vf b) {
	return (vf)(((vu)a & (vu)(x > y)) | ((vu)b & ~(vu)(x > y)));
}
// Whether any lane of v is not 0. The bits of a lane are all ones, or all 0.
static inline int any_bit(vf v) {
	vu bits = (vu)v;
	return (bits[0] | bits[1] | bits[2] | bits[3]) != 0;
}
typedef uint64_t v64 __attribute__((vector_size(16)));
// The products of the lower halves of each 64 bits.
static inline vu multiply(vu a, vu b) { return (vu)(((v64)a & 0xffffffffu) * ((v64)b & 0xffffffffu)); }
// Lane i of the result is the sum of v[i], for four vectors.
static inline vf sums_of_four(const vf *v) {
	vf s;
	for (int i = 0; i < VW; i++)
		s[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
	return s;
}
static inline vf across(const vf u[1]) { return u[0]; }
// never called, as a half has fewer than four lanes
static inline vf across_halves(const vf u[1]) { return u[0]; }
// Bit i of above and of below says whether x[i] is above 0, and below 0, for 64 numbers.
static inline void signs(const float *x, uint64_t *above, uint64_t *below) {
	*above = *below = 0;
	for (int i = 0; i < 64; i++) {
		*above |= (uint64_t)(x[i] > 0) << i;
		*below |= (uint64_t)(x[i] < 0) << i;
	}
}
#define TABLE WEFT_FOR_ELEM(weft_table_portable)
#include "kernels.h"
