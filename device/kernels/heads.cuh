// Products of rows with vectors, head by head. The order in which columns are added depends only on the width
// of a head.
#pragma once
#include "pointwise.cuh"

// The number of lanes for a head of a row: each has four columns, or more of wide heads.
DEVICE int lanes_of_head(int64_t width) {
	int lanes = 1;
	while (lanes < 32 && 4 * lanes < width)
		lanes *= 2;
	return lanes;
}

// out_ih = Σ_c z_ihc · a_hc, or Σ_c z_ihc · y_ihc with by_row.
template <typename T, typename Y>
DEVICE void dot_each(const weft_head_dot_args &a, int64_t first, int64_t last, const Y *of, bool by_row) {
	const int lanes = lanes_of_head(a.width), lane = threadIdx.x % lanes;
	const int64_t k = first * a.heads + thread_number() / lanes;
	const bool inside = k < last * a.heads;
	const T *z = (const T *)a.z + k * a.width;
	const Y *y = of + (by_row ? k : k % a.heads) * a.width;
	float sum = 0;
	for (int64_t c = 4 * lane; inside && c < a.width; c += 4 * lanes) {
		float p[4], q[4];
		part(p, z + c, a.width - c);
		part(q, y + c, a.width - c);
		UNROLL for (int i = 0; i < 4; i++)
			sum = fmaf(p[i], q[i], sum);
	}
	for (int with = lanes / 2; with; with /= 2)
		sum += __shfl_xor_sync(ALL, sum, with);
	if (inside && lane == 0)
		a.out[k] = sum;
}
STORAGE_KERNEL(head_dot, weft_head_dot_args) { dot_each<T>(a, first, last, a.a, false); }
STORAGE_KERNEL(row_dots, weft_head_dot_args) { dot_each<T>(a, first, last, (const T *)a.y, true); }

// z_ihc += s_ih · a_hc
STORAGE_KERNEL(head_outer, weft_head_outer_args) {
	const row_part<T> at(first * a.heads, last * a.heads, a.width);
	const float s = at.n > 0 ? a.s[at.k] : 0;
	float z[at.N], of_head[at.N];
	at.load(z, a.z, at.k), part(of_head, a.a + at.k % a.heads * a.width + at.c, at.n);
	each(z, [&](float v, int i) { return fmaf(s, of_head[i], v); });
	at.store(a.z, z, at.k);
}

// tiles_t,hc = Σ_i s_ih · z_ihc over the rows i of tile t. A block has 32 columns of a tile. As on the CPU,
// `few` rows at a time are added in single precision, and their sums in double precision. Warps add the
// groups of rows side by side.
STORAGE_KERNEL(head_outer_back, weft_head_outer_back_args) {
	__shared__ shared_cell<float> some[WEFT_TILE / 8][32];
	const int64_t cols = a.heads * a.width, blocks = (cols + 31) / 32;
	const int64_t t = first + blockIdx.x / blocks, c = blockIdx.x % blocks * 32 + threadIdx.x % 32;
	const int64_t begin = t * WEFT_TILE, rows = min(a.rows - begin, (int64_t)WEFT_TILE);
	const int few = a.rows * cols > WEFT_CACHED ? 8 : 32, parts = (int)(rows + few - 1) / few;
	const T *z = (const T *)a.z + begin * cols + c;
	const float *s = a.s + begin * a.heads + c / a.width;
	for (int k = threadIdx.x / 32; c < cols && k < parts; k += blockDim.x / 32) {
		float sum = 0;
		UNROLL_BY(8) for (int r = k * few; r < (k + 1) * few; r++)
			if (r < rows)
				sum = fmaf(s[r * a.heads], number(z[r * cols]), sum);
		some[k][threadIdx.x % 32] = sum;
	}
	__syncthreads();
	if (threadIdx.x >= 32 || c >= cols)
		return;
	double sum = 0;
	for (int k = 0; k < parts; k++)
		sum += some[k][threadIdx.x];
	a.tiles[t * cols + c] = sum;
}
