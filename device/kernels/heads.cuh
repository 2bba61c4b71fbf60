// Products of rows with vectors, head by head. The order in which columns are added depends on the width
// alone.
#pragma once
#include "pointwise.cuh"

// How many lanes have a head of a row: four columns each, or more of wide ones.
DEVICE int lanes_of_head(int64_t width) {
	int lanes = 1;
	while (lanes < 32 && 4 * lanes < width)
		lanes *= 2;
	return lanes;
}

// out_ih = Σ_c z_ihc · a_hc, or with a row of y in place of a.
template <typename T, typename Y>
DEVICE void dot_each(const over_rows<weft_head_dot_args> &l, const Y *of, bool by_row) {
	const int64_t heads = l.a.heads, width = l.a.width;
	const int lanes = lanes_of_head(width), lane = threadIdx.x % lanes;
	const int64_t k = l.first * heads + thread_number() / lanes;
	const bool inside = k < l.last * heads;
	const T *z = (const T *)l.a.z + k * width;
	const Y *y = of + (by_row ? k : k % heads) * width;
	float sum = 0;
	for (int64_t c = 4 * lane; inside && c < width; c += 4 * lanes) {
		float a[4], b[4];
		part(a, z + c, width - c);
		part(b, y + c, width - c);
		UNROLL for (int i = 0; i < 4; i++)
			sum = fmaf(a[i], b[i], sum);
	}
	for (int with = lanes / 2; with; with /= 2)
		sum += __shfl_xor_sync(ALL, sum, with);
	if (inside && lane == 0)
		l.a.out[k] = sum;
}
template <typename T> DEVICE void head_dot(const over_rows<weft_head_dot_args> &l) {
	dot_each<T>(l, l.a.a, false);
}
template <typename T> DEVICE void row_dots(const over_rows<weft_head_dot_args> &l) {
	dot_each<T>(l, (const T *)l.a.y, true);
}
STORAGE_KERNELS(head_dot, weft_head_dot_args, head_dot)
STORAGE_KERNELS(row_dots, weft_head_dot_args, row_dots)

// z_ihc += s_ih · a_hc
template <typename T> DEVICE void head_outer(const over_rows<weft_head_outer_args> &l) {
	const row_part<T> at(l.first * l.a.heads, l.last * l.a.heads, l.a.width);
	T *z = (T *)l.a.z + at.k * l.a.width + at.c;
	const float *a = l.a.a + at.k % l.a.heads * l.a.width + at.c, s = at.n > 0 ? l.a.s[at.k] : 0;
	float x[at.N];
	part(x, z, at.n);
	each(x, [&](float v, int i) { return i < at.n ? fmaf(s, a[i], v) : v; });
	put(z, x, at.n);
}
STORAGE_KERNELS(head_outer, weft_head_outer_args, head_outer)

// tiles_tc = Σ over the tile's rows of s_ih · z_ihc: a block has 32 columns of a tile. As on the CPU so many
// rows are added in single precision, which warps do beside each other, and these sums in double precision.
template <typename T> DEVICE void head_outer_back(const over_rows<weft_head_outer_args> &l) {
	__shared__ shared_cell<float> some[WEFT_TILE / 8][32];
	const int64_t heads = l.a.heads, cols = heads * l.a.width, blocks = (cols + 31) / 32;
	const int64_t t = l.first + blockIdx.x / blocks, c = blockIdx.x % blocks * 32 + threadIdx.x % 32;
	const int64_t begin = t * WEFT_TILE, rows = min(l.a.rows - begin, (int64_t)WEFT_TILE);
	const int few = l.a.rows * cols > WEFT_CACHED ? 8 : 32, parts = (int)(rows + few - 1) / few;
	const T *z = (const T *)l.a.z + begin * cols + c;
	const float *s = l.a.s + begin * heads + c / l.a.width;
	for (int k = threadIdx.x / 32; c < cols && k < parts; k += blockDim.x / 32) {
		float sum = 0;
		UNROLL_BY(8) for (int r = k * few; r < (k + 1) * few; r++)
			if (r < rows)
				sum = fmaf(s[r * heads], number(z[r * cols]), sum);
		some[k][threadIdx.x % 32] = sum;
	}
	__syncthreads();
	if (threadIdx.x >= 32 || c >= cols)
		return;
	double sum = 0;
	for (int k = 0; k < parts; k++)
		sum += some[k][threadIdx.x];
	l.a.tiles[t * cols + c] = sum;
}
STORAGE_KERNELS(head_outer_back, weft_head_outer_args, head_outer_back)
