// The steps of message functions: rows that are gathered from a matrix or scattered to it, columns, heads,
// and single numbers.

enum { ROWS_AHEAD = 16 };

static void k_gather(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	elem *z = a->z;
	for (int64_t i = lo; i < hi; i++) {
		if (i + ROWS_AHEAD < hi)
			__builtin_prefetch(a->x + a->rows[i + ROWS_AHEAD] * a->cols);
		__builtin_memcpy(z + i * a->cols, a->x + a->rows[i] * a->cols, a->cols * sizeof *z);
	}
}

// The 24 bits of a number are a 16-bit word of stream 1 and 8 bits of stream 2. Masks use other streams.
static void k_uniform(const void *args, int64_t lo, int64_t hi) {
	const weft_uniform_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t from = 0; from < a->cols; from += BATCH) {
			const uint32_t vertex = a->ids ? (uint32_t)a->ids[i] : (uint32_t)i;
			counters first, second;
			random_bits(&first, a->key, vertex, from / BATCH, 1);
			random_bits(&second, a->key, vertex, from / BATCH, 2);
			for (int64_t at = from; at < lesser(a->cols, from + BATCH); at += VW) {
				const int word = (at - from) / LANES, part = (at - from) % LANES / VW;
				const v32 bits = word_of(&first, word, part) << 8 | word_of(&second, word, part) >> 8;
				vf z = __builtin_convertvector((vi)bits, vf) * 0x1p-24f;
				if (sizeof *a->z != sizeof(float)) // rounded down, so that it stays below 1
					z = (vf)((v32)z & 0xffff0000u);
				put(a->z + i * a->cols + at, z, lesser(a->cols - at, VW));
			}
		}
}

// z_ij = the sum of the values of row i's entries in column j, which follow each other.
static void k_densify(const void *args, int64_t lo, int64_t hi) {
	const weft_densify_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t k = a->edges.indptr[i], end = a->edges.indptr[i + 1]; k < end;) {
			const int32_t column = a->edges.indices[k];
			float sum = 0;
			for (; k < end && a->edges.indices[k] == column; k++)
				sum += a->values ? a->values[k] : 1.0f;
			put(a->z + i * a->cols + column, all(sum), 1);
		}
}

static void k_scatter(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	elem *z = a->z;
	for (int64_t i = lo; i < hi; i++)
		__builtin_memcpy(z + a->rows[i] * a->cols, a->x + i * a->cols, a->cols * sizeof *z);
}

// z += x for n numbers.
#define ADD_NUMBERS(z, x, count) \
	for (int64_t c = 0; c < (count); c += VW) { \
		const int n = lesser((count)-c, VW); \
		put((z) + c, part((z) + c, n) + part((x) + c, n), n); \
	}

static void k_scatter_add(const void *args, int64_t lo, int64_t hi) {
	const weft_rows_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		const int64_t at = a->rows[i] * a->cols;
		const elem *x = a->x + i * a->cols;
		if (a->z_type == WEFT_BFLOAT16) {
			ADD_NUMBERS((bfloat16 *)a->z + at, x, a->cols)
		} else {
			ADD_NUMBERS((float *)a->z + at, x, a->cols)
		}
	}
}

#if defined(WEFT_OF_BFLOAT16)
// Copies or adds row after row.
static void k_columns(const void *args, int64_t lo, int64_t hi) {
	const weft_columns_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		const int64_t ahead = i + ROWS_AHEAD < hi ? i + ROWS_AHEAD : i;
		const int64_t to = (a->z_rows ? a->z_rows[i] : i) * a->z_cols + a->from_z;
		const elem *x = a->x + a->from_x, *from = x + (a->x_rows ? a->x_rows[i] : i) * a->x_cols;
		const elem *later = x + (a->x_rows ? a->x_rows[ahead] : ahead) * a->x_cols;
		for (int64_t c = 0; c < a->count; c += 2 * LINE)
			__builtin_prefetch(later + c);
		if (!a->accumulate) {
			__builtin_memcpy((elem *)a->z + to, from, a->count * sizeof *from);
		} else if (a->z_type == WEFT_BFLOAT16) {
			ADD_NUMBERS((bfloat16 *)a->z + to, from, a->count)
		} else {
			ADD_NUMBERS((float *)a->z + to, from, a->count)
		}
	}
}
#else
// z = x, or z += x, for n numbers.
INLINE void move_numbers(float *z, const float *x, const int64_t n, int accumulate) {
	float v[n];
	__builtin_memcpy(v, x, n * sizeof *v);
	if (accumulate)
		for (int64_t c = 0; c < n; c++)
			v[c] += z[c];
	__builtin_memcpy(z, v, n * sizeof *v);
}

// The same for n ≥ VW. The last whole vector overlaps the one before, as a masked store takes long. Rows that
// are used later are prefetched on the way.
INLINE void move_vectors(float *z, const float *x, int64_t n, int accumulate, const float *later_z,
                         const float *later_x) {
	const int64_t end = n - VW;
	vf last = load(x + end);
	if (accumulate)
		last += load(z + end);
	for (int64_t c = 0; c < end; c += VW) {
		vf v = load(x + c);
		__builtin_prefetch(later_x + c);
		if (later_z)
			__builtin_prefetch(later_z + c, 1);
		if (accumulate)
			v += load(z + c);
		store(z + c, v);
	}
	__builtin_prefetch(later_x + n - 1);
	if (later_z)
		__builtin_prefetch(later_z + n - 1, 1);
	store(z + end, last);
}

enum { NARROW = 16 };

// Copies or adds n columns of each row. n is a constant up to NARROW. A row may lie across two cache lines.
INLINE void move_columns(const weft_columns_args *a, int64_t lo, int64_t hi, const int64_t n) {
	const int32_t *x_rows = a->x_rows, *z_rows = a->z_rows;
	float *z = (float *)a->z + a->from_z;
	const float *x = a->x + a->from_x;
	for (int64_t i = lo; i < hi; i++) {
		int64_t ahead = i + ROWS_AHEAD < hi ? i + ROWS_AHEAD : i;
		float *to = z + (z_rows ? z_rows[i] : i) * a->z_cols;
		const float *from = x + (x_rows ? x_rows[i] : i) * a->x_cols;
		const float *later_x = x + (x_rows ? x_rows[ahead] : ahead) * a->x_cols;
		const float *later_z = z_rows ? z + z_rows[ahead] * a->z_cols : NULL;
		if (n > NARROW) {
			move_vectors(to, from, n, a->accumulate, later_z, later_x);
			continue;
		}
		__builtin_prefetch(later_x);
		__builtin_prefetch(later_x + n - 1);
		if (z_rows) {
			__builtin_prefetch(later_z, 1);
			__builtin_prefetch(later_z + n - 1, 1);
		}
		move_numbers(to, from, n, a->accumulate);
	}
}

static void k_columns(const void *args, int64_t lo, int64_t hi) {
	const weft_columns_args *a = args;
	switch (a->count) {
#define CASE(n) \
	case n: \
		move_columns(a, lo, hi, n); \
		break;
		CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8)
		CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#undef CASE
	case 0:
		break;
	default:
		move_columns(a, lo, hi, a->count);
	}
}
#endif
#undef ADD_NUMBERS

// z_ihc = s_ih · x_ihc.
static void k_head_scale(const void *args, int64_t lo, int64_t hi) {
	const weft_head_scale_args *a = args;
	for (int64_t k = lo * a->heads; k < hi * a->heads; k++)
		for (int64_t c = 0; c < a->width; c += VW) {
			int64_t at = k * a->width + c;
			int n = lesser(a->width - c, VW);
			put(a->z + at, a->s[k] * part(a->x + at, n), n);
		}
}

// z = e^x. Runs over elements.
static void k_exp(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		put(a->z + i, vexp(part(a->x + i, n)), n);
	}
}

// z = 1/x, and 0 for x = 0. Runs over elements.
static void k_reciprocal(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		vf x = part(a->x + i, n);
		put(a->z + i, (vf)((vi)(1.0f / x) & (x != 0)), n);
	}
}

#if !defined(WEFT_OF_BFLOAT16)
#define CONVERT(to, from) \
	for (int64_t i = lo; i < hi; i += VW) { \
		const int n = lesser(hi - i, VW); \
		put((to)a->z + i, part((from)a->x + i, n), n); \
	}

static void k_convert(const void *args, int64_t lo, int64_t hi) {
	const weft_convert_args *a = args;
	const int64_t size = a->x_type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float);
	if (a->z_type == a->x_type) {
		__builtin_memcpy((char *)a->z + lo * size, (const char *)a->x + lo * size, (hi - lo) * size);
	} else if (a->z_type == WEFT_BFLOAT16) {
		CONVERT(bfloat16 *, const float *)
	} else {
		CONVERT(float *, const bfloat16 *)
	}
}
#undef CONVERT
#endif
