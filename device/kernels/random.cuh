// The random bits of kernel/native/random.h: Philox 4×32 with 10 rounds (Salmon et al., SC'11). The bits of
// an element depend only on its key, vertex and column.
#pragma once
#include "warp.cuh"

// A batch of BATCH columns takes LANES counters. Each counter gives 8 words of 16 bits.
enum { LANES = 16, BATCH = 8 * LANES };

struct random_words {
	uint32_t of[4];
};

// The words of columns batch·128 + lane, + 16, … + 112 of a vertex's row. Different streams of one key have
// different bits. The keys of UNROLLED rounds are in registers.
template <int UNROLLED = 10> DEVICE random_words random_bits(uint64_t key, uint32_t vertex, uint32_t batch,
                                                             uint32_t lane, uint32_t stream) {
	uint32_t c0 = vertex, c1 = batch, c2 = lane, c3 = stream, k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll UNROLLED
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		const uint32_t p = __umulhi(0xD2511F53u, c0), q = __umulhi(0xCD9E8D57u, c2);
		const uint32_t low = 0xD2511F53u * c0, next = 0xCD9E8D57u * c2;
		c0 = q ^ c1 ^ k0, c1 = next, c2 = p ^ c3 ^ k1, c3 = low;
	}
	return {{c0, c1, c2, c3}};
}

// 16-bit word number `word` (0…7).
DEVICE uint32_t word_of(const random_words &r, int word) {
	const uint32_t two = word & 4 ? (word & 2 ? r.of[3] : r.of[2]) : (word & 2 ? r.of[1] : r.of[0]);
	return word & 1 ? two >> 16 : two & 0xffffu;
}

// The factor of an element: scale or 0.
DEVICE float keep(const weft_mask &m, const random_words &r, int word) {
	return word_of(r, word) >= m.threshold ? m.scale : 0.0f;
}

DEVICE uint32_t vertex_of(const weft_mask &m, int64_t row) { return (uint32_t)(m.ids ? m.ids[row] : row); }

// The mask of one element. column counts within the slice.
DEVICE float mask_one(const weft_mask &m, uint32_t vertex, uint32_t column) {
	column += (uint32_t)m.first;
	return keep(m, random_bits(m.key, vertex, column / BATCH, column % LANES, 0), column % BATCH / LANES);
}

// The eight columns of a counter: first, + 16, … + 112. Those from 0 to cols − 1 belong to the slice. A
// thread has one counter of a row, or of `rows` rows. Neighbouring threads have neighbouring columns.
template <typename T> struct counter {
	enum { N = 8 };
	weft_mask m;
	int64_t cols, row, first;
	uint32_t batch, lane;
	DEVICE counter(const weft_mask &mask, int64_t cols, int64_t first_row, int64_t number, int rows = 1)
	    : m(mask), cols(cols) {
		const int64_t of_row = LANES * ((m.first % BATCH + cols + BATCH - 1) / BATCH), k = number % of_row;
		row = first_row + number / of_row * rows;
		lane = (uint32_t)k % LANES, batch = (uint32_t)(m.first / BATCH + k / LANES);
		first = (int64_t)batch * BATCH + lane - m.first;
	}
	DEVICE bool has(int i) const { return first + i * LANES >= 0 && first + i * LANES < cols; }
	// Loads the numbers of these columns from a row of a matrix, or from a vector; 0 for columns that it does
	// not have.
	template <typename elem> DEVICE void load_columns(float (&x)[N], const elem *p) const {
		UNROLL for (int i = 0; i < N; i++)
			x[i] = has(i) ? number(p[first + i * LANES]) : 0;
	}
	DEVICE void load(float (&x)[N], const void *p, int r = 0) const {
		load_columns(x, (const T *)p + (row + r) * cols);
	}
	DEVICE void store(void *p, const float (&x)[N], int r = 0) const {
		UNROLL for (int i = 0; i < N; i++)
			if (has(i))
				round_to((T *)p + (row + r) * cols + first + i * LANES, x[i]);
	}
	DEVICE void drop(float (&x)[N], int r = 0) const {
		if (!m.threshold)
			return;
		const random_words words = random_bits(m.key, vertex_of(m, row + r), batch, lane, 0);
		UNROLL for (int i = 0; i < N; i++)
			x[i] *= keep(m, words, i);
	}
};
