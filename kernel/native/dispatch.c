#include "pointers.h"
#include "weft.h"
#include <stddef.h>
#include <string.h>

#if defined(__clang__)
#error \
    "weft is compiled by GCC: set CC=gcc; Clang lacks __builtin_shuffle and the target pragmas of the SIMD levels"
#endif

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

// Linux lets a process use the tile registers after it asks for them: ARCH_REQ_XCOMP_PERM of
// XFEATURE_XTILEDATA.
static int may_use_tiles(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
#endif

// tables[level][type of storage]
static const weft_function *const tables[][2] = {
	[WEFT_PORTABLE] = {weft_table_portable, weft_table_portable_bfloat16},
#if defined(__x86_64__)
	[WEFT_AVX2] = {weft_table_avx2, weft_table_avx2_bfloat16},
	[WEFT_AVX512] = {weft_table_avx512, weft_table_avx512_bfloat16},
#endif
};

static const weft_function *active[2] = {weft_table_portable, weft_table_portable_bfloat16};

int weft_best_level(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("bmi2"))
		return WEFT_AVX512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return WEFT_AVX2;
#endif
	return WEFT_PORTABLE;
}

int weft_can_multiply(int level, enum weft_products by) {
	if (by == WEFT_OF_FLOATS)
		return 1;
#if defined(__x86_64__)
	__builtin_cpu_init();
	return level == WEFT_AVX512 && __builtin_cpu_supports("avx512bf16") && weft_onednn_can_multiply(by) &&
	       (by == WEFT_OF_PAIRS || (__builtin_cpu_supports("amx-bf16") && may_use_tiles()));
#else
	return 0;
#endif
}

enum weft_products weft_best_products(int level) {
	if (weft_can_multiply(level, WEFT_OF_TILES))
		return WEFT_OF_TILES;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_is("amd") && weft_can_multiply(level, WEFT_OF_PAIRS))
		return WEFT_OF_PAIRS;
#endif
	return WEFT_OF_FLOATS;
}

void weft_set_level(int level) {
	active[WEFT_FLOAT32] = tables[level][WEFT_FLOAT32];
	active[WEFT_BFLOAT16] = tables[level][WEFT_BFLOAT16];
	weft_onednn_convert_by(active[WEFT_FLOAT32][weft_convert]);
}

const char *weft_name(int kernel) {
	static const char *const names[] = {
#define X(name) #name,
		WEFT_KERNELS(X)
#undef X
	};
	return names[kernel];
}

const char *weft_operation_name(int operation) {
	static const char *const names[] = {
#define X(name, value) #name,
		WEFT_OPERATIONS(X, X)
#undef X
	};
	return names[operation];
}

void weft_run(int kernel, enum weft_type type, const void *args, int64_t lo, int64_t hi) {
	switch (kernel) {
	case weft_product_pack: weft_product_pack_run(args, lo, hi); break;
	case weft_product: weft_product_run(args, lo, hi); break;
	default: active[type][kernel](args, lo, hi);
	}
}

// Returns an address of which row `row` is row `partial` of m: the kernel that writes row `row` writes there.
static void *placed(void *m, int64_t partial, int64_t row, int64_t row_bytes) {
	return m ? (char *)m + (partial - row) * row_bytes : NULL;
}

// Like placed, for a kernel that adds to its result: the row becomes zeros first.
static void *zeros(void *m, int64_t partial, int64_t row, int64_t row_bytes) {
	if (m)
		memset((char *)m + partial * row_bytes, 0, row_bytes);
	return placed(m, partial, row, row_bytes);
}

// Changes the edges so that the row of s has the entries of s alone. Returns whether s is the last segment of
// its row.
static int only_segment(weft_edges *e, const weft_segment *s) {
	const int last = s->end == e->indptr[s->row + 1];
	e->indptr = &s->begin - s->row; // end lies behind begin
	e->longest = 0;
	return last;
}

void weft_run_segment(int kernel, enum weft_type type, const void *args, weft_segment s, int64_t partial) {
	switch (kernel) {
	case weft_spmm: {
		weft_spmm_args a = *(const weft_spmm_args *)args;
		if (!only_segment(&a.edges, &s))
			a.self = NULL;
		a.end = a.edges.indptr + 1;
		a.z = placed(a.z, partial, s.row, a.z_stride * sizeof(float));
		active[type][kernel](&a, s.row, s.row + 1);
		break;
	}
	case weft_max: {
		weft_max_args a = *(const weft_max_args *)args;
		if (!only_segment(&a.edges, &s))
			a.loops = NULL;
		a.z = placed(a.z, partial, s.row,
		             a.cols * (type == WEFT_BFLOAT16 ? sizeof(bfloat16) : sizeof(float)));
		a.arg = placed(a.arg, partial, s.row, a.cols * sizeof *a.arg);
		active[type][kernel](&a, s.row, s.row + 1);
		break;
	}
	case weft_max_back: {
		weft_max_back_args a = *(const weft_max_back_args *)args;
		if (!only_segment(&a.edges, &s))
			a.loops = NULL;
		a.dx = zeros(a.dx, partial, s.row, a.cols * sizeof(float));
		active[type][kernel](&a, s.row, s.row + 1);
		break;
	}
	case weft_softmax_sum: {
		weft_softmax_sum_args a = *(const weft_softmax_sum_args *)args;
		if (!only_segment(&a.edges, &s))
			a.loops = NULL;
		const int64_t row = a.cols * sizeof(float);
		a.maximum = placed(a.maximum, partial, s.row, row);
		a.sum = placed(a.sum, partial, s.row, row);
		a.z = placed(a.z, partial, s.row, row);
		active[type][kernel](&a, s.row, s.row + 1);
		break;
	}
	case weft_softmax_sum_back: {
		weft_softmax_sum_back_args a = *(const weft_softmax_sum_back_args *)args;
		if (!only_segment(&a.edges, &s))
			a.loops = NULL;
		a.dx = zeros(a.dx, partial, s.row, a.cols * sizeof(float));
		a.ds = zeros(a.ds, partial, s.row, a.cols * sizeof(float));
		active[type][kernel](&a, s.row, s.row + 1);
		break;
	}
	default: {
		weft_attention_args a = *(const weft_attention_args *)args;
		if (!only_segment(&a.edges, &s))
			a.loops = NULL;
		const int64_t heads = a.heads * sizeof(float), row = heads * a.width;
		a.maximum = placed(a.maximum, partial, s.row, heads);
		a.sum = placed(a.sum, partial, s.row, heads);
		a.z = placed(a.z, partial, s.row, row);
		a.d_target_score = zeros(a.d_target_score, partial, s.row, heads);
		a.d_source_score = zeros(a.d_source_score, partial, s.row, heads);
		a.d_target = zeros(a.d_target, partial, s.row, row);
		a.d_source = zeros(a.d_source, partial, s.row, row);
		a.d_key = zeros(a.d_key, partial, s.row, row);
		a.first_sum += partial - s.row;
		active[type][kernel](&a, s.row, s.row + 1);
	}
	}
}

const weft_pointer *weft_pointers(int kernel, int64_t *size) {
	switch (kernel) {
#define READ(S, field) {#field, offsetof(S, field), 0},
#define WRITTEN(S, field) {#field, offsetof(S, field), 1},
#define X(name, S) \
	case weft_##name: { \
		static const weft_pointer of[] = {POINTERS_OF_##S(S, READ, WRITTEN){0}}; \
		*size = sizeof(S); \
		return of; \
	}
		WEFT_ARGUMENTS(X)
#undef X
#undef READ
#undef WRITTEN
	}
	return NULL;
}

void weft_pause(void) {
#if defined(__x86_64__)
	for (int i = 0; i < 8; i++)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}
