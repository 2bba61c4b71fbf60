// Aggregation: a destination row is summed in registers across all its edges and written once.

// One row's sum over edges lo … hi−1 for a block of nb vectors, the last of them of `tail` lanes if not 0. Without coefficients (plain set)
// every weight is one. z = [z +] scale·(sum + self·own), added to with a->accumulate; own is NULL where the row itself has no weight, and
// last is the number of all entries.
static inline __attribute__((always_inline)) void spmm_row(const weft_spmm_args *a, int64_t lo, int64_t hi, int64_t last, float scale,
                                                            const float *own, float self, float *z, const float *x, const int nb,
                                                            const int tail, const int plain) {
	vf acc[REGISTERS];
	const int64_t cols = a->cols;
	const int32_t *indices = a->edges.indices;
	// Near the end, where no row follows, the rows themselves are asked for again.
	int64_t ahead = ahead_of(nb * sizeof(vf));
	if (hi + ahead > last)
		ahead = 0;
	for (int v = 0; v < nb; v++)
		acc[v] = (vf){0};
	for (int64_t k = lo; k < hi; k++) {
		const float *row = x + indices[k] * cols;
		prefetch_block(x + indices[k + ahead] * cols, nb, tail);
		if (plain) {
			for (int v = 0; v < nb; v++)
				acc[v] += load_block(row, v, nb, tail);
		} else {
			float w = a->weights ? a->weights[k] : 1.0f;
			if (a->col_scale)
				w *= a->col_scale[indices[k]];
			for (int v = 0; v < nb; v++)
				acc[v] += all(w) * load_block(row, v, nb, tail);
		}
	}
	if (own)
		for (int v = 0; v < nb; v++)
			acc[v] += all(self) * load_block(own, v, nb, tail);
	for (int v = 0; v < nb; v++)
		acc[v] *= all(scale);
	if (a->accumulate)
		add_block(z, acc, nb, tail);
	else
		for (int v = 0; v < nb; v++)
			store_block(z, acc[v], v, nb, tail);
}

// Rows lo … hi−1 for the block of columns that begins at column.
#define ROWS(nb, tail, plain) \
	for (int64_t i = lo; i < hi; i++) { \
		if (a->edges.skip_hubs && a->edges.indptr[i + 1] - a->edges.indptr[i] > WEFT_HUB) \
			continue; \
		const float *own = a->self && a->self[i] != 0 ? a->x + i * a->cols + column : NULL; \
		if (a->accumulate && !own && a->edges.indptr[i] == a->edges.indptr[i + 1]) \
			continue; \
		spmm_row(a, a->edges.indptr[i], a->edges.indptr[i + 1], a->edges.entries, a->row_scale ? a->row_scale[i] : 1.0f, own, own ? a->self[i] : 0.0f, \
		         a->z + i * a->cols + column, a->x + column, nb, tail, plain); \
	}

#define CASE(nb) \
	case nb: \
		if (plain && tail) { ROWS(nb, tail, 1) } \
		else if (plain) { ROWS(nb, 0, 1) } \
		else if (tail) { ROWS(nb, tail, 0) } \
		else { ROWS(nb, 0, 0) } \
		break;

static void spmm_columns(const weft_spmm_args *a, int64_t lo, int64_t hi, int64_t column, int nb, int tail) {
	int plain = !a->weights && !a->col_scale;
	switch (nb) {
		CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#if defined(__AVX512F__)
		CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#endif
	}
}
#undef CASE
#undef ROWS

static void k_spmm(const void *args, int64_t lo, int64_t hi) {
	const weft_spmm_args *a = args;
	for (int64_t column = 0; column < a->cols; column += REGISTERS * VW) {
		int64_t left = a->cols - column < REGISTERS * VW ? a->cols - column : REGISTERS * VW;
		spmm_columns(a, lo, hi, column, (left + VW - 1) / VW, left % VW);
	}
}
