#include "probe.h"
#include <stddef.h>

const probe_level *probe_at(int rank) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
	int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	if (avx512 && rank-- == 0)
		return &probe_avx512;
	if (avx2 && rank-- == 0)
		return &probe_avx2;
#endif
	return rank == 0 ? &probe_portable : NULL;
}
