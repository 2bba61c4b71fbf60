// What Go calls: the kernels' names, and what runs them. Every kernel is a single-threaded function over a
// half-open range of rows (or tiles, or elements) of the matrices its arguments name; Go hands the ranges
// out. All matrices are row-major without gaps. A pointer that may be NULL says so.
#ifndef WEFT_H
#define WEFT_H
#include "edge_args.h"
#include "expression_args.h"
#include "product_args.h"
#include "row_args.h"

// Kernels over elements of storage, and those of which only the arguments' other types vary.
#define WEFT_STORAGE_KERNELS(X) \
	X(spmm) X(max) X(max_back) X(merge_maxima) \
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

// Every kernel, and those over storage for elements of type bfloat16.
extern const weft_function weft_table_avx512[], weft_table_avx2[], weft_table_portable[];
extern const weft_function weft_table_avx512_bfloat16[], weft_table_avx2_bfloat16[],
    weft_table_portable_bfloat16[];

enum weft_level { WEFT_PORTABLE, WEFT_AVX2, WEFT_AVX512 };
void weft_onednn_version(int v[3]);
int weft_onednn_can_multiply(enum weft_products by); // ONEDNN_MAX_CPU_ISA may take it away
void weft_onednn_without_tiles(void);                // before anything else is asked of oneDNN
void weft_onednn_convert_by(weft_function kernel);   // what converts blocks; weft_set_level says it
int weft_best_level(void);        // what this CPU can run
void weft_set_level(int level);   // before the first weft_run
// Whether this processor can, at this level, and oneDNN. The best depends on the kind of processor alone, so
// that equal machines round alike: by pairs Intel's have half the rate of float32, and AMD's twice.
int weft_can_multiply(int level, enum weft_products by);
enum weft_products weft_best_products(int level);
const char *weft_name(int kernel);
const char *weft_operation_name(int operation);
// Runs a kernel for elements of a type; a kernel that is not over storage, for WEFT_FLOAT32.
void weft_run(int kernel, enum weft_type type, const void *args, int64_t lo, int64_t hi);
// Runs a kernel over a segment: spmm, max, max_back, or one of attention's.
void weft_run_segment(int kernel, enum weft_type type, const void *args, weft_segment segment, int64_t partial);
void weft_pause(void); // well under a microsecond, in which the CPU leaves its units to another thread

// What makes a product returns 0, or oneDNN's status.
enum { WEFT_ONEDNN_MEMORY = 1 };

// A product of blocks of so many rows, with w read transposed, and added to z or not. It is freed also where
// making it fails.
int weft_onednn_new(weft_onednn **p, int64_t rows, int64_t in, int64_t out, int transposed, int accumulate,
                    enum weft_type x_type, enum weft_type z_type);
void weft_onednn_free(weft_onednn *p);
int64_t weft_onednn_packed_bytes(const weft_onednn *p);
int weft_onednn_status(weft_onednn *p); // of the kernels that ran since the last time
void weft_product_pack_run(const void *args, int64_t lo, int64_t hi);
void weft_product_run(const void *args, int64_t lo, int64_t hi);

// A field of a kernel's arguments that is the address of elements, and whether the kernel writes them.
typedef struct {
	const char *name;
	int64_t offset;
	int32_t written;
} weft_pointer;

// Those of a kernel, ended by one without a name, and the size of its arguments.
const weft_pointer *weft_pointers(int kernel, int64_t *size);
#endif
