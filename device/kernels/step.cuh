// Steps of optimizers. kernel/native/step.h has the equations. A thread has four elements.
#pragma once
#include "pointwise.cuh"

KERNEL(adam_float32, weft_adam_args) {
	const weft_adam_args &a = l.a;
	const elements<float> at(l.first, l.last);
	const float step = a.lr / a.correction1, root = 1.0f / sqrtf(a.correction2);
	const float shrink = a.decoupled ? a.lr * a.decay : 0, decay = a.decoupled ? 0 : a.decay;
	float w[4], g[4], m[4], v[4];
	at.load(w, a.w), at.load(g, a.g), at.load(m, a.m), at.load(v, a.v);
	each(g, [&](float x, int i) { return fmaf(a.clip, x, decay * w[i]); });
	each(m, [&](float x, int i) { return fmaf(a.beta1, x, a.rest1 * g[i]); });
	each(v, [&](float x, int i) { return fmaf(a.beta2, x, a.rest2 * g[i] * g[i]); });
	each(w, [&](float x, int i) {
		return fmaf(-shrink, x, x) - step * m[i] / fmaf(sqrtf(v[i]), root, a.epsilon);
	});
	at.store(a.m, m), at.store(a.v, v), at.store(a.w, w);
}

KERNEL(sgd_float32, weft_sgd_args) {
	const weft_sgd_args &a = l.a;
	const elements<float> at(l.first, l.last);
	float w[4], g[4], before[4];
	at.load(w, a.w), at.load(g, a.g);
	each(g, [&](float x, int i) { return fmaf(a.clip, x, a.decay * w[i]); });
	if (a.momentum && !a.first) {
		at.load(before, a.momentum);
		each(g, [&](float x, int i) { return fmaf(a.mu, before[i], x); });
	}
	if (a.momentum)
		at.store(a.momentum, g);
	each(w, [&](float x, int i) { return fmaf(-a.lr, g[i], x); });
	at.store(a.w, w);
}
