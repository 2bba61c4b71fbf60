// Kernels that take each element alone. A thread has what 16 bytes of storage hold, or with a mask the eight
// columns of one counter.
#pragma once
#include "random.cuh"

// Exponentials as kernel/native/kernels.h has them, to its bits. x = n·ln2 + r with |r| ≤ ln2/2, and e^r − 1
// (Cephes' polynomial). Adding 1.5·2^23 rounds to a whole number, which is then in the low bits.
struct exponent {
	float n, rest;
	uint32_t power; // 2^n, to be added to a number's bits
	DEVICE exponent(float x) {
		x = x > 88.3762f ? 88.3762f : x;
		const float shifted = fmaf(x, 1.44269504088896341f, 12582912.0f);
		n = shifted - 12582912.0f, power = __float_as_uint(shifted) << 23;
		const float r = fmaf(n, 2.12194440e-4f, fmaf(-n, 0.693359375f, x));
		float p = fmaf(r, 1.9875691500e-4f, 1.3981999507e-3f);
		p = fmaf(p, r, 8.3334519073e-3f);
		p = fmaf(p, r, 4.1665795894e-2f);
		p = fmaf(p, r, 1.6666665459e-1f);
		p = fmaf(p, r, 5.0000001201e-1f);
		rest = fmaf(p, r * r, r);
	}
	DEVICE float whole() const {
		return __uint_as_float(__float_as_uint(rest + 1.0f) + power);
	}
};

// e^x within 2 units in the last place, 0 below the normal numbers.
DEVICE float exponential(float x) { return x < -87.3365f ? 0.0f : exponent(x).whole(); }

// e^x − 1, exact also where x is small.
DEVICE float exponential_less_1(float x) {
	const exponent e(x < -87.3365f ? -87.3365f : x);
	return e.n == 0 ? e.rest : e.whole() - 1.0f;
}

// x_i = f(x_i)
template <int N, typename function> DEVICE void each(float (&x)[N], function f) {
	UNROLL for (int i = 0; i < N; i++)
		x[i] = f(x[i], i);
}

template <int N> DEVICE void activate(float (&x)[N], int activation) {
	switch (activation) {
	case WEFT_RELU:
		each(x, [](float v, int) { return v <= 0 ? 0.0f : v; }); // NaN stays NaN
		break;
	case WEFT_ELU:
		each(x, [](float v, int) { return v > 0 ? v : exponential_less_1(v); });
		break;
	case WEFT_LEAKY_RELU:
		each(x, [](float v, int) { return v > 0 ? v : v * 0.01f; });
		break;
	case WEFT_TANH:
		each(x, [](float v, int) {
			const float e = exponential_less_1(-2.0f * v);
			return -e / (2.0f + e);
		});
		break;
	case WEFT_SIGMOID:
		each(x, [](float v, int) { return 1.0f / (1.0f + exponential(-v)); });
	}
}

// g times the derivative, from the output y.
template <int N> DEVICE void times_derivative(float (&g)[N], const float (&y)[N], int activation) {
	switch (activation) {
	case WEFT_RELU:
		each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : 0.0f); });
		break;
	case WEFT_ELU:
		each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : y[i] + 1.0f); });
		break;
	case WEFT_LEAKY_RELU:
		each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : 0.01f); });
		break;
	case WEFT_TANH:
		each(g, [&](float v, int i) { return v * fmaf(-y[i], y[i], 1.0f); });
		break;
	case WEFT_SIGMOID:
		each(g, [&](float v, int i) { return v * (y[i] * (1.0f - y[i])); });
	}
}

// Elements k … k+n−1 of a launch over elements are a thread's; n may be less than 1.
template <typename T> struct elements {
	enum { N = 16 / sizeof(T) };
	int64_t k, n;
	DEVICE elements(int64_t first, int64_t last)
	    : k(first + thread_number() * N), n(min(last - k, (int64_t)N)) {}
};

template <typename T, typename bits> DEVICE void fill(const over_rows<weft_fill_args> &l) {
	const elements<T> at(l.first, l.last);
	bits *p = (bits *)l.a.p + at.k;
	together<bits, at.N> all;
	UNROLL for (int i = 0; i < at.N; i++)
		all.e[i] = (bits)l.a.bits;
	if (are_together<bits, at.N>(p, at.n))
		*(together<bits, at.N> *)p = all;
	else
		for (int i = 0; i < at.n; i++)
			p[i] = (bits)l.a.bits;
}
KERNEL(fill_float32, weft_fill_args) { fill<float, uint32_t>(l); }
KERNEL(fill_bfloat16, weft_fill_args) { fill<bfloat16, uint16_t>(l); }

template <typename T> DEVICE void combine(const over_rows<weft_combine_args> &l) {
	const elements<T> at(l.first, l.last);
	const float alpha = l.a.alpha, beta = l.a.beta;
	float x[at.N], y[at.N];
	part(x, (const T *)l.a.x + at.k, at.n);
	if (l.a.y)
		part(y, (const T *)l.a.y + at.k, at.n);
	if (l.a.multiply)
		each(x, [&](float v, int i) { return alpha * v * y[i]; });
	else if (l.a.y)
		each(x, [&](float v, int i) { return fmaf(alpha, v, beta * y[i]); });
	else
		each(x, [&](float v, int) { return alpha * v; });
	put((T *)l.a.z + at.k, x, at.n);
}
STORAGE_KERNELS(combine, weft_combine_args, combine)

// z = f(x)
template <typename T, typename function>
DEVICE void apply(const over_rows<weft_combine_args> &l, function f) {
	const elements<T> at(l.first, l.last);
	float x[at.N];
	part(x, (const T *)l.a.x + at.k, at.n);
	each(x, f);
	put((T *)l.a.z + at.k, x, at.n);
}
// z = f(x, y)
template <typename T, typename function>
DEVICE void apply_to_both(const over_rows<weft_combine_args> &l, function f) {
	const elements<T> at(l.first, l.last);
	float x[at.N], y[at.N];
	part(x, (const T *)l.a.x + at.k, at.n);
	part(y, (const T *)l.a.y + at.k, at.n);
	each(x, [&](float v, int i) { return f(v, y[i]); });
	put((T *)l.a.z + at.k, x, at.n);
}
template <typename T> DEVICE void exponentials(const over_rows<weft_combine_args> &l) {
	apply<T>(l, [](float v, int) { return exponential(v); });
}
STORAGE_KERNELS(exp, weft_combine_args, exponentials)
// 1/x, and 0 for 0.
template <typename T> DEVICE void reciprocals(const over_rows<weft_combine_args> &l) {
	apply<T>(l, [](float v, int) { return v != 0 ? 1.0f / v : 0.0f; });
}
STORAGE_KERNELS(reciprocal, weft_combine_args, reciprocals)

// The distribution function Φ of the normal distribution, as exact on both sides.
DEVICE float distribution(float x) {
	const float beyond = 0.5f * erfcf(0.707106781f * fabsf(x));
	return x > 0 ? 1.0f - beyond : beyond;
}
// x·Φ(x)
template <typename T> DEVICE void gelu(const over_rows<weft_combine_args> &l) {
	apply<T>(l, [](float v, int) { return v * distribution(v); });
}
STORAGE_KERNELS(gelu, weft_combine_args, gelu)
// g·(Φ(x) + x·φ(x)); φ is 0 far from 0.
template <typename T> DEVICE void gelu_back(const over_rows<weft_combine_args> &l) {
	apply_to_both<T>(l, [](float g, float x) {
		const float density = 0.398942280f * exponential(-0.5f * x * x);
		return g * (fabsf(x) > 9 ? distribution(x) : fmaf(x, density, distribution(x)));
	});
}
STORAGE_KERNELS(gelu_back, weft_combine_args, gelu_back)
// √x, and 0 where x is at most alpha.
template <typename T> DEVICE void roots(const over_rows<weft_combine_args> &l) {
	apply<T>(l, [&](float v, int) { return v <= l.a.alpha ? 0.0f : sqrtf(v); });
}
STORAGE_KERNELS(sqrt, weft_combine_args, roots)
// Its gradient g/(2·√x), and 0 where the root is.
template <typename T> DEVICE void roots_back(const over_rows<weft_combine_args> &l) {
	apply_to_both<T>(l, [](float g, float root) { return root == 0 ? 0.0f : g / (2.0f * root); });
}
STORAGE_KERNELS(sqrt_back, weft_combine_args, roots_back)

template <typename to, typename from> DEVICE void convert(const over_rows<weft_convert_args> &l) {
	const elements<float> at(l.first, l.last);
	float x[at.N];
	part(x, (const from *)l.a.x + at.k, at.n);
	put((to *)l.a.z + at.k, x, at.n);
}
KERNEL(convert_float32, weft_convert_args) {
	const elements<float> at(l.first, l.last);
	if (l.a.z_type != l.a.x_type)
		l.a.z_type == WEFT_BFLOAT16 ? convert<bfloat16, float>(l) : convert<float, bfloat16>(l);
	else if (l.a.z_type == WEFT_BFLOAT16)
		copy<at.N>((uint16_t *)l.a.z + at.k, (const uint16_t *)l.a.x + at.k, at.n);
	else
		copy<at.N>((uint32_t *)l.a.z + at.k, (const uint32_t *)l.a.x + at.k, at.n);
}

// z = mask(act(x + bias)) where nothing is dropped.
template <typename T> DEVICE void finish(const over_rows<weft_finish_args> &l) {
	const int64_t cols = l.a.cols;
	const elements<T> at(l.first * cols, l.last * cols);
	float x[at.N];
	part(x, (const T *)l.a.x + at.k, at.n);
	if (l.a.bias) {
		const int64_t c = at.k % cols;
		if (c + at.N <= cols) {
			float bias[at.N];
			part(bias, l.a.bias + c, at.N);
			each(x, [&](float v, int i) { return v + bias[i]; });
		} else
			each(x, [&](float v, int i) { return v + l.a.bias[(c + i) % cols]; });
	}
	activate(x, l.a.activation);
	put((T *)l.a.z + at.k, x, at.n);
}
STORAGE_KERNELS(finish, weft_finish_args, finish)

template <typename T> DEVICE void finish_masked(const over_rows<weft_finish_args> &l) {
	const weft_mask &m = l.a.mask;
	const int64_t cols = l.a.cols;
	const counter at(m, cols, thread_number());
	const int64_t row = l.first + at.row;
	if (row >= l.last)
		return;
	float x[8];
	at.load(x, (const T *)l.a.x + row * cols, cols);
	if (l.a.bias) {
		float bias[8];
		at.load(bias, l.a.bias, cols);
		each(x, [&](float v, int i) { return v + bias[i]; });
	}
	activate(x, l.a.activation);
	const random_words r = at.bits(m, row);
	each(x, [&](float v, int i) { return v * keep(m, r, i); });
	at.store((T *)l.a.z + row * cols, x, cols);
}
KERNEL(finish_float32_masked, weft_finish_args) { finish_masked<float>(l); }
KERNEL(finish_bfloat16_masked, weft_finish_args) { finish_masked<bfloat16>(l); }

// dx = g · mask · act'(·). With ReLU the output is positive exactly where the element was kept and active: no
// random number is drawn again. The other activations undo the scale to find the activation's own output.
template <typename T> DEVICE void finish_back(const over_rows<weft_finish_back_args> &l) {
	const elements<T> at(l.first * l.a.cols, l.last * l.a.cols);
	const float up = l.a.mask.threshold ? l.a.mask.scale : 1.0f;
	float g[at.N], z[at.N];
	part(g, (const T *)l.a.g + at.k, at.n);
	if (l.a.activation != WEFT_IDENTITY)
		part(z, (const T *)l.a.z + at.k, at.n), times_derivative(g, z, l.a.activation);
	each(g, [&](float v, int) { return v * up; });
	put((T *)l.a.dx + at.k, g, at.n);
}
STORAGE_KERNELS(finish_back, weft_finish_back_args, finish_back)

template <typename T> DEVICE void finish_back_masked(const over_rows<weft_finish_back_args> &l) {
	const weft_mask &m = l.a.mask;
	const int64_t cols = l.a.cols;
	const counter at(m, cols, thread_number());
	const int64_t row = l.first + at.row;
	if (row >= l.last)
		return;
	const float down = 1.0f / m.scale;
	float g[8], z[8];
	at.load(g, (const T *)l.a.g + row * cols, cols);
	if (l.a.activation != WEFT_IDENTITY) {
		at.load(z, (const T *)l.a.z + row * cols, cols);
		each(z, [&](float v, int) { return v * down; });
		times_derivative(g, z, l.a.activation);
	}
	const random_words r = at.bits(m, row);
	each(g, [&](float v, int i) { return v * keep(m, r, i); });
	at.store((T *)l.a.dx + row * cols, g, cols);
}
KERNEL(finish_back_float32_masked, weft_finish_back_args) { finish_back_masked<float>(l); }
KERNEL(finish_back_bfloat16_masked, weft_finish_back_args) { finish_back_masked<bfloat16>(l); }

// Columns c … c+n−1 of row k are a thread's; n may be less than 1.
template <typename T> struct row_part {
	enum { N = 16 / sizeof(T) };
	int64_t k, c, n;
	DEVICE row_part(int64_t first, int64_t last, int64_t width) {
		const int64_t across = (width + N - 1) / N, t = thread_number();
		k = first + t / across, c = t % across * N, n = k < last ? min(width - c, (int64_t)N) : 0;
	}
};

// out_ic = mean over heads of z_ihc
template <typename T> DEVICE void head_mean(const over_rows<weft_head_mean_args> &l) {
	const int64_t heads = l.a.heads, width = l.a.width;
	const row_part<T> at(l.first, l.last, width);
	const T *in = (const T *)l.a.in + at.k * heads * width + at.c;
	const float share = 1.0f / heads;
	float sum[at.N] = {};
	UNROLL_BY(4) for (int64_t h = 0; at.n > 0 && h < heads; h++) {
		float x[at.N];
		part(x, in + h * width, at.n);
		each(sum, [&](float v, int i) { return v + x[i]; });
	}
	each(sum, [&](float v, int) { return v * share; });
	put((T *)l.a.out + at.k * width + at.c, sum, at.n);
}
STORAGE_KERNELS(head_mean, weft_head_mean_args, head_mean)

// The reverse: spreads a row over the heads.
template <typename T> DEVICE void head_mean_back(const over_rows<weft_head_mean_args> &l) {
	const int64_t heads = l.a.heads, width = l.a.width;
	const row_part<T> at(l.first, l.last, width);
	T *out = (T *)l.a.out + at.k * heads * width + at.c;
	const float share = 1.0f / heads;
	float x[at.N];
	part(x, (const T *)l.a.in + at.k * width + at.c, at.n);
	each(x, [&](float v, int) { return v * share; });
	for (int64_t h = 0; h < heads; h++)
		put(out + h * width, x, at.n);
}
STORAGE_KERNELS(head_mean_back, weft_head_mean_args, head_mean_back)

// z_ihc = x_ihc · s_ih
template <typename T> DEVICE void head_scale(const over_rows<weft_head_scale_args> &l) {
	const row_part<T> at(l.first * l.a.heads, l.last * l.a.heads, l.a.width);
	const int64_t k = at.k * l.a.width + at.c;
	const float s = at.n > 0 ? l.a.s[at.k] : 0;
	float x[at.N];
	part(x, (const T *)l.a.x + k, at.n);
	each(x, [&](float v, int) { return s * v; });
	put((T *)l.a.z + k, x, at.n);
}
STORAGE_KERNELS(head_scale, weft_head_scale_args, head_scale)
