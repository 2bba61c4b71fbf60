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
#define TABLE weft_table_portable
#include "kernels.h"
