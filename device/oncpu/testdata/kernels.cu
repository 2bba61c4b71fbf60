// Kernels that are wrong, each in one way: oncpu_test.go has what is said of them. Lines count.
#include "warp.cuh"

#define WRONG(name) KERNEL(name, weft_fill_args)
__device__ __forceinline__ float *out(const over_rows<weft_fill_args> &l) { return (float *)l.a.p; }

WRONG(right) {
	__shared__ shared_cell<float> s[64];
	const int i = threadIdx.x;
	s[i] = (float)i;
	__syncwarp();
	const float neighbour = s[i ^ 1];
	__syncthreads();
	s[63 - i] = neighbour;
	__syncthreads();
	if (i < 48 && i >= 32) // a part of a warp
		out(l)[i] = __shfl_xor_sync(0x0000ffffu, s[i], 2);
	out(l)[i] = sum_of_warp((float)s[i]);
}
WRONG(race) {
	__shared__ shared_cell<float> s[64];
	s[threadIdx.x] = 1;
	out(l)[threadIdx.x] = s[threadIdx.x ^ 32];
}
WRONG(race_in_warp) {
	__shared__ shared_cell<float> s[64];
	s[threadIdx.x] = 1;
	__syncthreads();
	const float x = s[threadIdx.x ^ 1];
	s[threadIdx.x] = sum_of_warp(x); // a shuffle orders no memory
}
WRONG(two_write) {
	__shared__ shared_cell<float> s;
	s = 1;
}
WRONG(two_read_one_writes) {
	__shared__ shared_cell<float> s;
	if (threadIdx.x == 0)
		s = 1;
	__syncthreads();
	const float x = s;
	__syncwarp();
	if (threadIdx.x == 31)
		s = x;
}
WRONG(nobody_wrote) {
	__shared__ shared_cell<float> s[64];
	out(l)[threadIdx.x] = s[threadIdx.x];
}
WRONG(left_before_barrier) {
	if (threadIdx.x >= 40)
		return;
	__syncthreads();
}
WRONG(two_barriers) {
	if (threadIdx.x < 32)
		__syncthreads();
	else
		__syncthreads();
}
WRONG(two_shuffles) {
	if (threadIdx.x % 32 < 16)
		out(l)[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
	else
		out(l)[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
}
WRONG(two_masks) { out(l)[threadIdx.x] = __shfl_sync(threadIdx.x % 32 ? ALL : ALL >> 1, 1.f, 0); }
WRONG(left_before_shuffle) {
	if (threadIdx.x % 32 > 20)
		return;
	out(l)[threadIdx.x] = __shfl_sync(ALL, 1.f, 0);
}
WRONG(takes_no_part) { out(l)[threadIdx.x] = __shfl_sync(threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u, 1.f, 16); }
WRONG(not_in_mask) { out(l)[threadIdx.x] = __shfl_sync(0xffffu, 1.f, 0); }
WRONG(past_the_end) { out(l)[threadIdx.x + 1] = 1; }
WRONG(before_the_beginning) { out(l)[threadIdx.x] = out(l)[(int)threadIdx.x - 1100]; }
WRONG(wild) { out(l)[threadIdx.x] = *(float *)16; }
WRONG(last_writes) { *(int *)l.a.p = threadIdx.x; }
WRONG(fill_float32) {
	if (threadIdx.x < l.last)
		((uint32_t *)l.a.p)[threadIdx.x] = l.a.bits;
}
WRONG(lanes_read_one_writes) {
	__shared__ shared_cell<float> s;
	if (threadIdx.x == 0)
		s = 1;
	__syncthreads();
	if (threadIdx.x < 32 && s == 1 && threadIdx.x == 31)
		s = 2;
}
WRONG(not_aligned) { out(l)[threadIdx.x] = (*(const float4 *)(out(l) + threadIdx.x)).y; }
