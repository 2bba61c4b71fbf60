// Counter-based random bits: Philox 4×32 with 10 rounds (Salmon et al., SC'11). One call turns a 128-bit
// counter and a 64-bit key into 128 random bits. So a mask can be computed again anywhere, and need not be
// kept.

// A batch of BATCH columns takes LANES counters. Each counter gives 8 words of 16 bits.
enum { LANES = 16, BATCH = 8 * LANES, PARTS = LANES / VW };

// LANES counters. Word w of counter i is number i of part[w].
typedef struct {
	v32 part[4][PARTS];
} counters;

// Replaces the counters by their random bits. Even and odd lanes are computed apart, each in the lower halves
// of 64 bits. A product then has both of its words in one lane. The upper halves of the operands are never
// read.
INLINE void philox(counters *c, uint64_t key) {
	const vu m0 = all_u(0xD2511F53u), m1 = all_u(0xCD9E8D57u);
	for (int p = 0; p < PARTS; p++) {
		v64 half[2][4], k0 = (v64)all_u((uint32_t)key), k1 = (v64)all_u((uint32_t)(key >> 32));
		for (int w = 0; w < 4; w++) {
			half[0][w] = (v64)c->part[w][p];
			half[1][w] = half[0][w] >> 32;
		}
		for (int round = 0; round < 10; round++) {
			for (int h = 0; h < 2; h++) {
				v64 *x = half[h], first = (v64)multiply((vu)x[0], m0), second = (v64)multiply((vu)x[2], m1);
				x[0] = second >> 32 ^ x[1] ^ k0;
				x[1] = second;
				x[2] = first >> 32 ^ x[3] ^ k1;
				x[3] = first;
			}
			k0 += 0x9E3779B9u;
			k1 += 0xBB67AE85u;
		}
		for (int w = 0; w < 4; w++)
			c->part[w][p] = (v32)((half[0][w] & 0xffffffffu) | half[1][w] << 32);
	}
}

// The random bits of columns batch·128 … batch·128 + 127 of a vertex's row. Column c has lane c mod 16 of the
// counters of its batch. Of the eight 16-bit words of that counter it has number (c mod 128) / 16. Different
// streams of one key have different bits.
static inline void random_bits(counters *c, uint64_t key, uint32_t vertex, int64_t batch, uint32_t stream) {
	for (int p = 0; p < PARTS; p++) {
		c->part[0][p] = (v32)all_u(vertex);
		c->part[1][p] = (v32)all_u((uint32_t)batch);
		for (int i = 0; i < VW; i++)
			c->part[2][p][i] = p * VW + i;
		c->part[3][p] = (v32)all_u(stream);
	}
	philox(c, key);
}

// 16-bit word number `word` (0…7) of each counter in the p-th vector of lanes.
static inline v32 word_of(const counters *c, int word, int p) {
	return word % 2 ? c->part[word / 2][p] >> 16 : c->part[word / 2][p] & 0xffffu;
}

// keep[i] = scale or 0, by a 16-bit word of counter i.
static inline void keep_lanes(float keep[LANES], const counters *c, int word, const weft_mask *m) {
	for (int p = 0; p < PARTS; p++) {
		vi stays = (vi)(word_of(c, word, p) >= (v32)all_u(m->threshold));
		store(keep + p * VW, (vf)((vi)all(m->scale) & stays));
	}
}

// keep[0…127] = scale or 0 for columns batch·128 … batch·128 + 127 of a row of the whole matrix, wherever a
// slice begins. It computes only the first n columns, rounded up to whole lanes.
static inline void mask_row(float keep[BATCH], const weft_mask *m, int64_t row, int64_t batch, int64_t n) {
	counters c;
	random_bits(&c, m->key, m->ids ? (uint32_t)m->ids[row] : (uint32_t)row, batch, 0);
	for (int w = 0; w * LANES < n; w++)
		keep_lanes(keep + w * LANES, &c, w, m);
}

// One element of the same mask. column counts within the slice.
static inline float mask_one(const weft_mask *m, uint32_t vertex, uint32_t column) {
	column += (uint32_t)m->first;
	uint32_t in = column % BATCH, word = in / LANES, k0 = (uint32_t)m->key, k1 = (uint32_t)(m->key >> 32);
	uint32_t c[4] = {vertex, column / BATCH, in % LANES, 0};
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
		uint64_t p = (uint64_t)0xD2511F53u * c[0], q = (uint64_t)0xCD9E8D57u * c[2];
		c[0] = (uint32_t)(q >> 32) ^ c[1] ^ k0;
		c[1] = (uint32_t)q;
		c[2] = (uint32_t)(p >> 32) ^ c[3] ^ k1;
		c[3] = (uint32_t)p;
	}
	return (uint16_t)(c[word / 2] >> (word % 2 * 16)) >= m->threshold ? m->scale : 0.0f;
}

// out_k = values_k · mask for each entry k.
static void k_sparse_mask(const void *args, int64_t lo, int64_t hi) {
	const weft_sparse_mask_args *a = args;
	const int32_t *ids = a->mask.ids;
	for (int64_t r = lo; r < hi; r++)
		for (int64_t k = a->edges.indptr[r]; k < a->edges.indptr[r + 1]; k++) {
			uint32_t vertex = a->transposed ? a->edges.indices[k] : r,
			         column = a->transposed ? r : a->edges.indices[k];
			a->out[k] = a->values[k] * mask_one(&a->mask, ids ? (uint32_t)ids[vertex] : vertex, column);
		}
}
