// Functions of groups of columns, and products of small matrices that are stored in rows. Some lanes of a
// warp have a group. The order in which they add its columns depends only on the group's width.
#pragma once
#include "functions.cuh"
#include "heads.cuh"

// The group of this thread. Of its lanes, lane l has columns l, l + lanes, …
struct group {
	int64_t k, width; // the group's number among all groups
	int lanes, lane;
	bool inside;
	DEVICE group(int64_t first, int64_t last, int64_t groups, int64_t width)
	    : width(width), lanes(lanes_of_head(width)) {
		lane = threadIdx.x % lanes, k = first * groups + thread_number() / lanes, inside = k < last * groups;
	}
	template <typename function> DEVICE void each_column(function f) const {
		for (int64_t c = lane; inside && c < width; c += lanes)
			f(k * width + c);
	}
	template <typename function> DEVICE float merged(float x, function f) const {
		for (int with = lanes / 2; with; with /= 2)
			x = f(x, __shfl_xor_sync(ALL, x, with));
		return x;
	}
	template <typename function> DEVICE float sum(function f) const {
		float s = 0;
		each_column([&](int64_t at) { s += f(at); });
		return merged(s, [](float a, float b) { return a + b; });
	}
};

STORAGE_KERNEL(groups, weft_groups_args) {
	const group of(first, last, a.groups, a.width);
	const T *x = (const T *)a.x;
	T *z = (T *)a.z;
	const float sign = a.function == WEFT_GROUP_MIN || a.function == WEFT_GROUP_FIRST_MIN ? -1 : 1;
	const auto largest = [](float m, float v) { return v > m || v != v ? v : m; };
	float m = -INFINITY;
	of.each_column([&](int64_t at) { m = largest(m, sign * number(x[at])); });
	m = of.merged(m, largest);
	if (a.function <= WEFT_GROUP_FIRST_MIN) {
		if (of.inside && of.lane == 0)
			round_to(z + of.k, sign * m);
		return;
	}
	if (a.function == WEFT_GROUP_LOG_SUM_EXP && fabsf(m) == INFINITY)
		m = 0;
	const float sum = of.sum([&](int64_t at) { return full_exp(number(x[at]) - m); }),
	            log_sum = full_log(sum);
	if (a.function == WEFT_GROUP_LOG_SUM_EXP) {
		if (of.inside && of.lane == 0)
			round_to(z + of.k, m + log_sum);
		return;
	}
	of.each_column([&](int64_t at) {
		const float v = number(x[at]) - m;
		round_to(z + at, a.function == WEFT_GROUP_SOFTMAX ? full_exp(v) / sum : v - log_sum);
	});
}

// dx of the functions. The columns of a group that equal its maximum share g, or the first of them has it.
STORAGE_KERNEL(groups_back, weft_groups_back_args) {
	const group of(first, last, a.groups, a.width);
	const T *x = (const T *)a.x, *gs = (const T *)a.g, *zs = (const T *)a.z;
	T *dx = (T *)a.dx;
	if (a.function == WEFT_GROUP_SOFTMAX || a.function == WEFT_GROUP_LOG_SOFTMAX) {
		const bool log = a.function == WEFT_GROUP_LOG_SOFTMAX;
		const float total = of.sum(
		    [&](int64_t at) { return log ? number(gs[at]) : number(gs[at]) * number(zs[at]); });
		of.each_column([&](int64_t at) {
			const float z = number(zs[at]), g = number(gs[at]);
			round_to(dx + at, log ? g - full_exp(z) * total : z * (g - total));
		});
		return;
	}
	const float g = of.inside ? number(gs[of.k]) : 0, z = of.inside ? number(zs[of.k]) : 0;
	if (a.function == WEFT_GROUP_LOG_SUM_EXP)
		return of.each_column([&](int64_t at) { round_to(dx + at, g * full_exp(number(x[at]) - z)); });
	const auto is = [&](int64_t at) {
		return number(x[at]) == z || (z != z && number(x[at]) != number(x[at]));
	};
	if (a.function == WEFT_GROUP_FIRST_MAX || a.function == WEFT_GROUP_FIRST_MIN) {
		float place = (float)(of.width - 1);
		of.each_column(
		    [&](int64_t at) { place = is(at) ? min(place, (float)(at - of.k * of.width)) : place; });
		place = of.merged(place, [](float a, float b) { return min(a, b); });
		return of.each_column(
		    [&](int64_t at) { round_to(dx + at, (float)(at - of.k * of.width) == place ? g : 0.0f); });
	}
	const float count = of.sum([&](int64_t at) { return truth(number(x[at]) == z); });
	// 0/0 if z is NaN
	of.each_column([&](int64_t at) { round_to(dx + at, choose(number(x[at]) == z, g, 0) / count); });
}

// A thread has one number of z.
STORAGE_KERNEL(row_product, weft_row_product_args) {
	const int64_t t = thread_number(), q = t % a.cols, p = t / a.cols % a.rows,
	              k = first * a.groups + t / a.cols / a.rows;
	if (k >= last * a.groups)
		return;
	const T *x = (const T *)a.x + k * a.rows * a.inner + p * (a.x_transposed ? 1 : a.inner);
	const T *y = (const T *)a.y + k * a.inner * a.cols + q * (a.y_transposed ? a.inner : 1);
	const int64_t x_next = a.x_transposed ? a.rows : 1, y_next = a.y_transposed ? 1 : a.cols;
	float sum = 0;
	UNROLL_BY(4) for (int64_t r = 0; r < a.inner; r++)
		sum = fmaf(number(x[r * x_next]), number(y[r * y_next]), sum);
	round_to((T *)a.z + t + first * a.groups * a.rows * a.cols, sum);
}
