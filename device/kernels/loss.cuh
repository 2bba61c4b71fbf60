// Losses; equations in kernel/native/loss.h. A block has a tile of the list, whose loss it adds up in double
// precision.
#pragma once
#include "pointwise.cuh"

// Thread 0 gets the sum over the block.
__device__ __forceinline__ double sum_of_block(double x) {
	__shared__ shared_cell<double> of_warp[BLOCK / 32];
	x = sum_of_warp(x);
	if (threadIdx.x % 32 == 0)
		of_warp[threadIdx.x / 32] = x;
	__syncthreads();
	if (threadIdx.x == 0)
		for (int w = 1; w < BLOCK / 32; w++)
			x += of_warp[w];
	return x;
}

// The lanes that have a row: eight columns each, or more of wide ones.
__device__ __forceinline__ int lanes_of_row(int64_t cols) {
	int lanes = 1;
	while (lanes < 32 && 8 * lanes < cols)
		lanes *= 2;
	return lanes;
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
#pragma unroll 8
		for (int64_t c = lane; c < end; c += lanes)
			top = x[c] > top ? x[c] : top;
		for (int with = 1; with < lanes; with *= 2) {
			const float other = __shfl_xor_sync(ALL, top, with);
			top = other > top ? other : top;
		}
#pragma unroll 8
		for (int64_t c = lane; c < end; c += lanes)
			sum += exponential(x[c] - top);
		for (int with = 1; with < lanes; with *= 2)
			sum += __shfl_xor_sync(ALL, sum, with);
		if (inside && lane == 0)
			loss += log((double)sum) + top - x[label];
		if (!l.a.grad)
			continue;
		const float scale = l.a.scale / sum;
		float *grad = l.a.grad + i * cols;
#pragma unroll 8
		for (int64_t c = lane; c < end; c += lanes)
			grad[c] = exponential(x[c] - top) * scale - (c == label ? l.a.scale : 0.0f);
	}
	loss = sum_of_block(loss);
	if (threadIdx.x == 0)
		l.a.tile_loss[t] = loss;
}

// Binary cross-entropy of logits. A thread takes a logarithm of a product of so many factors 1 + e^−|x|.
KERNEL(binary_cross_entropy_float32, weft_loss_args) {
	const int64_t cols = l.a.cols, t = l.first + blockIdx.x, count = l.a.count - t * WEFT_TILE;
	double loss = 0, linear = 0, product = 0; // less 1
	int factors = 0;
	for (int64_t k = threadIdx.x; k < min(count, (int64_t)WEFT_TILE) * cols; k += BLOCK) {
		const int64_t at = l.a.rows[t * WEFT_TILE + k / cols] * cols + k % cols;
		const float x = l.a.logits[at], y = l.a.targets[at];
		if (l.a.grad && y != y)
			l.a.grad[at] = 0;
		if (y != y) // it is missing
			continue;
		const float e = exponential(-fabsf(x));
		linear += fmaf(-x, y, x <= 0 ? 0.0f : x);
		product += fma(product, (double)e, (double)e);
		if (++factors % 512 == 0)
			loss += log1p(product), product = 0;
		if (l.a.grad)
			l.a.grad[at] = l.a.scale * ((x > 0 ? 1.0f : e) / (1.0f + e) - y);
	}
	loss = sum_of_block(loss + log1p(product) + linear);
	if (threadIdx.x == 0)
		l.a.tile_loss[t] = loss;
}
