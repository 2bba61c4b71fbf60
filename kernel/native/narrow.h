// The kernels over rows that are narrower than a level's vectors: the same code at vectors of VW = 1, 2, 4
// or 8 lanes, so that a row of VW … 2·VW − 1 columns is one vector, or two that overlap. Nothing beside the
// row is read: a part of a wider vector takes as long as all of it, which mostly lies across two cache
// lines, and rows from memory then take twice as long. Sums have the bits of the wider vectors', as each
// lane is a column.
#include <stddef.h>
#include <stdint.h>

#define NARROW

// One lane has three idle ones: compilers make poor code of vectors of one.
typedef float vf __attribute__((vector_size(VW == 1 ? 16 : 4 * VW)));

enum { REGISTERS = 4 };

#include "vector.h"

static inline vf load_float(const float *p) {
	vf v = {0};
	__builtin_memcpy(&v, p, VW * sizeof *p);
	return v;
}
static inline void store_float(float *p, vf v) { __builtin_memcpy(p, &v, VW * sizeof *p); }
// a > b ? a : b
static inline vf larger(vf a, vf b) { return (vf)(((vi)a & (a > b)) | ((vi)b & ~(a > b))); }
// x > y ? a : b
static inline vf where_greater(vf x, vf y, vf a, vf b) {
	return (vf)(((vi)a & (x > y)) | ((vi)b & ~(x > y)));
}
// Whether a lane of v is not 0; lanes are all ones or 0.
static inline int any_bit(vf v) {
	int32_t bits = 0;
	for (int i = 0; i < VW; i++)
		bits |= ((vi)v)[i];
	return bits != 0;
}

#define IN_REGISTER(vector)

// and no narrower kernels.
static inline const weft_narrow *narrower(int64_t cols) { return NULL; }

#include "block.h"
#include "spmm.h"
#include "max.h"
#include "sums.h"

const weft_narrow NARROW_KERNELS = {k_spmm, k_max, k_max_back, sum_rows};
