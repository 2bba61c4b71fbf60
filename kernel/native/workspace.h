// The memory that a kernel needs beside its operands. Go allocates it before the calls, so that it is
// counted. Each thread has a workspace. A call takes a free workspace, and leaves it when it ends.
#ifndef WEFT_WORKSPACE_H
#define WEFT_WORKSPACE_H
#include <stdint.h>

// The workspaces lie behind `count` cache lines, one for each workspace, which says whether it is taken.
// bytes is a multiple of a cache line.
typedef struct {
	char *first;   // the lines, and then the workspaces
	int64_t bytes; // of one workspace
	int32_t count;
} weft_workspaces;

enum { WEFT_LINE = 64 }; // bytes of a cache line
enum { WEFT_LANES = 16 }; // lanes of the widest vector: workspaces are as large at all levels
// bytes that should stay in a core's first-level and second-level cache
enum { CACHE = 12 << 10, CACHE2 = 256 << 10 };

static inline int64_t weft_greater(int64_t a, int64_t b) { return a > b ? a : b; }

// The columns of a group of heads, rounded up to whole vectors.
static inline int64_t weft_group_columns(int64_t heads, int64_t width) {
	return ((heads < WEFT_LANES ? heads : WEFT_LANES) * width + WEFT_LANES - 1) / WEFT_LANES * WEFT_LANES;
}

// The workspace of attention: a row of head numbers, two rows of sums, and CACHE bytes or one row. If edges
// have features with weights, it also has rows of edges.
static inline int64_t weft_attention_workspace(int64_t heads, int64_t width, int32_t weights) {
	const int64_t row = weft_group_columns(heads, width) * (int64_t)sizeof(float);
	return 3 * row + weft_greater(CACHE, row) + (weights ? weft_greater(CACHE2 / 4, WEFT_LANES * row) : 0);
}

// The workspace of layer norm for storage that is not float: two batches of rows. A batch has at most
// WEFT_KEPT floats, or WEFT_LANES rows.
enum { WEFT_KEPT = 4096 };

static inline int64_t weft_layer_norm_workspace(int64_t cols) {
	return 2 * weft_greater(WEFT_KEPT, WEFT_LANES * cols) * (int64_t)sizeof(float);
}

// The workspace of an expression: registers of WEFT_REGISTER numbers, and for each input the positions in it
// from which a register's numbers are read.
enum { WEFT_REGISTER = 512 };

static inline int64_t weft_pointwise_workspace(int32_t registers, int32_t inputs) {
	return (registers + inputs) * WEFT_REGISTER * (int64_t)sizeof(float);
}
#endif
