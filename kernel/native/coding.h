// Encoding of rows to be sent, as floats, bfloat16s, or integers of 8 or 4 bits. An integer is rounded at
// random, so that its mean is the number: q = floor((x − Z)·(2^b − 1)/R + u) with u uniform in [0, 1), for
// the smallest number Z of a row and its range R (AdaQP; Wan, Zhao and Wu, MLSys 2023).

// Z and R of a row, as they are sent. If a number of the row, or R, is not finite, Z is NaN. Then the
// receiver decodes the whole row as NaN.
typedef struct {
	float least, range;
} row_range;

// x = n numbers of a row, from encoded column `at` on. n is at most BATCH. Copies of the first number fill up
// the last vector.
INLINE void read_numbers(float *x, const elem *row, const int32_t *columns, int64_t at, int64_t n) {
	if (columns)
		for (int64_t c = 0; c < n; c++)
			x[c] = number(row + columns[at + c]);
	else
		for (int64_t c = 0; c < n; c += VW) {
			const int k = lesser(n - c, VW);
			store(x + c, part(row + at + c, k));
		}
	for (int64_t c = n; c % VW; c++)
		x[c] = x[0];
}

// The reverse of read_numbers, for numbers of either type. With accumulate the numbers are added to the
// row's.
#define WRITE_NUMBERS(row, columns, at, x, n, accumulate) \
	if (columns) \
		for (int64_t c = 0; c < (n); c++) { \
			elem *to = (row) + (columns)[(at) + c]; \
			store_n(to, all(number((x) + c) + ((accumulate) ? number(to) : 0.0f)), 1); \
		} \
	else \
		for (int64_t c = 0; c < (n); c += VW) { \
			const int k = lesser((n)-c, VW); \
			elem *to = (row) + (at) + c; \
			vf v = part((x) + c, k); \
			if (accumulate) \
				v += part(to, k); \
			put(to, v, k); \
		}

// The largest lane.
static inline float largest_lane(vf v) {
	for (int w = VW / 2; w > 0; w /= 2)
		v = larger(v, rotate(v, w));
	return v[0];
}

// Z and R of `count` numbers of a row.
static inline row_range range_of(const elem *row, const int32_t *columns, int64_t count) {
	vf least = all(FLT_MAX), most = all(-FLT_MAX), odd = {0};
	for (int64_t at = 0; at < count; at += BATCH) {
		float x[BATCH];
		const int64_t n = lesser(count - at, BATCH);
		read_numbers(x, row, columns, at, n);
		for (int64_t c = 0; c < n; c += VW) {
			vf v = load(x + c);
			odd += v - v; // NaN where v is not finite
			least = -larger(-least, -v);
			most = larger(most, v);
		}
	}
	row_range r = {-largest_lane(-least), 0};
	r.range = largest_lane(most) - r.least;
	if (lane_sum(odd) != 0 || r.range - r.range != 0)
		r = (row_range){NAN, 0};
	return r;
}

// Encodes one row x as integers of `bits` bits: z = Z and R, and then the codes.
static __attribute__((noinline)) void encode_integers(uint8_t *z, const elem *x, const weft_encode_args *a,
                                                      uint32_t vertex, int bits) {
	const row_range r = range_of(x, a->columns, a->count);
	const float levels = (1 << bits) - 1, scale = levels / r.range;
	__builtin_memcpy(z, &r, sizeof r);
	z += sizeof r;
	if (!(r.range > 0) || scale - scale != 0) { // all numbers are equal, or almost equal
		__builtin_memset(z, 0, (a->count * bits + 7) / 8);
		return;
	}
	for (int64_t at = 0; at < a->count; at += BATCH) {
		float y[BATCH];
		int32_t q[BATCH];
		counters random;
		const int64_t n = lesser(a->count - at, BATCH);
		read_numbers(y, x, a->columns, at, n);
		random_bits(&random, a->key, vertex, at / BATCH, a->stream);
		for (int64_t c = 0; c < n; c += VW) {
			const vf words = __builtin_convertvector((vi)word_of(&random, c / LANES, c % LANES / VW), vf);
			const vf code = (load(y + c) - r.least) * scale + (words + 0.5f) / 65536.0f;
			const vi whole = __builtin_convertvector(-larger(-code, all(-levels)), vi);
			__builtin_memcpy(q + c, &whole, sizeof whole);
		}
		if (n % 2)
			q[n] = 0;
		if (bits == 8)
			for (int64_t c = 0; c < n; c++)
				z[at + c] = q[c];
		else
			for (int64_t c = 0; c < n; c += 2)
				z[(at + c) / 2] = q[c] | q[c + 1] << 4;
	}
}

// Decodes one row of integers.
static __attribute__((noinline)) void decode_integers(elem *z, const uint8_t *x, const weft_decode_args *a,
                                                      int bits) {
	row_range r;
	__builtin_memcpy(&r, x, sizeof r);
	x += sizeof r;
	const float step = r.range / ((1 << bits) - 1);
	for (int64_t at = 0; at < a->count; at += BATCH) {
		float y[BATCH];
		int32_t q[BATCH];
		const int64_t n = lesser(a->count - at, BATCH);
		if (bits == 8)
			for (int64_t c = 0; c < n; c++)
				q[c] = x[at + c];
		else
			for (int64_t c = 0; c < n; c += 2) {
				q[c] = x[(at + c) / 2] & 15;
				q[c + 1] = x[(at + c) / 2] >> 4;
			}
		for (int64_t c = 0; c < n; c += VW) {
			vi whole;
			__builtin_memcpy(&whole, q + c, sizeof whole);
			store(y + c, r.least + __builtin_convertvector(whole, vf) * step);
		}
		WRITE_NUMBERS(z, a->columns, at, y, n, a->accumulate)
	}
}

// Encoding and decoding of a row of floats or bfloat16s. `type` is the type that is sent.
#define ENCODE_NUMBERS(type) \
	for (int64_t at = 0; at < a->count; at += BATCH) { \
		float y[BATCH]; \
		const int64_t n = lesser(a->count - at, BATCH); \
		read_numbers(y, x, a->columns, at, n); \
		for (int64_t c = 0; c < n; c += VW) { \
			const int k = lesser(n - c, VW); \
			put((type *)a->z + i * a->count + at + c, load(y + c), k); \
		} \
	}
#define DECODE_NUMBERS(type) \
	for (int64_t at = 0; at < a->count; at += BATCH) { \
		const int64_t n = lesser(a->count - at, BATCH); \
		const type *y = (const type *)a->x + i * a->count + at; \
		WRITE_NUMBERS(z, a->columns, at, y, n, a->accumulate) \
	}

// The bytes of an encoded row of `count` integers.
INLINE int64_t coded(int64_t count, const int bits) { return sizeof(row_range) + (count * bits + 7) / 8; }

// Row i of z = the encoded columns of a row of x.
static void k_encode(const void *args, int64_t lo, int64_t hi) {
	const weft_encode_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		const int64_t row = a->rows ? a->rows[i] : i;
		const elem *x = a->x + row * a->cols;
		const uint32_t vertex = a->ids ? a->ids[row] : row;
		if (a->rows && i + ROWS_AHEAD < hi)
			__builtin_prefetch(a->x + a->rows[i + ROWS_AHEAD] * a->cols);
		switch (a->format) {
		case WEFT_FORMAT_FLOAT32:
			ENCODE_NUMBERS(float)
			break;
		case WEFT_FORMAT_BFLOAT16:
			ENCODE_NUMBERS(bfloat16)
			break;
		case WEFT_FORMAT_INT8:
			encode_integers((uint8_t *)a->z + i * coded(a->count, 8), x, a, vertex, 8);
			break;
		case WEFT_FORMAT_INT4:
			encode_integers((uint8_t *)a->z + i * coded(a->count, 4), x, a, vertex, 4);
		}
	}
}

// Decodes row i of x into the columns of a row of z, or adds it to them.
static void k_decode(const void *args, int64_t lo, int64_t hi) {
	const weft_decode_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		elem *z = a->z + (a->rows ? a->rows[i] : i) * a->cols;
		switch (a->format) {
		case WEFT_FORMAT_FLOAT32:
			DECODE_NUMBERS(float)
			break;
		case WEFT_FORMAT_BFLOAT16:
			DECODE_NUMBERS(bfloat16)
			break;
		case WEFT_FORMAT_INT8:
			decode_integers(z, (const uint8_t *)a->x + i * coded(a->count, 8), a, 8);
			break;
		case WEFT_FORMAT_INT4:
			decode_integers(z, (const uint8_t *)a->x + i * coded(a->count, 4), a, 4);
		}
	}
}
#undef WRITE_NUMBERS
#undef ENCODE_NUMBERS
#undef DECODE_NUMBERS
