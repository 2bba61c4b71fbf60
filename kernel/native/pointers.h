// The fields of the kernels' arguments that are addresses of elements, and whether the kernel only reads, or
// also writes, the elements. A backend that keeps matrices in other memory replaces these addresses by its
// own.
#ifndef WEFT_POINTERS_H
#define WEFT_POINTERS_H

// The type of the arguments of each kernel.
#define WEFT_ARGUMENTS(X) \
	X(spmm, weft_spmm_args) \
	X(max, weft_max_args) \
	X(max_back, weft_max_back_args) \
	X(softmax_sum, weft_softmax_sum_args) X(softmax_sum_back, weft_softmax_sum_back_args) \
	X(merge_sums, weft_merge_sums_args) X(merge_maxima, weft_merge_maxima_args) \
	X(merge_states, weft_merge_states_args) X(merge_tiles, weft_merge_tiles_args) \
	X(head_dot, weft_head_dot_args) X(row_dots, weft_head_dot_args) \
	X(head_outer, weft_head_outer_args) X(head_outer_back, weft_head_outer_back_args) \
	X(head_mean, weft_head_mean_args) X(head_mean_back, weft_head_mean_args) \
	X(head_scale, weft_head_scale_args) \
	X(finish, weft_finish_args) \
	X(finish_back, weft_finish_back_args) \
	X(combine, weft_combine_args) X(exp, weft_combine_args) X(reciprocal, weft_combine_args) \
	X(gelu, weft_combine_args) X(gelu_back, weft_combine_args) \
	X(sqrt, weft_combine_args) X(sqrt_back, weft_combine_args) \
	X(fill, weft_fill_args) X(pointwise, weft_pointwise_args) \
	X(map_columns, weft_map_columns_args) \
	X(groups, weft_groups_args) X(groups_back, weft_groups_back_args) \
	X(row_product, weft_row_product_args) \
	X(column_sum, weft_column_sum_args) X(finite, weft_column_sum_args) X(sum_squares, weft_column_sum_args) \
	X(moments, weft_moments_args) X(merge_moments, weft_merge_moments_args) X(move, weft_move_args) \
	X(running, weft_running_args) \
	X(normalize, weft_normalize_args) \
	X(normalize_sums, weft_normalize_sums_args) \
	X(normalize_back, weft_normalize_back_args) \
	X(layer_norm, weft_layer_norm_args) \
	X(layer_back, weft_layer_back_args) \
	X(densify, weft_densify_args) X(uniform, weft_uniform_args) \
	X(gather, weft_rows_args) X(scatter, weft_rows_args) X(scatter_add, weft_rows_args) \
	X(columns, weft_columns_args) \
	X(encode, weft_encode_args) \
	X(decode, weft_decode_args) \
	X(attend, weft_attention_args) X(attend_v2, weft_attention_args) X(attend_dot, weft_attention_args) \
	X(attend_pack, weft_attention_args) X(attend_back_target, weft_attention_args) \
	X(attend_back_target_edges, weft_attention_args) X(attend_back_target_v2, weft_attention_args) \
	X(attend_back_target_dot, weft_attention_args) X(attend_back_source, weft_attention_args) \
	X(attend_back_source_v2, weft_attention_args) X(attend_back_source_dot, weft_attention_args) \
	X(ends, weft_ends_args) \
	X(attend_end, weft_attend_end_args) \
	X(cross_entropy, weft_loss_args) X(binary_cross_entropy, weft_loss_args) X(hits, weft_loss_args) \
	X(pair_scores, weft_pairs_args) X(pair_rows, weft_pairs_args) X(pair_weights, weft_pairs_args) \
	X(above, weft_above_args) \
	X(adam, weft_adam_args) \
	X(sgd, weft_sgd_args) \
	X(sparse_mask, weft_sparse_mask_args) \
	X(convert, weft_convert_args) \
	X(weight, weft_weight_args) \
	X(weight_sum, weft_weight_sum_args) \
	X(pack_tiles, weft_pack_tiles_args) \
	X(product_pack, weft_product_pack_args) \
	X(product, weft_product_args)

// R: the kernel only reads. W: the kernel writes, and may read.
#define POINTERS_OF_weft_spmm_args(S, R, W) \
	W(S, z) R(S, x) R(S, own) R(S, edges.indptr) R(S, edges.indices) R(S, end) R(S, weights) \
	R(S, row_scale) R(S, col_scale) R(S, self) W(S, sums)
#define POINTERS_OF_weft_ends_args(S, R, W) \
	W(S, end) R(S, begin) R(S, edges.indptr) R(S, edges.indices)
#define POINTERS_OF_weft_max_args(S, R, W) \
	W(S, z) W(S, arg) R(S, x) R(S, edges.indptr) R(S, edges.indices) R(S, source_ids) R(S, loops)
#define POINTERS_OF_weft_max_back_args(S, R, W) \
	W(S, dx) R(S, g) R(S, arg) R(S, edges.indptr) R(S, edges.indices) R(S, source_ids) R(S, loops)
#define POINTERS_OF_weft_softmax_sum_args(S, R, W) \
	W(S, maximum) W(S, sum) W(S, z) R(S, x) R(S, t) R(S, edges.indptr) R(S, edges.indices) R(S, loops)
#define POINTERS_OF_weft_softmax_sum_back_args(S, R, W) \
	W(S, dx) W(S, ds) R(S, x) R(S, g) R(S, z) R(S, log_sum) R(S, t) R(S, edges.indptr) R(S, edges.indices) \
	R(S, loops)
#define POINTERS_OF_weft_attention_args(S, R, W) \
	W(S, maximum) W(S, sum) W(S, z) R(S, source) R(S, target) R(S, key) R(S, source_score) \
	R(S, target_score) R(S, a) R(S, edges.indptr) R(S, edges.indices) R(S, loops) R(S, source_ids) \
	R(S, target_ids) R(S, features) R(S, feature_rows) R(S, loop_features) R(S, first_loop) \
	R(S, edge_vector) R(S, edge_weight) R(S, mask.ids) R(S, log_sum) R(S, g) R(S, g_dot_out) \
	W(S, d_target_score) W(S, d_target) W(S, d_key) W(S, d_source_score) W(S, d_source) W(S, d_a) \
	W(S, da_row) W(S, d_edge_vector) W(S, d_edge_weight) W(S, d_edge_row) W(S, pack) W(S, workspaces.first)
#define POINTERS_OF_weft_merge_sums_args(S, R, W) \
	W(S, z) W(S, partials) R(S, segments.of)
#define POINTERS_OF_weft_merge_maxima_args(S, R, W) \
	W(S, z) W(S, arg) W(S, partials) W(S, partial_args) R(S, segments.of)
#define POINTERS_OF_weft_merge_states_args(S, R, W) \
	W(S, maximum) W(S, sum) W(S, z) W(S, partial_maximum) W(S, partial_sum) W(S, partial_z) R(S, segments.of)
#define POINTERS_OF_weft_merge_tiles_args(S, R, W) \
	W(S, z) W(S, mean) W(S, tiles)
#define POINTERS_OF_weft_head_dot_args(S, R, W) \
	W(S, out) R(S, z) R(S, y) R(S, a)
#define POINTERS_OF_weft_head_outer_args(S, R, W) \
	W(S, z) R(S, s) R(S, a)
#define POINTERS_OF_weft_head_outer_back_args(S, R, W) \
	R(S, z) R(S, s) W(S, tiles)
#define POINTERS_OF_weft_head_mean_args(S, R, W) \
	W(S, out) R(S, in)
#define POINTERS_OF_weft_finish_args(S, R, W) \
	W(S, z) R(S, x) R(S, bias) R(S, mask.ids)
#define POINTERS_OF_weft_finish_back_args(S, R, W) \
	W(S, dx) R(S, g) R(S, z) R(S, mask.ids)
#define POINTERS_OF_weft_combine_args(S, R, W) \
	W(S, z) R(S, x) R(S, y)
#define POINTERS_OF_weft_column_sum_args(S, R, W) \
	W(S, tiles) R(S, x) R(S, y)
#define POINTERS_OF_weft_moments_args(S, R, W) \
	W(S, tile_mean) W(S, tile_m2) R(S, x)
#define POINTERS_OF_weft_merge_moments_args(S, R, W) \
	W(S, tile_mean) W(S, tile_m2) W(S, mean) W(S, rstd) W(S, batch) R(S, added)
#define POINTERS_OF_weft_move_args(S, R, W) \
	W(S, running) R(S, batch)
#define POINTERS_OF_weft_running_args(S, R, W) \
	W(S, shift) W(S, rstd) R(S, mean) R(S, variance) R(S, added)
#define POINTERS_OF_weft_normalize_args(S, R, W) \
	W(S, z) R(S, x) R(S, norm.mean) R(S, norm.rstd) R(S, norm.gamma) R(S, norm.beta) R(S, mask.ids)
#define POINTERS_OF_weft_normalize_sums_args(S, R, W) \
	W(S, tile_g) W(S, tile_gx) W(S, g) R(S, x) R(S, norm.mean) R(S, norm.rstd) R(S, norm.gamma) \
	R(S, norm.beta) R(S, mask.ids)
#define POINTERS_OF_weft_normalize_back_args(S, R, W) \
	W(S, dx) R(S, g) R(S, x) R(S, norm.mean) R(S, norm.rstd) R(S, norm.gamma) R(S, norm.beta) R(S, mean_g) \
	R(S, mean_gx)
#define POINTERS_OF_weft_layer_norm_args(S, R, W) \
	W(S, z) W(S, mean) W(S, rstd) R(S, x) R(S, gamma) R(S, beta) R(S, mask.ids) W(S, workspaces.first)
#define POINTERS_OF_weft_layer_back_args(S, R, W) \
	W(S, dx) W(S, tile_g) W(S, tile_gx) R(S, g) R(S, x) R(S, mean) R(S, rstd) R(S, gamma) R(S, beta) \
	R(S, mask.ids) W(S, workspaces.first)
#define POINTERS_OF_weft_loss_args(S, R, W) \
	W(S, grad) R(S, logits) R(S, rows) R(S, labels) R(S, targets) W(S, tile_loss)
#define POINTERS_OF_weft_pairs_args(S, R, W) \
	W(S, scores) W(S, dx) W(S, dw) R(S, x) R(S, w) R(S, g) R(S, pairs) R(S, begin) R(S, ends)
#define POINTERS_OF_weft_above_args(S, R, W) \
	W(S, tiles) R(S, x) R(S, score)
#define POINTERS_OF_weft_adam_args(S, R, W) \
	W(S, w) W(S, m) W(S, v) R(S, g)
#define POINTERS_OF_weft_sgd_args(S, R, W) \
	W(S, w) W(S, momentum) R(S, g)
#define POINTERS_OF_weft_sparse_mask_args(S, R, W) \
	W(S, out) R(S, values) R(S, edges.indptr) R(S, edges.indices) R(S, mask.ids)
#define POINTERS_OF_weft_densify_args(S, R, W) \
	W(S, z) R(S, values) R(S, edges.indptr) R(S, edges.indices)
#define POINTERS_OF_weft_uniform_args(S, R, W) \
	W(S, z) R(S, ids)
#define POINTERS_OF_weft_rows_args(S, R, W) \
	W(S, z) R(S, x) R(S, rows)
#define POINTERS_OF_weft_attend_end_args(S, R, W) \
	W(S, z) W(S, maximum) R(S, sum)
#define POINTERS_OF_weft_columns_args(S, R, W) \
	W(S, z) R(S, x) R(S, z_rows) R(S, x_rows)
#define POINTERS_OF_weft_encode_args(S, R, W) \
	W(S, z) R(S, x) R(S, rows) R(S, columns) R(S, ids)
#define POINTERS_OF_weft_decode_args(S, R, W) \
	W(S, z) R(S, x) R(S, rows) R(S, columns)
#define POINTERS_OF_weft_head_scale_args(S, R, W) \
	W(S, z) R(S, x) R(S, s)
#define POINTERS_OF_weft_convert_args(S, R, W) \
	W(S, z) R(S, x)
#define POINTERS_OF_weft_weight_args(S, R, W) \
	W(S, sum) W(S, tile_sum) W(S, scratch) R(S, x) R(S, g)
#define POINTERS_OF_weft_pack_tiles_args(S, R, W) \
	W(S, tiles) R(S, x)
#define POINTERS_OF_weft_weight_sum_args(S, R, W) \
	W(S, z) W(S, total) R(S, sum)
#define POINTERS_OF_weft_fill_args(S, R, W) \
	W(S, p)
#define OPERANDS(F, S, of, field) \
	F(S, of[0] field) F(S, of[1] field) F(S, of[2] field) F(S, of[3] field) \
	F(S, of[4] field) F(S, of[5] field) F(S, of[6] field) F(S, of[7] field) \
	F(S, of[8] field) F(S, of[9] field) F(S, of[10] field) F(S, of[11] field) \
	F(S, of[12] field) F(S, of[13] field) F(S, of[14] field) F(S, of[15] field) \
	F(S, of[16] field) F(S, of[17] field) F(S, of[18] field) F(S, of[19] field) \
	F(S, of[20] field) F(S, of[21] field) F(S, of[22] field) F(S, of[23] field) \
	F(S, of[24] field) F(S, of[25] field) F(S, of[26] field) F(S, of[27] field) \
	F(S, of[28] field) F(S, of[29] field) F(S, of[30] field) F(S, of[31] field)
#define POINTERS_OF_weft_pointwise_args(S, R, W) \
	OPERANDS(W, S, z,) OPERANDS(R, S, x, .x) OPERANDS(R, S, x, .columns) R(S, code) W(S, workspaces.first)
#define POINTERS_OF_weft_map_columns_args(S, R, W) \
	W(S, z) R(S, x) R(S, begin) R(S, columns) R(S, weights)
#define POINTERS_OF_weft_groups_args(S, R, W) \
	W(S, z) R(S, x)
#define POINTERS_OF_weft_groups_back_args(S, R, W) \
	W(S, dx) R(S, g) R(S, x) R(S, z)
#define POINTERS_OF_weft_row_product_args(S, R, W) \
	W(S, z) R(S, x) R(S, y)
#define POINTERS_OF_weft_product_pack_args(S, R, W) \
	R(S, w) W(S, packed)
#define POINTERS_OF_weft_product_args(S, R, W) \
	R(S, packed) R(S, x) W(S, z) W(S, full_x) W(S, full_z) R(S, w)
#endif
