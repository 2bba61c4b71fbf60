// Softmax attention over in-edges, fused: no value of an edge is written to memory. This file has GATv1's
// forward pass. kernel/native/attention.h has the equations. A warp has a row and some of its heads. It takes
// 32 edges at a time. Its lanes first compute the coefficients of all edges and heads, and exchange them in
// shared memory. Then each lane computes the sums of its four columns. A column's sum is added edge after
// edge. A head's exponentials are added in the order of a tree over 32 edges. So results have the same bits
// whatever heads and columns are computed together.
#pragma once
#include "pointwise.cuh"

enum { ATTEND_WARPS = 8, ATTEND_HEADS = 8, ATTEND_COLUMNS = 128, ATTEND_AHEAD = 4, ATTEND_SLABS = 2 };

// The values that a warp keeps of 32 edges: coefficients by edge and head, and the rows at the other ends. At
// the end of a row the coefficients' memory holds products of columns.
struct attend_cells {
	shared_cell<float> coef[32 * ATTEND_HEADS];
	shared_cell<int> other[32];
};

// Calls f<P>(…), where P is the number of places that an edge has among the coefficients: the warp's heads,
// rounded up to a power of two. Lane l has head l mod P of edges l/P, 32/P + l/P, …
#define OF_PLACES(places, f, ...) \
	switch (places) { \
	case 1: f<1>(__VA_ARGS__); break; \
	case 2: f<2>(__VA_ARGS__); break; \
	case 4: f<4>(__VA_ARGS__); break; \
	default: f<8>(__VA_ARGS__); \
	}

// The sum over 32 edges of the lanes' values x, for the lane's head. x is overwritten.
template <int P> DEVICE float over_edges(float x[P]) {
	UNROLL for (int with = P / 2; with; with /= 2)
		UNROLL for (int v = 0; v < with; v++)
			x[v] += x[v + with];
	float sum = x[0];
	UNROLL for (int with = 16; with >= P; with /= 2)
		sum += __shfl_xor_sync(ALL, sum, with);
	return sum;
}

// A row, or a segment of one, and the heads of it that this warp has. The warp sums SLABS slabs of columns
// over the same edges, whose indices and head values it reads once. With QUADS a lane has four columns of a
// slab side by side, from 4·lane on. That needs a width that is a multiple of four. Else it has columns lane,
// lane + 32, … So all columns of a lane are of one head.
template <typename vec, int AT_ONCE = 1> struct attention {
	typedef typename vec::elem T;
	enum { QUADS = vec::N > 1, SLABS = AT_ONCE };
	const weft_attention_args &a;
	shared_cell<float> *coef;
	shared_cell<int> *other;
	int lane, width, cols;
	int row, result; // the row, and the row of the results that it writes
	bool adds;      // the results are added to: the row is whole
	int64_t begin;  // the row's entries begin … begin+stored−1; self loops follow up to `edges`
	int stored, edges;
	int head, heads, places; // the first head, the number of heads, and the places of an edge
	// the lane's first column in the slab, the number of columns from it on, and its head
	int first, left, of;
	int from, n;         // this batch: the number of its first edge in the row, and its edges
	int same;            // where in the row the run of equal edges begins to which the last edge belongs

	DEVICE attention(const weft_attention_args &args) : a(args) {
		__shared__ attend_cells cells[ATTEND_WARPS];
		attend_cells &own = cells[threadIdx.x / 32];
		coef = own.coef, other = own.other, lane = threadIdx.x % 32;
		width = (int)a.width, cols = (int)a.heads * width, same = 0;
	}

	DEVICE bool take_row(const over_rows<weft_attention_args> &l, int64_t number) {
		if (number >= l.last - l.first)
			return false;
		row = result = (int)(l.first + number), adds = true;
		begin = a.edges.indptr[row], stored = (int)(a.edges.indptr[row + 1] - begin);
		edges = stored + (a.loops ? a.loops[row] : 0);
		return !a.edges.longest || stored <= WEFT_SEGMENT; // a constant saves a register
	}
	DEVICE bool take_row(const over_segments<weft_attention_args> &l, int64_t number) {
		if (number >= l.s.count)
			return false;
		const weft_segment &s = l.s.of[number];
		row = (int)s.row, result = (int)l.partial(number), adds = false;
		begin = s.begin, stored = (int)(s.end - s.begin);
		edges = stored + (a.loops && s.after == 0 ? a.loops[row] : 0);
		return true;
	}
	// Takes the heads of piece `number` of the work. Returns the number of the piece's row.
	DEVICE int64_t take_heads(int64_t number) {
		const int most = min(max((QUADS ? SLABS * ATTEND_COLUMNS : 32) / width, 1), (int)ATTEND_HEADS);
		const int groups = ((int)a.heads + most - 1) / most;
		head = (int)(number % groups) * most, heads = min((int)a.heads - head, most);
		places = heads > 4 ? 8 : heads > 2 ? 4 : heads;
		return number / groups;
	}
	// Returns false for a warp that has nothing to do.
	template <typename L> DEVICE bool take(const L &l) {
		return take_row(l, take_heads(thread_number() / 32));
	}
	// A slab is ATTEND_COLUMNS columns of the warp's heads, four for each lane.
	DEVICE int slabs() const { return (heads * width + ATTEND_COLUMNS - 1) / ATTEND_COLUMNS; }
	DEVICE void take_slab(int slab) {
		const int lane_first = QUADS ? 4 * lane : lane;
		first = slab * ATTEND_COLUMNS + lane_first;
		left = min(heads * width - first, ATTEND_COLUMNS - lane_first);
		of = left > 0 ? first / width : 0;
	}
	// Calls f(i) for the slabs slab + i that the warp sums at once, as far as they exist.
	template <typename F> DEVICE void each_slab(int slab, F f) {
		UNROLL for (int i = 0; i < SLABS; i++)
			if (i == 0 || slab + i < slabs()) {
				take_slab(slab + i);
				f(i);
			}
	}
	// The lane's first column in a row of a matrix.
	DEVICE int64_t at(int row) const { return (int64_t)row * cols + (head * width + first); }
	// The index of the lane's head in a matrix of one number for each row and head. has_head: the lane has a
	// head.
	DEVICE int64_t at_head(int row) const { return (int64_t)row * (int)a.heads + (head + lane % places); }
	DEVICE bool has_head() const { return lane % places < heads; }
	// The slab's column that is the lane's column j. has: that column exists.
	DEVICE int column(int j) const { return QUADS ? 4 * lane + j : lane + 32 * j; }
	DEVICE bool has(int j) const { return QUADS ? left > 0 : 32 * j < left; }
	// The lane's columns of a row of a matrix.
	template <typename elem> DEVICE void load_of(float (&x)[4], const elem *matrix, int row) const {
		const elem *p = matrix + at(row);
		packed<elem, 4> v = {};
		if constexpr (!QUADS) {
			UNROLL for (int j = 0; j < 4; j++)
				if (has(j))
					v.e[j] = p[32 * j];
		} else if (left > 0)
			v = *(const packed<elem, 4> *)p;
		unpack(x, v);
	}
	DEVICE void load(float (&x)[4], const void *matrix, int row) const { load_of(x, (const T *)matrix, row); }
	DEVICE void load(float (&x)[4], const void *matrix, int32_t type, int row) const {
		if (type == WEFT_FLOAT32)
			load_of(x, (const float *)matrix, row);
		else
			load_of(x, (const bfloat16 *)matrix, row);
	}
	DEVICE void store(void *matrix, int32_t type, int row, const float (&x)[4]) const {
		if constexpr (QUADS) {
			if (left > 0 && type == WEFT_FLOAT32)
				pack((packed<float, 4> *)((float *)matrix + at(row)), x);
			else if (left > 0)
				pack((packed<bfloat16, 4> *)((bfloat16 *)matrix + at(row)), x);
			return;
		}
		UNROLL for (int j = 0; j < 4; j++)
			if (has(j))
				store_either(matrix, type, at(row) + 32 * j, x[j]);
	}
	// Writes x as the result of a segment, or adds it to the result of the row.
	DEVICE void add_to(void *matrix, int32_t type, float (&x)[4]) const {
		float old[4] = {};
		if (adds)
			load(old, matrix, type, result);
		each(x, [&](float v, int j) { return v + old[j]; });
		store(matrix, type, result, x);
	}

	// Takes the edges from number k on: 32, or those that are left. Self loops are a row's last.
	DEVICE void take_edges(int k) {
		from = k, n = edges - k < 32 ? edges - k : 32;
		__syncwarp();
		other[lane] = k + lane < stored ? a.edges.indices[begin + k + lane] : row;
		__syncwarp();
	}
	// The features of edge e of the batch. Features of self loops are another matrix.
	DEVICE const T *features_of(int e) const {
		const int number = from + e;
		if (number >= stored)
			return (const T *)a.loop_features + (a.first_loop[row] + number - stored) * a.feature_columns;
		const int64_t k = begin + number;
		return (const T *)a.features + (a.feature_rows ? a.feature_rows[k] : k) * a.feature_columns;
	}
	// The features' part of GATv1's scores: coefficients become Σ_f features_f · edge_vector_f. Afterwards a
	// lane reads only its own places.
	DEVICE void score_features() const {
		if (!a.feature_columns)
			return;
		UNROLL_BY(1) for (int place = lane; place < n * places; place += 32) {
			const T *features = features_of(place / places);
			float sum = 0;
			if (has_head())
				UNROLL_BY(1) for (int f = 0; f < (int)a.feature_columns; f++)
					sum = fmaf(number(features[f]), a.edge_vector[at_head(f)], sum);
			coef[place] = sum;
		}
	}
	DEVICE float of_features(int v) const { return a.feature_columns ? (float)coef[v * 32 + lane] : 0.0f; }
	// The rows of edges, of GATv2 and dot products: to_i += Σ_f features_f · edge_weight_f for edge e + i.
	template <int N> DEVICE void add_edge_rows(float (&to)[N][4], int e) const {
		UNROLL_BY(1) for (int f = 0; f < (int)a.feature_columns; f++) {
			float weight[4];
			load_of(weight, a.edge_weight, f);
			UNROLL for (int i = 0; i < N; i++)
				if (e + i < n) {
					const float x = number(features_of(e + i)[f]);
					UNROLL for (int j = 0; j < 4; j++)
						to[i][j] = fmaf(x, weight[j], to[i][j]);
				}
		}
	}
	// The heads for which dropout keeps the lane's edge, one bit each. The batch begins with edge k. The
	// random bits depend on the edge's ends, and on its number among equal edges. Eight heads share a
	// counter, with a word each.
	template <bool TRANSPOSED> DEVICE unsigned kept(int k) {
		if (!a.mask.threshold)
			return 0;
		const int mine = other[lane], source = TRANSPOSED ? row : mine, target = TRANSPOSED ? mine : row;
		const int number = k + lane, layer_head = (int)a.mask.first + head;
		const bool begins = number == stored || number == 0 ||
		                    (number < stored && a.edges.indices[begin + number - 1] != mine);
		const unsigned all = __ballot_sync(ALL, begins && lane < n), before = all & ((2u << lane) - 1);
		const int since = before ? k + 31 - __clz(before) : same;
		same = all ? k + 31 - __clz(all) : same;
		unsigned heads_kept = 0;
		for (int group = layer_head / 8; group * 8 < layer_head + heads; group++) {
			const random_words words = random_bits<1>(
			    a.mask.key, a.source_ids ? a.source_ids[source] : source,
			    a.target_ids ? a.target_ids[target] : target, number - since, 0x80000000u | (uint32_t)group);
			unsigned bits = 0;
			UNROLL for (int word = 0; word < 8; word++)
				bits |= (unsigned)(word_of(words, word) >= a.mask.threshold) << word;
			const int shift = group * 8 - layer_head;
			heads_kept |= shift < 0 ? bits >> -shift : bits << shift;
		}
		return heads_kept;
	}
	// The factor by which dropout multiplies the coefficient at one of the lane's places. All lanes call it
	// together.
	DEVICE float keep(unsigned kept, int place) const {
		if (!a.mask.threshold)
			return 1;
		return __shfl_sync(ALL, kept, place / places) >> lane % places & 1 ? a.mask.scale : 0.0f;
	}
	// Multiplies the coefficients by dropout's mask. Then all lanes may read them.
	template <bool TRANSPOSED> DEVICE void drop(int k) {
		if (a.mask.threshold) {
			const unsigned bits = kept<TRANSPOSED>(k);
			for (int place = lane; place < 32 * places; place += 32)
				coef[place] = coef[place] * keep(bits, place);
		}
		__syncwarp();
	}

	// Calls f(c, x) for each edge, with its coefficient c and the lane's columns x of its row. If c is 0 it
	// makes no call, and does not read the row. With EDGES the edge's own row is added to x.
	template <bool EDGES = false, typename F>
	DEVICE void each_row(const shared_cell<float> *coefs, const void *rows, F f) const {
		UNROLL_BY(1) for (int e = 0; e < n; e += ATTEND_AHEAD) {
			float c[ATTEND_AHEAD], x[ATTEND_AHEAD][4];
			UNROLL for (int i = 0; i < ATTEND_AHEAD; i++) {
				c[i] = e + i < n ? (float)coefs[(e + i) * places + of] : 0.0f;
				if (c[i] != 0)
					load(x[i], rows, other[e + i]);
			}
			if (EDGES && a.edge_weight)
				add_edge_rows(x, e);
			UNROLL for (int i = 0; i < ATTEND_AHEAD; i++)
				if (c[i] != 0)
					f(c[i], x[i]);
		}
	}
	// sum += Σ_e c_e · row_e
	template <bool EDGES = false> DEVICE void add_rows(float (&sum)[4], const void *rows) const {
		each_row<EDGES>(coef, rows, [&](float c, const float *x) {
			each(sum, [&](float s, int j) { return fmaf(c, x[j], s); });
		});
	}
	// s_v = f(e, v) for each edge e at the lane's places and its head; `nothing` if there is no such edge or
	// head.
	template <int P, typename F> DEVICE void each_place(float (&s)[P], float nothing, F f) const {
		UNROLL for (int v = 0; v < P; v++) {
			const int e = v * (32 / P) + lane / P;
			s[v] = e < n && has_head() ? f(e, v) : nothing;
		}
	}
	template <int P> DEVICE void set_coefficients(const float (&s)[P]) const {
		UNROLL for (int v = 0; v < P; v++)
			coef[v * 32 + lane] = s[v];
	}
};

// The state of the lane's head after a batch of edges: the maximum, the sum of exponentials, and the factor
// for the sums of rows so far.
struct attend_state {
	float maximum, sum, scale;
};

enum form { V1, V2, DOT };

// Extends the state by a batch of edges, and replaces scores by exponentials. GATv1's scores are computed
// here. With `given` the scores are in `coef` already.
template <int P, typename W> DEVICE void extend(const W &w, bool given, float own, attend_state &state) {
	float s[P], top = state.maximum;
	w.each_place(s, -INFINITY, [&](int e, int v) {
		const float t = given ? w.coef[v * 32 + w.lane]
		                      : w.a.source_score[w.at_head(w.other[e])] + own + w.of_features(v);
		return given ? t : larger(t * w.a.slope, t);
	});
	UNROLL for (int v = 0; v < P; v++)
		top = larger(s[v], top);
	UNROLL for (int with = 16; with >= P; with /= 2)
		top = larger(__shfl_xor_sync(ALL, top, with), top);
	each(s, [&](float t, int) { return exponential(t - top); });
	w.set_coefficients(s);
	state.scale = exponential(state.maximum - top), state.maximum = top;
	state.sum = fmaf(state.sum, state.scale, over_edges<P>(s));
}

// The forward pass. With first set a new state begins. With last set z becomes the output, and maximum the
// log-sum-exp. A row without edges gives 0. `score` computes the scores of GATv2 and of dot products.
template <typename vec, form FORM, typename L, typename F> DEVICE void attend_rows(const L &l, F score) {
	const weft_attention_args &a = l.a;
	attention<vec, FORM == V1 ? ATTEND_SLABS : 1> w(a);
	if (!w.take(l))
		return;
	const float own = FORM == V1 && w.has_head() ? a.target_score[w.at_head(w.row)] : 0.0f;
	attend_state s;
	for (int slab = 0; slab < w.slabs(); slab += w.SLABS) {
		float z[w.SLABS][4] = {};
		s.maximum = -3.402823466e38f, s.sum = 0; // finite, so that scores of −∞ have no weight
		if (!a.first) {
			w.each_slab(slab, [&](int i) { w.load(z[i], a.z, a.z_type, w.result); });
			if (w.has_head())
				s.maximum = a.maximum[w.at_head(w.result)], s.sum = a.sum[w.at_head(w.result)];
		}
		for (int k = 0; k < w.edges; k += 32) {
			w.take_edges(k);
			score(w);
			OF_PLACES(w.places, extend, w, FORM != V1, own, s)
			w.template drop<false>(k);
			w.each_slab(slab, [&](int i) {
				const float scale = __shfl_sync(ALL, s.scale, w.of);
				each(z[i], [&](float v, int) { return v * scale; });
				w.template add_rows<FORM == DOT>(z[i], a.source);
			});
		}
		w.each_slab(slab, [&](int i) {
			const float all = __shfl_sync(ALL, s.sum, w.of);
			const float scale = !a.last ? 1.0f : all == 0 ? 0.0f : 1 / all;
			each(z[i], [&](float v, int) { return v * scale; });
			w.store(a.z, a.z_type, w.result, z[i]);
		});
	}
	__syncwarp(); // all have read the state
	if (w.lane >= w.heads)
		return;
	if (a.last)
		s.maximum = s.sum == 0 ? 0.0f : s.maximum + (float)log((double)s.sum);
	else
		a.sum[w.at_head(w.result)] = s.sum;
	a.maximum[w.at_head(w.result)] = s.maximum;
}

template <typename vec, typename L> DEVICE void attend(const L &l) {
	attend_rows<vec, V1>(l, [](auto &w) { w.score_features(); });
}
EDGE_KERNELS(attend, weft_attention_args, attend)

// Ends a running softmax. A thread has a column of a row.
KERNEL(attend_end_float32, weft_attend_end_args) {
	const int64_t width = l.a.width, k = l.first * l.a.heads * width + thread_number(), head = k / width;
	if (head >= l.last * l.a.heads)
		return;
	const float sum = l.a.sum[head];
	l.a.z[k] = sum > 0 ? l.a.z[k] * (1 / sum) : 0.0f;
	if (k % width == 0)
		l.a.maximum[head] = sum > 0 ? l.a.maximum[head] + (float)log((double)sum) : 0.0f;
}
