// What message functions are made of: rows picked out of a matrix and added back to it, columns, heads, and
// single numbers.

enum { ROWS_AHEAD = 16 };

static void k_gather(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		if (i + ROWS_AHEAD < hi)
			__builtin_prefetch(a->x + a->rows[i + ROWS_AHEAD] * a->cols);
		__builtin_memcpy(a->z + i * a->cols, a->x + a->rows[i] * a->cols, a->cols * sizeof *a->z);
	}
}

static void k_scatter(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		__builtin_memcpy(a->z + a->rows[i] * a->cols, a->x + i * a->cols, a->cols * sizeof *a->z);
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

static void k_columns(const void *args, int64_t lo, int64_t hi) {
	const weft_columns_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		float *z = a->z + i * a->z_cols + a->from_z;
		const float *x = a->x + i * a->x_cols + a->from_x;
		for (int64_t c = 0; c < a->count; c += VW) {
			int n = lesser(a->count - c, VW);
			vf v = part(x + c, n);
			__builtin_prefetch(x + ROWS_AHEAD * a->x_cols + c);
			if (a->accumulate)
				v += part(z + c, n);
			put(z + c, v, n);
		}
	}
}

static void k_head_scale(const void *args, int64_t lo, int64_t hi) {
	const weft_head_scale_args *a = args;
	for (int64_t k = lo * a->heads; k < hi * a->heads; k++)
		for (int64_t c = 0; c < a->width; c += VW) {
			int64_t at = k * a->width + c;
			int n = lesser(a->width - c, VW);
			put(a->z + at, a->s[k] * part(a->x + at, n), n);
		}
}

// Runs over elements, as k_reciprocal.
static void k_exp(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		put(a->z + i, vexp(part(a->x + i, n)), n);
	}
}

// 1/x, and 0 for 0.
static void k_reciprocal(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		a->z[i] = a->x[i] == 0 ? 0 : 1 / a->x[i];
}

// A row and head without a score above −∞ has sum 0: its output is 0.
static void k_attend_end(const void *args, int64_t lo, int64_t hi) {
	const weft_attend_end_args *a = args;
	for (int64_t k = lo * a->heads; k < hi * a->heads; k++) {
		float sum = a->sum[k], scale = 1 / sum;
		for (int64_t c = 0; c < a->width; c += VW) {
			int64_t at = k * a->width + c;
			int n = lesser(a->width - c, VW);
			vf v = {0};
			if (sum > 0)
				v = part(a->z + at, n) * scale;
			put(a->z + at, v, n);
		}
		a->maximum[k] = sum > 0 ? a->maximum[k] + logf(sum) : 0;
	}
}
