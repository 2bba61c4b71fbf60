// Blocks of columns whose sums stay in registers, and loads of the rows that are gathered for them.

enum {
	BLOCK = REGISTERS / 2, // vectors of columns in a block
	FAR = 64,              // the most edges between the prefetch of a row and its use
	LINE = 16,             // floats in a cache line
	// an argument of __builtin_prefetch: the line goes to the second-level cache, and not to the first
	SECOND_CACHE = 2
};

// How many edges ahead rows of `bytes` bytes are prefetched. It is more for narrow rows, which are used up
// sooner.
INLINE int64_t ahead_of(int64_t bytes) {
	int64_t lines = (bytes + 63) / 64, edges = 128 / (lines > 0 ? lines : 1);
	return edges < 8 ? 8 : edges < FAR ? edges : FAR;
}

// Calls f(…, v0, nb, tail) for each block of a row of `vectors` vectors. The row's last vector has `rest`
// lanes, or all lanes if rest is 0. v0 is the first vector of the block, nb its number of vectors, and tail
// the number of lanes of its last vector, 0 for all. nb is a constant to the compiler, so that sums stay in
// registers. So is a tail of 0 of a single vector, which is then loaded without a mask.
#if defined(NARROW) // one vector, or two, of which the last has `rest` lanes
#define EACH_BLOCK(vectors, rest, f, ...) \
	if ((vectors) == 1) \
		f(__VA_ARGS__, 0, 1, 0); \
	else \
		f(__VA_ARGS__, 0, 2, rest);
#else
#define BLOCK_CASE(nb, rest, f, ...) \
	case nb: \
		f(__VA_ARGS__, v0, nb, rest); \
		break;
#if defined(__AVX512F__)
#define MORE_BLOCK_CASES(...) \
	BLOCK_CASE(5, __VA_ARGS__) BLOCK_CASE(6, __VA_ARGS__) \
	BLOCK_CASE(7, __VA_ARGS__) BLOCK_CASE(8, __VA_ARGS__)
#else
#define MORE_BLOCK_CASES(...)
#endif
#define EACH_BLOCK(vectors, rest, ...) \
	for (int64_t v0 = 0; v0 < (vectors); v0 += BLOCK) { \
		const int lanes_left = v0 + BLOCK < (vectors) ? 0 : (rest); \
		switch ((vectors) - v0 < BLOCK ? (vectors) - v0 : BLOCK) { \
		case 1: \
			if (lanes_left) \
				ONE_VECTOR(lanes_left, __VA_ARGS__); \
			else \
				ONE_VECTOR(0, __VA_ARGS__); \
			break; \
			BLOCK_CASE(2, lanes_left, __VA_ARGS__) BLOCK_CASE(3, lanes_left, __VA_ARGS__) \
			BLOCK_CASE(4, lanes_left, __VA_ARGS__) MORE_BLOCK_CASES(lanes_left, __VA_ARGS__) \
		} \
	}
#define ONE_VECTOR(rest, f, ...) f(__VA_ARGS__, v0, 1, rest)
#endif

// Prefetches the columns of a block in a row that is used later.
#define prefetch_block(row, nb, tail) prefetch_columns(row, sizeof *(row), nb, tail)

INLINE void prefetch_columns(const void *row, const int64_t size, const int nb, const int tail) {
	const char *p = row;
	__asm__("" : "+r"(p)); // one address with constant offsets
	for (int64_t at = 0; at < nb * VW * size; at += 64)
		__builtin_prefetch(p + at);
	if (tail)
		__builtin_prefetch(p + ((nb - 1) * VW + tail - 1) * size);
	else if (nb * VW * size % 64 > 32) // it may lie across one line more
		__builtin_prefetch(p + nb * VW * size - 1);
}

// Returns the first column of vector v of a block. A tail that follows another vector is moved back, so that
// it is the row's last whole vector and overlaps the one before. A masked store takes as long as many whole
// ones.
INLINE int64_t block_column(int v, const int nb, const int tail) {
	return v * VW - (v > 0 && v == nb - 1 ? -tail & (VW - 1) : 0);
}

#define load_block(p, v, nb, tail) \
	((tail) && (nb) == 1 ? load_n((p) + block_column(v, nb, tail), tail) \
	                     : load((p) + block_column(v, nb, tail)))
#define store_block(p, x, v, nb, tail) \
	((tail) && (nb) == 1 ? store_n((p) + block_column(v, nb, tail), x, tail) \
	                     : store((p) + block_column(v, nb, tail), x))

// The same for rows whose type is known only at run time. load_either: x = the block from number `at` of p
// on. store_either does the reverse.
INLINE void load_either(vf *x, const void *p, int type, int64_t at, const int nb, const int tail) {
	if (type == WEFT_BFLOAT16)
		for (int v = 0; v < nb; v++)
			x[v] = load_block((const bfloat16 *)p + at, v, nb, tail);
	else
		for (int v = 0; v < nb; v++)
			x[v] = load_block((const float *)p + at, v, nb, tail);
}

INLINE void store_either(void *p, int type, int64_t at, const vf *x, const int nb, const int tail) {
	if (type == WEFT_BFLOAT16)
		for (int v = 0; v < nb; v++)
			store_block((bfloat16 *)p + at, x[v], v, nb, tail);
	else
		for (int v = 0; v < nb; v++)
			store_block((float *)p + at, x[v], v, nb, tail);
}

// p += x for the vectors of a block. x becomes the sum.
INLINE void add_block(float *p, vf *x, const int nb, const int tail) {
	for (int v = 0; v < nb; v++)
		x[v] += load_block(p, v, nb, tail);
	for (int v = 0; v < nb; v++) // after all loads, because vectors may overlap
		store_block(p, x[v], v, nb, tail);
}
