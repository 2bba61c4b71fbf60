// The interface between Go and C: the names of the kernels, and the functions that run them. A kernel is a
// single-threaded function over a half-open range of rows (or tiles, or elements) of the matrices that its
// arguments name. Go divides the work into ranges and gives them to its threads. All matrices are row-major
// without gaps. If a pointer may be NULL, its comment says so.
#ifndef WEFT_H
#define WEFT_H
#include "edge_args.h"
#include "expression_args.h"
#include "product_args.h"
#include "row_args.h"

// WEFT_STORAGE_KERNELS are compiled for each type of storage, as their elements are of type elem.
// WEFT_OTHER_KERNELS are compiled once: their matrices are of float32, or an argument says the type.
#define WEFT_STORAGE_KERNELS(X) \
	X(spmm) X(max) X(max_back) X(merge_maxima) X(softmax_sum) X(softmax_sum_back) \
	X(head_dot) X(row_dots) X(head_outer) X(head_outer_back) X(head_mean) X(head_mean_back) X(head_scale) \
	X(finish) X(finish_back) X(combine) X(exp) X(reciprocal) X(fill) \
	X(column_sum) X(finite) X(moments) X(normalize) X(normalize_sums) X(normalize_back) \
	X(layer_norm) X(layer_back) \
	X(densify) X(uniform) X(gather) X(scatter) X(scatter_add) X(columns) X(encode) X(decode) \
	X(groups) X(groups_back) X(row_product) \
	X(attend) X(attend_v2) X(attend_dot) \
	X(attend_back_target) X(attend_back_target_edges) X(attend_back_target_v2) X(attend_back_target_dot) \
	X(attend_back_source) X(attend_back_source_v2) X(attend_back_source_dot)
#define WEFT_OTHER_KERNELS(X) \
	X(ends) X(attend_pack) X(attend_end) X(merge_sums) X(merge_states) X(merge_tiles) \
	X(pointwise) X(map_columns) X(cross_entropy) X(binary_cross_entropy) X(hits) \
	X(pair_scores) X(pair_rows) X(pair_weights) X(above) X(adam) X(sgd) X(sum_squares) \
	X(sparse_mask) X(convert) X(weight) X(weight_sum) X(pack_tiles)
#define WEFT_PRODUCT_KERNELS(X) X(product_pack) X(product) // oneDNN's, at any SIMD level
#define WEFT_DEVICE_KERNELS(X) /* on a CPU they are Go */ \
	X(gelu) X(gelu_back) X(sqrt) X(sqrt_back) /* over storage */ X(merge_moments) X(move) X(running)
#define WEFT_KERNELS(X) \
	WEFT_STORAGE_KERNELS(X) WEFT_OTHER_KERNELS(X) WEFT_PRODUCT_KERNELS(X) WEFT_DEVICE_KERNELS(X)

enum weft_kernel_name {
#define X(name) weft_##name,
	WEFT_KERNELS(X)
#undef X
	WEFT_KERNEL_COUNT
};

typedef void (*weft_function)(const void *args, int64_t lo, int64_t hi);

// The tables of the kernels at each SIMD level, in the order of weft_kernel_name. A table for bfloat16 has
// the storage kernels alone.
extern const weft_function weft_table_avx512[], weft_table_avx2[], weft_table_portable[];
extern const weft_function weft_table_avx512_bfloat16[], weft_table_avx2_bfloat16[],
    weft_table_portable_bfloat16[];

enum weft_level { WEFT_PORTABLE, WEFT_AVX2, WEFT_AVX512 };
void weft_onednn_version(int v[3]);
int weft_onednn_can_multiply(enum weft_products by); // ONEDNN_MAX_CPU_ISA may forbid it
void weft_onednn_without_tiles(void);                // is called before any other function of oneDNN
// Sets the kernel that converts blocks. weft_set_level calls it.
void weft_onednn_convert_by(weft_function kernel);
int weft_best_level(void);        // the highest level that this CPU can run
void weft_set_level(int level);   // is called before the first weft_run
// weft_can_multiply returns whether this processor at this level, and oneDNN, can make products in that way.
// weft_best_products returns the default. It depends on the kind of processor alone, so that equal machines
// round alike. Products of pairs are the default on AMD's processors, where they have twice the rate of
// float32. On Intel's they have half of it.
int weft_can_multiply(int level, enum weft_products by);
enum weft_products weft_best_products(int level);
const char *weft_name(int kernel);
const char *weft_operation_name(int operation);
// Runs a kernel over rows lo … hi−1 for elements of a type. A kernel that is not over storage takes
// WEFT_FLOAT32.
void weft_run(int kernel, enum weft_type type, const void *args, int64_t lo, int64_t hi);
// Runs a kernel over a segment of a row: spmm, max, max_back, or one of attention's. The result goes to row
// `partial` of the kernel's results.
void weft_run_segment(int kernel, enum weft_type type, const void *args, weft_segment segment,
                      int64_t partial);
// Waits for well under a microsecond, in which the CPU lends its units to the core's other thread.
void weft_pause(void);

// Functions that make a product return 0, or the status of oneDNN.
enum { WEFT_ONEDNN_MEMORY = 1 };

// Makes a product z = x·w of blocks of `rows` rows: x is rows × in, w is in × out, or out × in if transposed,
// and z is rows × out. With accumulate the product is added to z. The caller frees *p also if this fails.
int weft_onednn_new(weft_onednn **p, int64_t rows, int64_t in, int64_t out, int transposed, int accumulate,
                    enum weft_type x_type, enum weft_type z_type);
void weft_onednn_free(weft_onednn *p);
int64_t weft_onednn_packed_bytes(const weft_onednn *p);
int weft_onednn_status(weft_onednn *p); // the status of the kernels that ran since the last call
void weft_product_pack_run(const void *args, int64_t lo, int64_t hi);
void weft_product_run(const void *args, int64_t lo, int64_t hi);

// A field of a kernel's arguments that is an address of elements. written: the kernel writes to them.
typedef struct {
	const char *name;
	int64_t offset;
	int32_t written;
} weft_pointer;

// Returns the pointers of a kernel's arguments, ended by one without a name. *size becomes the size of the
// arguments.
const weft_pointer *weft_pointers(int kernel, int64_t *size);
#endif
