// Normalisation. Batch norm (Ioffe & Szegedy 2015): per column, x̂ = (x − mean)·rstd, z = γ·x̂ + β. A tile's mean and sum of
// squared deviations are merged by Chan's formula in Go, so no difference of large squares is ever taken.
//   dx = γ·rstd·(g − mean(g) − x̂·mean(g·x̂))

static void k_batch_stats(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double *mean = a->tile_mean + t * cols, *m2 = a->tile_m2 + t * cols;
		int64_t from = t * WEFT_TILE, to = tile_end(t, a->rows);
		for (int64_t c = 0; c < cols; c++)
			mean[c] = m2[c] = 0;
		for (int64_t i = from; i < to; i++)
			for (int64_t c = 0; c < cols; c++)
				mean[c] += a->x[i * cols + c];
		for (int64_t c = 0; c < cols; c++)
			mean[c] /= to - from;
		for (int64_t i = from; i < to; i++)
			for (int64_t c = 0; c < cols; c++) {
				double d = a->x[i * cols + c] - mean[c];
				m2[c] += d * d;
			}
	}
}

static void k_batch_norm(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c = 0; c < cols; c++)
			a->z[i * cols + c] = a->gamma[c] * ((a->x[i * cols + c] - a->mean[c]) * a->rstd[c]) + a->beta[c];
}

static void k_batch_back_sums(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double *sg = a->tiles + t * cols, *sgx = a->tiles2 + t * cols;
		for (int64_t c = 0; c < cols; c++)
			sg[c] = sgx[c] = 0;
		for (int64_t i = t * WEFT_TILE; i < tile_end(t, a->rows); i++)
			for (int64_t c = 0; c < cols; c++) {
				double g = a->g[i * cols + c];
				sg[c] += g;
				sgx[c] += g * ((a->x[i * cols + c] - a->mean[c]) * a->rstd[c]);
			}
	}
}

static void k_batch_back(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t i = lo; i < hi; i++)
		for (int64_t c = 0; c < cols; c++) {
			float hat = (a->x[i * cols + c] - a->mean[c]) * a->rstd[c];
			a->z[i * cols + c] = a->gamma[c] * a->rstd[c] * (a->g[i * cols + c] - a->sum_g[c] - hat * a->sum_gx[c]);
		}
}

// Layer norm (Ba et al. 2016): the same per row over its columns. The row's mean and rstd are kept.
static void k_layer_norm(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t i = lo; i < hi; i++) {
		const float *x = a->x + i * cols;
		double mean = 0, m2 = 0;
		for (int64_t c = 0; c < cols; c++)
			mean += x[c];
		mean /= cols;
		for (int64_t c = 0; c < cols; c++)
			m2 += (x[c] - mean) * (x[c] - mean);
		float mu = mean, rstd = 1.0 / sqrt(m2 / cols + a->epsilon);
		a->row_mean[i] = mu;
		a->row_rstd[i] = rstd;
		for (int64_t c = 0; c < cols; c++)
			a->z[i * cols + c] = a->gamma[c] * ((x[c] - mu) * rstd) + a->beta[c];
	}
}

// dx over the tile's rows, and the tile's sums for dβ = Σ g and dγ = Σ g·x̂. z may be g.
static void k_layer_back(const void *args, int64_t lo, int64_t hi) {
	const weft_norm_args *a = args;
	int64_t cols = a->cols;
	for (int64_t t = lo; t < hi; t++) {
		double *sg = a->tiles + t * cols, *sgx = a->tiles2 + t * cols;
		for (int64_t c = 0; c < cols; c++)
			sg[c] = sgx[c] = 0;
		for (int64_t i = t * WEFT_TILE; i < tile_end(t, a->rows); i++) {
			const float *x = a->x + i * cols, *g = a->g + i * cols;
			float mean = a->row_mean[i], rstd = a->row_rstd[i];
			double mg = 0, mgx = 0;
			for (int64_t c = 0; c < cols; c++) {
				float hat = (x[c] - mean) * rstd;
				sg[c] += g[c];
				sgx[c] += g[c] * hat;
				mg += a->gamma[c] * g[c];
				mgx += a->gamma[c] * g[c] * hat;
			}
			mg /= cols;
			mgx /= cols;
			for (int64_t c = 0; c < cols; c++) {
				float hat = (x[c] - mean) * rstd;
				a->z[i * cols + c] = rstd * (a->gamma[c] * g[c] - (float)mg - hat * (float)mgx);
			}
		}
	}
}
