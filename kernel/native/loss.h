// Losses over a list of rows. The loss of a tile is summed in double precision. Gradients are multiplied by
// scale, which is 1 / the number of terms.

// The largest of n ≥ 1 numbers. It may ignore NaN.
static inline float largest(const float *x, int64_t n) {
	vf tops = all(x[0]);
	int64_t i = 0;
	for (; i + VW <= n; i += VW)
		tops = larger(load(x + i), tops);
	float lanes_of[VW], top = x[0];
	store(lanes_of, tops);
	for (int k = 0; k < VW; k++)
		top = lanes_of[k] > top ? lanes_of[k] : top;
	for (; i < n; i++)
		top = x[i] > top ? x[i] : top;
	return top;
}

// Cross-entropy of softmax:
//   ℓ_i = ln Σ_c exp(x_ic) − x_i,label ; dℓ/dx_ic = softmax_c − [c = label]
static void k_cross_entropy(const void *args, int64_t lo, int64_t hi) {
	const weft_loss_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double loss = 0;
		for (int64_t k = t * WEFT_TILE; k < tile_end(t, a->count); k++) {
			int64_t i = a->rows[k], label = a->labels[i];
			const float *x = a->logits + i * cols;
			float *grad = a->grad ? a->grad + i * cols : NULL;
			float top = largest(x, cols);
			vf sum = {0};
			for (int64_t c = 0; c < cols; c += VW) {
				int n = lesser(cols - c, VW);
				vf e = only(vexp(part(x + c, n) - top), n);
				sum += e;
				if (grad)
					put(grad + c, e, n);
			}
			float whole = lane_sum(sum);
			loss += log((double)whole) + top - x[label];
			if (grad) {
				float each = a->scale / whole;
				for (int64_t c = 0; c < cols; c += VW) {
					int n = lesser(cols - c, VW);
					put(grad + c, part(grad + c, n) * each, n);
				}
				grad[label] -= a->scale;
			}
		}
		a->tile_loss[t] = loss;
	}
}

// Σ ln(1 + p) over the lanes. The lanes become zero.
static inline double log_factors(vd p[2]) {
	double sum = 0;
	for (int h = 0; h < 2; h++) {
		for (int k = 0; k < VW / 2; k++)
			sum += log1p(p[h][k]);
		p[h] = (vd){0};
	}
	return sum;
}

// Binary cross-entropy of logits, summed over the columns:
//   ℓ = max(x, 0) − x·y + ln(1 + e^−|x|) ; dℓ/dx = σ(x) − y
// One logarithm is taken of a product of many factors, Π(1 + e) = 1 + p with p ← p + e + p·e. In this form no
// small e is lost. 512 factors are at most 2^512. A target of NaN is no term.
static void k_binary_cross_entropy(const void *args, int64_t lo, int64_t hi) {
	const weft_loss_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		vd linear = {0}, p[2] = {{0}};
		double loss = 0;
		int factors = 0;
		for (int64_t k = t * WEFT_TILE; k < tile_end(t, a->count); k++)
			for (int64_t c = 0; c < cols; c += VW) {
				int n = lesser(cols - c, VW);
				int64_t at = a->rows[k] * cols + c;
				vf x = part(a->logits + at, n), y = part(a->targets + at, n);
				vi there = y == y; // not NaN
				vf e = vexp((vf)((vi)x | (vi)all(-0.0f)));
				float terms[VW], exps[VW];
				store(terms, (vf)((vi)(activate(x, WEFT_RELU) - x * y) & there));
				store(exps, (vf)((vi)only(e, n) & there));
				for (int h = 0; h < 2; h++) {
					vd f = wide(exps + h * VW / 2);
					p[h] += f + p[h] * f;
					linear += wide(terms + h * VW / 2);
				}
				if (++factors % 512 == 0)
					loss += log_factors(p);
				if (a->grad) {
					put(a->grad + at,
					    (vf)((vi)(a->scale * (positive(x, all(1.0f), e) / (1.0f + e) - y)) & there), n);
				}
			}
		for (int k = 0; k < VW / 2; k++)
			loss += linear[k];
		a->tile_loss[t] = loss + log_factors(p);
	}
}

// The number of rows whose largest logit is that of the label. Of equal logits the first is the largest. NaN
// is ignored, unless it is the row's first logit, which is then the largest.
static void k_hits(const void *args, int64_t lo, int64_t hi) {
	const weft_loss_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		int hits = 0;
		for (int64_t k = t * WEFT_TILE; k < tile_end(t, a->count); k++) {
			const float *x = a->logits + a->rows[k] * a->cols;
			int64_t top = 0;
			for (int64_t c = 1; c < a->cols; c++)
				top = x[c] > x[top] ? c : top;
			hits += top == a->labels[a->rows[k]];
		}
		a->tile_loss[t] = hits;
	}
}
