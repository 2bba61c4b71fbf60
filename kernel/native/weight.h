// The gradient of a weight: z = xᵀ·g over the rows of a tile, for x of rows × in and g of rows × out. It
// follows Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008). Both factors have
// the summed dimension first. So packing copies runs of columns, and transposes nothing. oneDNN's product of
// a transposed x is slower here, because it waits for x and g to come from memory before it multiplies. Here
// the next rows of both come while the current ones are multiplied. Rows of a tile are added in single
// precision, and tiles in double precision, so that the error does not grow with the number of rows.
//
// If both factors are bfloat16s that are multiplied in pairs, a panel holds two rows in one. A word then has
// the numbers of both rows, the first row's in its lower half.

enum {
	// columns of x in a panel; TALL·BROAD sums and BROAD vectors of g fit into registers
	TALL = VW == 4 ? 4 : VW / 4 * 3,
	BROAD = 2 // vectors of g in a panel
};

// sum + x·g. With pairs, x and g hold two rows in one, and both products are added.
#if defined(DOT_PAIRS)
#define ADD_PRODUCT(sum, x, g, pairs) ((pairs) ? DOT_PAIRS(sum, x, g) : (vf)((sum) + *(x) * (g)))
#else
#define ADD_PRODUCT(sum, x, g, pairs) ((sum) + *(x) * (g))
#endif

// Multiplies `tall` columns of x, whose rows are `stride` apart, by a panel of g of `broad` vectors. The
// result belongs to the numbers of the block from `at` on.
INLINE void multiply_panels(weight_block *b, int64_t at, const float *x, int64_t stride, const float *g,
                            const int tall, const int broad, const int pairs) {
	vf sum[VW][BROAD], all_sums[VW][BROAD];
	float *tile = b->tile + at;
	double *total = b->sum + at;
	if (b->first)
		for (int i = 0; i < tall; i++)
			for (int v = 0; v < broad; v++)
				sum[i][v] = (vf){0};
	else
		for (int i = 0; i < tall; i++)
			for (int v = 0; v < broad; v++)
				sum[i][v] = load(tile + i * b->stride + v * VW);
#pragma GCC unroll 1
	for (int i = 0; i < tall; i++) {
		if (b->last)
			for (int line = 0; line < broad * VW; line += LINE / 2)
				__builtin_prefetch(total + i * b->stride + line, 1);
		if (!b->first) // what the next call reads
			for (int line = 0; line < broad * VW; line += LINE)
				__builtin_prefetch(tile + (i + tall) * b->stride + line, 1);
	}
	for (int64_t r = 0; r < b->depth; r++, x += stride) {
		vf w[BROAD];
		__builtin_prefetch(x + 16 * stride);
		for (int v = 0; v < broad; v++)
			w[v] = load(g + (r * BROAD + v) * VW);
		for (int i = 0; i < tall; i++)
			for (int v = 0; v < broad; v++)
				sum[i][v] = ADD_PRODUCT(sum[i][v], x + i, w[v], pairs);
		if ((r & (b->next_x.every - 1)) == 0)
			ask_for_next(&b->next_x);
		if ((r & (b->next_g.every - 1)) == 0)
			ask_for_next(&b->next_g);
	}
	if (!b->last) {
		for (int i = 0; i < tall; i++)
			for (int v = 0; v < broad; v++)
				store(tile + i * b->stride + v * VW, sum[i][v]);
		return;
	}
	for (int i = 0; i < tall; i++)
		for (int v = 0; v < broad; v++)
			all_sums[i][v] = sum[i][v];
#pragma GCC unroll 1 // what follows is done once in a tile, and takes little time beside the rows
	for (int i = 0; i < tall; i++)
		for (int v = 0; v < broad; v++)
			add_wide(total + i * b->stride + v * VW, all_sums[i][v], !b->first_tile);
}

// Multiplies all panels of x, of `in` columns, by one panel of g.
INLINE void multiply_column(weight_block *b, int64_t at, const float *g, int64_t in, const int broad,
                            const int pairs) {
	const float *x = b->x;
	for (int64_t c = 0; c < in; c += TALL, at += TALL * b->stride, x += VW * b->depth)
		if (in - c > TALL / 3 * 2)
			multiply_panels(b, at, x, VW, g, TALL, broad, pairs);
		else if (in - c > TALL / 3)
			multiply_panels(b, at, x, VW, g, TALL / 3 * 2, broad, pairs);
		else
			multiply_panels(b, at, x, VW, g, TALL / 3, broad, pairs);
}

// Packs rows of x into panels of `width` columns. A panel has whole vectors of each row, row after row. If
// its width is no whole number of vectors, columns of the next panel fill it up.
#define PACK(type) \
	for (int64_t r = 0; r < depth; r++) { \
		const type *row = (const type *)x.at + r * x.stride; \
		float *p = panels + r * vectors * VW; \
		for (int64_t c = 0; c < columns; c += width, p += depth * vectors * VW) \
			for (int v = 0; v < vectors; v++) { \
				const int64_t rest = columns - c - v * VW; \
				if (rest >= VW) \
					store(p + v * VW, load(row + c + v * VW)); \
				else if (rest > 0) \
					store(p + v * VW, load_n(row + c + v * VW, rest)); \
			} \
	}

// The same for panels that hold two rows in one. An odd last row is followed by zeros.
INLINE void pack_pairs(float *panels, operand x, int64_t columns, int64_t depth, const int width) {
	const int vectors = (width + VW - 1) / VW;
	const int64_t steps = (depth + 1) / 2;
	for (int64_t s = 0; s < steps; s++) {
		const bfloat16 *row = (const bfloat16 *)x.at + 2 * s * x.stride;
		const int more = 2 * s + 1 < depth;
		float *p = panels + s * vectors * VW;
		for (int64_t c = 0; c < columns; c += width, p += steps * vectors * VW)
			for (int v = 0; v < vectors; v++) {
				const int64_t at = c + v * VW, n = lesser(columns - at, VW);
				if (n <= 0)
					continue;
				vh lower = load_halves(row + at, n), upper = {0};
				if (more)
					upper = load_halves(row + x.stride + at, n);
				store(p + v * VW, (vf)(WORDS_OF(lower) | WORDS_OF(upper) << 16));
			}
	}
}

INLINE void pack(float *panels, operand x, int64_t columns, int64_t depth, const int width, const int pairs) {
	const int vectors = (width + VW - 1) / VW;
	if (pairs) {
		pack_pairs(panels, x, columns, depth, width);
	} else if (x.size == sizeof(bfloat16)) {
		PACK(bfloat16)
	} else {
		PACK(float)
	}
}
#undef PACK

// Multiplies all panels of x by all of g. A panel of g is packed just before it is multiplied, so that it is
// in the first-level cache.
INLINE void multiply_block(weight_block *b, int64_t at, operand g, int64_t in, int64_t out, int64_t depth,
                           const int pairs) {
	for (int64_t c = 0; c < out; c += BROAD * VW, g.at += BROAD * VW * g.size) {
		pack(b->g, g, lesser(out - c, BROAD * VW), depth, BROAD * VW, pairs);
		if (out - c > VW)
			multiply_column(b, at + c, b->g, in, BROAD, pairs);
		else
			multiply_column(b, at + c, b->g, in, 1, pairs);
	}
}

#if !defined(TILES)
enum { TILES_DEPTH = 0 };
#endif

// Computes the block that begins with column a->i of x and column a->o of g, over rows lo … hi−1.
INLINE void weight_block_of(const weft_weight_args *a, int64_t lo, int64_t hi, const enum weft_products by) {
	const int pairs = by == WEFT_OF_PAIRS;
	const int64_t in = lesser(a->in - a->i, WEFT_WEIGHT_IN), out = lesser(a->out - a->o, WEFT_WEIGHT_OUT);
	// columns of x that are read only once, and so are not packed, if they are floats
	const int64_t once = out <= VW && a->x_type == WEFT_FLOAT32 ? in / VW * VW : 0;
	float *x_panels = a->scratch, *g_panels = x_panels + DEPTH * weft_weight_tall(in);
	weight_block b = {
	    .x = x_panels, .g = g_panels, .tile = a->tile_sum, .sum = a->sum, .stride = weft_weight_stride(out)};
	const int64_t of_panel = pairs ? 2 : 1; // how many rows of x one row of a panel holds
	const int64_t most = by == WEFT_OF_TILES ? TILES_DEPTH : of_panel * DEPTH;
	// The first rows were not prefetched, so that the loop waits for them. So they are few.
	int64_t next = most / 4, depth;
	for (int64_t r = lo; r < hi; r += depth) {
		const operand x = operand_at(a->x, a->x_type, a->in, r, a->i),
		              g = operand_at(a->g, a->g_type, a->out, r, a->o);
		const int64_t tile = lo + (r - lo) / a->tile * a->tile, end = lesser(tile + a->tile, hi);
		depth = lesser(end - r, next);
		b.first = r == tile;
		b.last = r + depth == end;
		b.first_tile = tile == lo;
		next = lesser(2 * next, most);
		const int64_t ahead = r + depth < hi ? depth : 0;
#if defined(TILES)
		if (by == WEFT_OF_TILES) {
			b.depth = (depth + TILE_ROWS - 1) / TILE_ROWS * TILE;
			const int64_t work = pairs_of_tiles(in) * pairs_of_tiles(out) * (b.depth / TILE);
			b.next_x = rows_from(later(x, ahead), in, next, work);
			b.next_g = rows_from(later(g, ahead), out, next, work);
			pack_tiles(x_panels, x, in, depth, 1);
			pack_tiles(g_panels, g, out, depth, 0);
			multiply_block_of_tiles(&b, in, out);
			continue;
		}
#endif
		b.depth = (depth + of_panel - 1) / of_panel;
		const int64_t work = (in + TALL - 1) / TALL * ((out + BROAD * VW - 1) / (BROAD * VW)) * b.depth;
		b.next_x = rows_from(later(x, ahead), in, next, work);
		b.next_g = rows_from(later(g, ahead), out, next, work);
		if (once > 0)
			pack(b.g, g, out, depth, BROAD * VW, pairs);
		for (int64_t c = 0; c < once; c += VW)
			multiply_panels(&b, c * b.stride, (const float *)x.at + c, a->in, b.g, VW, 1, 0);
		if (once == in)
			continue;
		pack(x_panels, operand_at(a->x, a->x_type, a->in, r, a->i + once), in - once, depth, TALL, pairs);
		multiply_block(&b, once * b.stride, g, in - once, out, depth, pairs);
	}
}

// sum = xᵀ·g for one block.
static void k_weight(const void *args, int64_t lo, int64_t hi) {
	const weft_weight_args *a = args;
	switch (a->products) {
#if defined(DOT_PAIRS)
	case WEFT_OF_PAIRS:
		weight_block_of(a, lo, hi, WEFT_OF_PAIRS);
		return;
#endif
#if defined(TILES)
	case WEFT_OF_TILES:
		begin_tiles();
		weight_block_of(a, lo, hi, WEFT_OF_TILES);
		_tile_release();
		return;
#endif
	}
	weight_block_of(a, lo, hi, WEFT_OF_FLOATS);
}

static void k_pack_tiles(const void *args, int64_t lo, int64_t hi) {
#if defined(TILES)
	const weft_pack_tiles_args *a = args;
	pack_tiles(a->tiles, operand_at(a->x, WEFT_BFLOAT16, a->columns, 0, 0), a->columns, a->depth,
	           a->transposed);
#endif
}

// total = sum + total, and z = total after the last sum, for a block's rows.
static void k_weight_sum(const void *args, int64_t lo, int64_t hi) {
	const weft_weight_sum_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c = 0; c < a->columns; c += VW) {
			const int n = lesser(a->columns - c, VW);
			double *total = a->total + i * a->stride + c;
			float *z = a->z + i * a->z_stride + c, before[VW];
			store(before, a->first && a->accumulate ? part(z, n) : (vf){0});
			for (int half = 0; half < VW; half += VW / 2) {
				vd t = wide(before + half), term;
				if (!a->first)
					__builtin_memcpy(&t, total + half, sizeof t);
				__builtin_memcpy(&term, a->sum + i * a->stride + c + half, sizeof term);
				t += term;
				if (!a->last)
					__builtin_memcpy(total + half, &t, sizeof t);
				hf rounded = __builtin_convertvector(t, hf);
				__builtin_memcpy(before + half, &rounded, sizeof rounded);
			}
			if (a->last)
				put(z, load(before), n);
		}
}
