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
static inline vf vsqrt(vf v) {
	for (int i = 0; i < VW; i++)
		v[i] = __builtin_sqrtf(v[i]);
	return v;
}
typedef uint32_t vu __attribute__((vector_size(16)));
static inline vu all_u(uint32_t x) { return (vu){x, x, x, x}; }
typedef uint64_t v64 __attribute__((vector_size(16)));
// The products of the lower halves of each 64 bits.
static inline vu multiply(vu a, vu b) { return (vu)(((v64)a & 0xffffffffu) * ((v64)b & 0xffffffffu)); }
// Lane i of the result is the sum of the lanes of v[i].
static inline vf lane_sums(const vf v[VW]) {
	vf s;
	for (int i = 0; i < VW; i++)
		s[i] = (v[i][0] + v[i][2]) + (v[i][1] + v[i][3]);
	return s;
}
typedef int32_t heads_of_lanes __attribute__((vector_size(16)));
// Lane i is p[heads[i]].
static inline vf spread(const float *p, heads_of_lanes heads) { return (vf){p[heads[0]], p[heads[1]], p[heads[2]], p[heads[3]]}; }
// out[2i] and out[2i+1] are the sums of the lower and the upper half of v[i].
static inline void half_sums(float *out, const vf v[VW]) {
	for (int i = 0; i < VW; i++) {
		out[2 * i] = v[i][0] + v[i][1];
		out[2 * i + 1] = v[i][2] + v[i][3];
	}
}
#define TABLE weft_table_portable
#include "kernels.h"
