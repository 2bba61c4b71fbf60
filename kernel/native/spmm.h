// Sums of neighbours, or SpMM:
//   z_i = [z_i +] row_scale_i · (Σ_k weight_k · col_scale_j · x_j + self_i · own_i)
// The sum of a destination row stays in registers over all its edges, and is written once.

// A block of columns of some rows: row i of the block begins at number i·stride + shift of `at`.
typedef struct {
	void *at;
	int type;
	int64_t stride, shift;
} row_place;

// The work on a block of columns. The arguments are a copy, as the compiler cannot know that z does not
// overlap the caller's.
typedef struct {
	weft_spmm_args a;
	row_place z, sums;
	int64_t ahead;  // edges between the prefetch of a row and its use
	// a row of z that ends after this edge has no prefetches: they would read past the end of the indices
	int64_t quiet;
} spmm_block;

// The variant of the loop:
//   plain  every weight is one
//   cut    x holds some of the rows only, as the matrix is cut
//   asks   rows are prefetched; narrow rows that the second-level cache holds come as soon without
// For rows of one or two vectors these are constants, as a test would take a noticeable part of their time.
// Wider rows do not notice a test. They do not notice a multiplication by one either, which changes no bit.
typedef struct {
	int plain, cut, asks;
} spmm_kind;

// The edge whose row is prefetched next, in a matrix that is cut. There the edges of two rows do not follow
// each other directly.
typedef struct {
	int64_t row, edge, end; // with row = the end of the range there is none
} spmm_cursor;

// Moves the cursor to the first edge of the next row before hi that has edges. Rows that are skipped count as
// empty.
INLINE void next_row(spmm_cursor *c, const weft_spmm_args *a, int64_t hi) {
	while (++c->row < hi) {
		c->edge = a->edges.indptr[c->row];
		c->end = a->end[c->row];
		if (c->edge < c->end && !(a->edges.longest && c->end - c->edge > a->edges.longest))
			return;
	}
}

// Prefetches the row of the cursor's edge, and moves the cursor to the next edge.
INLINE void ask_next(spmm_cursor *c, const weft_spmm_args *a, int64_t hi, const int nb, const int tail) {
	if (c->row < hi) {
		prefetch_block(a->x + (a->edges.indices[c->edge] - a->first) * a->x_stride, nb, tail);
		if (++c->edge == c->end)
			next_row(c, a, hi);
	}
}

// acc += Σ weight · x_j over edges k … end−1.
INLINE void spmm_edges(const spmm_block *b, spmm_cursor *c, int64_t hi, vf *acc, int64_t k, int64_t end,
                       const int nb, const int tail, const spmm_kind kind) {
	const weft_spmm_args *a = &b->a;
	const int32_t *indices = a->edges.indices;
	// near the end of the indices the current rows are prefetched once more
	const int64_t ahead = end <= b->quiet ? b->ahead : 0;
	for (; k < end; k++) {
		const elem *row = a->x + (kind.cut ? indices[k] - a->first : indices[k]) * a->x_stride;
		if (kind.cut)
			ask_next(c, a, hi, nb, tail);
		else if (kind.asks)
			prefetch_block(a->x + indices[k + ahead] * a->x_stride, nb, tail);
		float w = !kind.plain && a->weights ? a->weights[k] : 1.0f;
		if (!kind.plain && a->col_scale)
			w *= a->col_scale[indices[k]];
		for (int v = 0; v < nb; v++)
			acc[v] += all(w) * load_block(row, v, nb, tail);
	}
}

// Rows lo … hi−1: z = [z +] row_scale·(sum + self·own).
INLINE void spmm_rows(const spmm_block *b, int64_t lo, int64_t hi, const int nb, const int tail,
                      const spmm_kind kind) {
	const weft_spmm_args *a = &b->a;
	const int64_t *begins = a->edges.indptr, *ends = a->end;
	const int special = a->self || a->accumulate || a->extend || a->edges.longest != 0;
	const row_place before = a->sums ? b->sums : b->z, to = a->unfinished ? b->sums : b->z;
	spmm_cursor c = {lo - 1};
	if (kind.cut) {
		next_row(&c, a, hi);
		for (int64_t n = 0; n < b->ahead; n++)
			ask_next(&c, a, hi, nb, tail);
	}
	for (int64_t i = lo; i < hi; i++) {
		int64_t begin = begins[i], end = ends[i];
		float self = 0;
		vf acc[REGISTERS];
		if (special) {
			self = a->self ? a->self[i] : 0;
			if ((a->edges.longest && end - begin > a->edges.longest) ||
			    (a->accumulate && begin == end && self == 0 && !a->extend))
				continue;
		}
		for (int v = 0; v < nb; v++)
			acc[v] = (vf){0};
		if (special && a->extend)
			load_either(acc, before.at, before.type, i * before.stride + before.shift, nb, tail);
		spmm_edges(b, &c, hi, acc, begin, end, nb, tail, kind);
		if (special && self != 0)
			for (int v = 0; v < nb; v++)
				acc[v] += all(self) * load_block(a->own + i * a->z_stride, v, nb, tail);
		if (a->row_scale)
			for (int v = 0; v < nb; v++)
				acc[v] *= all(a->row_scale[i]);
		if (special && a->accumulate) {
			vf old[REGISTERS];
			load_either(old, b->z.at, b->z.type, i * b->z.stride + b->z.shift, nb, tail);
			for (int v = 0; v < nb; v++)
				acc[v] += old[v];
		}
		store_either(to.at, to.type, i * to.stride + to.shift, acc, nb, tail);
	}
}

#define SPMM_KIND(nb, tail, asks) \
	if (a->cut) \
		spmm_rows(&b, lo, hi, nb, tail, (spmm_kind){0, 1, 1}); \
	else if (a->weights || a->col_scale) \
		spmm_rows(&b, lo, hi, nb, tail, (spmm_kind){0, 0, asks}); \
	else \
		spmm_rows(&b, lo, hi, nb, tail, (spmm_kind){1, 0, asks});
#if defined(NARROW)
#define CASE(nb, tail) \
	case nb: \
		if (a->edges.others * a->x_stride * (int64_t)sizeof(elem) > CACHE2) { \
			SPMM_KIND(nb, tail, 1) \
		} else { \
			SPMM_KIND(nb, tail, 0) \
		} \
		break;
#else
#define CASE(nb) \
	case nb: \
		spmm_rows(&b, lo, hi, nb, tail, (spmm_kind){0, a->cut, 1}); \
		break;
#endif

// Computes the columns from `column` on, at most REGISTERS vectors of them.
static void spmm_columns(const weft_spmm_args *a, int64_t lo, int64_t hi, int64_t column) {
	int64_t left = a->cols - column < REGISTERS * VW ? a->cols - column : REGISTERS * VW;
	const int nb = (left + VW - 1) / VW, tail = left % VW;
	const int64_t ahead = ahead_of(nb * VW * sizeof(elem));
	spmm_block b = {*a,
	                {a->z, a->z_type, a->z_stride, a->from + column},
	                {a->sums, WEFT_FLOAT32, a->sums_stride, column - a->first_sum * a->sums_stride},
	                ahead,
	                a->edges.entries - ahead};
	b.a.x += column;
	b.a.own += a->from + column;
	switch (nb) {
#if defined(NARROW)
		CASE(1, 0) CASE(2, tail)
#else
	case 1:
		if (tail) {
			SPMM_KIND(1, tail, 1)
		} else {
			SPMM_KIND(1, 0, 1)
		}
		break;
	case 2:
		SPMM_KIND(2, tail, 1)
		break;
		CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#if defined(__AVX512F__)
		CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#endif
#endif
	}
}
#undef CASE
#undef SPMM_KIND

static void k_spmm(const void *args, int64_t lo, int64_t hi) {
	const weft_spmm_args *a = args;
	const weft_narrow *narrow = narrower(a->cols);
	if (narrow) {
		narrow->spmm(args, lo, hi);
		return;
	}
	for (int64_t column = 0; column < a->cols; column += REGISTERS * VW)
		spmm_columns(a, lo, hi, column);
}
