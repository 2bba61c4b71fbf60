// Row-wise and element-wise kernels. row_args.h has their equations.

static inline vf sigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }

// act(x).
INLINE vf activate(vf x, int activation) {
	const vf zero = {0};
	switch (activation) {
	case WEFT_RELU:
		return (vf)((vi)x & ~(x <= zero)); // NaN stays NaN
	case WEFT_ELU:
		return positive(x, x, vexpm1(x));
	case WEFT_LEAKY_RELU:
		return positive(x, x, x * 0.01f);
	case WEFT_TANH: {
		vf e = vexpm1(-2.0f * x);
		return -e / (2.0f + e);
	}
	case WEFT_SIGMOID:
		return sigmoid(x);
	}
	return x;
}

// act'(x) from the output y = act(x).
INLINE vf derivative(vf y, int activation) {
	const vf one = all(1.0f);
	switch (activation) {
	case WEFT_RELU:
		return (vf)((vi)one & (y > (vf){0}));
	case WEFT_ELU:
		return positive(y, one, y + 1.0f);
	case WEFT_LEAKY_RELU:
		return positive(y, one, all(0.01f));
	case WEFT_TANH:
		return 1.0f - y * y;
	case WEFT_SIGMOID:
		return y * (1.0f - y);
	}
	return one;
}

INLINE void finish_rows(const weft_finish_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	piece_buffer repeated, drawn;
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		const float *bias = repeat(repeated, a->bias ? a->bias + c0 : NULL, width, rows);
		for (int64_t i = lo; i < hi; i += rows) {
			int64_t here = lesser(rows, hi - i), n = here * width;
			const elem *x = a->x + i * cols + c0;
			const float *keep = mask_piece(drawn, &a->mask, i, here, c0, width);
			elem *z = a->z + i * cols + c0;
			for (int64_t p = 0; p < n; p += VW) {
				int left = lesser(n - p, VW);
				vf v = part(x + p, left);
				if (bias)
					v += part(bias + p, left);
				v = activate(v, activation);
				if (keep)
					v *= part(keep + p, left);
				put(z + p, v, left);
			}
		}
	}
}

// Calls f with the activation as a constant, for those that most models have. The others take longer than the
// branch on them.
#define EACH_ACTIVATION(f, ...) \
	if (a->activation == WEFT_RELU) \
		f(__VA_ARGS__, WEFT_RELU); \
	else if (a->activation == WEFT_IDENTITY) \
		f(__VA_ARGS__, WEFT_IDENTITY); \
	else \
		f(__VA_ARGS__, a->activation);

static void k_finish(const void *args, int64_t lo, int64_t hi) {
	const weft_finish_args *a = args;
	EACH_ACTIVATION(finish_rows, a, lo, hi)
}

// dx = g·mask·act'. With ReLU the output is positive exactly where the element was kept and active. So its
// sign is the mask, and no random number is drawn again. The other activations divide by the scale to find
// the output of the activation itself.
INLINE void finish_back_rows(const weft_finish_back_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	piece_buffer drawn;
	weft_mask again = a->mask;
	if (activation == WEFT_RELU)
		again.threshold = 0;
	float scale = a->mask.threshold ? a->mask.scale : 1.0f;
	vf up = all(scale), down = all(again.threshold ? 1.0f / scale : 1.0f);
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		for (int64_t i = lo; i < hi; i += rows) {
			int64_t here = lesser(rows, hi - i), n = here * width, at = i * cols + c0;
			const elem *g = a->g + at, *z = a->z + at;
			const float *keep = mask_piece(drawn, &again, i, here, c0, width);
			elem *dx = a->dx + at;
			for (int64_t p = 0; p < n; p += VW) {
				int left = lesser(n - p, VW);
				vf v = part(g + p, left);
				if (activation != WEFT_IDENTITY)
					v *= derivative(part(z + p, left) * down, activation);
				put(dx + p, v * (keep ? part(keep + p, left) : up), left);
			}
		}
	}
}

static void k_finish_back(const void *args, int64_t lo, int64_t hi) {
	const weft_finish_back_args *a = args;
	EACH_ACTIVATION(finish_back_rows, a, lo, hi)
}

INLINE void combine(const weft_combine_args *a, int64_t lo, int64_t hi, const int multiply, const int add) {
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		vf x = a->alpha * part(a->x + i, n);
		if (multiply)
			x *= part(a->y + i, n);
		else if (add)
			x += a->beta * part(a->y + i, n);
		put(a->z + i, x, n);
	}
}

static void k_combine(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	if (a->multiply)
		combine(a, lo, hi, 1, 0);
	else if (a->y)
		combine(a, lo, hi, 0, 1);
	else
		combine(a, lo, hi, 0, 0);
}

// Adds n lanes of each piece, of x or of x·y, to the sums at place `at`. Pieces are `apart` numbers apart.
INLINE void column_sum_at(float *places, int64_t at, const elem *x, const elem *y, int64_t apart,
                          const int pieces, int n) {
	vf sum = {0};
	for (int k = 0; k < pieces; k++) {
		__builtin_prefetch(x + pieces * (apart + at) + k * VW);
		vf v = part(x + k * apart + at, n);
		if (y)
			v *= part(y + k * apart + at, n);
		sum += v;
	}
	store(places + at, load(places + at) + sum);
}

// Adds `pieces` pieces of n numbers each.
INLINE void column_sum_pieces(float *places, const elem *x, const elem *y, int64_t apart, const int pieces,
                              int64_t n) {
	int64_t p = 0;
	for (; p + VW <= n; p += VW)
		column_sum_at(places, p, x, y, apart, pieces, VW);
	if (p < n)
		column_sum_at(places, p, x, y, apart, pieces, n - p);
}

// Σ x, or Σ x·y, of each column over tiles lo … hi−1.
INLINE void column_sum_tiles(const weft_column_sum_args *a, int64_t lo, int64_t hi, const elem *y) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	piece_buffer places = {0};
	for (int64_t t = lo; t < hi; t++)
		for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
			double *sum = a->tiles + t * cols + c0;
			int64_t width = lesser(cols - c0, PIECE), i = t * WEFT_TILE, end = tile_end(t, a->rows);
			for (int64_t c = 0; c < width; c++)
				sum[c] = 0;
			while (i < end) {
				int64_t stop = lesser(i + 2 * PARTIAL * rows, end), at = i * cols + c0;
				for (; i + 2 * rows <= stop; i += 2 * rows, at += 2 * rows * cols)
					column_sum_pieces(places, a->x + at, y ? y + at : NULL, rows * cols, 2, rows * width);
				for (; i < stop; i += rows, at += rows * cols)
					column_sum_pieces(places, a->x + at, y ? y + at : NULL, rows * cols, 1,
					                  lesser(rows, stop - i) * width);
				fold(sum, places, width, rows);
			}
		}
}

static void k_column_sum(const void *args, int64_t lo, int64_t hi) {
	const weft_column_sum_args *a = args;
	if (a->y)
		column_sum_tiles(a, lo, hi, a->y);
	else
		column_sum_tiles(a, lo, hi, NULL);
}

// Σ (x − x) of each tile: 0, or NaN if an element is NaN or infinite.
static void k_finite(const void *args, int64_t lo, int64_t hi) {
	const weft_column_sum_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		int64_t end = tile_end(t, a->rows) * a->cols;
		vf sum = {0};
		for (int64_t i = t * WEFT_TILE * a->cols; i < end; i += VW) {
			vf x = part(a->x + i, lesser(end - i, VW));
			sum += x - x;
		}
		a->tiles[t] = lane_sum(sum);
	}
}

// out_k = ⟨z_k, a_{k mod heads}⟩ for k = lo … hi−1, or ⟨z_k, y_k⟩ with with_y. VW dot products are added over
// the lanes together.
INLINE void dot_each(const weft_head_dot_args *a, int64_t lo, int64_t hi, const int with_y) {
	const int64_t width = a->width;
	for (int64_t k = lo; k < hi; k += VW) {
		int64_t here = lesser(hi - k, VW), h = k % a->heads;
		vf s[VW] = {0};
		for (int64_t j = 0; j < here; j++) {
			const elem *x = a->z + (k + j) * width, *y = with_y ? a->y + (k + j) * width : NULL;
			const float *fixed = with_y ? NULL : a->a + h * width;
			int64_t c = 0;
			for (; c + VW <= width; c += VW)
				s[j] += load(x + c) * (with_y ? load(y + c) : load(fixed + c));
			if (c < width)
				s[j] += load_n(x + c, width - c) *
				        (with_y ? load_n(y + c, width - c) : load_n(fixed + c, width - c));
			h = h + 1 < a->heads ? h + 1 : 0;
		}
		put(a->out + k, lane_sums(s), here);
	}
}

static void k_head_dot(const void *args, int64_t lo, int64_t hi) {
	const weft_head_dot_args *a = args;
	dot_each(a, lo * a->heads, hi * a->heads, 0);
}

static void k_row_dots(const void *args, int64_t lo, int64_t hi) {
	const weft_head_dot_args *a = args;
	dot_each(a, lo * a->heads, hi * a->heads, 1);
}

static void k_head_outer(const void *args, int64_t lo, int64_t hi) {
	const weft_head_outer_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < a->heads; h++)
			axpy(a->z + (i * a->heads + h) * a->width, a->s[i * a->heads + h], a->a + h * a->width, a->width);
}

// Sums of s_ih · z_ihc over the rows of tiles. `rows` rows at a time are added in a register. These rows, and
// the rows ahead that are prefetched, stay in the first-level cache.
INLINE void head_outer_back_tiles(const weft_head_outer_back_args *a, int64_t lo, int64_t hi, const int rows,
                                  const int ahead) {
	int64_t heads = a->heads, width = a->width, cols = heads * width;
	for (int64_t t = lo; t < hi; t++) {
		double *sum = a->tiles + t * cols;
		int64_t end = tile_end(t, a->rows);
		for (int64_t c = 0; c < cols; c++)
			sum[c] = 0;
		for (int64_t from = t * WEFT_TILE; from < end; from += rows) {
			int64_t here = lesser(rows, end - from);
			for (int64_t h = 0; h < heads; h++)
				for (int64_t c = 0; c < width; c += VW) {
					const elem *z = a->z + from * cols + h * width + c;
					const float *s = a->s + from * heads + h;
					int n = lesser(width - c, VW);
					vf some = {0};
					for (int64_t r = 0; r < here; r++) {
						if (ahead)
							__builtin_prefetch(z + (r + rows) * cols + ahead);
						some += s[r * heads] * part(z + r * cols, n);
					}
					add_lanes(sum + h * width + c, some, n);
				}
		}
	}
}

static void k_head_outer_back(const void *args, int64_t lo, int64_t hi) {
	const weft_head_outer_back_args *a = args;
	if (a->rows * a->heads * a->width > WEFT_CACHED)
		head_outer_back_tiles(a, lo, hi, 8, FETCH);
	else
		head_outer_back_tiles(a, lo, hi, 32, 0);
}

static void k_head_mean(const void *args, int64_t lo, int64_t hi) {
	const weft_head_mean_args *a = args;
	float each = 1.0f / a->heads;
	for (int64_t i = lo; i < hi; i++) {
		const elem *in = a->in + i * a->heads * a->width;
		for (int64_t c = 0; c < a->width; c += VW) {
			int n = lesser(a->width - c, VW);
			vf s = {0};
			for (int64_t h = 0; h < a->heads; h++)
				s += part(in + h * a->width + c, n);
			put(a->out + i * a->width + c, s * each, n);
		}
	}
}

static void k_head_mean_back(const void *args, int64_t lo, int64_t hi) {
	const weft_head_mean_args *a = args;
	float each = 1.0f / a->heads;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < a->heads; h++)
			for (int64_t c = 0; c < a->width; c += VW) {
				int n = lesser(a->width - c, VW);
				put(a->out + (i * a->heads + h) * a->width + c, part(a->in + i * a->width + c, n) * each, n);
			}
}

static void k_fill(const void *args, int64_t lo, int64_t hi) {
	const weft_fill_args *a = args;
	elem value;
	__builtin_memcpy(&value, &a->bits, sizeof value);
	if (a->bits == 0)
		__builtin_memset(a->p + lo, 0, (hi - lo) * sizeof *a->p);
	else
		for (int64_t i = lo; i < hi; i++)
			a->p[i] = value;
}
