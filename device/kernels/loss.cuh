// Losses, hits, and the test for finite numbers. kernel/native/loss.h has the equations. A block has a tile,
// and adds up its loss in double precision.
#pragma once
#include "pointwise.cuh"

// *to = Σ x over the threads of the block.
DEVICE void sum_of_block(double x, double *to) {
	__shared__ shared_cell<double> of_warp[BLOCK / 32];
	x = sum_of_warp(x);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	for (int w = 1; w < BLOCK / 32; w++)
		x += of_warp[w];
	*to = x;
}

// The number of lanes for a row: each has eight columns, or more of wide rows.
DEVICE int lanes_of_row(int64_t cols) {
	int lanes = 1;
	while (lanes < 32 && 8 * lanes < cols)
		lanes *= 2;
	return lanes;
}

// Calls f(x_c, c) for columns c = lane, lane + lanes, … BESIDE of them are loaded at a time. Behind the end
// x_c is −∞.
enum { BESIDE = 8 };
template <typename F> DEVICE void each_value(const float *x, int lane, int lanes, int64_t end, F f) {
	for (int64_t c = lane; c < end; c += BESIDE * lanes) {
		float v[BESIDE];
		each(v, [&](float, int i) { return c + i * lanes < end ? x[c + i * lanes] : -INFINITY; });
		UNROLL for (int i = 0; i < BESIDE; i++)
			f(v[i], c + i * lanes);
	}
}

// Cross-entropy of softmax.
KERNEL(cross_entropy_float32, weft_loss_args) {
	const int64_t cols = l.a.cols, t = l.first + blockIdx.x, count = l.a.count - t * WEFT_TILE;
	const int lanes = lanes_of_row(cols), lane = threadIdx.x % lanes;
	double loss = 0;
	for (int k = threadIdx.x / lanes; k < WEFT_TILE; k += BLOCK / lanes) { // as often in each lane
		const bool inside = k < count;
		const int64_t i = inside ? l.a.rows[t * WEFT_TILE + k] : 0, end = inside ? cols : 0;
		const int64_t label = inside ? l.a.labels[i] : 0;
		const float *x = l.a.logits + i * cols;
		float top = -INFINITY, sum = 0;
		each_value(x, lane, lanes, end, [&](float v, int64_t) { top = larger(v, top); });
		for (int with = 1; with < lanes; with *= 2)
			top = larger(__shfl_xor_sync(ALL, top, with), top);
		each_value(x, lane, lanes, end, [&](float v, int64_t) { sum += exponential(v - top); });
		for (int with = 1; with < lanes; with *= 2)
			sum += __shfl_xor_sync(ALL, sum, with);
		if (inside && lane == 0)
			loss += log((double)sum) + top - x[label];
		const float scale = l.a.scale / sum;
		each_value(x, lane, lanes, l.a.grad ? end : 0, [&](float v, int64_t c) {
			if (c < end)
				l.a.grad[i * cols + c] = exponential(v - top) * scale - (c == label ? l.a.scale : 0.0f);
		});
	}
	sum_of_block(loss, l.a.tile_loss + t);
}

// Binary cross-entropy of logits. A thread multiplies up to 512 factors 1 + e^−|x| before it takes a
// logarithm.
KERNEL(binary_cross_entropy_float32, weft_loss_args) {
	const int64_t t = l.first + blockIdx.x, count = min(l.a.count - t * WEFT_TILE, (int64_t)WEFT_TILE);
	const uint32_t cols = (uint32_t)l.a.cols, n = (uint32_t)count * cols;
	double loss = 0, linear = 0, product = 0; // the product, less 1
	int factors = 0;
	for (uint32_t k = threadIdx.x; k < n; k += BESIDE * BLOCK) {
		int64_t at[BESIDE];
		float x[BESIDE], y[BESIDE];
		UNROLL for (int u = 0; u < BESIDE; u++) {
			const uint32_t here = min(k + u * BLOCK, n - 1);
			at[u] = l.a.rows[t * WEFT_TILE + here / cols] * l.a.cols + here % cols;
		}
		each(x, [&](float, int u) { return l.a.logits[at[u]]; });
		each(y, [&](float, int u) { return l.a.targets[at[u]]; });
		UNROLL for (int u = 0; u < BESIDE; u++) {
			if (k + u * BLOCK >= n)
				break;
			const bool there = y[u] == y[u]; // not NaN
			const float e = exponential(-fabsf(x[u])), factor = there ? e : 0;
			linear += there ? fmaf(-x[u], y[u], x[u] <= 0 ? 0.0f : x[u]) : 0.0f;
			product += fma(product, (double)factor, (double)factor);
			if (l.a.grad)
				l.a.grad[at[u]] = there ? l.a.scale * ((x[u] > 0 ? 1.0f : e) / (1.0f + e) - y[u]) : 0.0f;
		}
		if ((factors += BESIDE) % 512 == 0)
			loss += log1p(product), product = 0;
	}
	sum_of_block(loss + log1p(product) + linear, l.a.tile_loss + t);
}

// The number of hits. Each lane compares its columns with the label's. Of equal columns the first counts as
// the largest.
KERNEL(hits_float32, weft_loss_args) {
	const int64_t cols = l.a.cols, t = l.first + blockIdx.x, count = l.a.count - t * WEFT_TILE;
	const int lanes = lanes_of_row(cols), lane = threadIdx.x % lanes;
	int hits = 0;
	for (int k = threadIdx.x / lanes; k < WEFT_TILE; k += BLOCK / lanes) { // as often in each lane
		const bool inside = k < count;
		const int64_t i = inside ? l.a.rows[t * WEFT_TILE + k] : 0, end = inside ? cols : 0;
		const int64_t label = inside ? l.a.labels[i] : 0;
		const float *x = l.a.logits + i * cols;
		const float y = inside ? x[label] : 0;
		int hit = inside && (label == 0 || (x[0] == x[0] && y == y));
		UNROLL_BY(8) for (int64_t c = lane; c < end; c += lanes)
			hit &= !(x[c] > y || (x[c] == y && c < label));
		for (int with = 1; with < lanes; with *= 2)
			hit &= __shfl_xor_sync(ALL, hit, with);
		hits += lane == 0 ? hit : 0;
	}
	sum_of_block(hits, l.a.tile_loss + t);
}

// tiles_t = Σ (x − x), which is 0 if all numbers are finite, else NaN.
STORAGE_KERNEL(finite, weft_column_sum_args) {
	enum { N = vector<T>::N };
	const int64_t t = first + blockIdx.x, n = min(a.rows - t * WEFT_TILE, (int64_t)WEFT_TILE) * a.cols;
	const T *x = (const T *)a.x + t * WEFT_TILE * a.cols;
	float sum = 0;
	UNROLL_BY(4) for (int64_t i = threadIdx.x * N; i < n; i += BLOCK * N) {
		float v[N];
		part(v, x + i, n - i);
		UNROLL for (int k = 0; k < N; k++)
			sum += v[k] - v[k];
	}
	sum_of_block(sum, a.tiles + t);
}
