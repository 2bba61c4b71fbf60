// Scores of pairs of rows, each of a relation: score_k = Σ_c x_sc · w_rc · x_tc for source s, target t and
// relation r (DistMult, Yang et al. 2015). w is 1 if there is none. Sums are in the order of columns, or of
// pairs, at every SIMD level.

// The scores of pairs k … k+n−1, whose sums are computed side by side.
INLINE void pair_scores_of(const weft_pairs_args *a, int64_t k, const int n, const int weighted) {
	const float *s[4], *t[4], *w[4];
	float sum[4] = {0};
	for (int q = 0; q < n; q++) {
		const int32_t *p = a->pairs + 3 * (k + q);
		w[q] = weighted ? a->w + p[0] * a->cols : NULL;
		s[q] = a->x + p[1] * a->cols, t[q] = a->x + p[2] * a->cols;
	}
	for (int64_t c = 0; c < a->cols; c++)
		for (int q = 0; q < n; q++)
			sum[q] += weighted ? s[q][c] * w[q][c] * t[q][c] : s[q][c] * t[q][c];
	for (int q = 0; q < n; q++)
		a->scores[k + q] = sum[q];
}

INLINE void pair_scores_within(const weft_pairs_args *a, int64_t lo, int64_t hi, const int weighted) {
	for (; lo + 4 <= hi; lo += 4)
		pair_scores_of(a, lo, 4, weighted);
	for (; lo < hi; lo++)
		pair_scores_of(a, lo, 1, weighted);
}

static void k_pair_scores(const void *args, int64_t lo, int64_t hi) {
	const weft_pairs_args *a = args;
	if (a->w)
		pair_scores_within(a, lo, hi, 1);
	else
		pair_scores_within(a, lo, hi, 0);
}

// dx_rc = Σ_k g_k · w_relation,c · x_other,c over the pairs k of row r. `other` is the pair's other row.
static void k_pair_rows(const void *args, int64_t lo, int64_t hi) {
	const weft_pairs_args *a = args;
	for (int64_t r = lo; r < hi; r++)
		for (int64_t c = 0; c < a->cols; c += 4 * VW) {
			vf sum[4] = {{0}};
			for (int64_t e = a->begin[r]; e < a->begin[r + 1]; e++) {
				const int32_t k = a->ends[e] / 2, *p = a->pairs + 3 * (int64_t)k;
				const float *x = a->x + p[2 - a->ends[e] % 2] * a->cols + c,
				            *w = a->w ? a->w + p[0] * a->cols + c : NULL;
				for (int64_t q = 0, at = c; q < 4 && at < a->cols; q++, at += VW) {
					const int n = lesser(a->cols - at, VW);
					vf factor = all(a->g[k]);
					if (w)
						factor = factor * part(w + q * VW, n);
					sum[q] += factor * part(x + q * VW, n);
				}
			}
			for (int64_t q = 0, at = c; q < 4 && at < a->cols; q++, at += VW)
				put(a->dx + r * a->cols + at, sum[q], lesser(a->cols - at, VW));
		}
}

// dw_rc += Σ_k g_k · x_sc · x_tc over the pairs k of relation r, in double precision.
static void k_pair_weights(const void *args, int64_t lo, int64_t hi) {
	const weft_pairs_args *a = args;
	for (int64_t k = 0; k < a->n; k++) {
		const int32_t *p = a->pairs + 3 * k;
		const float *s = a->x + p[1] * a->cols, *t = a->x + p[2] * a->cols, g = a->g[k];
		for (int64_t c = lo; c < hi; c++)
			a->dw[p[0] * a->cols + c] += (double)(g * s[c] * t[c]);
	}
}

// For each column, adds to `over` the number of rows of x above the column's score, and to `equal` the number
// of rows equal to it. The columns are those of four vectors. With whole not set, the matrix has fewer.
INLINE void count_above(vi over[4], vi equal[4], const float *x, const vf score[4], int64_t rows,
                        int64_t stride, int64_t cols, const int whole) {
	for (int64_t i = 0; i < rows; i++, x += stride)
		for (int q = 0; q < 4 && (whole || q * VW < cols); q++) {
			const vf v = whole ? load(x + q * VW) : part(x + q * VW, lesser(cols - q * VW, VW));
			over[q] -= (vi)(v > score[q]);
			equal[q] -= (vi)(v == score[q]);
		}
}

// Counts the rows of a tile above, and equal to, the score of each column.
static void k_above(const void *args, int64_t lo, int64_t hi) {
	const weft_above_args *a = args;
	for (int64_t t = lo; t < hi; t++) {
		double *above = a->tiles + 2 * t * a->cols, *same = above + a->cols;
		const int64_t first = t * WEFT_TILE, end = tile_end(t, a->rows);
		for (int64_t c = 0; c < a->cols; c += 4 * VW) {
			vi over[4] = {{0}}, equal[4] = {{0}};
			vf score[4] = {{0}};
			for (int64_t q = 0, at = c; q < 4 && at < a->n; q++, at += VW)
				score[q] = part(a->score + at, lesser(a->n - at, VW));
			const float *x = a->x + first * a->cols + c;
			if (c + 4 * VW <= a->cols)
				count_above(over, equal, x, score, end - first, a->cols, a->cols - c, 1);
			else
				count_above(over, equal, x, score, end - first, a->cols, a->cols - c, 0);
			for (int64_t at = c; at < a->cols && at < c + 4 * VW; at++) {
				above[at] = at < a->n ? over[(at - c) / VW][(at - c) % VW] : 0;
				same[at] = at < a->n ? equal[(at - c) / VW][(at - c) % VW] : 0;
			}
		}
	}
}
