// Scores of pairs of rows, their gradients, and counts of scores. kernel/native/pairs.h has the equations.
// Sums are in the CPU's order.
#pragma once
#include "warp.cuh"

// A thread has a pair.
KERNEL(pair_scores_float32, weft_pairs_args) {
	const weft_pairs_args &a = l.a;
	const int64_t k = l.first + thread_number();
	if (k >= l.last)
		return;
	const int32_t *p = a.pairs + 3 * k;
	const float *s = a.x + p[1] * a.cols, *t = a.x + p[2] * a.cols, *w = a.w ? a.w + p[0] * a.cols : nullptr;
	float sum = 0;
	UNROLL_BY(8) for (int64_t c = 0; c < a.cols; c++)
		sum += (w ? s[c] * w[c] : s[c]) * t[c];
	a.scores[k] = sum;
}

// A thread has one number of dx.
KERNEL(pair_rows_float32, weft_pairs_args) {
	const weft_pairs_args &a = l.a;
	const int64_t number = thread_number(), r = l.first + number / a.cols, c = number % a.cols;
	if (r >= l.last)
		return;
	float sum = 0;
	for (int32_t e = a.begin[r]; e < a.begin[r + 1]; e++) {
		const int32_t k = a.ends[e] / 2, *p = a.pairs + 3 * (int64_t)k;
		const float factor = a.w ? a.g[k] * a.w[p[0] * a.cols + c] : a.g[k];
		sum += factor * a.x[p[2 - a.ends[e] % 2] * a.cols + c];
	}
	a.dx[r * a.cols + c] = sum;
}

// A thread has a column.
KERNEL(pair_weights_float32, weft_pairs_args) {
	const weft_pairs_args &a = l.a;
	const int64_t c = l.first + thread_number();
	if (c >= l.last)
		return;
	UNROLL_BY(4) for (int64_t k = 0; k < a.n; k++) {
		const int32_t *p = a.pairs + 3 * k;
		a.dw[p[0] * a.cols + c] += (double)(a.g[k] * a.x[p[1] * a.cols + c] * a.x[p[2] * a.cols + c]);
	}
}

// A block has a tile and BLOCK columns, one for each thread.
KERNEL(above_float32, weft_above_args) {
	const weft_above_args &a = l.a;
	const int64_t parts = (a.cols + BLOCK - 1) / BLOCK, t = l.first + blockIdx.x / parts;
	const int64_t c = blockIdx.x % parts * BLOCK + threadIdx.x, end = min((t + 1) * WEFT_TILE, a.rows);
	if (c >= a.cols)
		return;
	const float score = c < a.n ? a.score[c] : 0;
	int over = 0, equal = 0;
	UNROLL_BY(8) for (int64_t i = t * WEFT_TILE; i < end; i++) {
		const float x = a.x[i * a.cols + c];
		over += x > score, equal += x == score;
	}
	a.tiles[2 * t * a.cols + c] = c < a.n ? over : 0;
	a.tiles[(2 * t + 1) * a.cols + c] = c < a.n ? equal : 0;
}
