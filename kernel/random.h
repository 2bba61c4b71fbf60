// Counter-based randomness: Philox 4×32 with 10 rounds (Salmon et al., SC'11). One call turns a 128-bit counter and a 64-bit
// key into 128 random bits, so that a mask can be computed again anywhere instead of being kept.

enum { BATCH = 128, LANES = 16 }; // a batch of columns takes LANES counters of 8 16-bit words each

static inline __attribute__((always_inline)) void philox(uint32_t c[4][LANES], uint64_t key, int lanes) {
	uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < lanes; i++) {
			uint64_t p = (uint64_t)0xD2511F53u * c[0][i], q = (uint64_t)0xCD9E8D57u * c[2][i];
			uint32_t a = (uint32_t)(q >> 32) ^ c[1][i] ^ k0, b = (uint32_t)(p >> 32) ^ c[3][i] ^ k1;
			c[1][i] = (uint32_t)q;
			c[3][i] = (uint32_t)p;
			c[0][i] = a;
			c[2][i] = b;
		}
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
}

// The words of columns batch·128 … +127 of a vertex: column c has counter c mod 16 of its batch, and of that counter's eight
// 16-bit words number (c mod 128) / 16.
static inline void mask_words(uint16_t words[BATCH], uint64_t key, uint32_t vertex, uint32_t batch) {
	uint32_t c[4][LANES];
	for (int i = 0; i < LANES; i++) {
		c[0][i] = vertex;
		c[1][i] = batch;
		c[2][i] = i;
		c[3][i] = 0;
	}
	philox(c, key, LANES);
	for (int w = 0; w < 4; w++)
		for (int i = 0; i < LANES; i++) {
			words[w * 32 + i] = (uint16_t)c[w][i];
			words[w * 32 + 16 + i] = (uint16_t)(c[w][i] >> 16);
		}
}

// keep[0…n−1] = scale or 0 for columns first … first+n−1 of one batch
static inline void mask_row(float *keep, const weft_mask *m, int64_t row, int64_t batch, int64_t n) {
	uint16_t words[BATCH];
	mask_words(words, m->key, m->ids ? (uint32_t)m->ids[row] : (uint32_t)row, (uint32_t)batch);
	for (int64_t i = 0; i < n; i++)
		keep[i] = words[i] >= m->threshold ? m->scale : 0.0f;
}

static inline float mask_one(const weft_mask *m, uint32_t vertex, uint32_t column) {
	uint32_t in = column % BATCH, word = in / LANES, c[4][LANES];
	c[0][0] = vertex;
	c[1][0] = column / BATCH;
	c[2][0] = in % LANES;
	c[3][0] = 0;
	philox(c, m->key, 1);
	uint16_t bits = (uint16_t)(c[word / 2][0] >> (word % 2 * 16));
	return bits >= m->threshold ? m->scale : 0.0f;
}

// The mask of one edge for heads 8·group … +7, keyed by both ends and the occurrence number of a duplicate edge.
static inline void mask_edge(float keep[8], const weft_mask *m, uint32_t source, uint32_t target, uint32_t occurrence, uint32_t group) {
	uint32_t c[4][LANES];
	c[0][0] = source;
	c[1][0] = target;
	c[2][0] = occurrence;
	c[3][0] = 0x80000000u | group; // apart from the counters of vertices
	philox(c, m->key, 1);
	for (int i = 0; i < 8; i++)
		keep[i] = (uint16_t)(c[i / 2][0] >> (i % 2 * 16)) >= m->threshold ? m->scale : 0.0f;
}

static void k_sparse_mask(const void *args, int64_t lo, int64_t hi) {
	const weft_sparse_mask_args *a = args;
	const int32_t *ids = a->mask.ids;
	for (int64_t r = lo; r < hi; r++)
		for (int64_t k = a->indptr[r]; k < a->indptr[r + 1]; k++) {
			uint32_t vertex = a->transposed ? a->indices[k] : r, column = a->transposed ? r : a->indices[k];
			a->out[k] = a->values[k] * mask_one(&a->mask, ids ? (uint32_t)ids[vertex] : vertex, column);
		}
}
