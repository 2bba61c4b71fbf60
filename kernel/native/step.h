// Steps of optimizers, with PyTorch's definitions. They run over elements. The gradient g is multiplied by
// clip first.

// Adam (Kingma & Ba 2015):
//   m ← β1·m + (1−β1)·g ; v ← β2·v + (1−β2)·g²
//   w ← w − lr·(m/c1) / (√(v/c2) + ε),  c1 = 1−β1^t, c2 = 1−β2^t
// Weight decay is added to the gradient. Decoupled decay (AdamW) is subtracted from the weight.
static void k_adam(const void *args, int64_t lo, int64_t hi) {
	const weft_adam_args *a = args;
	float step = a->lr / a->correction1, root = 1.0f / sqrtf(a->correction2);
	float shrink = a->decoupled ? a->lr * a->decay : 0, decay = a->decoupled ? 0 : a->decay;
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		vf w = part(a->w + i, n), g = a->clip * part(a->g + i, n) + decay * w;
		w -= shrink * w;
		vf m = a->beta1 * part(a->m + i, n) + a->rest1 * g;
		vf v = a->beta2 * part(a->v + i, n) + a->rest2 * g * g;
		put(a->m + i, m, n);
		put(a->v + i, v, n);
		put(a->w + i, w - step * m / (vsqrt(v) * root + a->epsilon), n);
	}
}

// SGD with momentum:
//   g ← g + decay·w ; b ← μ·b + g (b = g at the first step) ; w ← w − lr·b
static void k_sgd(const void *args, int64_t lo, int64_t hi) {
	const weft_sgd_args *a = args;
	for (int64_t i = lo; i < hi; i += VW) {
		int n = lesser(hi - i, VW);
		vf w = part(a->w + i, n), g = a->clip * part(a->g + i, n) + a->decay * w;
		if (a->momentum) {
			if (!a->first)
				g += a->mu * part(a->momentum + i, n);
			put(a->momentum + i, g, n);
		}
		put(a->w + i, w - a->lr * g, n);
	}
}

// tiles_t = Σ x² over the tile's elements, in double precision. The lanes of two vectors have VW sums apart,
// which are added at the end.
static void k_sum_squares(const void *args, int64_t lo, int64_t hi) {
	const weft_column_sum_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		int64_t i = t * WEFT_TILE, end = tile_end(t, a->rows);
		vd s[2] = {{0}};
		for (; i + VW <= end; i += VW)
			for (int k = 0; k < 2; k++) {
				vd x = wide(a->x + i + k * VW / 2);
				s[k] += x * x;
			}
		double sum = 0;
		for (; i < end; i++)
			sum += (double)a->x[i] * a->x[i];
		s[0] += s[1];
		for (int k = 0; k < VW / 2; k++)
			sum += s[0][k];
		a->tiles[t] = sum;
	}
}
