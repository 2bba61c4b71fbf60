// Normalisation, with the activation and the dropout after it; equations in kernel/native/norm.h.
#pragma once
#include "pointwise.cuh"
#include "sums.cuh"

// dLoss/dy from g = dLoss/dz, but for the mask.
template <int N> DEVICE void before(float (&g)[N], float (&y)[N], int activation) {
	activate(y, activation);
	times_derivative(g, y, activation);
}

// v times a row's mask in the columns of a lane, which are 32 apart from the first of a batch on: a counter
// serves four of them.
template <int N> DEVICE void times_mask(float (&v)[N], const weft_mask &m, int64_t row, uint32_t batch) {
	const int lane = threadIdx.x % 32;
	UNROLL for (int b = 0; b < N / 4; b++) {
		const random_words r = random_bits(m.key, vertex_of(m, row), batch + b, lane % LANES, 0);
		UNROLL for (int q = 0; q < 4; q++)
			v[4 * b + q] *= keep(m, r, 2 * q + lane / LANES);
	}
}

// Batch norm, whose mean and rstd are the column's. A thread has the eight columns of a counter in ROWS rows.
enum { ROWS = 2 };

template <typename T> DEVICE void normalize(const over_rows<weft_normalize_args> &l) {
	const weft_normalization &norm = l.a.norm;
	const weft_mask &m = l.a.mask;
	const int64_t cols = l.a.cols;
	const counter at(m, cols, thread_number());
	const int64_t row = l.first + at.row * ROWS;
	float x[ROWS][8], mean[8], scale[8], rstd[8], beta[8];
	if (row >= l.last)
		return;
	UNROLL for (int r = 0; r < ROWS; r++)
		at.load(x[r], (const T *)l.a.x + min(row + r, l.last - 1) * cols, cols);
	at.load(mean, norm.mean, cols), at.load(rstd, norm.rstd, cols);
	at.load(scale, norm.gamma, cols), at.load(beta, norm.beta, cols);
	each(scale, [&](float v, int i) { return v * rstd[i]; });
	UNROLL for (int r = 0; r < ROWS; r++) {
		if (row + r >= l.last)
			return;
		each(x[r], [&](float v, int i) { return fmaf(v - mean[i], scale[i], beta[i]); });
		activate(x[r], l.a.activation);
		if (m.threshold) {
			const random_words bits = at.bits(m, row + r);
			each(x[r], [&](float v, int i) { return v * keep(m, bits, i); });
		}
		at.store((T *)l.a.z + (row + r) * cols, x[r], cols);
	}
}
STORAGE_KERNELS(normalize, weft_normalize_args, normalize)

// Σ g' and Σ g'·(x − mean), which rstd makes Σ g'·x̂. g' is written over g where it is another.
template <typename T> struct gradient_terms {
	struct element { T x, g; };
	T *g;
	const T *x;
	const lane_columns &columns;
	int activation;
	const weft_mask &mask;
	uint32_t batch;
	float mean[OF_LANE], scale[OF_LANE], beta[OF_LANE];
	DEVICE element load(int64_t k) const { return {x[k], g[k]}; }
	DEVICE void add(float (&s)[OF_LANE][2], const element (&e)[OF_LANE], int64_t row) const {
		float d[OF_LANE], y[OF_LANE], v[OF_LANE];
		each(d, [&](float, int q) { return number(e[q].x) - mean[q]; });
		each(y, [&](float, int q) { return fmaf(d[q], scale[q], beta[q]); });
		each(v, [&](float, int q) { return number(e[q].g); });
		before(v, y, activation);
		if (mask.threshold)
			times_mask(v, mask, row, batch);
		UNROLL for (int q = 0; q < OF_LANE; q++) {
			if ((activation != WEFT_IDENTITY || mask.threshold) && columns.has(q))
				round_to(g + row * columns.cols + columns.first + 32 * q, v[q]);
			s[q][0] += v[q], s[q][1] = fmaf(v[q], d[q], s[q][1]);
		}
	}
};
template <typename T> DEVICE void normalize_sums(const over_rows<weft_normalize_sums_args> &l) {
	const weft_normalization &norm = l.a.norm;
	const weft_mask &m = l.a.mask;
	const int64_t cols = l.a.cols, before = m.first % BATCH;
	const tile_part of(l.first, l.a.rows, cols, before);
	const lane_columns columns(of.column, cols);
	const uint32_t batch = (uint32_t)((m.first + of.column) / BATCH);
	gradient_terms<T> f = {(T *)l.a.g, (const T *)l.a.x, columns, l.a.activation, m, batch};
	columns.load(f.mean, 0, [&](int64_t c) { return norm.mean[c]; });
	columns.load(f.scale, 0, [&](int64_t c) { return norm.gamma[c] * norm.rstd[c]; });
	columns.load(f.beta, 0, [&](int64_t c) { return norm.beta[c]; });
	double sum[2];
	tile_sums<1>(sum, of, columns, f);
	const int64_t c = of.column + threadIdx.x, at = of.tile * cols + c;
	if (threadIdx.x < COLUMNS && c >= 0 && c < cols)
		l.a.tile_g[at] = sum[0], l.a.tile_gx[at] = sum[1] * norm.rstd[c];
}
STORAGE_KERNELS(normalize_sums, weft_normalize_sums_args, normalize_sums)

template <typename T> DEVICE void normalize_back(const over_rows<weft_normalize_back_args> &l) {
	const weft_normalization &norm = l.a.norm;
	const int64_t cols = l.a.cols;
	const counter at(weft_mask{}, cols, thread_number());
	const int64_t row = l.first + at.row * ROWS;
	float x[ROWS][8], g[ROWS][8], mean[8], scale[8], rstd[8], mean_g[8], slope[8];
	if (row >= l.last)
		return;
	UNROLL for (int r = 0; r < ROWS; r++) {
		const int64_t k = min(row + r, l.last - 1) * cols;
		at.load(x[r], (const T *)l.a.x + k, cols), at.load(g[r], (const T *)l.a.g + k, cols);
	}
	at.load(mean, norm.mean, cols), at.load(rstd, norm.rstd, cols), at.load(scale, norm.gamma, cols);
	at.load(mean_g, l.a.mean_g, cols), at.load(slope, l.a.mean_gx, cols);
	each(scale, [&](float v, int i) { return v * rstd[i]; });
	each(slope, [&](float v, int i) { return v * rstd[i]; });
	UNROLL for (int r = 0; r < ROWS; r++) {
		if (row + r >= l.last)
			return;
		each(g[r], [&](float v, int i) {
			return fmaf(-(x[r][i] - mean[i]), slope[i], v - mean_g[i]) * scale[i];
		});
		at.store((T *)l.a.dx + (row + r) * cols, g[r], cols);
	}
}
STORAGE_KERNELS(normalize_back, weft_normalize_back_args, normalize_back)

// Layer norm: a row is that of 16 lanes, which add up as those of AVX-512's vectors do.
DEVICE float sum_of_lanes(float x) {
	x += __shfl_xor_sync(ALL, x, 2), x += __shfl_xor_sync(ALL, x, 1);
	x += __shfl_xor_sync(ALL, x, 4), x += __shfl_xor_sync(ALL, x, 8);
	return x;
}
template <typename T> DEVICE void layer_norm(const over_rows<weft_layer_norm_args> &l) {
	const weft_mask &m = l.a.mask;
	const int64_t cols = l.a.cols, mine = l.first + thread_number() / LANES, row = min(mine, l.last - 1);
	const int lane = threadIdx.x % LANES, more = cols % LANES;
	// the columns after whole vectors have the last lanes, as those of a vector that ends the row
	const int64_t whole = cols - more, last = whole ? cols - LANES + lane : lane;
	const bool fresh = last >= whole && last < cols;
	const T *x = (const T *)l.a.x + row * cols;
	const float share = 1.0f / cols;
	float s = 0, squares = 0;
	UNROLL_BY(8) for (int64_t c = lane; c < whole; c += LANES)
		s += number(x[c]);
	float mean = sum_of_lanes(fresh ? s + number(x[last]) : s) * share;
	s = 0;
	UNROLL_BY(8) for (int64_t c = lane; c < whole; c += LANES) {
		const float d = number(x[c]) - mean;
		s += d, squares = fmaf(d, d, squares);
	}
	if (fresh) {
		const float d = number(x[last]) - mean;
		s += d, squares = fmaf(d, d, squares);
	}
	const float off = sum_of_lanes(s) * share; // what rounding left of the mean
	const float variance = fmaf(-off, off, sum_of_lanes(squares) * share);
	const float rstd = 1.0f / sqrtf((variance <= 0 ? 0 : variance) + l.a.epsilon);
	mean += off;
	if (mine >= l.last)
		return;
	if (lane == 0)
		l.a.mean[row] = mean, l.a.rstd[row] = rstd;
	for (counter at(m, cols, lane); at.first - lane < cols; at.first += BATCH, at.batch++) {
		float v[8], gamma[8], beta[8];
		at.load(v, x, cols), at.load(gamma, l.a.gamma, cols), at.load(beta, l.a.beta, cols);
		each(v, [&](float t, int i) { return fmaf(t - mean, rstd * gamma[i], beta[i]); });
		activate(v, l.a.activation);
		if (m.threshold) {
			const random_words bits = at.bits(m, row);
			each(v, [&](float t, int i) { return t * keep(m, bits, i); });
		}
		at.store((T *)l.a.z + row * cols, v, cols);
	}
}
STORAGE_KERNELS(layer_norm, weft_layer_norm_args, layer_norm)

// dx = rstd·(γ·g' − mean(γ·g') − x̂·mean(γ·g'·x̂)), and the tile's Σ g' and Σ g'·x̂. A warp has an eighth of
// a tile's rows, whose sums per column stay in its registers: those of ABREAST rows are added to a sum of
// floats, and the eighths' in double precision. That is the CPU's order (for rows of up to PIECE columns). A
// row's means are added up in an order of their own. A row of more columns than a warp holds is gone over
// twice, first for its means.
template <typename T> struct layer_back_rows {
	enum { ABREAST = 4, HELD = 8, CHUNK = 32 * HELD, PARTS = 8, ROWS_OF_PART = WEFT_TILE / PARTS };
	const weft_layer_back_args &a;
	lane_columns columns;
	uint32_t batch;
	float gamma[HELD], beta[HELD];
	DEVICE layer_back_rows(const weft_layer_back_args &args, int64_t first)
		: a(args), columns(first, args.cols), batch((uint32_t)((args.mask.first + first) / BATCH)) {
		columns.load(gamma, 0, [&](int64_t c) { return a.gamma[c]; });
		columns.load(beta, 0, [&](int64_t c) { return a.beta[c]; });
	}
	DEVICE void load(T (&x)[HELD], T (&g)[HELD], int64_t row) const {
		columns.load(x, row * a.cols, [&](int64_t k) { return ((const T *)a.x)[k]; });
		columns.load(g, row * a.cols, [&](int64_t k) { return ((const T *)a.g)[k]; });
	}
	// x̂, and g' = dLoss/dy
	DEVICE void both(float (&hat)[HELD], float (&d)[HELD], const T (&x)[HELD],
	                 const T (&g)[HELD], int64_t row) const {
		const float mean = a.mean[row], rstd = a.rstd[row];
		float y[HELD];
		each(hat, [&](float, int q) { return (number(x[q]) - mean) * rstd; });
		each(y, [&](float, int q) { return fmaf(hat[q], gamma[q], beta[q]); });
		each(d, [&](float, int q) { return number(g[q]); });
		if (a.mask.threshold)
			times_mask(d, a.mask, row, batch);
		before(d, y, a.activation);
	}
};
template <typename T> DEVICE void layer_back(const over_rows<weft_layer_back_args> &l) {
	typedef layer_back_rows<T> rows;
	enum { HELD = rows::HELD, CHUNK = rows::CHUNK, PARTS = rows::PARTS };
	__shared__ shared_cell<float> parts[2][PARTS][CHUNK];
	__shared__ shared_cell<float> means[2][WEFT_TILE];
	const weft_layer_back_args &a = l.a;
	const int64_t cols = a.cols, from = -(a.mask.first % BATCH), tile = l.first + blockIdx.x;
	const int64_t begin = tile * WEFT_TILE, end = min(begin + WEFT_TILE, a.rows);
	const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
	const int64_t first = begin + part * rows::ROWS_OF_PART, last = min(first + rows::ROWS_OF_PART, end);
	const bool held = cols - from <= CHUNK;
	const float share = 1.0f / cols;
	T x[HELD], g[HELD], next_x[HELD], next_g[HELD];
	float hat[HELD], d[HELD];
	for (int64_t row = first; !held && row < last; row++) {
		float s1 = 0, s2 = 0;
		for (int64_t c = from; c < cols; c += CHUNK) {
			const rows of(a, c);
			of.load(x, g, row);
			of.both(hat, d, x, g, row);
			UNROLL for (int q = 0; q < HELD; q++)
				s1 = fmaf(of.gamma[q], d[q], s1), s2 = fmaf(of.gamma[q] * d[q], hat[q], s2);
		}
		s1 = sum_of_warp(s1), s2 = sum_of_warp(s2);
		if (lane == 0)
			means[0][row - begin] = s1, means[1][row - begin] = s2;
	}
	__syncwarp();
	for (int64_t c = from; c < cols; c += CHUNK) {
		const rows of(a, c);
		float s[HELD][2] = {}, group[HELD][2] = {};
		if (first < last)
			of.load(next_x, next_g, first);
		for (int64_t row = first; row < last; row++) {
			float s1 = 0, s2 = 0;
			UNROLL for (int q = 0; q < HELD; q++)
				x[q] = next_x[q], g[q] = next_g[q];
			of.load(next_x, next_g, min(row + 1, last - 1));
			of.both(hat, d, x, g, row);
			const int64_t at = row - first, left = last - first;
			const bool full = at % rows::ABREAST == rows::ABREAST - 1 || at >= left - left % rows::ABREAST;
			UNROLL for (int q = 0; q < HELD; q++) {
				group[q][0] += d[q], group[q][1] = fmaf(d[q], hat[q], group[q][1]);
				if (full)
					s[q][0] += group[q][0], s[q][1] += group[q][1], group[q][0] = group[q][1] = 0;
				d[q] *= of.gamma[q];
				s1 += d[q], s2 = fmaf(d[q], hat[q], s2);
			}
			if (held)
				s1 = sum_of_warp(s1), s2 = sum_of_warp(s2);
			else
				s1 = means[0][row - begin], s2 = means[1][row - begin];
			const float rstd = a.rstd[row], mean = s1 * share * rstd, slope = s2 * share * rstd;
			T *dx = (T *)a.dx + row * cols + of.columns.first;
			UNROLL for (int q = 0; q < HELD; q++)
				if (of.columns.has(q))
					round_to(dx + 32 * q, fmaf(-hat[q], slope, fmaf(d[q], rstd, -mean)));
		}
		UNROLL for (int q = 0; q < HELD; q++)
			parts[0][part][lane + 32 * q] = s[q][0], parts[1][part][lane + 32 * q] = s[q][1];
		__syncthreads();
		double sum = 0, sum_x = 0;
		for (int p = 0; p < PARTS; p++)
			sum += (float)parts[0][p][threadIdx.x], sum_x += (float)parts[1][p][threadIdx.x];
		const int64_t column = c + threadIdx.x;
		if (column >= 0 && column < cols)
			a.tile_g[tile * cols + column] = sum, a.tile_gx[tile * cols + column] = sum_x;
		__syncthreads();
	}
}
STORAGE_KERNELS(layer_back, weft_layer_back_args, layer_back)
