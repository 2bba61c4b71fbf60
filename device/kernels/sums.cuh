// Sums over the rows of tiles, and the merging of partial results in the order of the tiles, or segments,
// that they belong to.
#pragma once
#include "warp.cuh"

// The CPU adds the columns of a tile in this order (kernel/native/piece.h): a piece is some rows side by
// side, and a place is a row of the piece and a column. The numbers of equal places are added in float. After
// PARTIAL additions the places of a column are added, row by row, in double precision. Here a warp has a row
// of places, up to these additions. Its lane l has columns l, l+32, l+64 and l+96 of the block's 128 columns.
// A narrow matrix leaves lanes idle.
enum { PIECE = 2048, LEAST = 512, PARTIAL = 32, COLUMNS = 128, OF_LANE = COLUMNS / 32, PLACES = 32 };

// The rows of a piece.
DEVICE int piece_rows(int64_t cols) {
	if (cols >= PIECE)
		return 1;
	const int n = (int)cols, least = LEAST / (n + 1) + 1, rows = n % 16 ? (least + 15) / 16 * 16 : least;
	return rows * n <= PIECE ? rows : PIECE / n;
}

// The columns of a lane: first, + 32, … Those from 0 to cols − 1 belong to the matrix.
struct lane_columns {
	int64_t first, cols;
	DEVICE lane_columns(int64_t block_first, int64_t n) : first(block_first + threadIdx.x % 32), cols(n) {}
	DEVICE bool has(int q) const { return first + 32 * q >= 0 && first + 32 * q < cols; }
	// x_q = f(the number of column q's element), for the row that begins at element k. x_q is empty for a
	// column that does not exist.
	template <typename element, int N, typename function>
	DEVICE void load(element (&x)[N], int64_t k, function f) const {
		UNROLL for (int q = 0; q < N; q++)
			x[q] = has(q) ? f(k + first + 32 * q) : element();
	}
	template <int N> DEVICE void load(float (&x)[N], const float *p) const {
		load(x, 0, [&](int64_t c) { return p[c]; });
	}
};

// The part of a tile that a block has: its columns begin with `column`, which may lie before the matrix's
// first. Runs over tiles. Each of them takes (before + cols) / COLUMNS blocks, rounded up.
struct tile_part {
	int64_t tile, column, begin, end;
	DEVICE tile_part(int64_t first_tile, int64_t rows, int64_t cols, int64_t before = 0) {
		const int64_t parts = (before + cols + COLUMNS - 1) / COLUMNS;
		tile = first_tile + blockIdx.x / parts, column = blockIdx.x % parts * COLUMNS - before;
		begin = tile * WEFT_TILE, end = min(begin + WEFT_TILE, rows);
	}
};

// Calls done(c, at, sum) for each column c, with SUMS sums over the rows of the tile; `at` is the column's
// index in the results of all tiles. load returns the values that a lane needs of an element. add adds a
// row's values in the lane's columns to their sums. With several PIECES, equal places of that many whole
// pieces are added first, and then their sum is added.
template <typename element, int PIECES, int SUMS, typename L, typename A, typename D>
DEVICE void tile_sums(const tile_part &of, const lane_columns &columns, L load, A add, D done) {
	enum { AHEAD = 4 };
	__shared__ shared_cell<float> places[SUMS][PLACES][COLUMNS];
	const int64_t cols = columns.cols, c = of.column + threadIdx.x;
	const int side = piece_rows(cols), span = PIECES * PARTIAL * side, rows = (int)(of.end - of.begin);
	const int all = (rows + span - 1) / span * side;
	double sum[SUMS] = {};
	for (int from = 0; from < all; from += PLACES) {
		const int to = min(all, from + PLACES);
		for (int p = from + threadIdx.x / 32; p < to; p += blockDim.x / 32) {
			const int begin = p / side * span, left = min(span, rows - begin);
			// the rows of the place are first, first + side, …: n of them, of which `whole` belong to groups
			// of PIECES
			const int64_t first = of.begin + begin + p % side;
			const int n = (left - p % side + side - 1) / side, whole = left / (PIECES * side) * PIECES;
			float s[OF_LANE][SUMS] = {};
			for (int k = 0; k < n; k += AHEAD) {
				element x[AHEAD][OF_LANE];
				UNROLL for (int b = 0; b < AHEAD; b++)
					columns.load(x[b], (first + min(k + b, n - 1) * side) * cols, load);
				float group[OF_LANE][SUMS] = {};
				UNROLL for (int b = 0; b < AHEAD; b++) {
					if (k + b >= n)
						break;
					add(PIECES == 1 ? s : group, x[b], first + (k + b) * side);
					if (PIECES > 1 && (b % PIECES == PIECES - 1 || k + b >= whole))
						UNROLL for (int i = 0; i < OF_LANE * SUMS; i++)
							s[i / SUMS][i % SUMS] += group[i / SUMS][i % SUMS], group[i / SUMS][i % SUMS] = 0;
				}
			}
			UNROLL for (int i = 0; i < OF_LANE * SUMS; i++)
				places[i % SUMS][p - from][threadIdx.x % 32 + i / SUMS * 32] = s[i / SUMS][i % SUMS];
		}
		__syncthreads();
		for (int p = 0; threadIdx.x < COLUMNS && p < to - from; p++)
			UNROLL for (int s = 0; s < SUMS; s++)
				sum[s] += (float)places[s][p][threadIdx.x];
		__syncthreads();
	}
	if (threadIdx.x < COLUMNS && c >= 0 && c < cols)
		done(c, of.tile * cols + c, sum);
}

// Σ x, or Σ x·y.
STORAGE_KERNEL(column_sum, weft_column_sum_args) {
	struct element { T x, y; };
	const T *x = (const T *)a.x, *y = (const T *)a.y;
	const tile_part of(first, a.rows, a.cols);
	const auto add = [&](float (&s)[OF_LANE][1], const element (&e)[OF_LANE], int64_t) {
		UNROLL for (int q = 0; q < OF_LANE; q++)
			s[q][0] = y ? fmaf(number(e[q].x), number(e[q].y), s[q][0]) : s[q][0] + number(e[q].x);
	};
	tile_sums<element, 2, 1>(
	    of, lane_columns(of.column, a.cols), [&](int64_t k) { return element{x[k], y ? y[k] : T()}; }, add,
	    [&](int64_t, int64_t at, const double *sum) { a.tiles[at] = sum[0]; });
}

// The mean and m2 of a tile, from Σ d and Σ d² for d = x − x_0. x_0 is the median of three rows of the tile
// (kernel/native/norm.h).
STORAGE_KERNEL(moments, weft_moments_args) {
	const T *x = (const T *)a.x;
	const tile_part of(first, a.rows, a.cols);
	const lane_columns columns(of.column, a.cols);
	const int64_t halfway = of.begin + (of.end - of.begin) / 2;
	const auto middle_of = [&](int64_t c) {
		const float p = number(x[of.begin * a.cols + c]), q = number(x[halfway * a.cols + c]);
		const float end = number(x[(of.end - 1) * a.cols + c]), low = p < q ? p : q, high = p < q ? q : p;
		return end < low ? low : end > high ? high : end;
	};
	float middle[OF_LANE];
	columns.load(middle, 0, middle_of);
	const auto add = [&](float (&s)[OF_LANE][2], const T (&e)[OF_LANE], int64_t) {
		UNROLL for (int q = 0; q < OF_LANE; q++) {
			const float d = number(e[q]) - middle[q];
			s[q][0] += d, s[q][1] = fmaf(d, d, s[q][1]);
		}
	};
	tile_sums<T, 2, 2>(of, columns, [&](int64_t k) { return x[k]; }, add,
	                   [&](int64_t c, int64_t at, const double *sum) {
		                   const double mean = sum[0] / (double)(of.end - of.begin);
		                   const double m2 = fma(-sum[0], mean, sum[1]);
		                   a.tile_m2[at] = m2 < 0 ? 0 : m2, a.tile_mean[at] = middle_of(c) + mean;
	                   });
}

// tiles_t = Σ x², in the same 16 sums as AVX-512 has them. Each lane has one.
KERNEL(sum_squares_float32, weft_column_sum_args) {
	const int64_t tile = l.first + thread_number() / 16, lane = threadIdx.x % 16;
	const int64_t begin = tile * WEFT_TILE, end = tile < l.last ? min(begin + WEFT_TILE, l.a.rows) : begin;
	const int64_t whole = end - (end - begin) % 16;
	double s = 0, sum = 0;
	UNROLL_BY(8) for (int64_t i = begin + lane; i < whole; i += 16)
		s = fma((double)l.a.x[i], (double)l.a.x[i], s);
	for (int64_t i = whole; i < end; i++)
		sum = fma((double)l.a.x[i], (double)l.a.x[i], sum);
	s += __shfl_xor_sync(ALL, s, 8);
	for (int k = 0; k < 8; k++)
		sum += __shfl_sync(ALL, s, k, 16);
	if (lane == 0 && tile < l.last)
		l.a.tiles[tile] = sum;
}

// Adds up the partial sums of tiles. Runs over columns, one for each thread.
KERNEL(merge_tiles_float32, weft_merge_tiles_args) {
	const int64_t c = l.first + thread_number(), cols = l.a.cols;
	if (c >= l.last)
		return;
	double sum = l.a.tiles[c];
	UNROLL_BY(16) for (int64_t t = 1; t < l.a.count; t++)
		sum += l.a.tiles[t * cols + c];
	l.a.tiles[c] = sum;
	if (l.a.z)
		l.a.z[c - l.a.from] += (float)sum;
	if (l.a.mean)
		l.a.mean[c - l.a.from] = (float)(sum * l.a.each);
}

// Joins the moments of tiles, with the operations of Moments.Merge in kernel/norm.go.
KERNEL(merge_moments_float32, weft_merge_moments_args) {
	const weft_merge_moments_args &a = l.a;
	const int64_t c = l.first + thread_number(), cols = a.cols;
	if (c >= l.last)
		return;
	double mean = 0, m2 = 0;
	UNROLL_BY(8) for (int64_t begin = 0; begin < a.rows; begin += WEFT_TILE) {
		const int64_t at = begin / WEFT_TILE * cols + c, end = min(begin + WEFT_TILE, a.rows);
		const double share = (double)(end - begin) / (double)end, both = share * (double)begin;
		const double d = a.tile_mean[at] - mean;
		mean += d * share, m2 += a.tile_m2[at] + d * d * both;
	}
	if (a.rows)
		a.tile_mean[c] = mean, a.tile_m2[c] = m2;
	if (!a.rstd)
		return;
	const double n = (double)a.rows, all = mean * n / n, d = mean - all;
	m2 += n * d * d;
	a.mean[c] = (float)all, a.rstd[c] = (float)(1 / sqrt(m2 / n + a.epsilon));
	if (a.batch)
		a.batch[c] = all + (a.added ? a.added[c] : 0), a.batch[cols + c] = m2 / (n > 2 ? n - 1 : 1);
}

// running += momentum·(batch − running). A thread has one element.
KERNEL(move_float32, weft_move_args) {
	const int64_t i = l.first + thread_number();
	if (i < l.last)
		l.a.running[i] += (float)(l.a.momentum * (l.a.batch[i] - l.a.running[i]));
}

// shift = mean − added, and rstd = 1/√(variance + ε). A thread has one element.
KERNEL(running_float32, weft_running_args) {
	const int64_t i = l.first + thread_number();
	if (i >= l.last)
		return;
	l.a.shift[i] = l.a.mean[i] - (l.a.added ? l.a.added[i] : 0);
	l.a.rstd[i] = (float)(1 / sqrt(l.a.variance[i] + l.a.epsilon));
}

// Adds up the partial sums of segments, in the order of the segments. Runs over columns. A thread has one
// column of a row, and the row's first segment in the launch gives the thread its number. If a row continues
// in the next launch, its merged result stays in partial result 0. Such a row is alone in its launch.
KERNEL(merge_sums_float32, weft_merge_sums_args) {
	const weft_merge_sums_args &a = l.a;
	const int64_t columns = l.last - l.first, number = thread_number() / columns,
	              c = l.first + thread_number() % columns;
	if (number >= a.segments.count || !begins_row(a.segments, number))
		return;
	const weft_merge m = weft_merge_from(&a.segments, number);
	const int64_t at = m.row * a.cols + c;
	float sum = 0;
	UNROLL_BY(8) for (int64_t p = m.first; p < m.end; p++)
		sum += a.partials[p * a.cols + c];
	if (m.complete && a.accumulate)
		sum += load_either(a.z, a.z_type, at);
	if (m.complete)
		store_either(a.z, a.z_type, at, sum);
	else
		a.partials[c] = sum;
}

// Merges states by Milakov & Gimelshein's online softmax, as in kernel/native/segment.h. Runs over heads: a
// warp has one head of a row. Its lanes first have the partial states, 32 at a time, and then columns.
KERNEL(merge_states_float32, weft_merge_states_args) {
	const weft_merge_states_args &a = l.a;
	const int64_t columns = l.last - l.first, warp = thread_number() / 32, number = warp / columns;
	const int64_t h = l.first + warp % columns, heads = a.heads, width = a.width;
	const int lane = threadIdx.x % 32;
	if (number >= a.segments.count || !begins_row(a.segments, number))
		return;
	const weft_merge m = weft_merge_from(&a.segments, number);
	const bool extend = m.complete && !a.first, end = m.complete && a.last;
	const int64_t row = m.row * heads + h;
	float top = extend ? a.maximum[row] : -INFINITY;
	for (int64_t p = m.first + lane; p < m.end; p += 32)
		top = larger(a.partial_maximum[p * heads + h], top);
	top = largest_of_warp(top);
	const float own = extend ? (float)exp((double)a.maximum[row] - top) : 0;
	double sum = extend ? own * a.sum[row] : 0;
	// the maximum of a partial state is replaced by the scale of its sums
	for (int64_t from = m.first; from < m.end; from += 32) {
		const int64_t at = (from + lane) * heads + h;
		const bool mine = from + lane < m.end;
		const float scale = mine ? (float)exp((double)a.partial_maximum[at] - top) : 0;
		const float part = mine ? a.partial_sum[at] : 0;
		for (int p = 0; p < min(m.end - from, (int64_t)32); p++)
			sum = fma((double)__shfl_sync(ALL, scale, p), (double)__shfl_sync(ALL, part, p), sum);
		if (mine)
			a.partial_maximum[at] = scale;
	}
	__syncwarp();
	for (int64_t c = lane; c < width; c += 32) {
		const int64_t at = row * width + c;
		float z = extend ? load_either(a.z, a.z_type, at) * own : 0;
		UNROLL_BY(4) for (int64_t p = m.first; p < m.end; p++)
			z = fmaf(a.partial_maximum[p * heads + h], a.partial_z[(p * heads + h) * width + c], z);
		if (end)
			z = sum != 0 ? z / (float)sum : 0;
		if (m.complete)
			store_either(a.z, a.z_type, at, z);
		else
			a.partial_z[h * width + c] = z;
	}
	__syncwarp(); // all have read the scales
	if (lane == 0 && end) {
		a.maximum[row] = sum == 0 ? 0 : (float)(top + log(sum));
	} else if (lane == 0) {
		*(m.complete ? a.maximum + row : a.partial_maximum + h) = top;
		*(m.complete ? a.sum + row : a.partial_sum + h) = (float)sum;
	}
}
