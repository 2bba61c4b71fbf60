// Maximum over neighbours, and the source that has it: z_ic = max_j x_jc, arg_ic = the id of that j. NaN is
// larger than any number, so that it is never hidden. Of equal values the one with the smallest id wins.

// z = max(z, x) and arg = the id of the larger one, element by element. An arg of −1 says that there is no
// value yet.
INLINE void merge_max(elem *z, int32_t *arg, vf x, vi id, int v, const int nb, const int tail) {
	vf old = load_block(z, v, nb, tail);
	vi at = (vi)load_block((const float *)arg, v, nb, tail), first = id < at;
	vi better = (at < 0) | (x > old) | ((x == old) & first) | ((x != x) & ((old == old) | first));
	store_block(z, (vf)(((vi)x & better) | ((vi)old & ~better)), v, nb, tail);
	store_block((float *)arg, (vf)((id & better) | (at & ~better)), v, nb, tail);
}

// The id of source row j.
static inline vi id_of(const int32_t *source_ids, int64_t j) {
	return (source_ids ? source_ids[j] : (int32_t)j) - (vi){0};
}

// z = 0 and arg = −1.
INLINE void begin_max(elem *z, int32_t *arg, const int nb, const int tail) {
	for (int v = 0; v < nb; v++) {
		store_block(z, (vf){0}, v, nb, tail);
		store_block((float *)arg, (vf)((vi){0} - 1), v, nb, tail);
	}
}

// Rows lo … hi−1. The edges of a row ascend by the source's row. So if ids are rows, the first of equal
// values wins without a comparison of ids; any_order is not set then. A row that has NaN or infinity is
// computed once more, edge by edge.
INLINE void max_block(const weft_max_args *a, int64_t lo, int64_t hi, int64_t v0, const int nb,
                      const int tail) {
	int64_t cols = a->cols, last = a->edges.entries;
	const int any_order = a->source_ids != NULL;
	const elem *x = a->x + v0 * VW;
	for (int64_t i = lo; i < hi; i++) {
		if (a->edges.longest && a->edges.indptr[i + 1] - a->edges.indptr[i] > a->edges.longest)
			continue;
		elem *z = a->z + i * cols + v0 * VW;
		int32_t *arg = a->arg + i * cols + v0 * VW;
		int64_t k = a->edges.indptr[i], end = a->edges.indptr[i + 1],
		        ahead = ahead_of(nb * VW * sizeof(elem));
		if (end + ahead > last)
			ahead = 0;
		if (k == end && a->first)
			begin_max(z, arg, nb, tail);
		if (k < end) {
			vf top[BLOCK], finite[BLOCK]; // finite: 0, or NaN if a number was NaN or infinite
			vi from[BLOCK], any = {0};
			int32_t j = a->edges.indices[k];
			prefetch_block(x + a->edges.indices[k + ahead] * cols, nb, tail);
			for (int v = 0; v < nb; v++) {
				top[v] = load_block(x + j * cols, v, nb, tail);
				from[v] = id_of(a->source_ids, j);
				finite[v] = top[v] * 0.0f;
			}
			while (++k < end) {
				j = a->edges.indices[k];
				vi id = id_of(a->source_ids, j);
				prefetch_block(x + a->edges.indices[k + ahead] * cols, nb, tail);
				for (int v = 0; v < nb; v++) {
					vf y = load_block(x + j * cols, v, nb, tail);
					vi first = (vi)where_greater(y, top[v], (vf)id, (vf)from[v]);
					if (any_order) {
						vi same = (y == top[v]) & (id < from[v]);
						first = (id & same) | (first & ~same);
					}
					top[v] = larger(y, top[v]);
					from[v] = first;
					finite[v] += y * 0.0f;
				}
			}
			for (int v = 0; v < nb; v++)
				any |= finite[v] != finite[v];
			const int numbers_only = !any_bit((vf)any);
			if (numbers_only && a->first) {
#pragma GCC unroll 8 // so that top and from need not be in memory
				for (int v = 0; v < nb; v++) {
					store_block(z, top[v], v, nb, tail);
					store_block((float *)arg, (vf)from[v], v, nb, tail);
				}
			} else if (numbers_only) {
#pragma GCC unroll 8
				for (int v = 0; v < nb; v++)
					merge_max(z, arg, top[v], from[v], v, nb, tail);
			} else {
				if (a->first)
					begin_max(z, arg, nb, tail);
				for (k = a->edges.indptr[i]; k < end; k++)
					for (int v = 0; v < nb; v++)
						merge_max(z, arg, load_block(x + a->edges.indices[k] * cols, v, nb, tail),
						          id_of(a->source_ids, a->edges.indices[k]), v, nb, tail);
			}
		}
		if (a->loops && a->loops[i] > 0)
			for (int v = 0; v < nb; v++)
				merge_max(z, arg, load_block(x + i * cols, v, nb, tail), id_of(a->source_ids, i), v, nb,
				          tail);
	}
}

static void k_max(const void *args, int64_t lo, int64_t hi) {
	const weft_max_args *a = args;
	const weft_narrow *narrow = narrower(a->cols);
	if (narrow) {
		narrow->max(args, lo, hi);
		return;
	}
	int64_t vectors = (a->cols + VW - 1) / VW, tail = a->cols % VW;
	EACH_BLOCK(vectors, tail, max_block, a, lo, hi)
}

// acc_c += g_c for the columns whose arg is the id.
INLINE void max_back_add(vf *acc, const elem *g, const float *arg, vi id, const int nb, const int tail) {
	for (int v = 0; v < nb; v++)
		acc[v] += (vf)((vi)load_block(g, v, nb, tail) & ((vi)load_block(arg, v, nb, tail) == id));
}

// Sources lo … hi−1: dx_jc += Σ g_ic over the destinations i whose arg_ic is j. A duplicate edge counts once.
INLINE void max_back_block(const weft_max_back_args *a, int64_t lo, int64_t hi, int64_t v0, const int nb,
                           const int tail) {
	int64_t cols = a->cols, last = a->edges.entries;
	const elem *g = a->g + v0 * VW;
	const float *arg = (const float *)a->arg + v0 * VW;
	for (int64_t j = lo; j < hi; j++) {
		if (a->edges.longest && a->edges.indptr[j + 1] - a->edges.indptr[j] > a->edges.longest)
			continue;
		const int64_t dx = j * cols + v0 * VW;
		vi id = id_of(a->source_ids, j);
		int64_t end = a->edges.indptr[j + 1], ahead = ahead_of(nb * VW * (sizeof(elem) + sizeof *a->arg));
		if (end + ahead > last)
			ahead = 0;
		vf acc[BLOCK];
		load_either(acc, a->dx, a->dx_type, dx, nb, tail);
		int32_t before = -1;
		for (int64_t k = a->edges.indptr[j]; k < end; k++) {
			int32_t i = a->edges.indices[k];
			prefetch_block(g + a->edges.indices[k + ahead] * cols, nb, tail);
			prefetch_block(arg + a->edges.indices[k + ahead] * cols, nb, tail);
			if (i != before) // a duplicate edge has one arg
				max_back_add(acc, g + i * cols, arg + i * cols, id, nb, tail);
			before = i;
		}
		if (a->loops && a->loops[j] > 0)
			max_back_add(acc, g + j * cols, arg + j * cols, id, nb, tail);
		store_either(a->dx, a->dx_type, dx, acc, nb, tail);
	}
}

static void k_max_back(const void *args, int64_t lo, int64_t hi) {
	const weft_max_back_args *a = args;
	const weft_narrow *narrow = narrower(a->cols);
	if (narrow) {
		narrow->max_back(args, lo, hi);
		return;
	}
	int64_t vectors = (a->cols + VW - 1) / VW, tail = a->cols % VW;
	EACH_BLOCK(vectors, tail, max_back_block, a, lo, hi)
}
