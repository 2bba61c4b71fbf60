// Kernels that take each element alone.
#pragma once
#include "warp.cuh"

// Runs over elements, one a thread.
template <typename T, typename bits> __device__ __forceinline__ void fill(const over_rows<weft_fill_args> &l) {
	const int64_t k = l.first + thread_number();
	if (k < l.last)
		((bits *)l.a.p)[k] = (bits)l.a.bits;
}
KERNEL(fill_float32, weft_fill_args) { fill<float, uint32_t>(l); }
KERNEL(fill_bfloat16, weft_fill_args) { fill<bfloat16, uint16_t>(l); }
