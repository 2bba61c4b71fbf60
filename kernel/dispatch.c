#include "weft.h"
#include <dnnl.h>
#include <omp.h>

static const weft_function *active = weft_table_portable;

int weft_best_level(void) {
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
		return WEFT_AVX512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return WEFT_AVX2;
	return WEFT_PORTABLE;
}

void weft_onednn_version(int v[3]) {
	const dnnl_version_t *d = dnnl_version();
	v[0] = d->major;
	v[1] = d->minor;
	v[2] = d->patch;
}

void weft_set_level(int level) {
	active = level == WEFT_AVX512 ? weft_table_avx512 : level == WEFT_AVX2 ? weft_table_avx2 : weft_table_portable;
}

void weft_run(int kernel, const void *args, int64_t lo, int64_t hi) { active[kernel](args, lo, hi); }

void weft_pause(void) {
#if defined(__x86_64__)
	for (int i = 0; i < 8; i++)
		__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

_Static_assert((int)WEFT_ONEDNN_MEMORY == (int)dnnl_out_of_memory, "the status of a product that lacks memory");

int weft_sgemm(char trans_x, char trans_w, int64_t m, int64_t n, int64_t k, const float *x, int64_t ldx, const float *w,
               int64_t ldw, float beta, float *z, int64_t ldz) {
	// The setting belongs to the calling thread; without it every thread that ever multiplies keeps a team of its own.
	omp_set_num_threads(1);
	return dnnl_sgemm(trans_x, trans_w, m, n, k, 1.0f, x, ldx, w, ldw, beta, z, ldz);
}
