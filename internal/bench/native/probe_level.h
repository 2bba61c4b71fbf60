// The probes at one SIMD level. The level's file names the vector type vu of VW words, load_n for its first n
// lanes, larger, and LEVEL.
#include "probe.h"
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

typedef float vf __attribute__((vector_size(4 * VW)));
typedef int32_t vi __attribute__((vector_size(4 * VW)));

enum { LINE = 16, LIVE = 4 }; // words in a cache line; vectors that are worked on at once

static inline vu load(const uint32_t *p) {
	vu v;
	__builtin_memcpy(&v, p, sizeof v);
	return v;
}

static inline void store(void *p, vu v) { __builtin_memcpy(p, &v, sizeof v); }

static inline uint32_t lane_sum(vu v) {
	uint32_t sum = 0;
	for (int i = 0; i < VW; i++)
		sum += v[i];
	return sum;
}

// The sum of rows index[lo … hi−1], each of nb vectors and a tail, destination by destination: **end is where
// the indices of the one under way end, and behind it are the ends of those that follow. With ahead set, the
// row that many places behind is asked for.
static inline __attribute__((always_inline)) vu add_rows(const uint32_t *x, int64_t cols, const int32_t *index, const int64_t **end, int64_t lo,
                                                         int64_t hi, int64_t ahead, const int nb, const int tail) {
	const int even = nb / 4 * 4;
	vu sum = {0};
	for (int64_t k = lo; k < hi; *end += k == **end) {
		vu s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}; // so that no addition waits for the one before
		for (const int64_t stop = **end < hi ? **end : hi; k < stop; k++) {
			const uint32_t *row = x + index[k] * cols;
			if (ahead) {
				const uint32_t *later = x + index[k + ahead] * cols;
#pragma GCC unroll 32
				for (int w = 0; w < nb * VW; w += LINE)
					__builtin_prefetch(later + w);
				if (tail)
					__builtin_prefetch(later + nb * VW);
				if (cols % LINE) // the row may end one line later
					__builtin_prefetch(later + cols - 1);
			}
#pragma GCC unroll 8
			for (int b = 0; b < even; b += 4) {
				s0 += load(row + b * VW);
				s1 += load(row + (b + 1) * VW);
				s2 += load(row + (b + 2) * VW);
				s3 += load(row + (b + 3) * VW);
			}
			if (nb > even)
				s0 += load(row + even * VW);
			if (nb > even + 1)
				s1 += load(row + (even + 1) * VW);
			if (nb > even + 2)
				s2 += load(row + (even + 2) * VW);
			if (tail)
				s3 += load_n(row + nb * VW, tail);
		}
		sum += (s0 + s1) + (s2 + s3);
	}
	return sum;
}

#define CASE(nb) \
	case nb: \
		return tail ? add_rows(x, cols, index, end, lo, hi, ahead, nb, tail) : add_rows(x, cols, index, end, lo, hi, ahead, nb, 0);

// The common widths have a loop of their own, without branches inside a row.
static inline __attribute__((always_inline)) vu add_block(const uint32_t *x, int64_t cols, const int32_t *index, const int64_t **end, int64_t lo,
                                                          int64_t hi, const int64_t ahead) {
	int vectors = cols / VW, tail = cols % VW;
	switch (vectors) {
		CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(12) CASE(16) CASE(32)
	}
	return add_rows(x, cols, index, end, lo, hi, ahead, vectors, tail);
}
#undef CASE

// The row whose indices k is one of.
static inline int64_t row_of(const int64_t *indptr, int64_t rows, int64_t k) {
	int64_t first = 0;
	for (int64_t last = rows - 1; first < last;) {
		const int64_t middle = (first + last) / 2;
		if (indptr[middle + 1] <= k)
			first = middle + 1;
		else
			last = middle;
	}
	return first;
}

// Blocks of rows are read from each matrix in turn, so that the indices are fetched once.
static uint32_t gather(const probe_rows *r, int64_t lo, int64_t hi) {
	enum { BLOCK = 512 };
	const int64_t *end = r->indptr + 1 + row_of(r->indptr, r->rows, lo), *next = end;
	vu sum = {0};
	for (int64_t k = lo; k < hi; k += BLOCK) {
		int64_t n = hi - k < BLOCK ? hi - k : BLOCK, last = hi - k - r->ahead;
		// rows whose follower is in the range too
		int64_t led = !r->ahead || last < 0 ? 0 : last < n ? last : n;
		for (int m = 0; m < r->matrices; m++) {
			next = end;
			if (led)
				sum += add_block(r->x[m], r->cols[m], r->indices, &next, k, k + led, r->ahead);
			if (led < n)
				sum += add_block(r->x[m], r->cols[m], r->indices, &next, k + led, k + n, 0);
		}
		end = next;
	}
	return lane_sum(sum);
}

// Words 0 and `last` of rows index[0 … n−1], which may be one. With ahead set, those of the row that many
// places behind are asked for. Four sums, so that no addition waits for the one before.
static inline __attribute__((always_inline)) uint32_t add_lines(const uint32_t *x, int64_t cols, const int32_t *index, int64_t n, int64_t ahead,
                                                                const int64_t last) {
	uint32_t sum[4] = {0};
	int64_t k = 0;
	for (; k + 4 <= n; k += 4)
		for (int u = 0; u < 4; u++) {
			const uint32_t *row = x + index[k + u] * cols;
			__asm__("" : "+r"(row)); // no instruction that gathers: it is slower
			if (ahead) {
				const uint32_t *later = x + index[k + u + ahead] * cols;
				__builtin_prefetch(later);
				if (last)
					__builtin_prefetch(later + last);
			}
			sum[u] += row[0];
			if (last)
				sum[u] += row[last];
		}
	for (; k < n; k++) {
		sum[0] += x[index[k] * cols];
		if (last)
			sum[1] += x[index[k] * cols + last];
	}
	return sum[0] + sum[1] + sum[2] + sum[3];
}

// Rows that a line holds a whole number of do not lie across two.
static uint32_t lines(const probe_rows *r, int64_t lo, int64_t hi) {
	enum { BLOCK = 512 };
	uint32_t sum = 0;
	for (int64_t k = lo; k < hi; k += BLOCK) {
		const int64_t n = hi - k < BLOCK ? hi - k : BLOCK, ahead = k + n + r->ahead <= hi ? r->ahead : 0;
		for (int m = 0; m < r->matrices; m++) {
			const int64_t cols = r->cols[m];
			if (LINE % cols)
				sum += add_lines(r->x[m], cols, r->indices + k, n, ahead, cols - 1);
			else
				sum += add_lines(r->x[m], cols, r->indices + k, n, ahead, 0);
		}
	}
	return sum;
}

static uint32_t read_all(const uint32_t *x, int64_t n) {
	vu acc[LIVE] = {{0}};
	int64_t i = 0;
	for (; i + LIVE * VW <= n; i += LIVE * VW)
		for (int a = 0; a < LIVE; a++)
			acc[a] += load(x + i + a * VW);
	uint32_t sum = lane_sum(acc[0] + acc[1] + acc[2] + acc[3]);
	for (; i < n; i++)
		sum += x[i];
	return sum;
}

static void write_all(uint32_t *x, int64_t n, uint32_t value) {
	vu v = value - (vu){0};
	int64_t i = 0;
	for (; i + LIVE * VW <= n; i += LIVE * VW)
		for (int a = 0; a < LIVE; a++)
			store(x + i + a * VW, v);
	for (; i < n; i++)
		x[i] = value;
}

static void write_past(uint32_t *x, int64_t n, uint32_t value) {
	int64_t i = 0;
#if defined(__SSE2__)
	const __m128i v = _mm_set1_epi32(value);
	for (; i < n && (uintptr_t)(x + i) % (4 * LINE); i++)
		x[i] = value;
	for (; i + LINE <= n; i += LINE)
		for (int a = 0; a < LINE; a += 4)
			_mm_stream_si128((__m128i *)(x + i + a), v);
	_mm_sfence();
#endif
	for (; i < n; i++)
		x[i] = value;
}

static void update_all(uint32_t *x, int64_t n, uint32_t value) {
	vu v = value - (vu){0};
	int64_t i = 0;
	for (; i + LIVE * VW <= n; i += LIVE * VW)
		for (int a = 0; a < LIVE; a++)
			store(x + i + a * VW, load(x + i + a * VW) + v);
	for (; i < n; i++)
		x[i] += value;
}

// e^x = 2^n·e^r with n = round(x/ln 2), in the fewest instructions: the rounding is an addition of 1.5·2^23,
// whose low bits then hold n for the exponent, and e^r is Cephes' polynomial. There is no care for overflow.
static inline vf exp_v(vf x) {
	const float round = 12582912.0f;
	vf shifted = x * 1.44269504088896341f + round, n = shifted - round;
	vf r = x - n * 0.693359375f + n * 2.12194440e-4f;
	vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * (r * r) + (r + 1.0f);
	return (vf)((vi)p + ((vi)shifted << 23));
}

static void exp_all(float *z, const float *x, int64_t n, int64_t times) {
	for (; times > 0; times--) {
		int64_t i = 0;
		for (; i + LIVE * VW <= n; i += LIVE * VW)
			for (int a = 0; a < LIVE; a++)
				store(z + i + a * VW, (vu)exp_v((vf)load((const uint32_t *)x + i + a * VW)));
		for (; i < n; i++)
			z[i] = exp_v(x[i] - (vf){0})[0];
		__asm__ volatile("" ::: "memory"); // the next time is not the same work to the compiler
	}
}

// LeakyReLU(t) is max(t, slope·t), in the fewest instructions: an addition, a product, a maximum, and a
// product that is added.
static float score_all(const float *x, const float *y, const float *a, int64_t n, int64_t times) {
	const vf slope = 0.2f - (vf){0};
	vf acc[LIVE] = {{0}};
	for (; times > 0; times--) {
		for (int64_t i = 0; i + LIVE * VW <= n; i += LIVE * VW)
			for (int k = 0; k < LIVE; k++) {
				int64_t at = i + k * VW;
				vf t = (vf)load((const uint32_t *)x + at) + (vf)load((const uint32_t *)y + at);
				acc[k] += (vf)load((const uint32_t *)a + at) * larger(t * slope, t);
			}
		__asm__ volatile("" ::: "memory"); // the next time is not the same work to the compiler
	}
	vf all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
	float sum = 0;
	for (int i = 0; i < VW; i++)
		sum += all[i];
	return sum;
}

const probe_level LEVEL = {gather, lines, read_all, write_all, write_past, update_all, exp_all, score_all};
