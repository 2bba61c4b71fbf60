// The edges of a range of rows, in batches. The values of each edge and head, as scores and coefficients, lie
// in small arrays: edge e of the batch and head h of the group have place e·P + h. P is the number of heads,
// rounded up to a power of two that divides VW. The edges of a row begin at a multiple of VW places. So
// kernels process such an array in whole vectors, each of which belongs to one row. Loops run over the
// vectors of a batch, without a branch that depends on a row's degree.

enum {
	PLACES = 1024,
	VECTORS = PLACES / VW,
	PADDING = 16 // entries behind the last row's, which may be overwritten
};

typedef struct {
	const weft_attention_args *a;
	int transposed;       // rows are sources, and the other ends are destinations
	int P, shift;         // places of an edge; a vector has the places of 1 << shift edges
	int most_edges, most_runs;
	int most_of_row;      // a row of more edges is taken in parts
	int64_t row, end;     // where the next batch begins, and the end of the range
	int64_t done;         // how many edges of the row were in earlier batches
	int64_t same;         // where in the row the run of equal edges begins to which the last one belongs
	int64_t last;         // the length of indices
	int runs, edges, vectors; // edges: including those that only fill up vectors
	run run[VECTORS];
	int32_t run_of[VECTORS + PADDING];   // the run of each vector
	int32_t lanes_of[VECTORS + PADDING]; // how many lanes of each vector are places of edges
	int32_t begins_at[VECTORS + PADDING]; // −1 if the vector is the first of its run, else 0
	// whether to prefetch the values at the other ends of the next batch's edges: this core's caches do not
	// hold all
	int fetches;
	// the indices that follow the batch's, as many as the batch has; NULL if there are fewer, or fetches is 0
	const int32_t *soon;
	// the row at the other end of each edge. Behind a row's edges its last one is repeated, and behind the
	// batch's edges the next ones follow.
	int32_t other[PLACES + FAR];
	uint32_t occurrence[PLACES + PADDING];       // the number of each edge among equal edges, for the mask
} batch;

// The most runs of a batch, if `bytes` bytes of each run are to stay in the first-level cache.
static inline int most_runs(int64_t bytes) {
	return CACHE / bytes < 1 ? 1 : CACHE / bytes < VECTORS ? CACHE / bytes : VECTORS;
}

// The places of an edge: the number of heads, rounded up to a power of two.
static inline int places_of(int heads) {
	int P = 1;
	while (P < heads)
		P *= 2;
	return P;
}

// The number of edges whose places fill a vector.
INLINE int edges_of_vector(const int P) { return VW >> __builtin_ctz(P); }

// The most edges of a batch, if `again` bytes of each edge are to stay in the second-level cache.
static inline int most_edges(int P, int64_t again) {
	const int most = PLACES / P;
	if (again && most > CACHE2 / again)
		return CACHE2 / again < LANES ? LANES : CACHE2 / again / LANES * LANES;
	return most;
}

// Prepares the batches of rows lo … hi−1; next_batch takes the first one. The sizes are in bytes:
//   soon     of each edge's other end, read before its row is
//   again    of each edge, read more than once, which should stay in the second-level cache meanwhile
//   scratch  of each run
static void batches_of(batch *b, const weft_attention_args *a, int64_t lo, int64_t hi, int transposed, int P,
                       int64_t soon, int64_t again, int64_t scratch) {
	b->a = a;
	b->transposed = transposed;
	b->P = P;
	b->shift = __builtin_ctz(VW / P);
	b->row = lo;
	b->end = hi;
	b->last = a->edges.entries;
	b->done = 0;
	b->fetches = soon * a->edges.others > CACHE2;
	b->most_edges = b->most_of_row = most_edges(P, again);
	b->most_runs = scratch ? most_runs(scratch) : VECTORS;
}

static inline void store_index(int32_t *to, vi index) { store((float *)to, (vf)index); }

// Copies n indices. It may write 2·LANES numbers whatever n is: most rows have fewer edges, and then no
// branch depends on their number. It reads no more than `readable` numbers.
static inline void copy_indices(int32_t *to, const int32_t *from, int64_t n, int64_t readable) {
	int64_t whole = 2 * LANES;
	if (n > whole)
		whole = (n + VW - 1) / VW * VW;
	if (whole > readable)
		whole = readable / VW * VW;
	for (int64_t e = 0; e < whole; e += VW)
		store_index(to + e, (vi)load((const float *)from + e));
	if (whole < n)
		store_index(to + whole, (vi)load_n((const float *)from + whole, n - whole));
}

// Describes the next vectors of the batch: r is their run, and the first one begins it. All lanes are places
// of edges, but in the last vector only lanes_of_last.
static inline void describe_vectors(batch *b, int r, int vectors, int lanes_of_last) {
	for (int v = 0; v < vectors; v += VW) {
		store_index(b->run_of + b->vectors + v, r - (vi){0});
		store_index(b->lanes_of + b->vectors + v, VW - (vi){0});
		store_index(b->begins_at + b->vectors + v, (vi){0});
	}
	if (vectors) {
		b->lanes_of[b->vectors + vectors - 1] = lanes_of_last;
		b->begins_at[b->vectors] = -1;
	}
}

// Takes the edges of the next rows. Self loops are a row's last edges. A row of more than most_of_row edges
// is taken in parts of that many edges, each of which is a run. With `empty` set, a row without edges has a
// run of its own. Returns 0 after the last row.
static int next_batch(batch *b, int empty) {
	const weft_attention_args *a = b->a;
	b->runs = b->edges = b->vectors = 0;
	while (b->row < b->end && b->runs < b->most_runs) {
		int64_t lo = a->edges.indptr[b->row], stored = a->edges.indptr[b->row + 1] - lo,
		        all = stored + (a->loops ? a->loops[b->row] : 0);
		int64_t left = all - b->done;
		if ((a->edges.longest && stored > a->edges.longest) || (left == 0 && !empty)) {
			b->row++;
			continue;
		}
		if (left > b->most_of_row)
			left = b->most_of_row;
		if (left > b->most_edges - b->edges)
			break;
		const int32_t *index = a->edges.indices + lo;
		int32_t *other = b->other + b->edges;
		int64_t from_index = b->done > stored ? 0 : stored - b->done < left ? stored - b->done : left;
		if (from_index)
			copy_indices(other, index + b->done, from_index, b->last - lo - b->done);
		for (int64_t e = from_index; e < left; e++)
			other[e] = b->row;
		int vectors = (left + (1 << b->shift) - 1) >> b->shift, filled = vectors << b->shift;
		if (a->mask.threshold) {
			for (int64_t e = 0, k = b->done; e < left; e++, k++) {
				if (k == 0 || k == stored || (k < stored && index[k - 1] != index[k]))
					b->same = k;
				b->occurrence[b->edges + e] = k - b->same;
			}
			store_index((int32_t *)b->occurrence + b->edges + left, (vi){0});
		}
		describe_vectors(b, b->runs, vectors, VW - (filled - left) * b->P);
		store_index(other + left, other[left - (left > 0)] - (vi){0});
		const int32_t *far = lo + b->done + filled + FAR <= b->last ? index + b->done : other;
		const int64_t loops_done = b->done > stored ? b->done - stored : 0;
		b->run[b->runs++] = (run){b->row, b->edges, left, b->done == 0, b->done + left == all, far,
		                          lo + b->done, from_index,
		                          a->first_loop ? a->first_loop[b->row] + loops_done : 0};
		b->done = b->done + left == all ? 0 : b->done + left;
		b->row += b->done == 0;
		b->edges += filled;
		b->vectors += vectors;
	}
	if (b->edges == 0)
		return b->runs;
	int64_t at = a->edges.indptr[b->row] + b->done;
	b->soon = b->fetches && at + b->edges <= b->last ? a->edges.indices + at : NULL;
	if (at + FAR <= b->last)
		__builtin_memcpy(b->other + b->edges, a->edges.indices + at, FAR * sizeof(int32_t));
	else
		for (int e = 0; e < FAR; e++)
			b->other[b->edges + e] = b->other[b->edges - 1];
	return b->runs;
}

// The features of edge e of a run: feature_columns numbers.
static inline const elem *features_of(const weft_attention_args *a, const run *r, int e) {
	if (e >= r->stored)
		return a->loop_features + (r->loop + e - r->stored) * a->feature_columns;
	const int64_t k = r->entry + e;
	if (!a->feature_rows)
		return a->features + k * a->feature_columns;
	if (k + FAR < a->edges.entries)
		__builtin_prefetch(a->features + a->feature_rows[k + FAR] * a->feature_columns);
	return a->features + a->feature_rows[k] * a->feature_columns;
}

// keep = the mask of attention dropout, for each edge and head. Its random bits depend on both ends, on the
// number of the edge among equal edges, and on the head.
static __attribute__((noinline)) void edge_masks(float *keep, const batch *b, int64_t head, int heads) {
	const weft_attention_args *a = b->a;
	head += a->mask.first;
	for (const run *r = b->run; r < b->run + b->runs; r++)
		for (int e0 = 0; e0 < r->edges; e0 += LANES) { // and the places that fill up vectors
			int filled = (r->edges * b->P + VW - 1) / VW * VW / b->P,
			    n = filled - e0 < LANES ? filled - e0 : LANES, from = r->at + e0;
			for (int64_t group = head / 8; group * 8 < head + heads; group++) {
				uint32_t counter[4][LANES] = {{0}};
				float lane[LANES];
				for (int e = 0; e < n; e++) {
					int64_t s = b->transposed ? r->row : b->other[from + e],
					        t = b->transposed ? b->other[from + e] : r->row;
					counter[0][e] = a->source_ids ? a->source_ids[s] : s;
					counter[1][e] = a->target_ids ? a->target_ids[t] : t;
					counter[2][e] = b->occurrence[from + e];
					counter[3][e] = 0x80000000u | (uint32_t)group; // differs from the counters of vertices
				}
				counters c;
				__builtin_memcpy(&c, counter, sizeof c);
				philox(&c, a->mask.key);
				for (int word = 0; word < 8; word++) {
					int64_t h = group * 8 + word - head;
					if (h < 0 || h >= heads)
						continue;
					keep_lanes(lane, &c, word, &a->mask);
					for (int e = 0; e < n; e++)
						keep[(from + e) * b->P + h] = lane[e];
				}
			}
		}
}
