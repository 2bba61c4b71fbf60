// Optimizer steps, as PyTorch defines them. clip multiplies the gradient.

// Adam (Kingma & Ba 2015): m ← β1·m + (1−β1)·g ; v ← β2·v + (1−β2)·g² ; w ← w − lr·(m/c1) / (√(v/c2) + ε), c1 = 1−β1^t, c2 = 1−β2^t.
// Weight decay is added to the gradient, or taken from the weight (decoupled, AdamW).
static void k_adam(const void *args, int64_t lo, int64_t hi) {
	const weft_adam_args *a = args;
	float step = a->lr / a->correction1, root = 1.0f / sqrtf(a->correction2);
	for (int64_t i = lo; i < hi; i++) {
		float w = a->w[i], g = a->clip * a->g[i];
		if (a->decoupled)
			w -= a->lr * a->decay * w;
		else
			g += a->decay * w;
		float m = a->m[i] = a->beta1 * a->m[i] + a->rest1 * g;
		float v = a->v[i] = a->beta2 * a->v[i] + a->rest2 * g * g;
		a->w[i] = w - step * m / (sqrtf(v) * root + a->epsilon);
	}
}

// SGD with momentum: g ← g + decay·w ; b ← μ·b + g (b = g at the first step) ; w ← w − lr·b
static void k_sgd(const void *args, int64_t lo, int64_t hi) {
	const weft_sgd_args *a = args;
	for (int64_t i = lo; i < hi; i++) {
		float g = a->clip * a->g[i] + a->decay * a->w[i];
		if (a->momentum)
			g = a->momentum[i] = a->first ? g : a->mu * a->momentum[i] + g;
		a->w[i] -= a->lr * g;
	}
}

// The tile's sum of squares.
static void k_sum_squares(const void *args, int64_t lo, int64_t hi) {
	const weft_column_sum_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		double sum = 0;
		for (int64_t i = t * WEFT_TILE; i < tile_end(t, a->rows); i++)
			sum += (double)a->x[i] * a->x[i];
		a->tiles[t] = sum;
	}
}
