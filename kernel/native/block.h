// Blocks of columns whose sums stay in registers, and the rows that are gathered for them.

enum {
	BLOCK = REGISTERS / 2, // vectors of columns that are worked on at a time
	FAR = 64,              // most edges between the prefetch of a row and its use
	LINE = 16,             // numbers in a cache line
	SECOND_CACHE = 2       // of __builtin_prefetch: what is not needed at once does not go to the first
};

enum { CACHE = 12 << 10, CACHE2 = 256 << 10 }; // bytes that should stay in a core's first and second cache

// How many edges ahead rows of so many bytes are prefetched: narrow rows are used up sooner.
INLINE int64_t ahead_of(int64_t bytes) {
	int64_t lines = (bytes + 63) / 64, edges = 128 / (lines > 0 ? lines : 1);
	return edges < 8 ? 8 : edges < FAR ? edges : FAR;
}

// Calls f for each block of a row of `vectors` vectors, the last of them of `rest` lanes if not 0, with the
// block's first vector, its number of vectors, and the lanes of its last one, 0 for all: the last two
// constants to the compiler as far as possible.
#if defined(NARROW) // one vector, or two of which the last has `rest` lanes
#define EACH_BLOCK(vectors, rest, f, ...) \
	if ((vectors) == 1) \
		f(__VA_ARGS__, 0, 1, 0); \
	else \
		f(__VA_ARGS__, 0, 2, rest);
#else
#define BLOCK_CASE(nb, vectors, rest, f, ...) \
	case nb: \
		if (v0 + nb == (vectors) && (rest)) \
			f(__VA_ARGS__, v0, nb, rest); \
		else \
			f(__VA_ARGS__, v0, nb, 0); \
		break;
#if defined(__AVX512F__)
#define MORE_BLOCK_CASES(...) BLOCK_CASE(5, __VA_ARGS__) BLOCK_CASE(6, __VA_ARGS__) BLOCK_CASE(7, __VA_ARGS__) BLOCK_CASE(8, __VA_ARGS__)
#else
#define MORE_BLOCK_CASES(...)
#endif
#define EACH_BLOCK(vectors, ...) \
	for (int64_t v0 = 0; v0 < (vectors); v0 += BLOCK) \
		switch ((vectors) - v0 < BLOCK ? (vectors) - v0 : BLOCK) { \
			BLOCK_CASE(1, vectors, __VA_ARGS__) BLOCK_CASE(2, vectors, __VA_ARGS__) BLOCK_CASE(3, vectors, __VA_ARGS__) \
			BLOCK_CASE(4, vectors, __VA_ARGS__) MORE_BLOCK_CASES(vectors, __VA_ARGS__) \
		}
#endif

// Asks for the columns of a block in a row that is used later.
INLINE void prefetch_block(const float *row, const int nb, const int tail) {
	__asm__("" : "+r"(row)); // one address with constant offsets
	for (int v = 0; v < nb; v += VW < 16 ? 16 / VW : 1)
		__builtin_prefetch(row + v * VW);
	if (tail)
		__builtin_prefetch(row + (nb - 1) * VW + tail - 1);
}

// Vector v of a block. A tail that has a vector before it in the block is taken as the row's last whole
// vector, which overlaps that one: a masked store takes as long as many whole ones.
INLINE int64_t block_column(int v, const int nb, const int tail) {
	return v * VW - (tail && v > 0 && v == nb - 1 ? VW - tail : 0);
}

INLINE vf load_block(const float *p, int v, const int nb, const int tail) {
	p += block_column(v, nb, tail);
	return tail && nb == 1 ? load_n(p, tail) : load(p);
}

INLINE void store_block(float *p, vf x, int v, const int nb, const int tail) {
	p += block_column(v, nb, tail);
	if (tail && nb == 1)
		store_n(p, x, tail);
	else
		store(p, x);
}

// p += x for the vectors of a block.
INLINE void add_block(float *p, vf *x, const int nb, const int tail) {
	for (int v = 0; v < nb; v++)
		x[v] += load_block(p, v, nb, tail);
	for (int v = 0; v < nb; v++) // after all loads, because vectors may overlap
		store_block(p, x[v], v, nb, tail);
}
