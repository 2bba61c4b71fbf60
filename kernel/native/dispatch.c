#include "weft.h"

static const weft_function *active = weft_table_portable;

int weft_best_level(void) {
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("bmi2"))
		return WEFT_AVX512;
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return WEFT_AVX2;
	return WEFT_PORTABLE;
}

void weft_set_level(int level) {
	active = level == WEFT_AVX512 ? weft_table_avx512 : level == WEFT_AVX2 ? weft_table_avx2 : weft_table_portable;
}

const char *weft_name(int kernel) {
	static const char *const names[] = {
#define X(name) #name,
		WEFT_KERNELS(X)
#undef X
	};
	return names[kernel];
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
