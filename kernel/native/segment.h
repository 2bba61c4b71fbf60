// Merging of partial results, in the order of the segments, or tiles, that they belong to. If a row continues
// in the next batch of segments, its merged result goes to partial result 0. That is written after the rows
// before it are merged, as one of these may have used partial result 0.

// Goes through the rows to which the segments belong.
typedef struct {
	const weft_segments *of;
	int64_t next;
	weft_merge m;
} merges;

// Takes the next row. Returns 0 after the last one.
INLINE int next_merge(merges *e) {
	if (e->next == e->of->count)
		return 0;
	e->m = weft_merge_from(e->of, e->next);
	e->next = e->m.end - e->of->carried;
	return 1;
}

#define EACH_MERGE(m, a) \
	merges all = {&(a)->segments}; \
	const weft_merge *const m = &all.m; \
	while (next_merge(&all))

static void k_merge_maxima(const void *args, int64_t lo, int64_t hi) {
	const weft_merge_maxima_args *a = args;
	EACH_MERGE(m, a)
		for (int64_t c = lo; c < hi; c += VW) {
			const int tail = hi - c < VW ? hi - c : 0;
			elem *z = m->complete ? a->z + m->row * a->cols + c : a->partials + c;
			int32_t *arg = m->complete ? a->arg + m->row * a->cols + c : a->partial_args + c;
			if (m->complete ? a->first : m->first > 0)
				begin_max(z, arg, 1, tail);
			for (int p = m->first; p < m->end; p++) {
				const int64_t at = p * a->cols + c;
				merge_max(z, arg, load_block(a->partials + at, 0, 1, tail),
				          (vi)load_block((const float *)a->partial_args + at, 0, 1, tail), 0, 1, tail);
			}
		}
}

#if !defined(WEFT_OF_BFLOAT16)
static void k_merge_sums(const void *args, int64_t lo, int64_t hi) {
	const weft_merge_sums_args *a = args;
	EACH_MERGE(m, a)
		for (int64_t c = lo; c < hi; c += VW) {
			const int tail = hi - c < VW ? hi - c : 0;
			const int64_t at = m->row * a->cols + c;
			vf sum = {0};
			for (int p = m->first; p < m->end; p++)
				sum += load_block(a->partials + p * a->cols + c, 0, 1, tail);
			if (!m->complete) {
				store_block(a->partials + c, sum, 0, 1, tail);
				continue;
			}
			if (a->accumulate) {
				vf old;
				load_either(&old, a->z, a->z_type, at, 1, tail);
				sum += old;
			}
			store_either(a->z, a->z_type, at, &sum, 1, tail);
		}
}

// tiles_0c = Σ_t tiles_tc in the order of the tiles, and z and mean from it.
static void k_merge_tiles(const void *args, int64_t lo, int64_t hi) {
	const weft_merge_tiles_args *a = args;
	for (int64_t t = 1; t < a->count; t++)
		for (int64_t c = lo; c < hi; c++)
			a->tiles[c] += a->tiles[t * a->cols + c];
	for (int64_t c = lo; a->z && c < hi; c++)
		a->z[c - a->from] += (float)a->tiles[c];
	for (int64_t c = lo; a->mean && c < hi; c++)
		a->mean[c - a->from] = (float)(a->tiles[c] * a->each);
}

// Merges states by Milakov & Gimelshein's online softmax. A state of sum 0 has no score above −∞: its output
// is 0.
static void k_merge_states(const void *args, int64_t lo, int64_t hi) {
	const weft_merge_states_args *a = args;
	EACH_MERGE(m, a)
		for (int64_t h = lo; h < hi; h++) {
			const int extend = m->complete && !a->first, end = m->complete && a->last;
			const int64_t row = m->row * a->heads + h;
			const float *maximum = a->partial_maximum + h, *sums = a->partial_sum + h;
			double top = extend ? a->maximum[row] : -INFINITY, sum = 0;
			float own = 0, scale[WEFT_PARTIALS];
			for (int p = m->first; p < m->end; p++)
				top = fmax(top, maximum[p * a->heads]);
			if (extend) {
				own = exp(a->maximum[row] - top);
				sum = own * a->sum[row];
			}
			for (int p = m->first; p < m->end; p++) {
				scale[p] = exp(maximum[p * a->heads] - top);
				sum += (double)scale[p] * sums[p * a->heads];
			}
			for (int64_t c = 0; c < a->width; c += VW) {
				const int tail = a->width - c < VW ? a->width - c : 0;
				vf z = {0};
				if (extend) {
					load_either(&z, a->z, a->z_type, row * a->width + c, 1, tail);
					z *= own;
				}
				for (int p = m->first; p < m->end; p++)
					z += scale[p] * load_block(a->partial_z + (p * a->heads + h) * a->width + c, 0, 1, tail);
				if (end)
					z = (vf)((vi)(z / (float)sum) & -(sum != 0));
				if (m->complete)
					store_either(a->z, a->z_type, row * a->width + c, &z, 1, tail);
				else
					store_block(a->partial_z + h * a->width + c, z, 0, 1, tail);
			}
			if (end) {
				a->maximum[row] = sum == 0 ? 0 : top + log(sum);
			} else {
				*(m->complete ? a->maximum + row : a->partial_maximum + h) = top;
				*(m->complete ? a->sum + row : a->partial_sum + h) = sum;
			}
		}
}
#endif
#undef EACH_MERGE
