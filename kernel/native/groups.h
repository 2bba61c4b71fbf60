// Functions of groups of columns, and products of small matrices that are stored in rows.

// max_c sign·x_c over n numbers; NaN if one of them is NaN.
static float group_extreme(const elem *x, int64_t n, float sign) {
	vf most = all(-INFINITY);
	for (int64_t c = 0; c < n; c += VW) {
		const int left = lesser(n - c, VW);
		const vf v = first_lanes(sign * part(x + c, left), left, all(-INFINITY));
		most = choose((v > most) | (v != v), v, most);
	}
	float m = most[0];
	for (int k = 1; k < VW; k++)
		m = most[k] > m || most[k] != most[k] ? most[k] : m;
	return m;
}

// Σ e^(x − m) over n numbers.
static float group_sum_exp(const elem *x, int64_t n, float m) {
	vf sum = {0};
	for (int64_t c = 0; c < n; c += VW) {
		const int left = lesser(n - c, VW);
		sum += only(full_exp(part(x + c, left) - m), left);
	}
	return lane_sum(sum);
}

static inline float log_of(float x) { return full_log(all(x))[0]; }

// The functions of weft_group_function: z_k for each group k, or softmax and log-softmax of each column.
static void k_groups(const void *args, int64_t lo, int64_t hi) {
	const weft_groups_args *a = args;
	const int64_t n = a->width;
	for (int64_t k = lo * a->groups; k < hi * a->groups; k++) {
		const elem *x = a->x + k * n;
		const float sign = a->function == WEFT_GROUP_MIN || a->function == WEFT_GROUP_FIRST_MIN ? -1 : 1;
		float m = group_extreme(x, n, sign);
		if (a->function <= WEFT_GROUP_FIRST_MIN) {
			put(a->z + k, all(sign * m), 1);
			continue;
		}
		if (a->function == WEFT_GROUP_LOG_SUM_EXP) {
			m = isinf(m) ? 0 : m;
			put(a->z + k, all(m + log_of(group_sum_exp(x, n, m))), 1);
			continue;
		}
		const float sum = group_sum_exp(x, n, m), log_sum = log_of(sum);
		for (int64_t c = 0; c < n; c += VW) {
			const int left = lesser(n - c, VW);
			const vf v = part(x + c, left) - m;
			put(a->z + k * n + c, a->function == WEFT_GROUP_SOFTMAX ? full_exp(v) / sum : v - log_sum, left);
		}
	}
}

// dx = g for the first of n numbers that equals z, or that is NaN if z is. dx is 0 for the others.
static void group_first_back(elem *dx, const elem *x, int64_t n, float z, float g) {
	int64_t first = 0;
	while (first < n - 1 && number(x + first) != z && !(z != z && number(x + first) != number(x + first)))
		first++;
	for (int64_t c = 0; c < n; c += VW)
		put(dx + c, (vf){0}, lesser(n - c, VW));
	put(dx + first, all(g), 1);
}

// The gradients of these functions, with sums over the columns of a group:
//   softmax      dx = z·(g − Σ g·z)
//   log-softmax  dx = g − e^z·Σ g
//   log-sum-exp  dx = g·e^(x − z)
//   max, min     dx = g·[x = z] / the number of columns with x = z
static void k_groups_back(const void *args, int64_t lo, int64_t hi) {
	const weft_groups_back_args *a = args;
	const int64_t n = a->width;
	const int softmax = a->function == WEFT_GROUP_SOFTMAX,
	          log_softmax = a->function == WEFT_GROUP_LOG_SOFTMAX;
	for (int64_t k = lo * a->groups; k < hi * a->groups; k++) {
		const int64_t at = k * n;
		if (a->function == WEFT_GROUP_FIRST_MAX || a->function == WEFT_GROUP_FIRST_MIN) {
			group_first_back(a->dx + at, a->x + at, n, number(a->z + k), number(a->g + k));
			continue;
		}
		vf sum = {0}, g = {0}, z = {0};
		if (softmax || log_softmax)
			for (int64_t c = 0; c < n; c += VW) {
				const int left = lesser(n - c, VW);
				vf v = part(a->g + at + c, left);
				if (softmax)
					v *= part(a->z + at + c, left);
				sum += v;
			}
		else {
			g = all(number(a->g + k)), z = all(number(a->z + k));
			if (a->function != WEFT_GROUP_LOG_SUM_EXP)
				for (int64_t c = 0; c < n; c += VW) {
					const int left = lesser(n - c, VW);
					sum += only(truth(part(a->x + at + c, left) == z), left);
				}
		}
		const vf total = all(lane_sum(sum));
		for (int64_t c = 0; c < n; c += VW) {
			const int left = lesser(n - c, VW);
			vf d;
			if (softmax)
				d = part(a->z + at + c, left) * (part(a->g + at + c, left) - total);
			else if (log_softmax)
				d = part(a->g + at + c, left) - full_exp(part(a->z + at + c, left)) * total;
			else if (a->function == WEFT_GROUP_LOG_SUM_EXP)
				d = g * full_exp(part(a->x + at + c, left) - z);
			else
				d = choose(part(a->x + at + c, left) == z, g, (vf){0}) / total; // 0/0 if z is NaN
			put(a->dx + at + c, d, left);
		}
	}
}

// z_pq = Σ_r x_pr · y_rq for each group of each row.
static void k_row_product(const void *args, int64_t lo, int64_t hi) {
	const weft_row_product_args *a = args;
	const int64_t rows = a->rows, inner = a->inner, cols = a->cols;
	const int64_t x_row = a->x_transposed ? 1 : inner, x_next = a->x_transposed ? rows : 1;
	for (int64_t k = lo * a->groups; k < hi * a->groups; k++)
		for (int64_t p = 0; p < rows; p++) {
			const elem *x = a->x + k * rows * inner + p * x_row, *y = a->y + k * inner * cols;
			elem *z = a->z + (k * rows + p) * cols;
			if (a->y_transposed) {
				for (int64_t q = 0; q < cols; q++) {
					vf s = {0};
					for (int64_t r = 0; r < inner; r += VW) {
						const int left = lesser(inner - r, VW);
						s += part(x + r, left) * part(y + q * inner + r, left);
					}
					put(z + q, all(lane_sum(s)), 1);
				}
				continue;
			}
			for (int64_t q = 0; q < cols; q += VW) {
				const int left = lesser(cols - q, VW);
				vf s = {0};
				for (int64_t r = 0; r < inner; r++)
					s += number(x + r * x_next) * part(y + r * cols + q, left);
				put(z + q, s, left);
			}
		}
}
