// Gathering of rows from a matrix, scattering to it, copies of columns, and the entries of a sparse matrix.
#pragma once
#include "random.cuh"

// z_i,from_z+c = [z_i,from_z+c +] x_i,from_x+c, for the listed rows. A thread has N columns of a row, whose
// address is a multiple of their size.
template <typename T, int N> DEVICE void columns(const weft_columns_args &a, int64_t first, int64_t last) {
	const int64_t across = a.count / N, t = thread_number(), i = first + t / across, c = t % across * N;
	if (i >= last)
		return;
	const T *x = (const T *)a.x + (a.x_rows ? a.x_rows[i] : i) * a.x_cols + a.from_x + c;
	const int64_t to = (a.z_rows ? a.z_rows[i] : i) * a.z_cols + a.from_z + c;
	const auto add = [&](auto *z) {
		float sum[N], more[N];
		part(sum, z, N), part(more, x, N);
		UNROLL for (int k = 0; k < N; k++)
			sum[k] += more[k];
		put(z, sum, N);
	};
	if (!a.accumulate)
		*(packed<T, N> *)((T *)a.z + to) = *(const packed<T, N> *)x;
	else if (a.z_type == WEFT_BFLOAT16)
		add((bfloat16 *)a.z + to);
	else
		add((float *)a.z + to);
}

// The same for all columns of each row.
template <typename T, int N> DEVICE void rows(const over_rows<weft_rows_args> &l, const int32_t *z_rows,
                                              const int32_t *x_rows, int accumulate) {
	const weft_rows_args &a = l.a;
	const weft_columns_args whole = {a.z, a.x, z_rows, x_rows, a.cols, a.cols, 0, 0, a.cols,
	                                 a.z_type, accumulate};
	columns<T, N>(whole, l.first, l.last);
}
#define ROWS_KERNELS(suffix, T, N) \
	KERNEL(columns##suffix, weft_columns_args) { columns<T, N>(l.a, l.first, l.last); } \
	KERNEL(gather##suffix, weft_rows_args) { rows<T, N>(l, nullptr, l.a.rows, 0); } \
	KERNEL(scatter##suffix, weft_rows_args) { rows<T, N>(l, l.a.rows, nullptr, 0); } \
	KERNEL(scatter_add##suffix, weft_rows_args) { rows<T, N>(l, l.a.rows, nullptr, 1); }
ROWS_KERNELS(_float32, float, 1)
ROWS_KERNELS(_float32_vector, float, 4)
ROWS_KERNELS(_bfloat16, bfloat16, 1)
ROWS_KERNELS(_bfloat16_vector, bfloat16, 8)

// The matrix entry of this thread, and its row among first … last−1. The row of a thread behind the last
// entry is `last`.
struct entry {
	int64_t k, row;
	DEVICE entry(const weft_edges &e, int64_t first, int64_t last)
	    : k(e.indptr[first] + thread_number()), row(first) {
		for (int64_t end = last; row < end;) { // the first row that ends behind k
			const int64_t middle = (row + end) / 2;
			if (e.indptr[middle + 1] > k)
				end = middle;
			else
				row = middle + 1;
		}
	}
};

// out_k = values_k · mask. There is one thread for each entry.
KERNEL(sparse_mask_float32, weft_sparse_mask_args) {
	const entry e(l.a.edges, l.first, l.last);
	if (e.row >= l.last)
		return;
	const weft_mask &m = l.a.mask;
	const int64_t other = l.a.edges.indices[e.k], row = l.a.transposed ? other : e.row;
	const uint32_t column = (uint32_t)(l.a.transposed ? e.row : other);
	l.a.out[e.k] = l.a.values[e.k] * mask_one(m, vertex_of(m, row), column);
}

// Random numbers of [0, 1), with the bits of kernel/native/random.h. There is one thread for each element.
STORAGE_KERNEL(uniform, weft_uniform_args) {
	const int64_t t = thread_number(), row = first + t / a.cols;
	if (row >= last)
		return;
	const uint32_t column = (uint32_t)(t % a.cols), vertex = (uint32_t)(a.ids ? a.ids[row] : row);
	const int word = column % BATCH / LANES;
	const auto bits = [&](uint32_t stream) {
		return word_of(random_bits(a.key, vertex, column / BATCH, column % LANES, stream), word);
	};
	uint32_t z = __float_as_uint((float)(bits(1) << 8 | bits(2) >> 8) * 0x1p-24f);
	if (sizeof(T) != sizeof(float)) // rounded down, so that it stays below 1
		z &= 0xffff0000u;
	round_to((T *)a.z + row * a.cols + column, __uint_as_float(z));
}

// z_ij = the sum of the entries of row i in column j. The thread of the first of these entries adds all of
// them, as they follow each other.
STORAGE_KERNEL(densify, weft_densify_args) {
	const entry e(a.edges, first, last);
	if (e.row >= last)
		return;
	const int64_t begin = a.edges.indptr[e.row], end = a.edges.indptr[e.row + 1];
	const int32_t *indices = a.edges.indices, column = indices[e.k];
	if (e.k > begin && indices[e.k - 1] == column)
		return;
	float sum = 0;
	for (int64_t k = e.k; k < end && indices[k] == column; k++)
		sum += a.values ? a.values[k] : 1.0f;
	round_to((T *)a.z + e.row * a.cols + column, sum);
}
