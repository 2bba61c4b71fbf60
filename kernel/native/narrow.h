// The kernels for rows that are narrower than a level's vectors. They are the same code with vectors of 1, 2,
// 4 or 8 lanes (VW). A row of VW … 2·VW − 1 columns is one vector, or two that overlap. So nothing beside the
// row is read. A masked part of a wider vector would take as long as the whole vector. That mostly lies
// across two cache lines, so that rows from memory would take twice as long. Each lane is a column, so that
// sums have the same bits as those of the wider vectors.
#include <stddef.h>
#include <stdint.h>

#define NARROW

// A vector of one lane has three lanes that are not used, as compilers make poor code of vectors of one
// float.
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
// Whether any lane of v is not 0. The bits of a lane are all ones, or all 0.
static inline int any_bit(vf v) {
	int32_t bits = 0;
	for (int i = 0; i < VW; i++)
		bits |= ((vi)v)[i];
	return bits != 0;
}

#define IN_REGISTER(vector)

// There are no narrower kernels.
static inline const weft_narrow *narrower(int64_t cols) { return NULL; }

#include "block.h"
#include "spmm.h"
#include "max.h"
#include "sums.h"

const weft_narrow NARROW_KERNELS = {k_spmm, k_max, k_max_back, sum_rows};
