// Row-wise and element-wise work.

static inline vf sigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }

static inline __attribute__((always_inline)) vf activate(vf x, const int activation) {
	const vf zero = {0};
	switch (activation) {
	case WEFT_RELU:
		return (vf)((vi)x & ~(x <= zero)); // NaN stays NaN
	case WEFT_ELU: {
		vi positive = x > zero;
		return (vf)(((vi)x & positive) | ((vi)vexpm1(x) & ~positive));
	}
	case WEFT_LEAKY_RELU: {
		vi positive = x > zero;
		return (vf)(((vi)x & positive) | ((vi)(x * 0.01f) & ~positive));
	}
	case WEFT_TANH: {
		vf e = vexpm1(-2.0f * x);
		return -e / (2.0f + e);
	}
	case WEFT_SIGMOID:
		return sigmoid(x);
	}
	return x;
}

// The derivative, from the output y.
static inline __attribute__((always_inline)) vf derivative(vf y, const int activation) {
	const vf zero = {0};
	const vf one = all(1.0f);
	vi positive = y > zero;
	switch (activation) {
	case WEFT_RELU:
		return (vf)((vi)one & positive);
	case WEFT_ELU:
		return (vf)(((vi)one & positive) | ((vi)(y + 1.0f) & ~positive));
	case WEFT_LEAKY_RELU:
		return (vf)(((vi)one & positive) | ((vi)all(0.01f) & ~positive));
	case WEFT_TANH:
		return 1.0f - y * y;
	case WEFT_SIGMOID:
		return y * (1.0f - y);
	}
	return one;
}

static inline __attribute__((always_inline)) void finish_rows(const weft_finish_args *a, int64_t lo, int64_t hi, const int activation) {
	float keep[BATCH];
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c0 = 0; c0 < a->cols; c0 += BATCH) {
			int64_t n = a->cols - c0 < BATCH ? a->cols - c0 : BATCH, c = 0;
			const float *x = a->x + i * a->cols + c0;
			float *z = a->z + i * a->cols + c0;
			const float *bias = a->bias ? a->bias + c0 : NULL;
			if (a->mask.threshold)
				mask_row(keep, &a->mask, i, c0 / BATCH, n);
			for (; c < n; c += VW) {
				int left = n - c < VW ? n - c : VW;
				vf v = load_n(x + c, left);
				if (bias)
					v += load_n(bias + c, left);
				v = activate(v, activation);
				if (a->mask.threshold)
					v *= load_n(keep + c, left);
				store_n(z + c, v, left);
			}
		}
}

#define EACH_ACTIVATION(f, ...) \
	switch (a->activation) { \
	case WEFT_IDENTITY: f(__VA_ARGS__, WEFT_IDENTITY); break; \
	case WEFT_RELU: f(__VA_ARGS__, WEFT_RELU); break; \
	case WEFT_ELU: f(__VA_ARGS__, WEFT_ELU); break; \
	case WEFT_LEAKY_RELU: f(__VA_ARGS__, WEFT_LEAKY_RELU); break; \
	case WEFT_TANH: f(__VA_ARGS__, WEFT_TANH); break; \
	case WEFT_SIGMOID: f(__VA_ARGS__, WEFT_SIGMOID); break; \
	}

static void k_finish(const void *args, int64_t lo, int64_t hi) {
	const weft_finish_args *a = args;
	EACH_ACTIVATION(finish_rows, a, lo, hi)
}

// With ReLU the output is positive exactly where the element was kept and active, so its sign is the mask and no random
// number is drawn again. The other activations undo the scale to find the activation's own output.
static inline __attribute__((always_inline)) void finish_back_rows(const weft_finish_back_args *a, int64_t lo, int64_t hi, const int activation) {
	float keep[BATCH];
	int again = a->mask.threshold && activation != WEFT_RELU;
	float scale = a->mask.threshold ? a->mask.scale : 1.0f;
	vf up = all(scale), down = all(1.0f / scale);
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c0 = 0; c0 < a->cols; c0 += BATCH) {
			int64_t n = a->cols - c0 < BATCH ? a->cols - c0 : BATCH, c = 0;
			int64_t at = i * a->cols + c0;
			if (again)
				mask_row(keep, &a->mask, i, c0 / BATCH, n);
			for (; c < n; c += VW) {
				int left = n - c < VW ? n - c : VW;
				vf g = load_n(a->g + at + c, left);
				if (activation != WEFT_IDENTITY) {
					vf y = load_n(a->z + at + c, left);
					if (again)
						y *= down;
					g *= derivative(y, activation);
				}
				g *= again ? load_n(keep + c, left) : up;
				store_n(a->dx + at + c, g, left);
			}
		}
}

static void k_finish_back(const void *args, int64_t lo, int64_t hi) {
	const weft_finish_back_args *a = args;
	EACH_ACTIVATION(finish_back_rows, a, lo, hi)
}
#undef EACH_ACTIVATION

static void k_combine(const void *args, int64_t lo, int64_t hi) {
	const weft_combine_args *a = args;
	float *z = a->z;
	const float *x = a->x, *y = a->y;
	float alpha = a->alpha, beta = a->beta;
	if (a->multiply)
		for (int64_t i = lo; i < hi; i++)
			z[i] = alpha * x[i] * y[i];
	else if (y)
		for (int64_t i = lo; i < hi; i++)
			z[i] = alpha * x[i] + beta * y[i];
	else
		for (int64_t i = lo; i < hi; i++)
			z[i] = alpha * x[i];
}

static inline int64_t tile_end(int64_t tile, int64_t rows) {
	int64_t end = (tile + 1) * WEFT_TILE;
	return end < rows ? end : rows;
}

static void k_column_sum(const void *args, int64_t lo, int64_t hi) {
	const weft_column_sum_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		double *sum = a->tiles + t * a->cols;
		for (int64_t c = 0; c < a->cols; c++)
			sum[c] = 0;
		for (int64_t i = t * WEFT_TILE; i < tile_end(t, a->rows); i++) {
			const float *x = a->x + i * a->cols, *y = a->y ? a->y + i * a->cols : NULL;
			if (y)
				for (int64_t c = 0; c < a->cols; c++)
					sum[c] += (double)x[c] * y[c];
			else
				for (int64_t c = 0; c < a->cols; c++)
					sum[c] += x[c];
		}
	}
}

static void k_head_dot(const void *args, int64_t lo, int64_t hi) {
	const weft_head_dot_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < a->heads; h++)
			a->out[i * a->heads + h] = dot(a->z + (i * a->heads + h) * a->width, a->a + h * a->width, a->width);
}

// The same with a row of a for each row of z.
static void k_row_dots(const void *args, int64_t lo, int64_t hi) {
	const weft_head_dot_args *a = args;
	for (int64_t i = lo * a->heads; i < hi * a->heads; i++)
		a->out[i] = dot(a->z + i * a->width, a->a + i * a->width, a->width);
}

static void k_head_outer(const void *args, int64_t lo, int64_t hi) {
	const weft_head_outer_args *a = args;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < a->heads; h++)
			axpy(a->z + (i * a->heads + h) * a->width, a->s[i * a->heads + h], a->a + h * a->width, a->width);
}

static void k_head_outer_back(const void *args, int64_t lo, int64_t hi) {
	const weft_head_outer_args *a = args;
	int64_t cols = a->heads * a->width;
	for (int64_t t = lo; t < hi; t++) {
		double *sum = a->tiles + t * cols;
		for (int64_t c = 0; c < cols; c++)
			sum[c] = 0;
		for (int64_t i = t * WEFT_TILE; i < tile_end(t, a->rows); i++)
			for (int64_t h = 0; h < a->heads; h++) {
				double s = a->s[i * a->heads + h];
				for (int64_t c = h * a->width; c < (h + 1) * a->width; c++)
					sum[c] += s * a->z[i * cols + c];
			}
	}
}

static void k_head_mean(const void *args, int64_t lo, int64_t hi) {
	const weft_head_mean_args *a = args;
	float each = 1.0f / a->heads;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c = 0; c < a->width; c++) {
			float s = 0;
			for (int64_t h = 0; h < a->heads; h++)
				s += a->in[(i * a->heads + h) * a->width + c];
			a->out[i * a->width + c] = s * each;
		}
}

static void k_head_mean_back(const void *args, int64_t lo, int64_t hi) {
	const weft_head_mean_args *a = args;
	float each = 1.0f / a->heads;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t h = 0; h < a->heads; h++)
			for (int64_t c = 0; c < a->width; c++)
				a->out[(i * a->heads + h) * a->width + c] = a->in[i * a->width + c] * each;
}

static void k_zero(const void *args, int64_t lo, int64_t hi) {
	const weft_zero_args *a = args;
	__builtin_memset((char *)a->p + lo, 0, hi - lo);
}
