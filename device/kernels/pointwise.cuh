// Element-wise kernels. A thread has the elements of 16 bytes of storage, or with a mask the eight columns of
// one counter.
#pragma once
#include "functions.cuh"
#include "random.cuh"

// e^x and e^x − 1 that return NaN as it is. A card's NaN has other bits than a CPU's, of which vexp and
// vexpm1 would make a number.
DEVICE float exponential(float x) { return x != x ? x : vexp(x); }
DEVICE float exponential_less_1(float x) { return x != x ? x : vexpm1(x); }

// x_i = f(x_i)
template <int N, typename function> DEVICE void each(float (&x)[N], function f) {
	UNROLL for (int i = 0; i < N; i++)
		x[i] = f(x[i], i);
}

template <int N> DEVICE void activate(float (&x)[N], int activation) {
	switch (activation) {
	case WEFT_RELU: each(x, [](float v, int) { return v <= 0 ? 0.0f : v; }); break; // NaN stays NaN
	case WEFT_ELU: each(x, [](float v, int) { return v > 0 ? v : exponential_less_1(v); }); break;
	case WEFT_LEAKY_RELU: each(x, [](float v, int) { return v > 0 ? v : v * 0.01f; }); break;
	case WEFT_SIGMOID: each(x, [](float v, int) { return 1.0f / (1.0f + exponential(-v)); }); break;
	case WEFT_TANH:
		each(x, [](float v, int) { return exponential_less_1(-2.0f * v); });
		each(x, [](float e, int) { return -e / (2.0f + e); });
	}
}

// g *= act'(x), from the output y = act(x).
template <int N> DEVICE void times_derivative(float (&g)[N], const float (&y)[N], int activation) {
	switch (activation) {
	case WEFT_RELU: each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : 0.0f); }); break;
	case WEFT_ELU: each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : y[i] + 1.0f); }); break;
	case WEFT_LEAKY_RELU: each(g, [&](float v, int i) { return v * (y[i] > 0 ? 1.0f : 0.01f); }); break;
	case WEFT_SIGMOID: each(g, [&](float v, int i) { return v * (y[i] * (1.0f - y[i])); }); break;
	case WEFT_TANH: each(g, [&](float v, int i) { return v * fmaf(-y[i], y[i], 1.0f); });
	}
}

// The elements k … k+n−1 of a launch over elements, which this thread has. n may be less than 1. A row has
// `cols` elements.
template <typename T> struct elements {
	enum { N = 16 / sizeof(T) };
	int64_t k, n, cols;
	DEVICE elements(int64_t first, int64_t last, int64_t cols = 1)
	    : k(first * cols + thread_number() * N), n(min(last * cols - k, (int64_t)N)), cols(cols) {}
	DEVICE void load(float (&x)[N], const void *p) const { part(x, (const T *)p + k, n); }
	DEVICE void store(void *p, const float (&x)[N]) const { put((T *)p + k, x, n); }
	DEVICE void load_columns(float (&x)[N], const float *p) const {
		const int64_t c = k % cols;
		if (c + N <= cols)
			part(x, p + c, N);
		else
			each(x, [&](float, int i) { return p[(c + i) % cols]; });
	}
	DEVICE void drop(float (&)[N]) const {}
};

// Sets each element. Integers of 16 bits are exact as floats.
template <typename T> DEVICE void fill(const over_rows<weft_fill_args> &l, float value) {
	const elements<T> at(l.first, l.last);
	float x[at.N];
	each(x, [&](float, int) { return value; });
	at.store(l.a.p, x);
}
KERNEL(fill_float32, weft_fill_args) { fill<float>(l, __uint_as_float((uint32_t)l.a.bits)); }
KERNEL(fill_bfloat16, weft_fill_args) { fill<uint16_t>(l, (uint16_t)l.a.bits); }

template <typename to, typename from> DEVICE void convert(const over_rows<weft_convert_args> &l) {
	const elements<float> at(l.first, l.last);
	float x[at.N];
	part(x, (const from *)l.a.x + at.k, at.n);
	put((to *)l.a.z + at.k, x, at.n);
}
KERNEL(convert_float32, weft_convert_args) {
	if (l.a.z_type == l.a.x_type)
		l.a.z_type == WEFT_BFLOAT16 ? convert<uint16_t, uint16_t>(l) : convert<float, float>(l);
	else
		l.a.z_type == WEFT_BFLOAT16 ? convert<bfloat16, float>(l) : convert<float, bfloat16>(l);
}

// Φ(x), the distribution function of the normal distribution. It is as exact for negative x as for positive
// x.
DEVICE float distribution(float x) {
	const float beyond = 0.5f * erfcf(0.707106781f * fabsf(x));
	return x > 0 ? 1.0f - beyond : beyond;
}
// The derivative of x·Φ(x): Φ(x) + x·φ(x). The density φ is 0 far from 0.
DEVICE float gelu_slope(float x) {
	const float density = 0.398942280f * exponential(-0.5f * x * x);
	return fabsf(x) > 9 ? distribution(x) : fmaf(x, density, distribution(x));
}

// z = expression(x, y). y may be missing.
#define POINTWISE_KERNEL(name, expression) \
	STORAGE_KERNEL(name, weft_combine_args) { \
		const elements<T> at(first, last); \
		float z[at.N], ys[at.N] = {}; \
		at.load(z, a.x); \
		if (a.y) \
			at.load(ys, a.y); \
		each(z, [&](float x, int i) { \
			const float y = ys[i]; \
			return expression; \
		}); \
		at.store(a.z, z); \
	}
POINTWISE_KERNEL(combine, a.multiply ? a.alpha * x * y : a.y ? fmaf(a.alpha, x, a.beta * y) : a.alpha * x)
POINTWISE_KERNEL(exp, exponential(x))
POINTWISE_KERNEL(reciprocal, x != 0 ? 1.0f / x : 0.0f)
POINTWISE_KERNEL(gelu, x * distribution(x))
POINTWISE_KERNEL(gelu_back, x * gelu_slope(y))
POINTWISE_KERNEL(sqrt, x <= a.alpha ? 0.0f : sqrtf(x))
POINTWISE_KERNEL(sqrt_back, y == 0 ? 0.0f : x / (2.0f * y)) // y is the root

// z = mask(act(x + bias))
template <typename place> DEVICE void finish(const weft_finish_args &a, const place &at) {
	float x[place::N], bias[place::N];
	at.load(x, a.x);
	if (a.bias) {
		at.load_columns(bias, a.bias);
		each(x, [&](float v, int i) { return v + bias[i]; });
	}
	activate(x, a.activation);
	at.drop(x);
	at.store(a.z, x);
}
STORAGE_KERNEL(finish, weft_finish_args) { finish(a, elements<T>(first, last, a.cols)); }
STORAGE_KERNEL(finish, weft_finish_args, _masked) {
	const counter<T> at(a.mask, a.cols, first, thread_number());
	if (at.row < last)
		finish(a, at);
}

// dx = g·mask·act'. With ReLU the output is positive exactly where the element was kept and active. So no
// random number is drawn again. The other activations divide by the scale to find the output of the
// activation itself.
template <typename place>
DEVICE void finish_back(const weft_finish_back_args &a, const place &at, float down, float up) {
	float g[place::N], z[place::N];
	at.load(g, a.g);
	if (a.activation != WEFT_IDENTITY) {
		at.load(z, a.z);
		each(z, [&](float v, int) { return v * down; });
		times_derivative(g, z, a.activation);
	}
	each(g, [&](float v, int) { return v * up; });
	at.drop(g);
	at.store(a.dx, g);
}
STORAGE_KERNEL(finish_back, weft_finish_back_args) {
	finish_back(a, elements<T>(first, last, a.cols), 1, a.mask.threshold ? a.mask.scale : 1.0f);
}
STORAGE_KERNEL(finish_back, weft_finish_back_args, _masked) {
	const counter<T> at(a.mask, a.cols, first, thread_number());
	if (at.row < last)
		finish_back(a, at, 1.0f / a.mask.scale, 1);
}

// The columns c … c+n−1 of row k, which this thread has. n may be less than 1.
template <typename T> struct row_part {
	enum { N = 16 / sizeof(T) };
	int64_t k, c, n, width;
	DEVICE row_part(int64_t first, int64_t last, int64_t width) : width(width) {
		const int64_t across = (width + N - 1) / N, t = thread_number();
		k = first + t / across, c = t % across * N, n = k < last ? min(width - c, (int64_t)N) : 0;
	}
	// These columns of row i of a matrix.
	DEVICE void load(float (&x)[N], const void *p, int64_t i) const {
		part(x, (const T *)p + i * width + c, n);
	}
	DEVICE void store(void *p, const float (&x)[N], int64_t i) const { put((T *)p + i * width + c, x, n); }
};

// out_ic = 1/heads · Σ_h in_ihc
STORAGE_KERNEL(head_mean, weft_head_mean_args) {
	const row_part<T> at(first, last, a.width);
	float sum[at.N] = {};
	UNROLL_BY(4) for (int64_t h = 0; at.n > 0 && h < a.heads; h++) {
		float x[at.N];
		at.load(x, a.in, at.k * a.heads + h);
		each(sum, [&](float v, int i) { return v + x[i]; });
	}
	each(sum, [&](float v, int) { return v * (1.0f / a.heads); });
	at.store(a.out, sum, at.k);
}

// The backward pass: out_ihc = in_ic / heads
STORAGE_KERNEL(head_mean_back, weft_head_mean_args) {
	const row_part<T> at(first, last, a.width);
	float x[at.N];
	at.load(x, a.in, at.k);
	each(x, [&](float v, int) { return v * (1.0f / a.heads); });
	for (int64_t h = 0; h < a.heads; h++)
		at.store(a.out, x, at.k * a.heads + h);
}

// z_ihc = x_ihc · s_ih
STORAGE_KERNEL(head_scale, weft_head_scale_args) {
	const row_part<T> at(first * a.heads, last * a.heads, a.width);
	const float s = at.n > 0 ? a.s[at.k] : 0;
	float x[at.N];
	at.load(x, a.x, at.k);
	each(x, [&](float v, int) { return s * v; });
	at.store(a.z, x, at.k);
}
