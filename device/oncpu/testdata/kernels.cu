// Wrong kernels. oncpu_test.go has the report on each, which names lines of this file.
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
WRONG(takes_no_part) {
	out(l)[threadIdx.x] = __shfl_sync(threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u, 1.f, 16);
}
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
WRONG(matrices) { // right: numbers row·8 + column of four 8×8 matrices
	__shared__ shared_cell<uint4> s[32];
	const unsigned i = threadIdx.x, first = i * 8 | (i * 8 + 1) << 16, two = 2 | 2 << 16;
	if (i >= 32)
		return;
	s[i] = make_uint4(first, first + two, first + 2 * two, first + 3 * two);
	__syncwarp();
	unsigned as_they_are[4], transposed[4];
	ldmatrix(as_they_are, s + i);
	ldmatrix_transposed(transposed, s + i);
	((unsigned *)l.a.p)[i] = as_they_are[1], ((unsigned *)l.a.p)[i + 32] = transposed[2];
}
WRONG(part_of_a_matrix) {
	__shared__ shared_cell<uint4> s[64];
	s[threadIdx.x] = make_uint4(0, 0, 0, 0);
	__syncwarp();
	unsigned m[4];
	if (threadIdx.x % 32 < 16)
		ldmatrix(m, s + threadIdx.x);
}
WRONG(copied) { // right: two groups, of which the second is under way when the first is read
	__shared__ shared_cell<uint4> s[64], t[64];
	copy_past_registers(s + threadIdx.x, out(l) + threadIdx.x % 16 * 4, threadIdx.x % 2);
	end_of_copies();
	copy_past_registers(t + threadIdx.x, out(l), true);
	end_of_copies();
	wait_for_copies(1);
	__syncthreads();
	const uint4 other = s[63 - threadIdx.x];
	wait_for_copies(0);
	__syncthreads();
	const uint4 first = t[threadIdx.x / 2];
	__syncthreads();
	((unsigned *)l.a.p)[threadIdx.x] = other.y + first.z;
}
WRONG(not_awaited) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l), true);
	end_of_copies();
	wait_for_copies(1); // all but this one
	__syncthreads();
	out(l)[threadIdx.x] = ((uint4)s[threadIdx.x ^ 1]).x;
}
WRONG(group_not_ended) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l), true);
	wait_for_copies(0);
	out(l)[threadIdx.x] = ((uint4)s[threadIdx.x]).x;
}
WRONG(awaited_by_itself) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l), true);
	end_of_copies();
	__syncthreads();
	wait_for_copies(0);
	out(l)[threadIdx.x] = ((uint4)s[threadIdx.x ^ 32]).x;
}
WRONG(copied_over_what_is_read) {
	__shared__ shared_cell<uint4> s[64];
	s[threadIdx.x] = make_uint4(0, 0, 0, 0);
	__syncthreads();
	if (threadIdx.x >= 32)
		out(l)[threadIdx.x] = ((uint4)s[threadIdx.x ^ 32]).x;
	else
		copy_past_registers(s + threadIdx.x, out(l), true);
}
WRONG(written_while_copied) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l), true);
	end_of_copies();
	__syncthreads();
	s[threadIdx.x ^ 1] = make_uint4(0, 0, 0, 0);
	__syncthreads();
	wait_for_copies(0);
}
WRONG(copied_twice) {
	__shared__ shared_cell<uint4> s;
	copy_past_registers(&s, out(l), true);
}
WRONG(copied_from_anywhere) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l) + threadIdx.x, true);
}
WRONG(copied_past_the_end) {
	__shared__ shared_cell<uint4> s[64];
	copy_past_registers(s + threadIdx.x, out(l) + threadIdx.x * 4, true);
}
WRONG(in_one_bank) {
	__shared__ shared_cell<uint4> s[512];
	for (int i = 0; i < 8; i++)
		s[threadIdx.x * 8 + i] = make_uint4(0, 0, 0, 0);
	__syncwarp();
	unsigned m[4];
	ldmatrix(m, s + threadIdx.x * 8 + (threadIdx.x % 8 == 4 ? 3 : threadIdx.x % 8));
}
