#include <stdint.h>

// problem is at the beginning of the memory that Solve shares with its child. The position of each array is
// counted in words of 4 bytes from there; 0: there is no such array.
struct problem {
	int64_t words, indptr, neighbours, edge_weights, vertex_weights, part;
	int32_t vertices, constraints, parts, seed;
	int32_t status; // what METIS returned; 0 before
};
