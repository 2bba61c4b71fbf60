// The parts that all kernels share: how they are launched, elements of storage, loads of vectors, and sums
// over a warp.
//
// A kernel takes the arguments of kernel/native/weft.h by value. Their addresses are the device's. A kernel
// has no atomics: each row has one writer, and partial results are merged in order. So a result has the same
// bits in every run. If the CPU's kernel adds floats in some order, the kernel here keeps the order and the
// fused multiply-adds. So both give the same bits.
#pragma once
#include "weft.h"

#define DEVICE __device__ __forceinline__
#define PRAGMA(text) _Pragma(#text)
#define UNROLL PRAGMA(unroll)
#define UNROLL_BY(n) PRAGMA(unroll n)
#define ALL 0xffffffffu // lanes of a warp
enum { BLOCK = 256 };   // the most threads of a block, so that each may have 128 registers

#ifdef __CUDACC_RTC__
template <typename T> using shared_cell = T; // on_cpu.h has another one, which finds races
#define REGISTER(name, call)
// Rounds two numbers to bfloat16 and packs them in a word, the first one in the lower half.
DEVICE unsigned two_bfloat16s(float x, float y) {
	unsigned two;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(y), "f"(x));
	return two;
}
// d += a·b for bfloat16s a of 16×16 and b of 16×8. The lanes of a warp hold parts of them as PTX's
// mma.m16n8k16 says.
DEVICE void mma(float *d, const unsigned *a, const unsigned *b) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
	             "{%0,%1,%2,%3};"
	             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// Rounds x to TF32, which has eleven significant bits: to nearest, ties away from zero.
DEVICE float tf32(float x) {
	unsigned r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
	return __uint_as_float(r);
}
// d = a·b + c for TF32 numbers a of 16×8 and b of 8×8. The lanes of a warp hold parts of them as PTX's
// mma.m16n8k8 says.
DEVICE void mma_tf32(float (&d)[4], const float (&a)[4], const float (&b)[2], const float (&c)[4]) {
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
	             "{%10,%11,%12,%13};"
	             : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
	             : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
	               "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])),
	               "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}
// Loads four 8×8 matrices of bfloat16s, or their transposes. Lane 8·m + r points to the 16 bytes of row r of
// matrix m. Each lane gets two numbers of row lane/4 of each matrix, from column lane%4·2 on.
DEVICE void ldmatrix(unsigned (&to)[4], const uint4 *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}
DEVICE void ldmatrix_transposed(unsigned (&to)[4], const uint4 *row) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
	             : "r"((unsigned)__cvta_generic_to_shared(row))
	             : "memory");
}
// Begins to copy 16 bytes from the card's memory to shared memory. If `there` is not set, it copies zeros.
// The copies that a thread begins before an end_of_copies form a group. wait_for_copies(n) waits for all
// groups but the last n.
DEVICE void copy_past_registers(uint4 *to, const void *from, bool there) {
	asm volatile(
	    "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
	    "l"(from), "r"(there ? 16 : 0)
	    : "memory");
}
DEVICE void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#define wait_for_copies(last) asm volatile("cp.async.wait_group %0;" ::"n"(last) : "memory")
// Stores words to the card's memory, at a multiple of their size. It is one store. Of a struct's words the
// compiler would make one store each.
DEVICE void store_words(void *p, const unsigned (&w)[4]) {
	asm volatile("st.global.v4.b32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
	             : "memory");
}
DEVICE void store_words(void *p, const unsigned (&w)[2]) {
	asm volatile("st.global.v2.b32 [%0], {%1,%2};" ::"l"(p), "r"(w[0]), "r"(w[1]) : "memory");
}
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#endif

// The parameters of a launch: the arguments, and the rows first … last−1 (or tiles, elements, columns) to
// compute.
template <typename args> struct over_rows {
	args a;
	int64_t first, last;
};

// The same for segments of rows that are cut. partial is the partial result that segment `number` writes.
template <typename args> struct over_segments {
	args a;
	weft_segments s;
	DEVICE int64_t partial(int64_t number) const { return s.carried + number; }
};

// Whether segment `number` is the first of its row in a launch. The thread of that segment merges the row's
// partial results.
DEVICE bool begins_row(const weft_segments &s, int64_t number) {
	return number == 0 || s.of[number - 1].row != s.of[number].row;
}

// The host finds a kernel by its name: the name in weft.h, then _float32 or _bfloat16 for the elements of
// storage, then the name of a variant, if kernel/shapes.go has one. A kernel over segments ends in _segments.
#define LAUNCHED(name, over) \
	extern "C" __global__ void name(const __grid_constant__ over l); \
	REGISTER(name, over) \
	extern "C" __global__ void __launch_bounds__(BLOCK, 2) name(const __grid_constant__ over l)
#define KERNEL(name, args) LAUNCHED(name, over_rows<args>)
#define SEGMENTS_KERNEL(name, args) LAUNCHED(name##_segments, over_segments<args>)

// The same for both types T of storage. The body reads the arguments a, and the rows first … last−1.
#define STORAGE_KERNEL(name, args, ...) \
	template <typename T> DEVICE void name##__VA_ARGS__##_of(const args &a, int64_t first, int64_t last); \
	KERNEL(name##_float32##__VA_ARGS__, args) { name##__VA_ARGS__##_of<float>(l.a, l.first, l.last); } \
	KERNEL(name##_bfloat16##__VA_ARGS__, args) { name##__VA_ARGS__##_of<bfloat16>(l.a, l.first, l.last); } \
	template <typename T> DEVICE void name##__VA_ARGS__##_of(const args &a, int64_t first, int64_t last)

// The kernels of a pass over edges: over rows and over segments, for both types of storage, and with single
// elements or vectors of them.
#define EDGE_KERNELS_OF(name, args, function, vec) \
	KERNEL(name, args) { function<vec>(l); } \
	SEGMENTS_KERNEL(name, args) { function<vec>(l); }
#define EDGE_KERNELS(name, args, function) \
	EDGE_KERNELS_OF(name##_float32, args, function, single<float>) \
	EDGE_KERNELS_OF(name##_float32_vector, args, function, vector<float>) \
	EDGE_KERNELS_OF(name##_bfloat16, args, function, single<bfloat16>) \
	EDGE_KERNELS_OF(name##_bfloat16_vector, args, function, vector<bfloat16>)

// The number of this thread in the launch.
DEVICE int64_t thread_number() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }

// Returns x in a way that hides its value from the compiler, so that it does not move the computations on it
// elsewhere.
DEVICE int afresh(int x) {
	asm volatile("" : "+r"(x));
	return x;
}

DEVICE float number(float x) { return x; }
DEVICE float number(uint16_t x) { return x; }
DEVICE float number(bfloat16 x) { return __uint_as_float((unsigned)x.bits << 16); }
DEVICE void round_to(float *z, float x) { *z = x; }
DEVICE void round_to(uint16_t *z, float x) { *z = (uint16_t)x; }
// x rounded to bfloat16, in the upper half of the word: to nearest, ties to even. NaN stays NaN.
DEVICE unsigned rounded(float x) {
	const unsigned b = __float_as_uint(x);
	return x != x ? b | 0x400000 : b + 0x7fff + (b >> 16 & 1);
}
DEVICE void round_to(bfloat16 *z, float x) { z->bits = (uint16_t)(rounded(x) >> 16); }

// Element k of a matrix whose type is known at run time.
DEVICE float load_either(const void *p, int32_t type, int64_t k) {
	return type == WEFT_FLOAT32 ? ((const float *)p)[k] : number(((const bfloat16 *)p)[k]);
}
DEVICE void store_either(void *p, int32_t type, int64_t k, float x) {
	if (type == WEFT_FLOAT32)
		((float *)p)[k] = x;
	else
		round_to((bfloat16 *)p + k, x);
}

// N elements side by side. They are loaded or stored at once if their address is a multiple of their size.
template <typename T, int N> struct alignas(N * sizeof(T)) packed {
	T e[N];
};
template <typename T, int N> DEVICE void unpack(float (&x)[N], const packed<T, N> v) {
	UNROLL for (int i = 0; i < N; i++)
		x[i] = number(v.e[i]);
}
template <int N> DEVICE void unpack(float (&x)[N], packed<bfloat16, N> v) { // two numbers from each word
	UNROLL for (int i = 0; i < N; i++)
		x[i] = i % 2 ? __uint_as_float(((const unsigned *)v.e)[i / 2] & 0xffff0000u) : number(v.e[i]);
}
template <typename T, int N> DEVICE void pack(packed<T, N> *p, const float (&x)[N]) {
	packed<T, N> v;
	UNROLL for (int i = 0; i < N; i++)
		round_to(&v.e[i], x[i]);
	*p = v;
}
template <> DEVICE void pack(packed<float, 4> *p, const float (&x)[4]) {
	const unsigned w[] = {__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]),
	                      __float_as_uint(x[3])};
	store_words(p, w);
}
template <int N> DEVICE void pack(packed<bfloat16, N> *p, const float (&x)[N]) {
	if constexpr (N == 1)
		return round_to(p->e, x[0]);
	unsigned w[(N + 1) / 2];
	UNROLL for (int i = 0; i < N / 2; i++)
		w[i] = rounded(x[2 * i]) >> 16 | (rounded(x[2 * i + 1]) & 0xffff0000u);
	if constexpr (N > 1)
		store_words(p, w);
}

// part loads, and put stores, the first n of N numbers at p. The other numbers are 0.
template <typename T, int N> DEVICE bool is_packed(const T *p, int64_t n) {
	return n >= N && (uint64_t)p % sizeof(packed<T, N>) == 0;
}
template <typename T, int N> DEVICE void part(float (&x)[N], const T *p, int64_t n) {
	if (is_packed<T, N>(p, n))
		return unpack(x, *(const packed<T, N> *)p);
	UNROLL for (int i = 0; i < N; i++)
		x[i] = i < n ? number(p[i]) : 0;
}
template <typename T, int N> DEVICE void put(T *p, const float (&x)[N], int64_t n) {
	if (is_packed<T, N>(p, n))
		return pack((packed<T, N> *)p, x);
	UNROLL for (int i = 0; i < N; i++)
		if (i < n)
			round_to(p + i, x[i]);
}

// Numbers that lie together, at a multiple of their size: as many as 16 bytes hold, or one, for rows that are
// no multiple of that. raw is the form in which they are loaded. Loads under way then take no more registers
// than their bytes.
template <typename T, int COUNT> struct several {
	enum { N = COUNT };
	typedef T elem;
	typedef packed<T, N> raw;
	float x[N];
	DEVICE void of(const raw v) { unpack(x, v); }
	DEVICE void load(const T *p) { of(*(const raw *)p); }
	DEVICE void store(T *p) const { pack((raw *)p, x); }
};
template <typename T> using vector = several<T, 16 / sizeof(T)>;
template <typename T> using single = several<T, 1>;

// The same for a matrix whose type is known at run time. If the type is T, the numbers are loaded or stored
// at once.
template <typename T, int N>
DEVICE void load_either(several<T, N> &v, const void *p, int32_t type, int64_t k) {
	if ((type == WEFT_FLOAT32) == (sizeof(T) == sizeof(float)))
		return v.load((const T *)p + k);
	UNROLL for (int i = 0; i < N; i++)
		v.x[i] = load_either(p, type, k + i);
}
template <typename T, int N>
DEVICE void store_either(void *p, int32_t type, int64_t k, const several<T, N> &v) {
	if ((type == WEFT_FLOAT32) == (sizeof(T) == sizeof(float)))
		return v.store((T *)p + k);
	UNROLL for (int i = 0; i < N; i++)
		store_either(p, type, k + i, v.x[i]);
}

// N words whose address is a multiple of 16 bytes, or one word.
template <typename T, int N> struct words {
	enum { AT_ONCE = N < 4 ? N : 4 };
	typedef packed<T, AT_ONCE> some;
	some of[N / AT_ONCE];
	DEVICE T &operator[](int i) { return of[i / AT_ONCE].e[i % AT_ONCE]; }
	DEVICE T operator[](int i) const { return of[i / AT_ONCE].e[i % AT_ONCE]; }
	DEVICE void load(const T *p) {
		UNROLL for (int i = 0; i < N / AT_ONCE; i++)
			of[i] = ((const some *)p)[i];
	}
	DEVICE void store(T *p) const {
		UNROLL for (int i = 0; i < N / AT_ONCE; i++)
			((some *)p)[i] = of[i];
	}
};

template <typename T> DEVICE T sum_of_warp(T x) {
	for (int with = 16; with; with /= 2)
		x += __shfl_xor_sync(ALL, x, with);
	return x;
}
// a > b ? a : b, which is b if a is NaN
DEVICE float larger(float a, float b) { return a > b ? a : b; }
DEVICE float largest_of_warp(float x) {
	for (int with = 16; with; with /= 2)
		x = larger(__shfl_xor_sync(ALL, x, with), x);
	return x;
}
