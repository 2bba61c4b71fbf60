// Normalisation, with the activation and the dropout after it: z = mask(act(y)), y = γ·x̂ + β, x̂ = (x − mean)·rstd. The backward
// kernels compute y and the mask again, so that nobody reads z, and g' = dLoss/dy = g·mask·act'(y) takes the place of g.

// dLoss/dy from g = dLoss/dz
static inline __attribute__((always_inline)) vf before(vf g, vf y, const float *keep, int n, const int activation) {
	if (activation != WEFT_IDENTITY)
		g *= derivative(activate(y, activation), activation);
	if (keep)
		g *= part(keep, n);
	return g;
}

// Batch norm (Ioffe & Szegedy 2015): mean and rstd belong to the column.
//   dx = γ·rstd·(g' − mean(g') − x̂·mean(g'·x̂))

// A tile's means and sums of squared deviations, which Chan's formula joins in Go. They are made of sums of d = x − x_0, where x_0
// is the median of three rows of the tile: near the mean, so that little is lost when (Σd)²/n is taken from Σd². Even an x_0 that
// is far from all other rows adds itself to the result, which Σd² then exceeds at most as many times as the tile has rows.
static inline float median(float a, float b, float c) {
	float low = a < b ? a : b, high = a < b ? b : a;
	return c < low ? low : c > high ? high : c;
}

typedef struct {
	room middle, d1, d2;
} moments_piece;

static inline __attribute__((always_inline)) void moments_at(moments_piece *m, int64_t at, const float *x, int n) {
	__builtin_prefetch(x + at + 2 * FETCH);
	vf d = part(x + at, n) - part(m->middle + at, n);
	store(m->d1 + at, load(m->d1 + at) + d);
	store(m->d2 + at, load(m->d2 + at) + d * d);
}

static void k_moments(const void *args, int64_t lo, int64_t hi) {
	const weft_moments_args *a = args;
	int64_t cols = a->cols, rows = piece_rows(cols);
	moments_piece m = {.d1 = {0}, .d2 = {0}};
	for (int64_t t = lo; t < hi; t++)
		for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
			double *mean = a->tile_mean + t * cols + c0, *m2 = a->tile_m2 + t * cols + c0;
			int64_t width = lesser(cols - c0, PIECE), i = t * WEFT_TILE, end = tile_end(t, a->rows);
			const float *first = a->x + i * cols + c0, *halfway = first + (end - i) / 2 * cols, *last = first + (end - i - 1) * cols;
			for (int64_t c = 0; c < width; c++) {
				mean[c] = m2[c] = 0;
				m.middle[c] = median(first[c], halfway[c], last[c]);
			}
			repeat(m.middle, m.middle, width, rows);
			while (i < end) {
				for (int64_t stop = lesser(i + PARTIAL * rows, end); i < stop; i += rows) {
					const float *x = a->x + i * cols + c0;
					int64_t n = lesser(rows, stop - i) * width, p = 0;
					for (; p + VW <= n; p += VW)
						moments_at(&m, p, x, VW);
					if (p < n)
						moments_at(&m, p, x, n - p);
				}
				fold(mean, m.d1, width, rows);
				fold(m2, m.d2, width, rows);
			}
			double n = end - t * WEFT_TILE;
			for (int64_t c = 0; c < width; c++) {
				double each = mean[c] / n;
				m2[c] -= mean[c] * each;
				m2[c] = m2[c] < 0 ? 0 : m2[c];
				mean[c] = m.middle[c] + each;
			}
		}
}

// What batch norm knows of the columns of a piece: y = (x − mean)·scale + β.
typedef struct {
	room mean, scale, beta;
} norm_piece;

static inline void norm_columns(norm_piece *p, const weft_normalization *s, int64_t from, int64_t width, int64_t rows) {
	repeat(p->mean, s->mean + from, width, rows);
	repeat(p->beta, s->beta + from, width, rows);
	for (int64_t c = 0; c < width; c++)
		p->scale[c] = s->gamma[from + c] * s->rstd[from + c];
	repeat(p->scale, p->scale, width, rows);
}

static inline __attribute__((always_inline)) vf norm_part(const norm_piece *p, int64_t at, vf x, int n) {
	return (x - part(p->mean + at, n)) * part(p->scale + at, n) + part(p->beta + at, n);
}

static inline __attribute__((always_inline)) void normalize_rows(const weft_normalize_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	room drawn;
	norm_piece norm;
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		norm_columns(&norm, &a->norm, c0, width, rows);
		for (int64_t i = lo; i < hi; i += rows) {
			int64_t here = lesser(rows, hi - i), n = here * width;
			const float *x = a->x + i * cols + c0, *keep = mask_piece(drawn, &a->mask, i, here, c0, width);
			float *z = a->z + i * cols + c0;
			for (int64_t p = 0; p < n; p += VW) {
				int left = lesser(n - p, VW);
				vf v = activate(norm_part(&norm, p, part(x + p, left), left), activation);
				if (keep)
					v *= part(keep + p, left);
				put(z + p, v, left);
			}
		}
	}
}

static void k_normalize(const void *args, int64_t lo, int64_t hi) {
	const weft_normalize_args *a = args;
	EACH_ACTIVATION(normalize_rows, a, lo, hi)
}

// For a tile's Σ g' and Σ g'·x̂: the second is made of g'·(x − mean). g' is written over g where it is another.
typedef struct {
	norm_piece norm;
	room s1, s2, drawn;
} sums_piece;

static inline __attribute__((always_inline)) void sums_at(sums_piece *s, int64_t at, float *g, const float *x, const float *keep, int n, const int activation) {
	__builtin_prefetch(x + at + FETCH);
	__builtin_prefetch(g + at + FETCH);
	vf d = part(x + at, n) - part(s->norm.mean + at, n);
	vf y = d * part(s->norm.scale + at, n) + part(s->norm.beta + at, n);
	vf v = before(part(g + at, n), y, keep ? keep + at : NULL, n, activation);
	if (keep || activation != WEFT_IDENTITY)
		put(g + at, v, n);
	store(s->s1 + at, load(s->s1 + at) + v);
	store(s->s2 + at, load(s->s2 + at) + v * d);
}

static inline __attribute__((always_inline)) void normalize_sums_tiles(const weft_normalize_sums_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	sums_piece s = {.s1 = {0}, .s2 = {0}};
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		norm_columns(&s.norm, &a->norm, c0, width, rows);
		for (int64_t t = lo; t < hi; t++) {
			double *sum_g = a->tile_g + t * cols + c0, *sum_gx = a->tile_gx + t * cols + c0;
			int64_t i = t * WEFT_TILE, end = tile_end(t, a->rows);
			for (int64_t c = 0; c < width; c++)
				sum_g[c] = sum_gx[c] = 0;
			while (i < end) {
				for (int64_t stop = lesser(i + PARTIAL * rows, end); i < stop; i += rows) {
					int64_t here = lesser(rows, stop - i), n = here * width, p = 0;
					const float *x = a->x + i * cols + c0, *keep = mask_piece(s.drawn, &a->mask, i, here, c0, width);
					float *g = a->g + i * cols + c0;
					for (; p + VW <= n; p += VW)
						sums_at(&s, p, g, x, keep, VW, activation);
					if (p < n)
						sums_at(&s, p, g, x, keep, n - p, activation);
				}
				fold(sum_g, s.s1, width, rows);
				fold(sum_gx, s.s2, width, rows);
			}
			for (int64_t c = 0; c < width; c++)
				sum_gx[c] *= a->norm.rstd[c0 + c];
		}
	}
}

static void k_normalize_sums(const void *args, int64_t lo, int64_t hi) {
	const weft_normalize_sums_args *a = args;
	EACH_ACTIVATION(normalize_sums_tiles, a, lo, hi)
}

static void k_normalize_back(const void *args, int64_t lo, int64_t hi) {
	const weft_normalize_back_args *a = args;
	int64_t cols = a->cols, rows = piece_rows(cols);
	room mean_g, slope; // slope = rstd·mean(g'·x̂)
	norm_piece norm;
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		norm_columns(&norm, &a->norm, c0, width, rows);
		repeat(mean_g, a->mean_g + c0, width, rows);
		for (int64_t c = 0; c < width; c++)
			slope[c] = a->norm.rstd[c0 + c] * a->mean_gx[c0 + c];
		repeat(slope, slope, width, rows);
		for (int64_t i = lo; i < hi; i += rows) {
			int64_t n = lesser(rows, hi - i) * width, at = i * cols + c0;
			const float *x = a->x + at, *g = a->g + at;
			float *dx = a->dx + at;
			for (int64_t p = 0; p < n; p += VW) {
				int left = lesser(n - p, VW);
				vf d = part(x + p, left) - part(norm.mean + p, left);
				d = part(g + p, left) - part(mean_g + p, left) - d * part(slope + p, left);
				put(dx + p, d * part(norm.scale + p, left), left);
			}
		}
	}
}

// Layer norm (Ba et al. 2016): the same with the mean and rstd of the row over its columns, which are kept.

static inline __attribute__((always_inline)) void layer_norm_rows(const weft_layer_norm_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols;
	room drawn;
	float means[VW], rstds[VW];
	for (int64_t i = lo; i < hi; i += VW) { // VW rows end in one sum over lanes
		int64_t here = lesser(VW, hi - i);
		vf s[VW] = {{0}}, d1[VW] = {{0}}, d2[VW] = {{0}};
		for (int64_t r = 0; r < here; r++)
			for (int64_t c = 0; c < cols; c += VW)
				s[r] += part(a->x + (i + r) * cols + c, lesser(cols - c, VW));
		vf mean = lane_sums(s) / (float)cols;
		store(means, mean);
		for (int64_t r = 0; r < here; r++)
			for (int64_t c = 0; c < cols; c += VW) {
				int n = lesser(cols - c, VW);
				vf d = only(part(a->x + (i + r) * cols + c, n) - means[r], n);
				d1[r] += d;
				d2[r] += d * d;
			}
		vf off = lane_sums(d1) / (float)cols; // what rounding left of the mean
		vf variance = activate(lane_sums(d2) / (float)cols - off * off, WEFT_RELU);
		store(means, mean + off);
		store(rstds, 1.0f / vsqrt(variance + a->epsilon));
		put(a->mean + i, mean + off, here);
		put(a->rstd + i, load(rstds), here);
		for (int64_t r = 0; r < here; r++)
			for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
				int64_t width = lesser(cols - c0, PIECE), at = (i + r) * cols;
				const float *keep = mask_piece(drawn, &a->mask, i + r, 1, c0, width);
				for (int64_t c = c0; c < c0 + width; c += VW) {
					int n = lesser(cols - c, VW);
					vf y = (part(a->x + at + c, n) - means[r]) * (rstds[r] * part(a->gamma + c, n)) + part(a->beta + c, n);
					y = activate(y, activation);
					if (keep)
						y *= part(keep + c - c0, n);
					put(a->z + at + c, y, n);
				}
			}
	}
}

static void k_layer_norm(const void *args, int64_t lo, int64_t hi) {
	const weft_layer_norm_args *a = args;
	EACH_ACTIVATION(layer_norm_rows, a, lo, hi)
}

// dx = rstd·(γ·g' − mean(γ·g') − x̂·mean(γ·g'·x̂)) over the tile's rows, VW at a time, and the tile's sums for dβ = Σ g' and
// dγ = Σ g'·x̂. dx holds g' for a while.
static inline __attribute__((always_inline)) void layer_back_tiles(const weft_layer_back_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols;
	room drawn;
	float m1[VW], m2[VW];
	for (int64_t t = lo; t < hi; t++) {
		double *sum_g = a->tile_g + t * cols, *sum_gx = a->tile_gx + t * cols;
		int64_t end = tile_end(t, a->rows);
		for (int64_t c = 0; c < cols; c++)
			sum_g[c] = sum_gx[c] = 0;
		for (int64_t from = t * WEFT_TILE; from < end; from += VW) {
			int64_t here = lesser(VW, end - from);
			const float *x = a->x + from * cols, *g = a->g + from * cols, *mean = a->mean + from, *rstd = a->rstd + from;
			float *dx = a->dx + from * cols;
			vf s1[VW] = {{0}}, s2[VW] = {{0}};
			for (int64_t r = 0; r < here; r++)
				for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
					int64_t width = lesser(cols - c0, PIECE);
					const float *keep = mask_piece(drawn, &a->mask, from + r, 1, c0, width);
					for (int64_t c = c0; c < c0 + width; c += VW) {
						int n = lesser(cols - c, VW);
						vf hat = (part(x + r * cols + c, n) - mean[r]) * rstd[r], gamma = part(a->gamma + c, n);
						vf d = before(part(g + r * cols + c, n), hat * gamma + part(a->beta + c, n), keep ? keep + c - c0 : NULL, n, activation);
						put(dx + r * cols + c, d, n);
						s1[r] += gamma * d;
						s2[r] += gamma * d * hat;
					}
				}
			store(m1, lane_sums(s1) / (float)cols);
			store(m2, lane_sums(s2) / (float)cols);
			for (int64_t c = 0; c < cols; c += VW) {
				int n = lesser(cols - c, VW);
				vf gamma = part(a->gamma + c, n), s = {0}, sx = {0};
				for (int64_t r = 0; r < here; r++) {
					vf hat = (part(x + r * cols + c, n) - mean[r]) * rstd[r], d = part(dx + r * cols + c, n);
					s += d;
					sx += d * hat;
					put(dx + r * cols + c, rstd[r] * (gamma * d - m1[r] - hat * m2[r]), n);
				}
				add_lanes(sum_g + c, s, n);
				add_lanes(sum_gx + c, sx, n);
			}
		}
	}
}

static void k_layer_back(const void *args, int64_t lo, int64_t hi) {
	const weft_layer_back_args *a = args;
	EACH_ACTIVATION(layer_back_tiles, a, lo, hi)
}
#undef EACH_ACTIVATION
