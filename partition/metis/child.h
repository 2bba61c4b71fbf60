#include <stdint.h>

// problem is at the beginning of the memory that Solve shares with its child. Each array begins so many words
// of 4 bytes behind the beginning of the memory; 0: there is none.
struct problem {
	int64_t words, indptr, neighbours, edge_weights, vertex_weights, part;
	int32_t vertices, constraints, parts, seed;
	int32_t status; // what METIS returned; 0 before
};
