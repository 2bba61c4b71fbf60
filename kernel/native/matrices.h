// What kernels' arguments have in common: elements, tiles of rows, sparse matrices and their segments, masks.
#ifndef WEFT_MATRICES_H
#define WEFT_MATRICES_H
#include <stdint.h>

// The upper half of a float. No arithmetic is done in it: kernels load it as a float, and round once, to
// nearest even, what they store.
typedef struct {
	uint16_t bits;
} bfloat16;

// The elements of features, activations and their gradients. Each SIMD level is compiled once for either.
#if defined(WEFT_OF_BFLOAT16)
typedef bfloat16 elem;
#define WEFT_BFLOAT16_NAME(name) name##_bfloat16
#define WEFT_FOR_ELEM(name) WEFT_BFLOAT16_NAME(name)
#else
typedef float elem;
#define WEFT_FOR_ELEM(name) name
#endif

// Where an operand may be of the other type than a kernel's elem, its argument is a void * beside the type.
enum weft_type { WEFT_FLOAT32, WEFT_BFLOAT16 };

// Rows of one tile of a reduction over vertices. Partial results are kept per tile and added in the order of
// the tiles, so a sum does not depend on the number of threads.
enum { WEFT_TILE = 1024 };

// A matrix of more numbers lies in memory; one of less may lie in a cache, where fetching ahead costs more
// than it gains.
enum { WEFT_CACHED = 4 << 20 };

// A row of more entries is cut into segments of at most WEFT_SEGMENT (but for equal ones, which stay
// together), so that no thread waits for one that has such a row. On a device, where a warp has a row,
// attention cuts rows of more than one segment.
enum { WEFT_LONG = 16384, WEFT_SEGMENT = 2048 };

// Entries begin … end−1 of a row, of which `after` segments follow. A kernel that runs over a segment takes
// them for all of the row's and writes what it gives to a row of its results that is the segment's place.
// Self loops and the row's own term are left to the row's last segment.
typedef struct {
	int64_t row, begin, end, after;
} weft_segment;

// How many places there are: on a CPU, and on a device at most. There a launch over so many segments is as
// fast as one over more.
enum { WEFT_PARTIALS = 16, WEFT_DEVICE_PARTIALS = 4096 };

// Segments that are worked on at a time. Number k has place carried + k. With carried set, place 0 has what
// segments before gave to the first one's row.
typedef struct {
	const weft_segment *of;
	int64_t count, carried;
} weft_segments;

// Places first … end−1 have what segments of a row gave. With complete set the last of them is the row's
// last; else what they are merged to is left in place 0.
typedef struct {
	int64_t row, first, end;
	int32_t complete;
} weft_merge;

// What is merged of segment number k and those that follow it in its row. Number k is the row's first among
// s.
static inline weft_merge weft_merge_from(const weft_segments *s, int64_t k) {
	const int64_t left = s->count - k, after = s->of[k].after;
	const weft_merge m = {s->of[k].row, k ? s->carried + k : 0,
	                      s->carried + k + (after < left ? after + 1 : left), after < left};
	return m;
}

// The entries of a sparse matrix by rows: row i has those of numbers indptr[i] … indptr[i+1]−1, number k is
// in column indices[k].
typedef struct {
	const int64_t *indptr;
	const int32_t *indices;
	// the length of indices, which may be more than the rows' own: prefetches stay below it
	int64_t entries;
	int64_t others;    // the number of columns
	int32_t longest;   // rows of more entries are left to their segments; 0: no row has any
} weft_edges;

// Numbers for each head in a row of attention's pack. One is not used: so that fewer rows lie across cache
// lines.
enum { WEFT_PACK = 4 };

enum weft_activation { WEFT_IDENTITY, WEFT_RELU, WEFT_ELU, WEFT_LEAKY_RELU, WEFT_TANH, WEFT_SIGMOID };

// A random mask: an element is dropped where its 16 random bits are below threshold, and scaled by scale
// where it stays. The bits of (vertex, column) depend on key and nothing else; ids (may be NULL: the row
// itself) gives the row's vertex.
typedef struct {
	uint64_t key;
	uint32_t threshold; // of 65536; 0: nothing is dropped
	float scale;
	const int32_t *ids;
	int64_t first; // of a slice: its first column, or in attention its first head; 0: of the whole
} weft_mask;
#endif
