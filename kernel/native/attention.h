// Softmax attention over in-edges, without a tensor that has an entry for each edge. For destination i and
// head h, over the edges j→i, with mask_ij of attention dropout (1 without dropout):
//   GATv1: t_ij = source_score_j + target_score_i [+ Σ_f features_ij,f · edge_vector_f]
//     s_ij = LeakyReLU(t_ij)
//   GATv2: s_ij = Σ_c a_c · LeakyReLU(source_jc + target_ic [+ edge_ijc])
//   dot products: s_ij = Σ_c target_ic · (key_jc [+ edge_ijc]), and source_j + edge_ij in place of source_j
//   edge_ij = Σ_f features_ij,f · edge_weight_f, if edges have features
//   o_i = Σ_j α_ij · mask_ij · source_j,  α = softmax_j(s)
// The forward pass extends a state: the maximum m, the sum d = Σ exp(s−m), and z = Σ exp(s−m)·mask·source. So
// the edges may come in any number of blocks (Milakov & Gimelshein's online softmax). The backward pass
// computes α = exp(s − log_sum) again:
//   ∂α_ij = mask_ij·⟨g_i, source_j⟩ ; ∂s_ij = α_ij·(∂α_ij − ⟨g_i, o_i⟩)
//   ∂source_j += Σ_i α_ij·mask_ij·g_i
//   GATv1: ∂t = ∂s·LeakyReLU'(t), summed over i or j
//   GATv2: ∂s·a_c·LeakyReLU'(·) for each column
// GATv1 sums rows before it takes dot products, so that there is one dot product for each vertex, not for
// each edge:
//   ∂source_score_j += ⟨source_j, Σ_i q_ij·g_i⟩ − Σ_i α_ij·LeakyReLU'(t_ij)·⟨g_i, o_i⟩
//     with q = α·mask·LeakyReLU'(t)
//   ∂target_score_i += (1 − slope)·(⟨g_i, Σ_{t_ij>0} α_ij·mask_ij·source_j⟩ − ⟨g_i, o_i⟩·Σ_{t_ij>0} α_ij)
// The second equation uses that Σ_j ∂s_ij over all in-edges of i is 0. For the same reason the sums over
// t_ij ≤ 0 are its negative. So the kernel takes the sums over the fewer edges, and does not read the rows of
// the other edges. All blocks or batches of i's in-edges have to take the same sums. If there are several,
// the sign of target_score_i decides instead of the numbers of edges. It also decides if picking rows does
// not pay, and all rows are read.
// With features of edges, ∂edge_vector_f = Σ_ij ∂t_ij·features_ij,f needs each ∂t_ij. A dot product for each
// edge computes it, over destinations. ∂target_score_i is then the sum of ∂t_ij over i's in-edges.

#include "attend_softmax.h"
#include "attend_features.h"
#include "attend.h"
#include "attend_back.h"
#include "attend_products_back.h"

// Calls f for a group of heads, with P, the number of places of an edge. P is a constant if there is one
// head.
#define WITH_PLACES(f, g, ...) \
	if ((g)->heads == 1) \
		f(g, __VA_ARGS__, 1); \
	else \
		f(g, __VA_ARGS__, places_of((g)->heads));

// The arguments, with pointers to the sums of the range of rows that begins with row lo.
static inline weft_attention_args with_sums(const weft_attention_args *args, int64_t lo) {
	weft_attention_args a = *args;
	if (a.sum_rows) {
		const int64_t at = (a.first_sum + lo / a.sum_rows) * a.sum_stride;
		a.d_a += at;
		a.da_row += at;
		a.d_edge_vector += at;
		a.d_edge_weight += at;
		a.d_edge_row += at;
	}
	return a;
}

// Defines a kernel over rows lo … hi−1 that runs the statements for each group of heads g.
#define OF_GROUPS(kernel, ...) \
	static void kernel(const void *args, int64_t lo, int64_t hi) { \
		const weft_attention_args with = with_sums(args, lo), *a = &with; \
		group g; \
		for (first_group(&g, a); next_group(&g, a);) { \
			__VA_ARGS__; \
		} \
	}

// The forward pass. With first set the state begins anew, and its earlier values are not read. With last set
// z becomes the output o = z/d, and maximum log_sum = m + ln d. A row without edges gives 0.
OF_GROUPS(k_attend, WITH_PLACES(attend_group, &g, a, lo, hi, 0, V1))

static __attribute__((noinline)) void attend_by_products(const weft_attention_args *a, int64_t lo, int64_t hi,
                                                         enum form form) {
	group g;
	for (first_group(&g, a); next_group(&g, a);)
		WITH_PLACES(attend_group, &g, a, lo, hi, 1, form)
}

static void k_attend_v2(const void *args, int64_t lo, int64_t hi) { attend_by_products(args, lo, hi, V2); }

static void k_attend_dot(const void *args, int64_t lo, int64_t hi) { attend_by_products(args, lo, hi, DOT); }

// The gradients over destinations: ∂target_score of GATv1, and with features of edges also ∂edge_vector;
// ∂target and ∂a of GATv2; ∂target of dot products; and ∂edge_weight of the last two. Gradients of weights
// are those of the range.
OF_GROUPS(k_attend_back_target, WITH_PLACES(back_target_group, &g, a, lo, hi))
OF_GROUPS(k_attend_back_target_edges, back_target_edges_group(&g, a, lo, hi, places_of(g.heads)))
OF_GROUPS(k_attend_back_target_v2, back_target_v2_group(&g, a, lo, hi))
OF_GROUPS(k_attend_back_target_dot, back_target_dot_group(&g, a, lo, hi))

// The gradients over sources, on the transposed matrix: ∂source and ∂source_score of GATv1, ∂source of GATv2,
// ∂source and ∂key of dot products.
OF_GROUPS(k_attend_back_source, WITH_PLACES(back_source_group, &g, a, lo, hi))
OF_GROUPS(k_attend_back_source_v2, back_source_v2_group(&g, a, lo, hi))
OF_GROUPS(k_attend_back_source_dot, back_source_dot_group(&g, a, lo, hi))
#undef OF_GROUPS

#if !defined(WEFT_OF_BFLOAT16)
// pack_i = (log_sum_i, ⟨g_i, o_i⟩, target_score_i, –), each for all heads. These are the values of a
// destination that an edge needs besides g. They lie together.
INLINE void pack_rows(const weft_attention_args *a, int64_t lo, int64_t hi, const int64_t H) {
	for (int64_t i = lo; i < hi; i++) {
		float *p = a->pack + i * WEFT_PACK * H;
		for (int64_t h = 0; h < H; h++)
			p[h] = a->log_sum[i * H + h];
		for (int64_t h = 0; h < H; h++)
			p[H + h] = a->g_dot_out[i * H + h];
		for (int64_t h = 0; h < H; h++)
			p[2 * H + h] = a->target_score ? a->target_score[i * H + h] : 0;
	}
}

static void k_attend_pack(const void *args, int64_t lo, int64_t hi) {
	const weft_attention_args *a = args;
	if (a->heads == 1)
		pack_rows(a, lo, hi, 1);
	else if (a->heads == 4)
		pack_rows(a, lo, hi, 4);
	else if (a->heads == 8)
		pack_rows(a, lo, hi, 8);
	else
		pack_rows(a, lo, hi, a->heads);
}

// Ends a running softmax. A row and head without a score above −∞ has sum 0. Its output is 0.
static void k_attend_end(const void *args, int64_t lo, int64_t hi) {
	const weft_attend_end_args *a = args;
	for (int64_t k = lo * a->heads; k < hi * a->heads; k++) {
		float sum = a->sum[k], scale = 1 / sum;
		for (int64_t c = 0; c < a->width; c += VW) {
			int64_t at = k * a->width + c;
			int n = lesser(a->width - c, VW);
			vf v = {0};
			if (sum > 0)
				v = part(a->z + at, n) * scale;
			put(a->z + at, v, n);
		}
		a->maximum[k] = sum > 0 ? a->maximum[k] + logf(sum) : 0;
	}
}
#endif
