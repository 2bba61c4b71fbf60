// The gradient of a weight of bfloat16s by AMX's tiles. A tile product is of 16 columns of x with 16 columns
// of g, over 32 rows. A tile of g holds 16 words of each column. A word has the numbers of two rows, as in
// weight.h. A tile of x is the transpose of that.

enum {
	TILE = 16,                // columns of a tile, and words of each column
	TILE_ROWS = 2 * TILE,     // rows of x and g in it
	TILE_WORDS = TILE * TILE,
	TILES_DEPTH = (2 * DEPTH) / TILE_ROWS * TILE_ROWS
};

// Configures each of the 8 registers as one tile.
static void begin_tiles(void) {
	static const struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t bytes[16]; // of a row
		uint8_t rows[16];
	} all = {1, .bytes = {[0 ... 7] = TILE * sizeof(float)}, .rows = {[0 ... 7] = TILE}};
	_tile_loadconfig(&all);
}

// Transposes 16 × 16 words: word j of v[i] becomes word i of v[j].
INLINE void transpose_words(vf *v) {
	__m512d t[16];
	for (int i = 0; i < 16; i += 4) { // 4 × 4 words in each 128 bits
		__m512d a = (__m512d)_mm512_unpacklo_ps(v[i], v[i + 1]);
		__m512d b = (__m512d)_mm512_unpacklo_ps(v[i + 2], v[i + 3]);
		__m512d c = (__m512d)_mm512_unpackhi_ps(v[i], v[i + 1]);
		__m512d d = (__m512d)_mm512_unpackhi_ps(v[i + 2], v[i + 3]);
		t[i] = _mm512_unpacklo_pd(a, b);
		t[i + 1] = _mm512_unpackhi_pd(a, b);
		t[i + 2] = _mm512_unpacklo_pd(c, d);
		t[i + 3] = _mm512_unpackhi_pd(c, d);
	}
	for (int i = 0; i < 4; i++) { // 4 × 4 of these blocks
		vf a = _mm512_shuffle_f32x4((vf)t[i], (vf)t[i + 4], 0x88);
		vf b = _mm512_shuffle_f32x4((vf)t[i + 8], (vf)t[i + 12], 0x88);
		vf c = _mm512_shuffle_f32x4((vf)t[i], (vf)t[i + 4], 0xdd);
		vf d = _mm512_shuffle_f32x4((vf)t[i + 8], (vf)t[i + 12], 0xdd);
		v[i] = _mm512_shuffle_f32x4(a, b, 0x88);
		v[i + 4] = _mm512_shuffle_f32x4(c, d, 0x88);
		v[i + 8] = _mm512_shuffle_f32x4(a, b, 0xdd);
		v[i + 12] = _mm512_shuffle_f32x4(c, d, 0xdd);
	}
}

// Packs x into tiles. The tiles of 16 columns follow each other, and then come those of the next 16 columns.
// Zeros fill up the last tiles.
INLINE void pack_tiles(float *tiles, operand x, int64_t columns, int64_t depth, const int transposed) {
	const int64_t blocks = (depth + TILE_ROWS - 1) / TILE_ROWS;
	for (int64_t k = 0; k < blocks; k++)
		for (int64_t c = 0; c < columns; c += TILE) {
			const bfloat16 *row = (const bfloat16 *)x.at + k * TILE_ROWS * x.stride + c;
			const int64_t rows = lesser(depth - k * TILE_ROWS, TILE_ROWS), n = lesser(columns - c, TILE);
			vf words[TILE];
			for (int i = 0; i < TILE; i++, row += 2 * x.stride) {
				vh lower = {0}, upper = {0};
				if (2 * i < rows)
					lower = load_halves(row, n);
				if (2 * i + 1 < rows)
					upper = load_halves(row + x.stride, n);
				words[i] = (vf)(WORDS_OF(lower) | WORDS_OF(upper) << 16);
			}
			if (transposed)
				transpose_words(words);
			float *tile = tiles + (c / TILE * blocks + k) * TILE_WORDS;
			for (int i = 0; i < TILE; i++)
				store(tile + i * TILE, words[i]);
		}
}

// Multiplies `tall` tiles of x by `broad` tiles of g, over the rows of the panels.
INLINE void multiply_tiles(weight_block *b, int64_t at, const float *x, const float *g, const int tall,
                           const int broad) {
	const int64_t blocks = b->depth / TILE, stride = b->stride * sizeof(float), next = blocks * TILE_WORDS;
	float *sum = b->tile + at, *below = sum + TILE * b->stride;
	__asm__ volatile("" ::: "memory"); // the instructions below read what was stored
	if (b->first) {
		_tile_zero(0);
		_tile_zero(1);
		_tile_zero(2);
		_tile_zero(3);
	} else {
		_tile_loadd(0, sum, stride);
		if (broad > 1)
			_tile_loadd(1, sum + TILE, stride);
		if (tall > 1)
			_tile_loadd(2, below, stride);
		if (tall > 1 && broad > 1)
			_tile_loadd(3, below + TILE, stride);
	}
	for (int64_t k = 0; k < blocks; k++, x += TILE_WORDS, g += TILE_WORDS) {
		_tile_loadd(4, x, TILE * sizeof *x);
		_tile_loadd(6, g, TILE * sizeof *g);
		_tile_dpbf16ps(0, 4, 6);
		if (broad > 1) {
			_tile_loadd(7, g + next, TILE * sizeof *g);
			_tile_dpbf16ps(1, 4, 7);
		}
		if (tall > 1) {
			_tile_loadd(5, x + next, TILE * sizeof *x);
			_tile_dpbf16ps(2, 5, 6);
		}
		if (tall > 1 && broad > 1)
			_tile_dpbf16ps(3, 5, 7);
		for (int64_t line = 0; line < b->next_x.at_once; line++)
			ask_for_next(&b->next_x);
		for (int64_t line = 0; line < b->next_g.at_once; line++)
			ask_for_next(&b->next_g);
	}
	_tile_stored(0, sum, stride);
	if (broad > 1)
		_tile_stored(1, sum + TILE, stride);
	if (tall > 1)
		_tile_stored(2, below, stride);
	if (tall > 1 && broad > 1)
		_tile_stored(3, below + TILE, stride);
	if (!b->last)
		return;
	for (int i = 0; i < tall * TILE; i++)
		for (int v = 0; v < broad; v++) {
			const int64_t p = i * b->stride + v * VW;
			add_wide(b->sum + at + p, load(sum + p), !b->first_tile);
		}
}

static inline int64_t pairs_of_tiles(int64_t columns) { return (columns + 2 * TILE - 1) / (2 * TILE); }

// Multiplies all tiles of x by all tiles of g, two by two at a time.
INLINE void multiply_block_of_tiles(weight_block *b, int64_t in, int64_t out) {
	const int64_t panel = b->depth * TILE;
	for (int64_t o = 0; o < out; o += 2 * TILE)
		for (int64_t i = 0; i < in; i += 2 * TILE) {
			const int64_t at = i * b->stride + o;
			const float *x = b->x + i / TILE * panel, *g = b->g + o / TILE * panel;
			if (in - i > TILE && out - o > TILE)
				multiply_tiles(b, at, x, g, 2, 2);
			else if (in - i > TILE)
				multiply_tiles(b, at, x, g, 2, 1);
			else if (out - o > TILE)
				multiply_tiles(b, at, x, g, 1, 2);
			else
				multiply_tiles(b, at, x, g, 1, 1);
		}
}
