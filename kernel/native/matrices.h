// The types that kernels' arguments share: elements, tiles of rows, sparse matrices and their segments, and
// masks.
#ifndef WEFT_MATRICES_H
#define WEFT_MATRICES_H
#include <stdint.h>

// The upper half of a float. It is a format of storage alone. A kernel converts it to float when it loads it,
// and rounds once, to nearest even, when it stores a result.
typedef struct {
	uint16_t bits;
} bfloat16;

// The elements of features, activations and their gradients. The kernels of each SIMD level are compiled once
// for each type.
#if defined(WEFT_OF_BFLOAT16)
typedef bfloat16 elem;
#define WEFT_BFLOAT16_NAME(name) name##_bfloat16
#define WEFT_FOR_ELEM(name) WEFT_BFLOAT16_NAME(name)
#else
typedef float elem;
#define WEFT_FOR_ELEM(name) name
#endif

// If an operand may have another type than the kernel's elem, its argument is a void * with a weft_type
// beside it.
enum weft_type { WEFT_FLOAT32, WEFT_BFLOAT16 };

// The rows of a tile in a reduction over vertices. Each tile has a partial result. These are added in the
// order of the tiles, so that a sum does not depend on the number of threads.
enum { WEFT_TILE = 1024 };

// A matrix with more numbers is assumed to lie in memory. A smaller one may lie in a cache, where prefetching
// costs more than it gains.
enum { WEFT_CACHED = 4 << 20 };

// A row of more than WEFT_LONG entries is cut into segments of at most WEFT_SEGMENT entries, so that no
// thread waits for the one that has such a row. Equal entries stay in one segment, which may then be longer.
// On a device attention gives a row to one warp. So it cuts all rows of more than WEFT_SEGMENT entries.
enum { WEFT_LONG = 16384, WEFT_SEGMENT = 2048 };

// A segment: entries begin … end−1 of a row, after which `after` more segments follow. A kernel that runs
// over a segment takes these entries for all entries of the row. It writes the result to a row of its own,
// the segment's partial result. The last segment of a row also has the row's self loops and its own term.
typedef struct {
	int64_t row, begin, end, after;
} weft_segment;

// How many partial results there are at a time: on a CPU, and at most on a device. A launch over that many
// segments is as fast on a device as one over more.
enum { WEFT_PARTIALS = 16, WEFT_DEVICE_PARTIALS = 4096 };

// Segments that are computed at a time. Segment k writes partial result carried + k. With carried set,
// partial result 0 holds the merged result of earlier segments of the first segment's row.
typedef struct {
	const weft_segment *of;
	int64_t count, carried;
} weft_segments;

// Partial results first … end−1, which belong to segments of one row. With complete set the last of them is
// of the row's last segment. Else the merged result stays in partial result 0.
typedef struct {
	int64_t row, first, end;
	int32_t complete;
} weft_merge;

// Returns the merge for the row of segment k, which is the first segment of its row in s.
static inline weft_merge weft_merge_from(const weft_segments *s, int64_t k) {
	const int64_t left = s->count - k, after = s->of[k].after;
	const weft_merge m = {s->of[k].row, k ? s->carried + k : 0,
	                      s->carried + k + (after < left ? after + 1 : left), after < left};
	return m;
}

// A sparse matrix in CSR form. Row i has entries indptr[i] … indptr[i+1]−1. Entry k is in column indices[k].
typedef struct {
	const int64_t *indptr;
	const int32_t *indices;
	// the length of indices, which may exceed the rows' entries: prefetches stay below it
	int64_t entries;
	int64_t others;    // the number of columns
	int32_t longest;   // rows of more entries are skipped, as their segments have them; 0: no row is skipped
} weft_edges;

// The numbers for each head in a row of attention's pack. One of them is not used: with four, fewer rows lie
// across two cache lines.
enum { WEFT_PACK = 4 };

enum weft_activation { WEFT_IDENTITY, WEFT_RELU, WEFT_ELU, WEFT_LEAKY_RELU, WEFT_TANH, WEFT_SIGMOID };

// A random mask for dropout. An element is dropped if its 16 random bits are below threshold. Else it is
// multiplied by scale. The bits of (vertex, column) depend on nothing but key. ids_i is the vertex of row i;
// NULL: i itself.
typedef struct {
	uint64_t key;
	uint32_t threshold; // of 65536; 0: nothing is dropped
	float scale;
	const int32_t *ids;
	int64_t first; // the first column of a slice, or in attention the first head; 0 of a whole matrix
} weft_mask;
#endif
