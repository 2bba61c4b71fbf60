// Rows picked out of a matrix, and added back to it.

enum { ROWS_AHEAD = 16 };

static void k_gather(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		if (i + ROWS_AHEAD < hi)
			__builtin_prefetch(a->x + a->rows[i + ROWS_AHEAD] * a->cols);
		__builtin_memcpy(a->z + i * a->cols, a->x + a->rows[i] * a->cols, a->cols * sizeof *a->z);
	}
}

static void k_scatter_add(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		float *z = a->z + a->rows[i] * a->cols;
		const float *x = a->x + i * a->cols;
		for (int64_t c = 0; c < a->cols; c += VW) {
			int n = lesser(a->cols - c, VW);
			put(z + c, part(z + c, n) + part(x + c, n), n);
		}
	}
}
