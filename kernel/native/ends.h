// The end of a block of columns in each row of a matrix that is cut (cut.go): end_i is the number of the
// first entry of row i, from begin_i on, whose column is not below `column`.

static void k_ends(const void *args, int64_t lo, int64_t hi) {
	const weft_ends_args *a = args;
	const int64_t *indptr = a->edges.indptr;
	for (int64_t i = lo; i < hi; i++) {
		int64_t k = a->begin[i], end = indptr[i + 1];
		if (a->edges.longest && end - indptr[i] > a->edges.longest)
			end = k;
		for (int found = VW; found == VW && k < end; k += found) {
			int n = end - k < VW ? end - k : VW;
			vi column = (vi)part((const float *)a->edges.indices + k, n),
			   below = (column < a->column) & (numbers(0) < n);
			found = lane_sum((vf)(below & (vi)all(1.0f)));
		}
		a->end[i] = k;
	}
}
