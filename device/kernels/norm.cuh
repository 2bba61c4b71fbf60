// Batch norm and layer norm, with the activation and the dropout that follow. kernel/native/norm.h has the
// equations.
#pragma once
#include "pointwise.cuh"
#include "sums.cuh"

// g = g·act'(y): dLoss/dy from g = dLoss/dz, without the mask.
template <int N> DEVICE void before(float (&g)[N], float (&y)[N], int activation) {
	activate(y, activation);
	times_derivative(g, y, activation);
}

// v *= the mask of a row in the columns of a lane. They are 32 apart, from the first column of a batch of
// random bits on. One counter serves four of them.
template <int N> DEVICE void times_mask(float (&v)[N], const weft_mask &m, int64_t row, uint32_t batch) {
	const int lane = threadIdx.x % 32;
	UNROLL for (int b = 0; b < N / 4; b++) {
		const random_words r = random_bits(m.key, vertex_of(m, row), batch + b, lane % LANES, 0);
		UNROLL for (int q = 0; q < 4; q++)
			v[4 * b + q] *= keep(m, r, 2 * q + lane / LANES);
	}
}

// Batch norm, where each column has a mean and a rstd. A thread has the eight columns of a counter, in ROWS
// rows.
enum { ROWS = 2 };

STORAGE_KERNEL(normalize, weft_normalize_args) {
	const weft_normalization &norm = a.norm;
	const counter<T> at(a.mask, a.cols, first, thread_number(), ROWS);
	float x[ROWS][8], mean[8], scale[8], rstd[8], beta[8];
	if (at.row >= last)
		return;
	UNROLL for (int r = 0; r < ROWS; r++)
		at.load(x[r], a.x, min(r, (int)(last - 1 - at.row)));
	at.load_columns(mean, norm.mean), at.load_columns(rstd, norm.rstd);
	at.load_columns(scale, norm.gamma), at.load_columns(beta, norm.beta);
	each(scale, [&](float v, int i) { return v * rstd[i]; });
	UNROLL for (int r = 0; r < ROWS; r++) {
		if (at.row + r >= last)
			return;
		each(x[r], [&](float v, int i) { return fmaf(v - mean[i], scale[i], beta[i]); });
		activate(x[r], a.activation);
		at.drop(x[r], r);
		at.store(a.z, x[r], r);
	}
}

// An element of x, and of g = dLoss/dz.
template <typename T> struct element_pair { T x, g; };

// Σ g' and Σ g'·(x − mean) over a tile. The second, times rstd, is Σ g'·x̂. If g' differs from g, it is
// written over g.
STORAGE_KERNEL(normalize_sums, weft_normalize_sums_args) {
	const weft_normalization &norm = a.norm;
	const T *x = (const T *)a.x;
	T *g = (T *)a.g;
	const tile_part of(first, a.rows, a.cols, a.mask.first % BATCH);
	const lane_columns columns(of.column, a.cols);
	const bool other = a.activation != WEFT_IDENTITY || a.mask.threshold;
	float mean[OF_LANE], scale[OF_LANE], beta[OF_LANE];
	columns.load(mean, norm.mean), columns.load(beta, norm.beta);
	columns.load(scale, 0, [&](int64_t c) { return norm.gamma[c] * norm.rstd[c]; });
	const auto add = [&](float (&s)[OF_LANE][2], const element_pair<T> (&e)[OF_LANE], int64_t row) {
		float d[OF_LANE], y[OF_LANE], v[OF_LANE];
		each(d, [&](float, int q) { return number(e[q].x) - mean[q]; });
		each(y, [&](float, int q) { return fmaf(d[q], scale[q], beta[q]); });
		each(v, [&](float, int q) { return number(e[q].g); });
		before(v, y, a.activation);
		if (a.mask.threshold)
			times_mask(v, a.mask, row, (uint32_t)((a.mask.first + of.column) / BATCH));
		UNROLL for (int q = 0; q < OF_LANE; q++) {
			if (other && columns.has(q))
				round_to(g + row * a.cols + columns.first + 32 * q, v[q]);
			s[q][0] += v[q], s[q][1] = fmaf(v[q], d[q], s[q][1]);
		}
	};
	tile_sums<element_pair<T>, 1, 2>(
	    of, columns, [&](int64_t k) { return element_pair<T>{x[k], g[k]}; }, add,
	    [&](int64_t c, int64_t at, const double *sum) {
		    a.tile_g[at] = sum[0], a.tile_gx[at] = sum[1] * norm.rstd[c];
	    });
}

// dx = γ·rstd·(g' − mean(g') − x̂·mean(g'·x̂)).
STORAGE_KERNEL(normalize_back, weft_normalize_back_args) {
	const weft_normalization &norm = a.norm;
	const counter<T> at(weft_mask{}, a.cols, first, thread_number(), ROWS);
	float x[ROWS][8], g[ROWS][8], mean[8], scale[8], rstd[8], mean_g[8], slope[8];
	if (at.row >= last)
		return;
	UNROLL for (int r = 0; r < ROWS; r++) {
		const int row = min(r, (int)(last - 1 - at.row));
		at.load(x[r], a.x, row), at.load(g[r], a.g, row);
	}
	at.load_columns(mean, norm.mean), at.load_columns(rstd, norm.rstd), at.load_columns(scale, norm.gamma);
	at.load_columns(mean_g, a.mean_g), at.load_columns(slope, a.mean_gx);
	each(scale, [&](float v, int i) { return v * rstd[i]; });
	each(slope, [&](float v, int i) { return v * rstd[i]; });
	UNROLL for (int r = 0; r < ROWS; r++) {
		if (at.row + r >= last)
			return;
		each(g[r], [&](float v, int i) {
			return fmaf(-(x[r][i] - mean[i]), slope[i], v - mean_g[i]) * scale[i];
		});
		at.store(a.dx, g[r], r);
	}
}

// Layer norm. 16 lanes have a row. They add in the order in which AVX-512's vectors add their lanes.
DEVICE float sum_of_lanes(float x) {
	x += __shfl_xor_sync(ALL, x, 2), x += __shfl_xor_sync(ALL, x, 1);
	x += __shfl_xor_sync(ALL, x, 4), x += __shfl_xor_sync(ALL, x, 8);
	return x;
}
STORAGE_KERNEL(layer_norm, weft_layer_norm_args) {
	const int64_t cols = a.cols, mine = first + thread_number() / LANES, row = min(mine, last - 1);
	const int lane = threadIdx.x % LANES, more = cols % LANES;
	// the columns behind the whole vectors belong to the last lanes, as in a vector that ends the row
	const int64_t whole = cols - more, end = whole ? cols - LANES + lane : lane;
	const bool fresh = end >= whole && end < cols;
	const T *x = (const T *)a.x + row * cols;
	const float share = 1.0f / cols;
	float s = 0, squares = 0, mean = 0;
	const auto add = [&](int64_t c) {
		const float d = number(x[c]) - mean;
		s += d, squares = fmaf(d, d, squares);
	};
	UNROLL_BY(8) for (int64_t c = lane; c < whole; c += LANES)
		s += number(x[c]);
	mean = sum_of_lanes(fresh ? s + number(x[end]) : s) * share, s = 0;
	UNROLL_BY(8) for (int64_t c = lane; c < whole; c += LANES)
		add(c);
	if (fresh)
		add(end);
	const float off = sum_of_lanes(s) * share; // the error of the mean that rounding left
	const float variance = fmaf(-off, off, sum_of_lanes(squares) * share);
	const float rstd = 1.0f / sqrtf((variance <= 0 ? 0 : variance) + a.epsilon);
	mean += off;
	if (mine >= last)
		return;
	if (lane == 0)
		a.mean[row] = mean, a.rstd[row] = rstd;
	for (counter<T> at(a.mask, cols, row, lane); at.first - lane < cols; at.first += BATCH, at.batch++) {
		float v[8], gamma[8], beta[8];
		at.load(v, a.x), at.load_columns(gamma, a.gamma), at.load_columns(beta, a.beta);
		each(v, [&](float t, int i) { return fmaf(t - mean, rstd * gamma[i], beta[i]); });
		activate(v, a.activation);
		at.drop(v);
		at.store(a.z, v);
	}
}

// The backward pass of layer norm, and the tile's Σ g' and Σ g'·x̂:
//   dx = rstd·(γ·g' − mean(γ·g') − x̂·mean(γ·g'·x̂))
// A warp has an eighth of the rows of a tile. Its sums of each column stay in registers: the sums of ABREAST
// rows are added to a float sum, and the eighths are added in double precision. That is the CPU's order, for
// rows of up to PIECE columns. The means of a row are added in another order. A row of more columns than a
// warp holds is read twice, first for its means.
enum { HELD = 8, CHUNK = 32 * HELD, ABREAST = 4, PARTS = 8, ROWS_OF_PART = WEFT_TILE / PARTS };

// A warp's columns.
template <typename T> struct layer_columns : lane_columns {
	const weft_layer_back_args &a;
	uint32_t batch;
	float gamma[HELD], beta[HELD];
	DEVICE layer_columns(const weft_layer_back_args &args, int64_t first)
		: lane_columns(first, args.cols), a(args), batch((uint32_t)((args.mask.first + first) / BATCH)) {
		load(gamma, a.gamma), load(beta, a.beta);
	}
	DEVICE void load_row(element_pair<T> (&e)[HELD], int64_t row) const {
		const T *x = (const T *)a.x, *g = (const T *)a.g;
		load(e, row * cols, [&](int64_t k) { return element_pair<T>{x[k], g[k]}; });
	}
	// hat = x̂, and d = g' = dLoss/dy.
	DEVICE void both(float (&hat)[HELD], float (&d)[HELD], const element_pair<T> (&e)[HELD],
	                 int64_t row) const {
		const float mean = a.mean[row], rstd = a.rstd[row];
		float y[HELD];
		each(hat, [&](float, int q) { return (number(e[q].x) - mean) * rstd; });
		each(y, [&](float, int q) { return fmaf(hat[q], gamma[q], beta[q]); });
		each(d, [&](float, int q) { return number(e[q].g); });
		if (a.mask.threshold)
			times_mask(d, a.mask, row, batch);
		before(d, y, a.activation);
	}
};
STORAGE_KERNEL(layer_back, weft_layer_back_args) {
	__shared__ shared_cell<float> parts[2][PARTS][CHUNK];
	__shared__ shared_cell<float> means[2][WEFT_TILE];
	const int64_t cols = a.cols, from = -(a.mask.first % BATCH), tile = first + blockIdx.x;
	const int64_t begin = tile * WEFT_TILE, end = min(begin + WEFT_TILE, a.rows);
	const int lane = threadIdx.x % 32, part = threadIdx.x / 32;
	const int64_t mine = begin + part * ROWS_OF_PART, behind = min(mine + ROWS_OF_PART, end);
	const bool held = cols - from <= CHUNK;
	const float share = 1.0f / cols;
	element_pair<T> e[HELD], next[HELD];
	float hat[HELD], d[HELD];
	for (int64_t row = mine; !held && row < behind; row++) {
		float s1 = 0, s2 = 0;
		for (int64_t c = from; c < cols; c += CHUNK) {
			const layer_columns<T> of(a, c);
			of.load_row(e, row);
			of.both(hat, d, e, row);
			UNROLL for (int q = 0; q < HELD; q++)
				s1 = fmaf(of.gamma[q], d[q], s1), s2 = fmaf(of.gamma[q] * d[q], hat[q], s2);
		}
		s1 = sum_of_warp(s1), s2 = sum_of_warp(s2);
		if (lane == 0)
			means[0][row - begin] = s1, means[1][row - begin] = s2;
	}
	__syncwarp();
	for (int64_t c = from; c < cols; c += CHUNK) {
		const layer_columns<T> of(a, c);
		float s[HELD][2] = {}, group[HELD][2] = {};
		if (mine < behind)
			of.load_row(next, mine);
		for (int64_t row = mine; row < behind; row++) {
			float s1 = 0, s2 = 0;
			UNROLL for (int q = 0; q < HELD; q++)
				e[q] = next[q];
			of.load_row(next, min(row + 1, behind - 1));
			of.both(hat, d, e, row);
			const int64_t at = row - mine, left = behind - mine;
			const bool full = at % ABREAST == ABREAST - 1 || at >= left - left % ABREAST;
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
			T *dx = (T *)a.dx + row * cols + of.first;
			UNROLL for (int q = 0; q < HELD; q++)
				if (of.has(q))
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
