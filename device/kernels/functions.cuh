// The functions of kernel/native/functions.h, for single numbers in place of vectors, and the functions that
// a CPU has in its C library. CUDA's own sine and cosine are not used, as they have a stack frame.
#pragma once
#include "warp.cuh"

typedef float vf;
typedef int32_t vi;
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
#define BITS(x) ((vi)__float_as_uint(x))
#define OF_BITS(n) __uint_as_float((uint32_t)(n))
#define WHOLE(x) ((vi)(x))
#define FLOATS(n) ((vf)(n))
#define FUSED(a, b, c) fmaf(a, b, c)
DEVICE vf all(float x) { return x; }
DEVICE vf all(int x) { return (float)x; } // CUDA has an all of a bool
DEVICE vf choose(bool is, vf a, vf b) { return is ? a : b; }
DEVICE vf truth(bool is) { return is ? 1.0f : 0.0f; }
DEVICE vf vsqrt(vf x) { return sqrtf(x); }
#include "functions.h"

// x = (π/2)·(4n + quarter) + rest for an integer n, with |rest| ≤ π/4. A large x is an integer m times a
// power of two. For it 96 bits of m·(2/π) are enough: the bits before them are multiples of 4, and the bits
// behind them are smaller than the precision of a float.
struct quarters {
	int quarter;
	float rest;
	DEVICE quarters(float x) {
		// 2/π
		static const uint32_t of_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
		                                 0xdb629599, 0x3c439041, 0xfe5163ab};
		const uint32_t bits = __float_as_uint(x);
		const int power = (int)(bits >> 23 & 255) - 150; // x = m·2^power
		if (power < 2) {
			const double n = rint((double)x * 0.63661977236758134308);
			quarter = (int)n & 3;
			rest = (float)fma(n, -6.123233995736766e-17, fma(n, -1.5707963267948966, (double)x));
			return;
		}
		// the position of the first bit that is needed
		const int from = (power - 2) / 32, by = (power - 2) % 32;
		uint32_t w[3];
		UNROLL for (int k = 0; k < 3; k++)
			w[k] = by ? of_pi[from + k] << by | of_pi[from + k + 1] >> (32 - by) : of_pi[from + k];
		const uint64_t m = (bits & 0x7fffff) | 0x800000, low = m * w[2] >> 32, middle = m * w[1] + low;
		const uint64_t sum = (m * w[0] << 32) + middle; // its first two bits are quarters
		const double part = (double)(int64_t)(sum << 2) * 0x1p-64 * 1.5707963267948966;
		quarter = (int)(sum >> 62) + (int)(sum >> 61 & 1);
		quarter = (bits >> 31 ? -quarter : quarter) & 3, rest = (float)(bits >> 31 ? -part : part);
	}
};

// sin(x + π/2·more), by Cephes' polynomials. It is NaN for infinity.
DEVICE float sine_from(float x, int more) {
	if (x - x != 0)
		return x - x;
	const quarters at(x);
	const float s = at.rest * at.rest;
	const int quarter = at.quarter + more;
	float y;
	if (quarter & 1) {
		y = fmaf(fmaf(fmaf(2.443315711809948e-5f, s, -1.388731625493765e-3f), s, 4.166664568298827e-2f),
		         s * s, fmaf(-0.5f, s, 1.0f));
	} else
		y = fmaf(fmaf(fmaf(-1.9515295891e-4f, s, 8.3321608736e-3f), s, -1.6666654611e-1f), s * at.rest,
		         at.rest);
	return quarter & 2 ? -y : y;
}
DEVICE float sine(float x) { return sine_from(x, 0); }
DEVICE float cosine(float x) { return sine_from(x, 1); }
