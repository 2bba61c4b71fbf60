// Memory that a kernel computes in besides its operands. Go takes it before the calls, so that it is counted:
// a workspace for each thread. A call takes a free one, and leaves it at its end.
#ifndef WEFT_WORKSPACE_H
#define WEFT_WORKSPACE_H
#include <stdint.h>

// A cache line for each workspace says whether it is taken. Behind these lines are the workspaces. Bytes are
// a multiple of a cache line.
typedef struct {
	char *first;   // count lines, and as many workspaces
	int64_t bytes; // of a workspace
	int32_t count;
} weft_workspaces;

enum { WEFT_LINE = 64 }; // bytes of a cache line
enum { WEFT_LANES = 16 }; // of the widest vector: workspaces are as large at all levels
enum { CACHE = 12 << 10, CACHE2 = 256 << 10 }; // bytes that should stay in a core's first and second cache

static inline int64_t weft_greater(int64_t a, int64_t b) { return a > b ? a : b; }

// The columns of a group of heads, in whole vectors.
static inline int64_t weft_group_columns(int64_t heads, int64_t width) {
	return ((heads < WEFT_LANES ? heads : WEFT_LANES) * width + WEFT_LANES - 1) / WEFT_LANES * WEFT_LANES;
}

// Of attention: a row of head numbers, two of sums, CACHE bytes or a row, and with weights of edge features
// rows of edges.
static inline int64_t weft_attention_workspace(int64_t heads, int64_t width, int32_t weights) {
	const int64_t row = weft_group_columns(heads, width) * (int64_t)sizeof(float);
	return 3 * row + weft_greater(CACHE, row) + (weights ? weft_greater(CACHE2 / 4, WEFT_LANES * row) : 0);
}

// Of layer norm over storage that is not of floats: two batches, of at most WEFT_KEPT floats or WEFT_LANES
// rows.
enum { WEFT_KEPT = 4096 };

static inline int64_t weft_layer_norm_workspace(int64_t cols) {
	return 2 * weft_greater(WEFT_KEPT, WEFT_LANES * cols) * (int64_t)sizeof(float);
}

// Of an expression: registers of so many numbers, and for each input where a register's numbers are in it.
enum { WEFT_REGISTER = 512 };

static inline int64_t weft_pointwise_workspace(int32_t registers, int32_t inputs) {
	return (registers + inputs) * WEFT_REGISTER * (int64_t)sizeof(float);
}
#endif
