// Batch norm and layer norm, with the activation and the dropout that follow: z = mask(act(y)), y = γ·x̂ + β,
// x̂ = (x − mean)·rstd. The backward kernels compute y and the mask again, so that they need not read z. They
// write g' = dLoss/dy = g·mask·act'(y) over g.

// g' = dLoss/dy from g = dLoss/dz, for n lanes.
INLINE vf before(vf g, vf y, const float *keep, int n, const int activation) {
	if (activation == WEFT_RELU || activation == WEFT_LEAKY_RELU) // y has the sign of act(y)
		g *= derivative(y, activation);
	else if (activation != WEFT_IDENTITY)
		g *= derivative(activate(y, activation), activation);
	if (keep)
		g *= part(keep, n);
	return g;
}

// Batch norm (Ioffe & Szegedy 2015): mean and rstd belong to the column.
//   dx = γ·rstd·(g' − mean(g') − x̂·mean(g'·x̂))

// The means and the sums of squared deviations of a tile, which Chan's formula joins (merge_moments). They
// are computed from sums of d = x − x_0, where x_0 is the median of three rows of the tile. It is near the
// mean, so that little is lost when (Σd)²/n is subtracted from Σd². Even if x_0 is far from all other rows,
// it is one of them and adds itself to the result. So Σd² exceeds the result at most by a factor of the
// number of rows.
static inline float median(float a, float b, float c) {
	float low = a < b ? a : b, high = a < b ? b : a;
	return c < low ? low : c > high ? high : c;
}

typedef struct {
	piece_buffer middle, d1, d2;
} moments_piece;

// Adds d and d² of n lanes of each piece to the sums at place `at`. Pieces are `apart` numbers apart.
INLINE void moments_at(moments_piece *m, int64_t at, const elem *x, int64_t apart, const int pieces, int n) {
	vf middle = part(m->middle + at, n), sum = {0}, squares = {0};
	for (int k = 0; k < pieces; k++) {
		__builtin_prefetch(x + pieces * (apart + at) + k * VW);
		vf d = part(x + k * apart + at, n) - middle;
		sum += d;
		squares += d * d;
	}
	store(m->d1 + at, load(m->d1 + at) + sum);
	store(m->d2 + at, load(m->d2 + at) + squares);
}

// Adds `pieces` pieces of n numbers each.
INLINE void moments_pieces(moments_piece *m, const elem *x, int64_t apart, const int pieces, int64_t n) {
	int64_t p = 0;
	for (; p + VW <= n; p += VW)
		moments_at(m, p, x, apart, pieces, VW);
	if (p < n)
		moments_at(m, p, x, apart, pieces, n - p);
}

// The mean and m2 of each column over each tile.
static void k_moments(const void *args, int64_t lo, int64_t hi) {
	const weft_moments_args *a = args;
	int64_t cols = a->cols, rows = piece_rows(cols);
	moments_piece m = {.d1 = {0}, .d2 = {0}};
	for (int64_t t = lo; t < hi; t++)
		for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
			double *mean = a->tile_mean + t * cols + c0, *m2 = a->tile_m2 + t * cols + c0;
			int64_t width = lesser(cols - c0, PIECE), i = t * WEFT_TILE, end = tile_end(t, a->rows);
			const elem *first = a->x + i * cols + c0, *halfway = first + (end - i) / 2 * cols,
			           *last = first + (end - i - 1) * cols;
			for (int64_t c = 0; c < width; c++) {
				mean[c] = m2[c] = 0;
				m.middle[c] = median(number(first + c), number(halfway + c), number(last + c));
			}
			repeat(m.middle, m.middle, width, rows);
			while (i < end) {
				int64_t stop = lesser(i + 2 * PARTIAL * rows, end);
				for (; i + 2 * rows <= stop; i += 2 * rows)
					moments_pieces(&m, a->x + i * cols + c0, rows * cols, 2, rows * width);
				for (; i < stop; i += rows)
					moments_pieces(&m, a->x + i * cols + c0, rows * cols, 1, lesser(rows, stop - i) * width);
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

// The vectors of batch norm, repeated for the rows of a piece: y = (x − mean)·scale + β with scale = γ·rstd.
typedef struct {
	piece_buffer mean, scale, beta;
} norm_piece;

// Repeats the vectors of batch norm for columns from … from+width−1 and `rows` rows.
static inline void norm_columns(norm_piece *p, const weft_normalization *s, int64_t from, int64_t width,
                                int64_t rows) {
	repeat(p->mean, s->mean + from, width, rows);
	repeat(p->beta, s->beta + from, width, rows);
	for (int64_t c = 0; c < width; c++)
		p->scale[c] = s->gamma[from + c] * s->rstd[from + c];
	repeat(p->scale, p->scale, width, rows);
}

// y for n lanes of a piece from place `at` on.
INLINE vf norm_part(const norm_piece *p, int64_t at, vf x, int n) {
	return (x - part(p->mean + at, n)) * part(p->scale + at, n) + part(p->beta + at, n);
}

// Batch norm of rows lo … hi−1.
INLINE void normalize_rows(const weft_normalize_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, rows = piece_rows(cols);
	piece_buffer drawn;
	norm_piece norm;
	for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
		int64_t width = lesser(cols - c0, PIECE);
		norm_columns(&norm, &a->norm, c0, width, rows);
		for (int64_t i = lo; i < hi; i += rows) {
			int64_t here = lesser(rows, hi - i), n = here * width;
			const elem *x = a->x + i * cols + c0;
			const float *keep = mask_piece(drawn, &a->mask, i, here, c0, width);
			elem *z = a->z + i * cols + c0;
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

// The sums Σ g' and Σ g'·x̂ of a tile. The second is computed from Σ g'·(x − mean). If g' differs from g, it
// is written over g.
typedef struct {
	norm_piece norm;
	piece_buffer s1, s2, drawn;
} sums_piece;

// Adds g' and g'·(x − mean) of n lanes to the sums at place `at`.
INLINE void sums_at(sums_piece *s, int64_t at, elem *g, const elem *x, const float *keep, int n,
                    const int activation) {
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

// Σ g' and Σ g'·x̂ of each column over tiles lo … hi−1.
INLINE void normalize_sums_tiles(const weft_normalize_sums_args *a, int64_t lo, int64_t hi,
                                 const int activation) {
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
					const elem *x = a->x + i * cols + c0;
					const float *keep = mask_piece(s.drawn, &a->mask, i, here, c0, width);
					elem *g = a->g + i * cols + c0;
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

// dx = scale·(g' − mean(g') − (x − mean)·slope) with scale = γ·rstd.
static void k_normalize_back(const void *args, int64_t lo, int64_t hi) {
	const weft_normalize_back_args *a = args;
	int64_t cols = a->cols, rows = piece_rows(cols);
	piece_buffer mean_g, slope; // slope = rstd·mean(g'·x̂)
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
			const elem *x = a->x + at, *g = a->g + at;
			elem *dx = a->dx + at;
			for (int64_t p = 0; p < n; p += VW) {
				int left = lesser(n - p, VW);
				vf d = part(x + p, left) - part(norm.mean + p, left);
				d = part(g + p, left) - part(mean_g + p, left) - d * part(slope + p, left);
				put(dx + p, d * part(norm.scale + p, left), left);
			}
		}
	}
}

// Layer norm (Ba et al. 2016): the same equations with the mean and rstd of a row over its columns. Both are
// kept for the backward pass. A batch of rows stays in the first-level cache between the passes over it,
// while the next batch is prefetched. The sums of VW rows are added over the lanes together.

enum { BATCHED = 32 };

// The rows of a batch: BATCHED, or fewer if they would have more than WEFT_KEPT numbers, but at least VW.
static inline int64_t batch_rows(int64_t cols) {
	int64_t rows = BATCHED;
	while (rows > VW && rows * cols > WEFT_KEPT)
		rows /= 2;
	return rows;
}

// The columns of a row: nb whole vectors, and one more for the columns that are left. That one reaches back
// into the vector before, if there is one, because a load waits for a masked store beside it. Its fresh lanes
// are the columns that no other vector has.
typedef struct {
	int64_t nb, end;
	int more, n; // n lanes at column `end`
	vi fresh;
} row_vectors;

static inline row_vectors vectors_of(int64_t cols) {
	int64_t nb = cols / VW;
	int more = cols % VW;
	if (nb)
		return (row_vectors){nb, cols - VW, more, VW, numbers(0) >= VW - more};
	return (row_vectors){nb, 0, more, more, numbers(0) < more};
}

static inline vf among(vf v, vi lanes) { return (vf)((vi)v & lanes); }

// The numbers of a batch as floats, for several passes. Storage of floats is used itself. Other storage is
// copied to floats, and the result is rounded at the end.
#if defined(WEFT_OF_BFLOAT16)
typedef float *copies;

static inline copies workspace_for_copies(const weft_workspaces *r) { return weft_take_workspace(r); }

// The copies of a second operand.
static inline copies beside(copies first, int64_t cols) {
	return first + weft_layer_norm_workspace(cols) / 2 / sizeof(float);
}
static inline void leave_copies(const weft_workspaces *r, copies first) { weft_leave_workspace(r, first); }

static const float *as_floats(copies to, const elem *x, int64_t n) {
	for (int64_t i = 0; i < n; i += VW)
		store(to + i, part(x + i, lesser(n - i, VW)));
	return to;
}

static float *floats_for(copies to, elem *z) { return to; }

static void round_floats(elem *z, const float *x, int64_t n) {
	for (int64_t i = 0; i < n; i += VW)
		put(z + i, load(x + i), lesser(n - i, VW));
}
#else
typedef void *copies;
static inline copies workspace_for_copies(const weft_workspaces *r) { return NULL; }
static inline copies beside(copies first, int64_t cols) { return NULL; }
static inline void leave_copies(const weft_workspaces *r, copies first) {}
static inline const float *as_floats(copies to, const elem *x, int64_t n) { return x; }
static inline float *floats_for(copies to, elem *z) { return z; }
static inline void round_floats(elem *z, const float *x, int64_t n) {}
#endif

// z = x·mask for `rows` rows. The first of them is number `row` of the mask.
static __attribute__((noinline)) void drop_rows(float *z, const float *x, const weft_mask *m, int64_t row,
                                                int64_t rows, int64_t cols) {
	piece_buffer drawn;
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c0 = 0; c0 < cols; c0 += PIECE) {
			int64_t width = lesser(cols - c0, PIECE), at = r * cols + c0;
			const float *keep = mask_piece(drawn, m, row + r, 1, c0, width);
			for (int64_t c = 0; c < width; c++)
				z[at + c] = x[at + c] * keep[c];
		}
}

// The mean and rstd of rows i … i+here−1, which are a batch. The rows of z are prefetched.
static void layer_norm_moments(const weft_layer_norm_args *a, const float *x, const float *z, int64_t i,
                               int64_t here, row_vectors v) {
	const int64_t cols = a->cols;
	float *mean = a->mean + i, *rstd = a->rstd + i;
	float each = 1.0f / cols;
	vf s1[BATCHED], s2[BATCHED];
	for (int64_t r = 0; r < here; r++) {
		const float *row = x + r * cols;
		vf s = {0};
#pragma GCC unroll 4
		for (int64_t b = 0; b < v.nb; b++)
			s += load(row + b * VW);
		if (v.more)
			s += among(part(row + v.end, v.n), v.fresh);
		s1[r] = s;
	}
	for (int64_t r = 0; r < here; r += VW)
		put(mean + r, lane_sums(s1 + r) * each, lesser(VW, here - r));
	for (int64_t r = 0; r < here; r++) {
		const float *row = x + r * cols, *to = z + r * cols;
		vf m = all(mean[r]), s = {0}, squares = {0};
#pragma GCC unroll 4
		for (int64_t b = 0; b < v.nb; b++) {
			__builtin_prefetch(to + b * VW, 1);
			vf d = load(row + b * VW) - m;
			s += d;
			squares += d * d;
		}
		if (v.more) {
			vf d = among(part(row + v.end, v.n) - m, v.fresh);
			s += d;
			squares += d * d;
		}
		s1[r] = s;
		s2[r] = squares;
	}
	for (int64_t r = 0; r < here; r += VW) {
		int n = lesser(VW, here - r);
		vf off = lane_sums(s1 + r) * each; // the error of the mean that rounding left
		vf variance = activate(lane_sums(s2 + r) * each - off * off, WEFT_RELU);
		put(mean + r, part(mean + r, n) + off, n);
		put(rstd + r, 1.0f / vsqrt(variance + a->epsilon), n);
	}
}

// Layer norm of rows lo … hi−1, batch by batch.
INLINE void layer_norm_rows(const weft_layer_norm_args *a, int64_t lo, int64_t hi, const int activation) {
	const int64_t cols = a->cols, batch = batch_rows(cols);
	const float *gamma = a->gamma, *beta = a->beta;
	const row_vectors v = vectors_of(cols);
	const copies x_copies = workspace_for_copies(&a->workspaces), z_copies = beside(x_copies, cols);
	for (int64_t i = lo; i < hi; i += batch) {
		const int64_t here = lesser(batch, hi - i);
		const float *x = as_floats(x_copies, a->x + i * cols, here * cols);
		float *z = floats_for(z_copies, a->z + i * cols), *first = z;
		layer_norm_moments(a, x, z, i, here, v);
		for (int64_t r = i; r < i + here; r++, x += cols, z += cols) {
			const elem *next = a->x + (r + batch) * cols;
			vf mean = all(a->mean[r]), rstd = all(a->rstd[r]), last = {0};
			if (v.more)
				last = activate((part(x + v.end, v.n) - mean) * (rstd * part(gamma + v.end, v.n)) +
				                    part(beta + v.end, v.n),
				                activation);
#pragma GCC unroll 4
			for (int64_t b = 0; b < v.nb; b++) {
				int64_t c = b * VW;
				__builtin_prefetch(next + c);
				store(z + c,
				      activate((load(x + c) - mean) * (rstd * load(gamma + c)) + load(beta + c), activation));
			}
			if (v.more)
				put(z + v.end, last, v.n);
		}
		if (a->mask.threshold)
			drop_rows(first, first, &a->mask, i, here, cols);
		round_floats(a->z + i * cols, first, here * cols);
	}
	leave_copies(&a->workspaces, x_copies);
}

static void k_layer_norm(const void *args, int64_t lo, int64_t hi) {
	const weft_layer_norm_args *a = args;
	EACH_ACTIVATION(layer_norm_rows, a, lo, hi)
}

// The backward pass of layer norm, and the tile's sums for dβ = Σ g' and dγ = Σ g'·x̂:
//   dx = rstd·(γ·g' − mean(γ·g') − x̂·mean(γ·g'·x̂))
// The first pass over a batch computes all sums and writes γ·g' to dx. The second pass computes dx. ABREAST
// rows are taken together, so that the values of a column are loaded and stored once for them.
enum { ABREAST = 4 };

typedef struct {
	const weft_layer_back_args *args;
	// the rows of a batch; g is multiplied by the mask already, but not by act', and may be dx
	const float *x, *g;
	float *dx;
	const elem *later_x, *later_g;         // the rows that are prefetched; NULL: none
	vf s1[BATCHED], s2[BATCHED];           // γ·g' and γ·g'·x̂ of each row, not yet added over the lanes
	float first[BATCHED], second[BATCHED]; // rstd·mean(γ·g') and rstd²·mean(γ·g'·x̂) of each row
	// sums for the columns of a part; the vector that ends a row has places of its own
	piece_buffer g_sums, gx_sums;
} layer_back;

// The values of the current rows in the first pass.
typedef struct {
	vf minus_mean[ABREAST], rstd[ABREAST], s1[ABREAST], s2[ABREAST];
} rows_abreast;

// Replaces g of each row by γ·g', and adds to the sums. If `fresh` is given, only its lanes count. The sums
// of the columns are at `place`.
INLINE void layer_back_at(layer_back *l, rows_abreast *of, vf *g, const float *x, const float *gammas,
                          const float *betas, int64_t place, const int rows, int64_t cols, int n,
                          const vi *fresh, const int activation) {
	vf gamma = part(gammas, n), beta = part(betas, n), sum = {0}, sum_x = {0};
	for (int r = 0; r < rows; r++) {
		vf hat = (part(x + r * cols, n) + of->minus_mean[r]) * of->rstd[r];
		vf d = before(g[r], hat * gamma + beta, NULL, n, activation), t = gamma * d;
		g[r] = t;
		if (fresh) {
			d = among(d, *fresh);
			t = among(t, *fresh);
		}
		sum += d;
		sum_x += d * hat;
		of->s1[r] += t;
		of->s2[r] += t * hat;
	}
	store(l->g_sums + place, load(l->g_sums + place) + sum);
	store(l->gx_sums + place, load(l->gx_sums + place) + sum_x);
}

// The first pass over columns c0 … c0+width−1 of rows i … i+rows−1. Row i is number `at` of its batch.
INLINE void layer_back_sums(layer_back *l, int64_t i, int64_t at, const int rows, int64_t c0, int64_t width,
                            const int activation) {
	const weft_layer_back_args *a = l->args;
	const int64_t cols = a->cols, from = at * cols + c0;
	const float *x = l->x + from, *g = l->g + from, *gamma = a->gamma + c0, *beta = a->beta + c0;
	const row_vectors v = vectors_of(width);
	float *dx = l->dx + from;
	rows_abreast of;
	vf here[ABREAST], last[ABREAST] = {{0}};
	for (int r = 0; r < rows; r++) {
		of.minus_mean[r] = all(-a->mean[i + r]);
		of.rstd[r] = all(a->rstd[i + r]);
		of.s1[r] = c0 ? l->s1[at + r] : (vf){0};
		of.s2[r] = c0 ? l->s2[at + r] : (vf){0};
	}
	if (v.more) {
		for (int r = 0; r < rows; r++)
			last[r] = part(g + r * cols + v.end, v.n);
		layer_back_at(l, &of, last, x + v.end, gamma + v.end, beta + v.end, v.nb * VW, rows, cols, v.n,
		              &v.fresh, activation);
	}
	for (int64_t b = 0; b < v.nb; b++) {
		int64_t c = b * VW;
		for (int r = 0; r < rows; r++) {
			if (l->later_x) { // from front to back, across the rows
				__builtin_prefetch(l->later_x + from + rows * c + r * VW);
				__builtin_prefetch(l->later_g + from + rows * c + r * VW);
			}
			here[r] = load(g + r * cols + c);
		}
		layer_back_at(l, &of, here, x + c, gamma + c, beta + c, c, rows, cols, VW, NULL, activation);
		for (int r = 0; r < rows; r++)
			store(dx + r * cols + c, here[r]);
	}
	for (int r = 0; r < rows; r++) {
		if (v.more)
			put(dx + r * cols + v.end, last[r], v.n);
		l->s1[at + r] = of.s1[r];
		l->s2[at + r] = of.s2[r];
	}
}

// The same for a single row.
static __attribute__((noinline)) void layer_back_row_sums(layer_back *l, int64_t i, int64_t at, int64_t c0,
                                                          int64_t width) {
	layer_back_sums(l, i, at, 1, c0, width, l->args->activation);
}

// The second pass over the rows of a batch, from row i on.
static void layer_back_rest(layer_back *l, int64_t i, int64_t here) {
	const weft_layer_back_args *a = l->args;
	const int64_t cols = a->cols;
	const row_vectors v = vectors_of(cols);
	float each = 1.0f / cols;
	for (int64_t r = 0; r < here; r += VW) {
		vf rstd = part(a->rstd + i + r, lesser(VW, here - r));
		store(l->first + r, lane_sums(l->s1 + r) * each * rstd);
		store(l->second + r, lane_sums(l->s2 + r) * each * (rstd * rstd));
	}
	for (int64_t r = 0; r < here; r++) {
		const float *x = l->x + r * cols;
		float *dx = l->dx + r * cols;
		vf minus_mean = all(-a->mean[i + r]), rstd = all(a->rstd[i + r]), first = all(l->first[r]),
		   second = all(l->second[r]), last = {0};
		if (v.more)
			last = part(dx + v.end, v.n) * rstd - first - (part(x + v.end, v.n) + minus_mean) * second;
#pragma GCC unroll 4
		for (int64_t b = 0; b < v.nb; b++) {
			int64_t c = b * VW;
			store(dx + c, load(dx + c) * rstd - first - (load(x + c) + minus_mean) * second);
		}
		if (v.more)
			put(dx + v.end, last, v.n);
	}
}

// fold for one row of places, whose last vector may overlap the one before.
static void fold_vectors(double *sum, float *places, int64_t width) {
	const row_vectors v = vectors_of(width);
	fold(sum, places, v.nb * VW, 1);
	if (v.more)
		fold(sum + v.end, places + v.nb * VW, v.n, 1);
}

// The backward pass of layer norm over tiles lo … hi−1.
INLINE void layer_back_tiles(const weft_layer_back_args *a, int64_t lo, int64_t hi, const int activation) {
	int64_t cols = a->cols, batch = batch_rows(cols);
	const copies x_copies = workspace_for_copies(&a->workspaces), g_copies = beside(x_copies, cols);
	layer_back l = {.args = a};
	for (int64_t t = lo; t < hi; t++) {
		double *sum_g = a->tile_g + t * cols, *sum_gx = a->tile_gx + t * cols;
		int64_t end = tile_end(t, a->rows);
		for (int64_t c = 0; c < cols; c++)
			sum_g[c] = sum_gx[c] = 0;
		for (int64_t i = t * WEFT_TILE; i < end; i += batch) {
			int64_t here = lesser(batch, end - i);
			l.x = as_floats(x_copies, a->x + i * cols, here * cols);
			l.g = as_floats(g_copies, a->g + i * cols, here * cols);
			l.dx = floats_for(g_copies, a->dx + i * cols);
			if (a->mask.threshold) {
				drop_rows(l.dx, l.g, &a->mask, i, here, cols);
				l.g = l.dx;
			}
			if (a->rows * cols > WEFT_CACHED) {
				l.later_x = a->x + (i + batch) * cols;
				l.later_g = (a->mask.threshold ? a->dx : a->g) + (i + batch) * cols;
			}
			for (int64_t c0 = 0, width; c0 < cols; c0 += width) {
				int64_t r = 0;
				width = cols - c0 <= PIECE ? cols - c0 : PIECE / 2; // no part is narrower than a vector
				for (; r + ABREAST <= here; r += ABREAST)
					layer_back_sums(&l, i + r, r, ABREAST, c0, width, activation);
				for (; r < here; r++)
					layer_back_row_sums(&l, i + r, r, c0, width);
				if (width < cols || (i + here) % (ABREAST * PARTIAL) == 0 || i + here == end) {
					fold_vectors(sum_g + c0, l.g_sums, width);
					fold_vectors(sum_gx + c0, l.gx_sums, width);
				}
			}
			layer_back_rest(&l, i, here);
			round_floats(a->dx + i * cols, l.dx, here * cols);
		}
	}
	leave_copies(&a->workspaces, x_copies);
}

static void k_layer_back(const void *args, int64_t lo, int64_t hi) {
	const weft_layer_back_args *a = args;
	EACH_ACTIVATION(layer_back_tiles, a, lo, hi)
}
#undef EACH_ACTIVATION
