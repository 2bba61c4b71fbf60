// Row-wise kernels process a matrix in pieces. A piece is some rows side by side, as one run of numbers. Its
// size is chosen so that whole vectors fill it wherever the width allows, because one masked store takes as
// long as many whole ones. A longer row is cut into parts. Vectors of one number for each column are repeated
// for each row of a piece. A reduction over rows has a sum for each place of a piece. It is in float for
// PARTIAL additions, and in double precision over these.
// Where a kernel does little else, it adds two pieces at a time and then adds their sum, so that each place's
// sum is loaded and stored once for both. Meanwhile the next two pieces are fetched from front to back, which
// suits the memory. More than two pieces at a time are slower, as equal places of the pieces share few sets
// of the first-level cache.

enum { PIECE = 2048, LEAST = 512, PARTIAL = 32, APART = 352, PIECE_BUFFER = PIECE + APART };

// A buffer for the numbers of a piece, and for LANES more of a mask. Equal places of two buffers side by side
// do not lie near a multiple of 4 KB apart. If they did, a load would wait for a store to the other buffer,
// as processors first compare 12 bits of the addresses.
typedef float piece_buffer[PIECE_BUFFER] __attribute__((aligned(64)));

// How many numbers ahead a kernel prefetches whose loop is so long that the processor does not run ahead by
// itself.
enum { FETCH = 1024 };

static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

// The number of rows of a piece of `cols` columns: at least LEAST numbers, and whole vectors.
static inline int64_t piece_rows(int64_t cols) {
	int64_t rows = LEAST / (cols + 1) + 1;
	if (cols % LANES)
		rows = (rows + LANES - 1) / LANES * LANES;
	return rows * cols <= PIECE ? rows : cols < PIECE ? PIECE / cols : 1;
}

// to = v, repeated for each row of a piece of `width` columns. v may be to. Returns NULL if v is NULL.
static inline const float *repeat(float *to, const float *v, int64_t width, int64_t rows) {
	if (!v)
		return NULL;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < width; c++)
			to[r * width + c] = v[c];
	return to;
}

// keep = the mask of columns from … from+width−1 of the rows of a piece. Returns NULL if nothing is dropped.
static __attribute__((noinline)) const float *mask_piece(piece_buffer keep, const weft_mask *m, int64_t row,
                                                         int64_t rows, int64_t from, int64_t width) {
	if (!m->threshold)
		return NULL;
	// the columns of the first batch of random bits that lie before `first`
	const int64_t first = m->first + from, before = first % BATCH;
	for (int64_t r = 0; r < rows; r++) {
		if (before) {
			float batch[BATCH];
			mask_row(batch, m, row + r, first / BATCH, lesser(before + width, BATCH));
			__builtin_memcpy(keep + r * width, batch + before, lesser(width, BATCH - before) * sizeof *keep);
		}
		for (int64_t c = before ? BATCH - before : 0; c < width; c += BATCH)
			mask_row(keep + r * width + c, m, row + r, (first + c) / BATCH, lesser(width - c, BATCH));
	}
	return keep;
}

// sum_c += Σ of the places of column c, for a piece of rows × width. The places become zero.
static __attribute__((noinline)) void fold(double *sum, float *places, int64_t width, int64_t rows) {
	int64_t c = 0;
	for (; c + VW / 2 <= width; c += VW / 2) {
		vd s;
		__builtin_memcpy(&s, sum + c, sizeof s);
		for (int64_t r = 0; r < rows; r++)
			s += wide(places + r * width + c);
		__builtin_memcpy(sum + c, &s, sizeof s);
	}
	for (; c < width; c++)
		for (int64_t r = 0; r < rows; r++)
			sum[c] += places[r * width + c];
	__builtin_memset(places, 0, rows * width * sizeof *places);
}

// sum_c += v_c for the first n lanes.
INLINE void add_lanes(double *sum, vf v, int n) {
	float s[VW];
	store(s, v);
	if (n == VW) // a constant number, for which the compiler uses vectors
		for (int i = 0; i < VW; i++)
			sum[i] += s[i];
	else
		for (int i = 0; i < n; i++)
			sum[i] += s[i];
}

static inline int64_t tile_end(int64_t tile, int64_t rows) { return lesser((tile + 1) * WEFT_TILE, rows); }
