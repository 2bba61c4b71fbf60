// What is written over a vector type vf of VW floats, be it a level's or a narrower one (narrow.h).
#include "weft.h"

// What is given constants is compiled once for each.
#define INLINE static inline __attribute__((always_inline))

typedef int32_t vi __attribute__((vector_size(sizeof(vf))));

static inline vf all(float x) { return x - (vf){0}; }

struct row_sum;
struct picked_sum;

// Kernels for rows of fewer columns than a level's vectors have lanes, one for each number of lanes that is a
// power of two; their arguments are those of the level's.
typedef struct {
	weft_function spmm, max, max_back;
	void (*sum_rows)(const struct row_sum *);
	void (*sum_picked)(const struct picked_sum *);
} weft_narrow;

extern const weft_narrow weft_narrow_avx2_1, weft_narrow_avx2_2, weft_narrow_avx2_4, weft_narrow_avx2_8, weft_narrow_portable_1,
	weft_narrow_portable_2;
