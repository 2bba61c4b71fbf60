// Aggregation: a destination row is summed in registers across all its edges and written once.

// A block of columns. The arguments are a copy, as the compiler cannot know that z does not lie over the caller's.
typedef struct {
	weft_spmm_args a;
	const float *x; // the block's first column, as z
	float *z;
	int64_t ahead; // edges between the prefetch of a row and its use
	int64_t quiet; // no prefetch for a row of z that ends after this edge: it would read past the end of the indices
} spmm_block;

// acc += the sum over edges k … end−1. Without coefficients (plain set) every weight is one.
INLINE void spmm_edges(const spmm_block *b, vf *acc, int64_t k, int64_t end, const int nb, const int tail, const int plain) {
	const weft_spmm_args *a = &b->a;
	const int32_t *indices = a->edges.indices;
	const int64_t ahead = end <= b->quiet ? b->ahead : 0; // at the end the rows themselves are asked for again
	for (; k < end; k++) {
		const float *row = b->x + indices[k] * a->cols;
		prefetch_block(b->x + indices[k + ahead] * a->cols, nb, tail);
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
}

// Rows lo … hi−1: z = [z +] scale·(sum + self·own).
INLINE void spmm_rows(const spmm_block *b, int64_t lo, int64_t hi, const int nb, const int tail, const int plain) {
	const weft_spmm_args *a = &b->a;
	const int64_t *indptr = a->edges.indptr;
	const int special = a->self || a->accumulate || a->edges.skip_hubs;
	for (int64_t i = lo; i < hi; i++) {
		int64_t begin = indptr[i], end = indptr[i + 1];
		float *z = b->z + i * a->cols, self = 0;
		vf acc[REGISTERS];
		if (special) {
			self = a->self ? a->self[i] : 0;
			if ((a->edges.skip_hubs && end - begin > WEFT_HUB) || (a->accumulate && begin == end && self == 0))
				continue;
		}
		for (int v = 0; v < nb; v++)
			acc[v] = (vf){0};
		spmm_edges(b, acc, begin, end, nb, tail, plain);
		if (special && self != 0)
			for (int v = 0; v < nb; v++)
				acc[v] += all(self) * load_block(b->x + i * a->cols, v, nb, tail);
		if (a->row_scale)
			for (int v = 0; v < nb; v++)
				acc[v] *= all(a->row_scale[i]);
		if (special && a->accumulate)
			for (int v = 0; v < nb; v++)
				acc[v] += load_block(z, v, nb, tail);
		for (int v = 0; v < nb; v++)
			store_block(z, acc[v], v, nb, tail);
	}
}

#define CASE(nb) \
	case nb: \
		if (plain && tail) \
			spmm_rows(&b, lo, hi, nb, tail, 1); \
		else if (plain) \
			spmm_rows(&b, lo, hi, nb, 0, 1); \
		else if (tail) \
			spmm_rows(&b, lo, hi, nb, tail, 0); \
		else \
			spmm_rows(&b, lo, hi, nb, 0, 0); \
		break;

static void spmm_columns(const weft_spmm_args *a, int64_t lo, int64_t hi, int64_t column, int nb, int tail) {
	const int plain = !a->weights && !a->col_scale;
	const int64_t ahead = ahead_of(nb * sizeof(vf));
	const spmm_block b = {*a, a->x + column, a->z + column, ahead, a->edges.entries - ahead};
	switch (nb) {
		CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
#if defined(__AVX512F__)
		CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#endif
	}
}
#undef CASE

static void k_spmm(const void *args, int64_t lo, int64_t hi) {
	const weft_spmm_args *a = args;
	for (int64_t column = 0; column < a->cols; column += REGISTERS * VW) {
		int64_t left = a->cols - column < REGISTERS * VW ? a->cols - column : REGISTERS * VW;
		spmm_columns(a, lo, hi, column, (left + VW - 1) / VW, left % VW);
	}
}
