// Losses. A tile's loss is summed in double precision; the gradient is scaled by one over the number of terms.

// Cross-entropy of softmax: ℓ_i = ln Σ_c exp(x_ic) − x_i,label ; dℓ/dx_ic = softmax_c − [c = label]
static void k_cross_entropy(const void *args, int64_t lo, int64_t hi) {
	const weft_loss_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double loss = 0;
		for (int64_t k = t * WEFT_TILE; k < tile_end(t, a->count); k++) {
			int64_t i = a->rows[k];
			const float *x = a->logits + i * cols;
			float top = x[0], sum = 0;
			for (int64_t c = 1; c < cols; c++)
				top = x[c] > top ? x[c] : top;
			for (int64_t c = 0; c < cols; c += VW) {
				int left = cols - c < VW ? cols - c : VW;
				float e[VW];
				store(e, vexp(load_n(x + c, left) - top));
				for (int n = 0; n < left; n++)
					sum += e[n];
				if (a->grad)
					for (int n = 0; n < left; n++)
						a->grad[i * cols + c + n] = e[n];
			}
			loss += log((double)sum) + top - x[a->labels[i]];
			if (a->grad) {
				float each = a->scale / sum;
				for (int64_t c = 0; c < cols; c++)
					a->grad[i * cols + c] *= each;
				a->grad[i * cols + a->labels[i]] -= a->scale;
			}
		}
		a->tile_loss[t] = loss;
	}
}

// Binary cross-entropy of logits, summed over the columns: ℓ = max(x, 0) − x·y + ln(1 + e^−|x|) ; dℓ/dx = σ(x) − y
static void k_binary_cross_entropy(const void *args, int64_t lo, int64_t hi) {
	const weft_loss_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double loss = 0;
		for (int64_t k = t * WEFT_TILE; k < tile_end(t, a->count); k++)
			for (int64_t at = a->rows[k] * cols; at < (a->rows[k] + 1) * cols; at++) {
				float x = a->logits[at], y = a->targets[at], e = exp1(x > 0 ? -x : x);
				loss += (x > 0 ? x : 0) - x * y + log1p((double)e);
				if (a->grad)
					a->grad[at] = a->scale * ((x > 0 ? 1 / (1 + e) : e / (1 + e)) - y);
			}
		a->tile_loss[t] = loss;
	}
}
