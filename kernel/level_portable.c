#include <stdint.h>
typedef float vf __attribute__((vector_size(16)));
enum { VW = 4, REGISTERS = 8 };
static inline vf load(const float *p) {
	vf v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}
static inline void store(float *p, vf v) { __builtin_memcpy(p, &v, sizeof v); }
static inline vf load_n(const float *p, int n) {
	vf v = {0};
	for (int i = 0; i < n; i++)
		v[i] = p[i];
	return v;
}
static inline void store_n(float *p, vf v, int n) {
	for (int i = 0; i < n; i++)
		p[i] = v[i];
}
typedef uint32_t vu __attribute__((vector_size(16)));
static inline vu all_u(uint32_t x) { return (vu){x, x, x, x}; }
// The lanes' products with m as 64 bits each: high and low halves.
static inline void multiply(vu a, vu m, vu *high, vu *low) {
	for (int i = 0; i < VW; i++) {
		uint64_t p = (uint64_t)a[i] * m[i];
		(*high)[i] = (uint32_t)(p >> 32);
		(*low)[i] = (uint32_t)p;
	}
}
// Lane i of the result is the sum of the lanes of v[i].
static inline vf lane_sums(const vf v[VW]) {
	vf s;
	for (int i = 0; i < VW; i++)
		s[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
	return s;
}
#define TABLE weft_table_portable
#include "kernels.h"
