// Dense products. A block of 256 threads computes 128 rows of the result and 16, 32, 64 or 128 of its
// columns. It goes through the summed dimension in steps. The numbers of both factors for a step are copied
// to shared memory. Those of the next step are loaded while the current ones are multiplied. Floats are
// summed by fused multiply-adds in their order, and bfloat16s by the tensor cores. How a number is summed
// does not depend on its neighbours.
#pragma once
#include "warp.cuh"

// Loads four numbers, of which n exist; 0 in place of the others. whole: their address is a multiple of their
// size, so that one load takes them.
DEVICE float4 four(const float *p, int n, bool whole) {
	if (whole && n >= 4)
		return *(const float4 *)p;
	return make_float4(n > 0 ? p[0] : 0, n > 1 ? p[1] : 0, n > 2 ? p[2] : 0, n > 3 ? p[3] : 0);
}
DEVICE uint2 four(const bfloat16 *p, int n, bool whole) {
	if (whole && n >= 4)
		return *(const uint2 *)p;
	uint2 v;
	v.x = (n > 0 ? p[0].bits : 0) | (unsigned)(n > 1 ? p[1].bits : 0) << 16;
	v.y = (n > 2 ? p[2].bits : 0) | (unsigned)(n > 3 ? p[3].bits : 0) << 16;
	return v;
}
DEVICE float4 floats(uint2 v) {
	return make_float4(__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u),
	                   __uint_as_float(v.y << 16), __uint_as_float(v.y & 0xffff0000u));
}
DEVICE uint2 rounded(float4 v) {
	uint2 r;
	r.x = two_bfloat16s(v.x, v.y), r.y = two_bfloat16s(v.z, v.w);
	return r;
}
DEVICE uint2 rounded(uint2 v) { return v; }

// A matrix of either type. Its rows are `stride` numbers apart.
struct matrix {
	const void *p;
	int64_t stride;
	int type;
	bool whole;
	DEVICE matrix(const void *p, int type, int64_t stride) : p(p), stride(stride), type(type) {
		whole = stride % 4 == 0 && (uint64_t)p % (type == WEFT_FLOAT32 ? 16 : 8) == 0;
	}
	// Loads four numbers from number k on, of which n exist.
	DEVICE float4 load(int64_t k, int n) const {
		if (type == WEFT_FLOAT32)
			return four((const float *)p + k, n, whole);
		return floats(four((const bfloat16 *)p + k, n, whole));
	}
	DEVICE void store(int64_t k, float4 v, int n) const {
		const float e[4] = {v.x, v.y, v.z, v.w};
		if (whole && n >= 4 && type == WEFT_FLOAT32)
			*(float4 *)((float *)p + k) = v;
		else if (whole && n >= 4)
			*(uint2 *)((bfloat16 *)p + k) = rounded(v);
		else
			UNROLL for (int q = 0; q < 4; q++)
				if (q < n)
					store_either((void *)p, type, k + q, e[q]);
	}
};

// A factor. Number k of the summed dimension, for row (or column) i of the result, lies at i·stride + k with
// by_k, else at k·stride + i.
struct factor : matrix {
	int count, depth; // the number of i, and of k
	bool by_k;
	DEVICE factor(const void *p, int type, int64_t stride, int count, int depth, bool by_k)
		: matrix(p, type, stride), count(count), depth(depth), by_k(by_k) {}
	DEVICE int64_t at(int i, int k) const { return by_k ? i * stride + k : k * stride + i; }
	// How many numbers exist side by side from (i, k) on.
	DEVICE int left(int i, int k) const {
		return i >= count || k >= depth ? 0 : by_k ? depth - k : count - i;
	}
};

// The task of a block: z(i, o) = Σ_k x(i, k)·w(o, k) from (i0, o0) on, for k from `begin` on. The sums are
// taken after each `tile` numbers k, and at the end of the depth. Then end(i, o, v, n, first) receives the
// sums v of four columns side by side, of which n exist, and the sums begin at 0 again.
struct task {
	factor x, w;
	int i0, o0, begin, tile;
};

// Products of floats. A thread has TM × TN sums. A step has K numbers of each row.
template <int COLUMNS, int TM, int TN, int DEPTH> struct of_floats {
	typedef float element;
	enum { M = 128, N = COLUMNS, K = DEPTH, ACROSS = N / TN, GROUP = TM < 4 ? TM : 4 };

	// The part of a step that a thread loads, for a factor of S rows: COUNT stretches of four numbers. Their
	// positions are computed anew each time, as no register is left for them.
	template <int S> struct part {
		enum { COUNT = (S * K / 4 + BLOCK - 1) / BLOCK };
		float4 v[COUNT];
		static DEVICE bool place(int number, bool by_k, int *i, int *k) {
			const int e = afresh(threadIdx.x) + number * BLOCK;
			*i = by_k ? e / (K / 4) : e % (S / 4) * 4, *k = by_k ? e % (K / 4) * 4 : e / (S / 4);
			return e < S * K / 4;
		}
		DEVICE void fetch(const factor &f, int i0, int k0) {
			int i, k;
			UNROLL for (int c = 0; c < COUNT; c++) {
				const bool any = place(c, f.by_k, &i, &k);
				v[c] = f.load(f.at(i0 + i, k0 + k), any ? f.left(i0 + i, k0 + k) : 0);
			}
		}
		template <typename To> DEVICE void keep(To &to, bool by_k) const { // to[k][i]
			int i, k;
			UNROLL for (int c = 0; c < COUNT; c++)
				if (!place(c, by_k, &i, &k))
					;
				else if (by_k)
					to[k][i] = v[c].x, to[k + 1][i] = v[c].y, to[k + 2][i] = v[c].z, to[k + 3][i] = v[c].w;
				else
					to[k][i] = v[c].x, to[k][i + 1] = v[c].y, to[k][i + 2] = v[c].z, to[k][i + 3] = v[c].w;
		}
	};

	template <typename End> static DEVICE void multiply(const task &of, End end) {
		alignas(16) __shared__ shared_cell<float> xs[2][K][M + 4], ws[2][K][N + 4];
		const factor &x = of.x, &w = of.w;
		const int i1 = of.i0 + threadIdx.x / ACROSS * GROUP, o1 = of.o0 + threadIdx.x % ACROSS * 4;
		const bool any = i1 < x.count && o1 < w.count;
		float sum[TM][TN] = {};
		part<M> xp;
		part<N> wp;
		xp.fetch(x, of.i0, of.begin), wp.fetch(w, of.o0, of.begin);
		for (int k = of.begin, until = min(k + of.tile, x.depth), b = 0; k < x.depth; k += K, b ^= 1) {
			xp.keep(xs[b], x.by_k), wp.keep(ws[b], w.by_k);
			__syncthreads();
			if (k + K < x.depth)
				xp.fetch(x, of.i0, k + K), wp.fetch(w, of.o0, k + K);
			if (!any)
				continue;
			UNROLL_BY(8) for (int e = 0; e < K; e++) {
				float a[TM], c[TN];
				UNROLL for (int i = 0; i < TM; i++)
					a[i] = xs[b][e][i1 - of.i0 + i / GROUP * (M / TM * GROUP) + i % GROUP];
				UNROLL for (int o = 0; o < TN; o++)
					c[o] = ws[b][e][o1 - of.o0 + o / 4 * (ACROSS * 4) + o % 4];
				UNROLL for (int i = 0; i < TM; i++)
					UNROLL for (int o = 0; o < TN; o++)
						sum[i][o] = fmaf(a[i], c[o], sum[i][o]);
			}
			if (k + K < until)
				continue;
			until = min(until + of.tile, x.depth);
			const int i2 = afresh(i1), o2 = afresh(o1);
			UNROLL for (int i = 0; i < TM; i++)
				UNROLL for (int o = 0; o < TN; o += 4) {
					const int row = i2 + i / GROUP * (M / TM * GROUP) + i % GROUP,
					          column = o2 + o / 4 * (ACROSS * 4);
					float *s = sum[i] + o;
					if (row < x.count && column < w.count)
						end(row, column, make_float4(s[0], s[1], s[2], s[3]), w.count - column,
						    k < of.begin + of.tile);
					s[0] = s[1] = s[2] = s[3] = 0;
				}
		}
	}
};

// The parts that both kinds of products by tensor cores share. A warp has 32 columns, and tiles of 16 rows.
// The tensor cores multiply parts of eight columns.
template <int COLUMNS> struct of_warps {
	enum { M = 128, N = COLUMNS, ACROSS = N / 32, ROWS = M * ACROSS / (BLOCK / 32), TILES = ROWS / 16 };
	static DEVICE int row(unsigned thread) { return thread / 32 / ACROSS * ROWS; }
	static DEVICE int column(unsigned thread) { return thread / 32 % ACROSS * 32; }
	// Gives the sums to `end`. A lane has two of eight columns, and its neighbour has the next two. They
	// exchange sums, so that each lane has four of sixteen columns side by side.
	template <typename End>
	static DEVICE void give(float (&sum)[TILES][4][4], const task &of, bool first, End end) {
		const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, odd = t % 2;
		const int i2 = afresh(of.i0 + row(threadIdx.x) + g),
		          o2 = afresh(of.o0 + column(threadIdx.x) + t / 2 * 4 + odd * 8);
		UNROLL for (int i = 0; i < TILES * 2; i++)
			UNROLL for (int o = 0; o < 4; o += 2) {
				float *u = sum[i / 2][o] + i % 2 * 2, *v = sum[i / 2][o + 1] + i % 2 * 2;
				const float p = __shfl_xor_sync(ALL, odd ? u[0] : v[0], 1),
				            q = __shfl_xor_sync(ALL, odd ? u[1] : v[1], 1);
				const float4 four = odd ? make_float4(p, q, v[0], v[1]) : make_float4(u[0], u[1], p, q);
				const int row = i2 + i * 8, column = o2 + o * 8;
				if (row < of.x.count && column < of.w.count)
					end(row, column, four, of.w.count - column, first);
				u[0] = u[1] = v[0] = v[1] = 0;
			}
	}
};

// Products of bfloat16s by tensor cores, for x of bfloat16s and w of type W, which is rounded to bfloat16.
//
// Shared memory has three steps in the factors' own layout, in pieces of 16 bytes. One step is multiplied
// while two are loaded. Bfloat16s at multiples of 16 bytes are copied past the registers. Threads copy other
// bfloat16s, and floats. The pieces of a line are permuted, so that eight pieces that ldmatrix reads at once
// lie in different banks.
template <int COLUMNS, typename W> struct of_bfloat16s : of_warps<COLUMNS> {
	typedef bfloat16 element;
	using of_warps<COLUMNS>::M;
	using of_warps<COLUMNS>::N;
	using of_warps<COLUMNS>::TILES;
	enum { K = 32, STEPS = 3 };

	// A step of a factor of S rows. With by_k a line has the numbers of a row, else number k of all rows.
	template <int S> struct step {
		shared_cell<uint4> pieces[S * K / 8];
		static DEVICE int at(int line, int piece, bool by_k) {
			const unsigned l = line;
			return by_k || S == 32 ? l * 4 + (piece ^ l / 2 % 4) : l * (S / 8) + (piece ^ l % 8);
		}
		// The line and the piece of this thread, if pieces are given to threads one after the other.
		static DEVICE void place(bool by_k, int *line, int *piece) {
			const unsigned e = afresh(threadIdx.x);
			*line = by_k ? e / (K / 8) : e / (S / 8), *piece = by_k ? e % (K / 8) : e % (S / 8);
		}
		// The piece to which this lane points, for an operand of mma of 16 rows from i on and the first 16
		// numbers. The operand has two pieces for each eight rows. The piece of the lower numbers comes
		// first, or with `down` the piece of the lower rows.
		static DEVICE int first(int i, bool by_k, bool down) {
			const int lane = threadIdx.x % 32, low = lane % 16, high = lane / 16;
			const int line = down == by_k ? low : low % 8 + high * 8, piece = down == by_k ? high : low / 8;
			return by_k ? at(i + line, piece, true) : at(line, i / 8 + piece, false);
		}
		// Loads this operand, or the one that is `tile`·16 rows and `half`·16 numbers further.
		DEVICE void load(unsigned (&to)[4], int first, int tile, int half, bool by_k) const {
			if (by_k)
				ldmatrix(to, pieces + (first ^ half * 2) + tile * 16 * (K / 8));
			else
				ldmatrix_transposed(to, pieces + (first ^ tile * 2) + half * 16 * (S / 8));
		}
	};

	// The part of each step that a thread loads, for a factor of S rows: pieces of eight numbers of type T.
	template <int S, typename T> struct part {
		enum { COUNT = (S * K / 8 + BLOCK - 1) / BLOCK, FLOATS = sizeof(T) == 4 };
		const factor &f;
		const T *from;   // the thread's first piece of the next step
		int left, lines; // how many numbers exist side by side from there on, and how many lines
		int mine;        // the position of that piece in a step
		const bool past; // copies go past the registers
		float4 half[2];  // of floats
		DEVICE part(const factor &f, int i0, int k0)
			: f(f), past(!FLOATS && f.stride % 8 == 0 && (uint64_t)f.p % 16 == 0) {
			int line, piece;
			step<S>::place(f.by_k, &line, &piece);
			const int i = i0 + (f.by_k ? line : piece * 8), k = k0 + (f.by_k ? piece * 8 : line);
			from = (const T *)f.p + f.at(i, k);
			mine = step<S>::at(line, piece, f.by_k);
			left = f.by_k ? f.depth - k : f.count - i, lines = f.by_k ? f.count - i : f.depth - k;
		}
		static DEVICE bool any(int number) {
			return (number + 1) * BLOCK <= S * K / 8 ||
			       (number < COUNT && threadIdx.x + number * BLOCK < S * K / 8);
		}
		DEVICE shared_cell<uint4> *cell(step<S> &to, int number) const {
			return to.pieces + mine + number * BLOCK;
		}
		DEVICE void fetch(step<S> &to, int number) {
			if (!any(number))
				return;
			const int down = number * (f.by_k ? BLOCK / (K / 8) : BLOCK / (S / 8)),
			          n = lines > down ? left : 0;
			const T *p = from + down * f.stride;
			if constexpr (FLOATS)
				half[0] = four(p, n, f.whole), half[1] = four(p + 4, n - 4, f.whole);
			else if (past)
				copy_past_registers(cell(to, number), p, n > 0);
			else {
				const uint2 u = four(p, n, f.whole), v = four(p + 4, n - 4, f.whole);
				*cell(to, number) = make_uint4(u.x, u.y, v.x, v.y);
			}
		}
		// Rounds floats and stores them to shared memory. It is called after the multiplication that hides
		// the time of their loads.
		DEVICE void keep(step<S> &to, int number) const {
			if (!FLOATS || !any(number))
				return;
			const uint2 u = rounded(half[0]), v = rounded(half[1]);
			*cell(to, number) = make_uint4(u.x, u.y, v.x, v.y);
		}
		DEVICE void next() {
			from += f.by_k ? K : K * f.stride;
			(f.by_k ? left : lines) -= K;
		}
	};

	template <typename End> static DEVICE void multiply(const task &of, End end) {
		__shared__ step<M> xs[STEPS];
		__shared__ step<N> ws[STEPS];
		const factor &x = of.x, &w = of.w;
		const int i1 = of_warps<COLUMNS>::row(threadIdx.x), o1 = of_warps<COLUMNS>::column(threadIdx.x);
		const int xi = step<M>::first(i1, x.by_k, true), wi = step<N>::first(o1, w.by_k, false);
		const bool any = of.i0 + i1 < x.count && of.o0 + o1 < w.count;
		float sum[TILES][4][4] = {};
		part<M, bfloat16> xp(x, of.i0, of.begin);
		part<N, W> wp(w, of.o0, of.begin);
		UNROLL for (int b = 0; b < STEPS - 1; b++) {
			UNROLL for (int h = 0; h < 2; h++) {
				xp.fetch(xs[b], h), wp.fetch(ws[b], h);
				wp.keep(ws[b], h);
			}
			xp.next(), wp.next();
			end_of_copies();
		}
		for (int k = of.begin, until = min(k + of.tile, x.depth), b = 0; k < x.depth;
		     k += K, b = b == STEPS - 1 ? 0 : b + 1) {
			wait_for_copies(STEPS - 2); // of all steps but the next
			__syncthreads();
			const int ahead = b == 0 ? STEPS - 1 : b - 1;
			UNROLL for (int h = 0; h < 2; h++) {
				xp.fetch(xs[ahead], h), wp.fetch(ws[ahead], h);
				if (any) {
					unsigned c[2][4], d[4]; // of 16 columns and of 16 rows
					UNROLL for (int o = 0; o < 2; o++)
						ws[b].load(c[o], wi, o, h, w.by_k);
					UNROLL for (int i = 0; i < TILES; i++) {
						xs[b].load(d, xi, i, h, x.by_k);
						UNROLL for (int o = 0; o < 4; o++)
							mma(sum[i][o], d, c[o / 2] + o % 2 * 2);
					}
				}
				wp.keep(ws[ahead], h);
			}
			xp.next(), wp.next();
			end_of_copies();
			if (!any || k + K < until)
				continue;
			until = min(until + of.tile, x.depth);
			of_warps<COLUMNS>::give(sum, of, k < of.begin + of.tile, end);
		}
	}
};

// The numbers k of a step of S rows, each split into two TF32 parts. Their sum is the number up to 2⁻²² of
// it. The upper part is finite. For infinity and NaN the lower part is that value.
template <int S, int K> struct in_two {
	shared_cell<float> upper[K][S + 8], lower[K][S + 8];
	struct cell {
		shared_cell<float> *upper, *lower;
		DEVICE void operator=(float x) const {
			// the largest TF32 number
			const float most = __uint_as_float(0x7f7fe000), high = tf32(fminf(fmaxf(x, -most), most));
			*upper = high, *lower = tf32(x - high);
		}
	};
	struct line {
		shared_cell<float> *upper, *lower;
		DEVICE cell operator[](int i) const { return {upper + i, lower + i}; }
	};
	DEVICE line operator[](int k) { return {upper[k], lower[k]}; }
};

// Products of floats by tensor cores (3×TF32). Of the four products of parts, the product of both lower parts
// is left out. Tensor cores truncate their sums. So a sum of eight products begins at 0, and threads, which
// round, add these sums.
template <int COLUMNS, int DEPTH> struct of_parts : of_warps<COLUMNS> {
	typedef float element;
	using of_warps<COLUMNS>::M;
	using of_warps<COLUMNS>::N;
	using of_warps<COLUMNS>::TILES;
	enum { K = DEPTH };
	template <int S> using part = typename of_floats<COLUMNS, 1, 4, K>::template part<S>;

	template <typename End> static DEVICE void multiply(const task &of, End end) {
		__shared__ in_two<M, K> xs[2];
		__shared__ in_two<N, K> ws[2];
		const factor &x = of.x, &w = of.w;
		const unsigned thread = threadIdx.x;
		const bool any = of.i0 + of_warps<COLUMNS>::row(thread) < x.count &&
		                 of.o0 + of_warps<COLUMNS>::column(thread) < w.count;
		float sum[TILES][4][4] = {};
		part<M> xp;
		part<N> wp;
		xp.fetch(x, of.i0, of.begin), wp.fetch(w, of.o0, of.begin);
		for (int k = of.begin, until = min(k + of.tile, x.depth), b = 0; k < x.depth; k += K, b ^= 1) {
			xp.keep(xs[b], x.by_k), wp.keep(ws[b], w.by_k);
			__syncthreads();
			const unsigned n = afresh(threadIdx.x), g = n % 32 / 4, t = n % 4;
			const int i1 = of_warps<COLUMNS>::row(n) + g, o1 = of_warps<COLUMNS>::column(n) + g;
			UNROLL_BY(1) for (int e = 0; e < K; e += 8) {
				float high[4][2], low[4][2];
				UNROLL for (int o = 0; o < 4; o++)
					UNROLL for (int q = 0; q < 2; q++) {
						const int k = e + t + q * 4, column = o1 + o * 8;
						high[o][q] = ws[b].upper[k][column], low[o][q] = ws[b].lower[k][column];
					}
				UNROLL for (int i = 0; i < TILES; i++) {
					if (i == TILES / 2 && e == 0 && k + K < x.depth)
						xp.fetch(x, of.i0, k + K);
					if (i == TILES - 1 && e == 0 && k + K < x.depth)
						wp.fetch(w, of.o0, k + K);
					if (!any)
						continue;
					float upper[4], lower[4];
					UNROLL for (int q = 0; q < 4; q++) {
						const int k = e + t + q / 2 * 4, row = i1 + i * 16 + q % 2 * 8;
						upper[q] = xs[b].upper[k][row], lower[q] = xs[b].lower[k][row];
					}
					UNROLL for (int o = 0; o < 4; o++) {
						float d[4] = {};
						mma_tf32(d, lower, high[o], d);
						mma_tf32(d, upper, low[o], d);
						mma_tf32(d, upper, high[o], d);
						UNROLL for (int q = 0; q < 4; q++)
							sum[i][o][q] += d[q];
					}
				}
			}
			if (!any || k + K < until)
				continue;
			until = min(until + of.tile, x.depth);
			of_warps<COLUMNS>::give(sum, of, k < of.begin + of.tile, end);
		}
	}
};

// Runs over rows.
template <typename way> DEVICE void product(const over_rows<weft_product_args> &l) {
	const weft_product_args &a = l.a;
	const int across = (int)((a.out + way::N - 1) / way::N), down = blockIdx.x / across;
	const int x_type = sizeof(typename way::element) == sizeof(float) ? WEFT_FLOAT32 : WEFT_BFLOAT16;
	const factor x(a.x, x_type, a.in, (int)l.last, (int)a.in, true);
	const factor w(a.w, WEFT_FLOAT32, a.transposed ? a.in : a.out, (int)a.out, (int)a.in, a.transposed);
	const matrix z(a.z, a.z_type, a.out);
	const task of = {x, w, (int)l.first + down * way::M, ((int)blockIdx.x - down * across) * way::N,
	                 0, (int)a.in};
	way::multiply(of, [&](int i, int o, float4 v, int n, bool) {
		const int64_t at = i * a.out + o;
		if (a.accumulate) {
			const float4 before = z.load(at, n);
			v.x += before.x, v.y += before.y, v.z += before.z, v.w += before.w;
		}
		z.store(at, v, n);
	});
}

// The gradient of a weight. Runs over lanes. The sum of a lane over its tiles is in double precision.
template <typename way> DEVICE void weight(const over_rows<weft_weight_args> &l) {
	const weft_weight_args &a = l.a;
	const int across = (int)((a.out + way::N - 1) / way::N), down = (int)((a.in + way::M - 1) / way::M);
	const int row = blockIdx.x / across;
	const int64_t lane = l.first + row / down, tiles = (a.rows + a.tile - 1) / a.tile;
	const int begin = (int)(tiles * lane / a.lanes * a.tile),
	          end = (int)min(tiles * (lane + 1) / a.lanes * a.tile, a.rows);
	const factor x(a.x, a.x_type, a.in, (int)a.in, end, false),
	    g(a.g, a.g_type, a.out, (int)a.out, end, false);
	const task of = {x, g, row % down * way::M, ((int)blockIdx.x - row * across) * way::N,
	                 begin, (int)a.tile};
	way::multiply(of, [&](int i, int o, float4 v, int n, bool first) {
		const float e[4] = {v.x, v.y, v.z, v.w};
		double *to = a.sum + (lane * a.in + i) * a.out + o;
		UNROLL for (int q = 0; q < 4; q++)
			if (q < n)
				to[q] = first ? e[q] : to[q] + e[q];
	});
}

#define PRODUCTS(variant, ...) \
	KERNEL(product_float32##variant, weft_product_args) { product<of_floats<__VA_ARGS__>>(l); } \
	KERNEL(weight_float32##variant, weft_weight_args) { weight<of_floats<__VA_ARGS__>>(l); }
#define BFLOAT16_PRODUCTS(variant, COLUMNS) \
	KERNEL(product_bfloat16##variant, weft_product_args) { product<of_bfloat16s<COLUMNS, float>>(l); } \
	KERNEL(weight_bfloat16##variant, weft_weight_args) { weight<of_bfloat16s<COLUMNS, bfloat16>>(l); }
#define TF32_PRODUCTS(variant, ...) \
	KERNEL(product_float32_tf32##variant, weft_product_args) { product<of_parts<__VA_ARGS__>>(l); } \
	KERNEL(weight_float32_tf32##variant, weft_weight_args) { weight<of_parts<__VA_ARGS__>>(l); }
PRODUCTS(, 128, 8, 8, 8)
PRODUCTS(_64, 64, 8, 4, 16)
PRODUCTS(_32, 32, 4, 4, 32)
PRODUCTS(_16, 16, 2, 4, 32)
TF32_PRODUCTS(, 128, 8)
TF32_PRODUCTS(_64, 64, 8)
TF32_PRODUCTS(_32, 32, 16)
BFLOAT16_PRODUCTS(, 128)
BFLOAT16_PRODUCTS(_64, 64)
BFLOAT16_PRODUCTS(_32, 32)

// z = Σ sum [+ z] over lanes, in their order. Runs over columns, one for each thread.
KERNEL(weight_sum_float32, weft_weight_sum_args) {
	const int64_t c = l.first + thread_number();
	if (c >= l.last)
		return;
	double total = l.a.accumulate ? l.a.z[c] : 0;
	UNROLL_BY(8) for (int64_t lane = 0; lane < l.a.lanes; lane++)
		total += l.a.sum[lane * l.a.columns + c];
	l.a.z[c] = (float)total;
}
