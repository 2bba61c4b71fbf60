#include <stdint.h>
enum { VW = 4 };
#define LEVEL probe_portable
typedef uint32_t vu __attribute__((vector_size(16)));
static inline vu load_n(const uint32_t *p, int n) {
	vu v = {0};
	for (int i = 0; i < n; i++)
		v[i] = p[i];
	return v;
}
typedef float four __attribute__((vector_size(16)));
// a > b ? a : b
static inline four larger(four a, four b) { return (four)(((vu)a & (vu)(a > b)) | ((vu)b & ~(vu)(a > b))); }
#include "probe_level.h"
