// The probes: loops that move data or compute as fast as this CPU can and do nothing else. They share no code
// with package kernel. Each is single-threaded over a range; Go hands the ranges out. Checksums are sums
// modulo 2^32 of 32-bit words, so they do not depend on the order in which the words are read.
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H
#include <stdint.h>

enum { PROBE_MATRICES = 3 };

// Row-major matrices whose rows are read together: row indices[k] of each, for k = lo … hi−1, destination by
// destination.
typedef struct {
	const uint32_t *x[PROBE_MATRICES];
	int64_t cols[PROBE_MATRICES];
	int64_t matrices;
	const int64_t *indptr; // destination i has the indices indptr[i] … indptr[i+1]−1
	int64_t rows;          // destinations
	const int32_t *indices;
	int64_t ahead; // indices between the prefetch of a row and its use; 0: no prefetch
} probe_rows;

typedef struct {
	uint32_t (*gather)(const probe_rows *rows, int64_t lo, int64_t hi);
	// A word of each cache line that a row of at most 16 words touches: its first, and its last where it may lie
	// across two. Destinations make no difference.
	uint32_t (*lines)(const probe_rows *rows, int64_t lo, int64_t hi);
	uint32_t (*read)(const uint32_t *x, int64_t n);
	void (*write)(uint32_t *x, int64_t n, uint32_t value);  // x_i = value
	void (*past)(uint32_t *x, int64_t n, uint32_t value);   // the same, past the caches where the CPU can
	void (*update)(uint32_t *x, int64_t n, uint32_t value); // x_i += value
	// z_i = e^x_i for |x| ≤ 87, 2 units in the last place
	void (*exp)(float *z, const float *x, int64_t n, int64_t times);
	// The sum, so many times over, of a_i·LeakyReLU(x_i + y_i) with slope 0.2; n is a multiple of 64.
	float (*score)(const float *x, const float *y, const float *a, int64_t n, int64_t times);
} probe_level;

extern const probe_level probe_avx512, probe_avx2, probe_portable;

// the levels that this CPU can run, the fastest first; NULL after the last
const probe_level *probe_at(int rank);

static inline uint32_t probe_gather(const probe_level *l, const probe_rows *rows, int64_t lo, int64_t hi) { return l->gather(rows, lo, hi); }
static inline uint32_t probe_lines(const probe_level *l, const probe_rows *rows, int64_t lo, int64_t hi) { return l->lines(rows, lo, hi); }
static inline uint32_t probe_read(const probe_level *l, const void *x, int64_t n) { return l->read(x, n); }
static inline void probe_write(const probe_level *l, void *x, int64_t n, uint32_t value) { l->write(x, n, value); }
static inline void probe_past(const probe_level *l, void *x, int64_t n, uint32_t value) { l->past(x, n, value); }
static inline void probe_update(const probe_level *l, void *x, int64_t n, uint32_t value) { l->update(x, n, value); }
static inline void probe_exp(const probe_level *l, float *z, const float *x, int64_t n, int64_t times) { l->exp(z, x, n, times); }
static inline float probe_score(const probe_level *l, const float *x, const float *y, const float *a, int64_t n, int64_t times) {
	return l->score(x, y, a, n, times);
}
#endif
