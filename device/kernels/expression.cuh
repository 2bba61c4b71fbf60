// The interpreter of expressions. An expression is a small program over registers. A thread has registers for
// some numbers of the results side by side. All threads of a launch run the same instructions. Registers are
// in shared memory, as they are addressed by number. Each thread reads and writes only its own.
#pragma once
#include "functions.cuh"

// The numbers k … k+n−1 of rows × cols, which this thread has. The first one is in column `column` of row
// `row`.
template <int N> struct numbers_at {
	int64_t k, row, column;
	int n;
	DEVICE numbers_at(const weft_pointwise_args &a, int64_t first, int64_t last) {
		k = first * a.cols + thread_number() * N;
		n = (int)min(last * a.cols - k, (int64_t)N);
		row = n > 0 ? k / a.cols : 0, column = k - row * a.cols;
	}
	DEVICE void load(float (&x)[N], const weft_operand &o, int64_t cols) const {
		if (!o.columns && o.stride == cols) {
			if (o.type == WEFT_BFLOAT16)
				part(x, (const bfloat16 *)o.x + k, n);
			else
				part(x, (const float *)o.x + k, n);
			return;
		}
		int64_t of = row * o.stride, c = column;
		UNROLL for (int i = 0; i < N; i++) {
			x[i] = i < n ? load_either(o.x, o.type, of + (o.columns ? o.columns[c] : c)) : 0;
			if (++c == cols)
				c = 0, of += o.stride;
		}
	}
	DEVICE void store(void *z, int32_t type, const float (&x)[N]) const {
		if (type == WEFT_BFLOAT16)
			put((bfloat16 *)z + k, x, n);
		else
			put((float *)z + k, x, n);
	}
};

template <int N, int REGISTERS, int THREADS>
DEVICE void run_expression(const weft_pointwise_args &a, int64_t first, int64_t last) {
	__shared__ packed<float, N> registers[REGISTERS][THREADS];
	const numbers_at<N> at(a, first, last);
	if (at.n <= 0)
		return;
	const auto of = [&](int k) -> packed<float, N> & { return registers[k][threadIdx.x]; };
	for (int k = 0; k < a.inputs; k++)
		if (a.x[k].x)
			at.load(of(k).e, a.x[k], a.cols);
	for (const weft_instruction *q = a.code, *end = q + a.instructions; q < end; q++) {
		const packed<float, N> xs = of(q->a), ys = of(q->b), ws = of(q->c);
		const float value = q->value;
		packed<float, N> z;
		switch (q->operation) {
#define VECTOR(name, f) \
	case weft_op_##name: \
		UNROLL for (int i = 0; i < N; i++) { \
			const float x = xs.e[i], y = ys.e[i], w = ws.e[i]; \
			z.e[i] = f; \
		} \
		break;
			WEFT_OPERATIONS(VECTOR, VECTOR)
#undef VECTOR
		}
		of(q->z) = z;
	}
	// results that are inputs come first, as another result may be written over an input
	for (int inputs = 1; inputs >= 0; inputs--)
		for (int k = 0; k < a.outputs; k++)
			if ((a.results[k] < a.inputs) == inputs)
				at.store(a.z[k], a.z_types[k], of(a.results[k]).e);
}
// run_expression<numbers of a thread, registers, threads of a block>. The number in a kernel's name is that
// of its registers.
KERNEL(pointwise_float32, weft_pointwise_args) { run_expression<4, 16, 128>(l.a, l.first, l.last); }
KERNEL(pointwise_float32_96, weft_pointwise_args) { run_expression<1, 96, 128>(l.a, l.first, l.last); }
KERNEL(pointwise_float32_384, weft_pointwise_args) { run_expression<1, 384, 32>(l.a, l.first, l.last); }

// z_ic = Σ_k weight_k · x_i,column_k. A thread has one number of z.
KERNEL(map_columns_float32, weft_map_columns_args) {
	const weft_map_columns_args &a = l.a;
	const int64_t t = thread_number(), i = l.first + t / a.z_cols, c = t % a.z_cols;
	if (i >= l.last)
		return;
	const auto x = [&](int k) { return load_either(a.x, a.x_type, i * a.x_cols + a.columns[k]); };
	if (a.single)
		return store_either(a.z, a.z_type, i * a.z_cols + c, a.weights[c] * x((int)c));
	double sum = 0;
	for (int k = a.begin[c]; k < a.begin[c + 1]; k++)
		sum += (double)a.weights[k] * x(k);
	store_either(a.z, a.z_type, i * a.z_cols + c, (float)sum);
}
