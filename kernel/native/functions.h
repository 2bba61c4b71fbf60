// Mathematical functions that are defined for all numbers, NaN and infinity included, as PyTorch defines
// them. Each is exact to a few units in the last place. On a CPU, vf and vi are vectors of floats and of
// integers. On a card they are one number each (device/kernels/functions.cuh). Both give the same bits.
// FUSED(a, b, c) is a·b + c, which is rounded once where the processor has such an instruction.

// The parts of e^x: x = n·ln2 + r with |r| ≤ ln2/2. rest is e^r − 1, by Cephes' polynomial. Adding 1.5·2^23
// rounds x/ln2 to an integer, which then stands in the low bits.
typedef struct {
	vf n, rest;
	vi power; // to be added to the bits of a number, which multiplies it by 2^n
} exponent;

static inline exponent reduce(vf x) {
	const vf shifted = FUSED(x, 1.44269504088896341f, 12582912.0f), n = shifted - 12582912.0f;
	const vf r = FUSED(n, 2.12194440e-4f, FUSED(-n, 0.693359375f, x));
	vf p = FUSED(r, 1.9875691500e-4f, 1.3981999507e-3f);
	p = FUSED(p, r, 8.3334519073e-3f);
	p = FUSED(p, r, 4.1665795894e-2f);
	p = FUSED(p, r, 1.6666665459e-1f);
	p = FUSED(p, r, 5.0000001201e-1f);
	const exponent e = {n, FUSED(p, r * r, r), BITS(shifted) << 23};
	return e;
}

// e^x within 2 units in the last place. It is 0 below the normal numbers.
static inline vf vexp(vf x) {
	const exponent e = reduce(-larger(all(-88.3762f), -x)); // in this order NaN stays NaN
	return choose(x < all(-87.3365f), all(0), OF_BITS(BITS(e.rest + 1.0f) + e.power));
}

// e^x − 1, exact also for small x.
static inline vf vexpm1(vf x) {
	const exponent e = reduce(-larger(all(-88.3762f), -larger(all(-87.3365f), x)));
	return choose(e.n == 0, e.rest, OF_BITS(BITS(e.rest + 1.0f) + e.power) - 1.0f);
}

// ln x for normal numbers, by Cephes' polynomial: x = 2^n·f with √½ ≤ f < √2. It is NaN for NaN and infinity.
static inline vf vlog(vf x) {
	const vi up = (BITS(x) - 0x3f3504f3) >> 23; // floor of the exponent of x/√½
	const vf n = FLOATS(up), f = OF_BITS(BITS(x) - (up << 23)) - 1.0f, f2 = f * f;
	vf p = FUSED(f, 7.0376836292e-2f, -1.1514610310e-1f);
	p = FUSED(p, f, 1.1676998740e-1f);
	p = FUSED(p, f, -1.2420140846e-1f);
	p = FUSED(p, f, 1.4249322787e-1f);
	p = FUSED(p, f, -1.6668057665e-1f);
	p = FUSED(p, f, 2.0000714765e-1f);
	p = FUSED(p, f, -2.4999993993e-1f);
	p = FUSED(p, f, 3.3333331174e-1f);
	const vf y = FUSED(f2, -0.5f, FUSED(f * f2, p, n * -2.12194440e-4f));
	return FUSED(n, 0.693359375f, f + y) + (x - x);
}

static inline vf magnitude(vf x) { return OF_BITS(BITS(x) & 0x7fffffff); }
// y ≥ 0 with the sign of x
static inline vf signed_as(vf y, vf x) { return OF_BITS(BITS(y) | (BITS(x) & BITS(all(-0.0f)))); }
static inline vf power_of_two(vi n) { return OF_BITS((n + 127) << 23); }

// e^x, with subnormal results, and infinity beyond the largest float.
static inline vf full_exp(vf x) {
	const exponent e = reduce(-larger(all(-89.0f), -larger(all(-104.0f), x))); // in this order NaN stays NaN
	const vi n = WHOLE(e.n), half = n >> 1;
	return (e.rest + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

// e^x − 1 = 2·(2^(n−1)·(e^r − 1) + 2^(n−1) − ½).
static inline vf full_expm1(vf x) {
	const exponent e = reduce(-larger(all(-89.0f), -larger(all(-26.0f), x)));
	const vf half = power_of_two(WHOLE(e.n) - 1);
	return choose(e.n == 0, e.rest, 2.0f * FUSED(half, e.rest, half - 0.5f));
}

// ln x for all numbers: −∞ for 0, NaN for negative numbers.
static inline vf full_log(vf x) {
	const vi below = x < 0x1p-126f;
	const vf y = vlog(choose(below, x * 0x1p23f, x)) - choose(below, all(15.9423847f), all(0));
	const vf end = choose(x == 0, all(-INFINITY), choose(x == INFINITY, x, all(NAN)));
	return choose((x <= 0) | (x == INFINITY), end, y);
}

// ln(1 + x) = ln u + rest: u is 1 + x rounded, and rest corrects for the part of x that the rounding lost.
static inline vf vlog1p(vf x) {
	const vf u = 1.0f + x, rest = (x - (u - 1.0f)) / u;
	return full_log(u) + choose(rest == rest, rest, all(0));
}

// tanh |x| = −e/(2 + e) for e = e^(−2·|x|) − 1, with the sign of x.
static inline vf vtanh(vf x) {
	const vf e = full_expm1(-2.0f * magnitude(x));
	return signed_as(-e / (2.0f + e), x);
}

static inline vf full_sigmoid(vf x) { return 1.0f / (1.0f + full_exp(-x)); }

// The error function: a polynomial for small x, and else 1 − e^q, where the polynomial q is ln(1 − |erf x|).
static inline vf verf(vf x) {
	const vf t = magnitude(x), s = x * x;
	vf p = all(-5.96761703e-4f);
	p = FUSED(p, s, 4.99119423e-3f);
	p = FUSED(p, s, -2.67681349e-2f);
	p = FUSED(p, s, 1.12819925e-1f);
	p = FUSED(p, s, -3.76125336e-1f);
	p = FUSED(p, s, 1.28379166e-1f);
	vf q = FUSED(t, -1.72853470e-5f, 3.83197126e-4f);
	const vf u = FUSED(t, -3.88396438e-3f, 2.42546219e-2f);
	q = FUSED(q, s, u);
	q = FUSED(q, t, -1.06777877e-1f);
	q = FUSED(q, t, -6.34846687e-1f);
	q = FUSED(q, t, -1.28717512e-1f);
	q = FUSED(q, t, -t);
	// beyond 4, where the polynomial overflows, the result is 1
	return choose(t > 0.927734375f, signed_as(choose(t > 4.0f, all(1.0f), 1.0f - full_exp(q)), x),
	              FUSED(p, x, x));
}

// Rounds to the nearest integer, and ties to even.
static inline vf vround(vf x) {
	const vf t = magnitude(x), whole = all(0x1p23f);
	return choose(t < whole, signed_as(t + whole - whole, x), x);
}

static inline vf vfloor(vf x) {
	const vf r = vround(x);
	return choose(r > x, r - 1.0f, r);
}

static inline vf vceil(vf x) { return -vfloor(-x); }

#define SQRT_HALF 0.707106781f
// GELU x·Φ(x), and its approximation by tanh.
static inline vf vgelu(vf x) { return 0.5f * x * (1.0f + verf(x * SQRT_HALF)); }
static inline vf vgelu_tanh(vf x) {
	return 0.5f * x * (1.0f + vtanh(0.797884561f * FUSED(0.044715f * x * x, x, x)));
}
#undef SQRT_HALF

// SELU, softplus ln(1 + e^x), and log-sigmoid min(x, 0) − ln(1 + e^−|x|). Softplus is x above 20, as in
// PyTorch.
static inline vf vselu(vf x) { return choose(x > 0, 1.05070099f * x, 1.75809934f * full_expm1(x)); }
static inline vf vsoftplus(vf x) { return choose(x > 20.0f, x, vlog1p(full_exp(x))); }
static inline vf vlogsigmoid(vf x) { return choose(x < 0, x, all(0)) - vlog1p(full_exp(-magnitude(x))); }
