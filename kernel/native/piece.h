// Row-wise work goes over pieces of a matrix: some rows side by side, as one run of numbers that whole
// vectors fill wherever the width allows, because one masked store takes as long as many whole ones. A longer
// row is cut into parts. What belongs to the columns is repeated for each row of a piece. What a reduction
// over rows adds up stays apart for each place of a piece, in float for PARTIAL additions and in double
// precision over these. Where little else is done, two pieces go side by side, whose sum is added: a place is
// loaded and stored once for both, while the next two are fetched from front to back, which memory likes
// better. More of them are slower, as the same places of pieces meet in few sets of the first-level cache.

enum { PIECE = 2048, LEAST = 512, PARTIAL = 32, APART = 352, PIECE_BUFFER = PIECE + APART };

// A buffer for a piece's numbers, and for LANES more of a mask. Places of the same number in two buffers
// side by side are not near a multiple of 4 KB apart: a load would wait for a store to the other, as
// processors compare 12 bits of the addresses first.
typedef float piece_buffer[PIECE_BUFFER] __attribute__((aligned(64)));

// How many numbers ahead a kernel fetches that has too much to do for each to run far ahead itself.
enum { FETCH = 1024 };

static inline int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

// The rows of a piece: enough for LEAST numbers, and for no broken vector at the end.
static inline int64_t piece_rows(int64_t cols) {
	int64_t rows = LEAST / (cols + 1) + 1;
	if (cols % LANES)
		rows = (rows + LANES - 1) / LANES * LANES;
	return rows * cols <= PIECE ? rows : cols < PIECE ? PIECE / cols : 1;
}

// to = v for each row of a piece of this width; v may be to. NULL where v is.
static inline const float *repeat(float *to, const float *v, int64_t width, int64_t rows) {
	if (!v)
		return NULL;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < width; c++)
			to[r * width + c] = v[c];
	return to;
}

// keep = the mask of columns from … from+width of a piece's rows. NULL where nothing is dropped.
static __attribute__((noinline)) const float *mask_piece(piece_buffer keep, const weft_mask *m, int64_t row,
                                                         int64_t rows, int64_t from, int64_t width) {
	if (!m->threshold)
		return NULL;
	// so many columns of the first batch come before
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

// sum_c += the places of column c, which become zero.
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

// sum_c += v_c for n lanes
INLINE void add_lanes(double *sum, vf v, int n) {
	float s[VW];
	store(s, v);
	if (n == VW) // the compiler has vectors for it
		for (int i = 0; i < VW; i++)
			sum[i] += s[i];
	else
		for (int i = 0; i < n; i++)
			sum[i] += s[i];
}

static inline int64_t tile_end(int64_t tile, int64_t rows) { return lesser((tile + 1) * WEFT_TILE, rows); }
