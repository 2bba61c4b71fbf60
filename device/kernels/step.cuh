// Optimizer steps; equations in kernel/native/step.h.
#pragma once
#include "pointwise.cuh"

KERNEL(adam_float32, weft_adam_args) {
	const weft_adam_args &a = l.a;
	const elements<float> at(l.first, l.last);
	const float step = a.lr / a.correction1, root = 1.0f / sqrtf(a.correction2);
	const float shrink = a.decoupled ? a.lr * a.decay : 0, decay = a.decoupled ? 0 : a.decay;
	float w[4], g[4], m[4], v[4];
	part(w, a.w + at.k, at.n);
	part(g, a.g + at.k, at.n);
	part(m, a.m + at.k, at.n);
	part(v, a.v + at.k, at.n);
	each(g, [&](float x, int i) { return fmaf(a.clip, x, decay * w[i]); });
	each(m, [&](float x, int i) { return fmaf(a.beta1, x, a.rest1 * g[i]); });
	each(v, [&](float x, int i) { return fmaf(a.beta2, x, a.rest2 * g[i] * g[i]); });
	each(w, [&](float x, int i) {
		return fmaf(-shrink, x, x) - step * m[i] / fmaf(sqrtf(v[i]), root, a.epsilon);
	});
	put(a.m + at.k, m, at.n);
	put(a.v + at.k, v, at.n);
	put(a.w + at.k, w, at.n);
}

KERNEL(sgd_float32, weft_sgd_args) {
	const weft_sgd_args &a = l.a;
	const elements<float> at(l.first, l.last);
	float w[4], g[4], before[4];
	part(w, a.w + at.k, at.n);
	part(g, a.g + at.k, at.n);
	each(g, [&](float x, int i) { return fmaf(a.clip, x, a.decay * w[i]); });
	if (a.momentum && !a.first) {
		part(before, a.momentum + at.k, at.n);
		each(g, [&](float x, int i) { return fmaf(a.mu, before[i], x); });
	}
	if (a.momentum)
		put(a.momentum + at.k, g, at.n);
	each(w, [&](float x, int i) { return fmaf(-a.lr, g[i], x); });
	put(a.w + at.k, w, at.n);
}
