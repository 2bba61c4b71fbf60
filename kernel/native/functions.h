// Functions of vectors over all numbers, with PyTorch's values at the ends, each within a few units in the last
// place.

static inline vf choose(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
static inline vf truth(vi mask) { return (vf)((vi)all(1.0f) & mask); }
static inline vf magnitude(vf x) { return (vf)((vi)x & 0x7fffffff); }
static inline vf signed_as(vf y, vf x) { return (vf)((vi)y | ((vi)x & (vi)all(-0.0f))); } // y ≥ 0
static inline vf power_of_two(vi n) { return (vf)((n + 127) << 23); }

// e^x, also below the normal numbers, and infinity beyond the largest.
static inline vf full_exp(vf x) {
	const exponent e = reduce(-larger(all(-89.0f), -larger(all(-104.0f), x))); // in this order NaN stays NaN
	const vi n = __builtin_convertvector(e.n, vi), half = n >> 1;
	return (e.rest + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

// e^x − 1 = 2·(2^(n−1)·(e^r − 1) + 2^(n−1) − ½).
static inline vf full_expm1(vf x) {
	const exponent e = reduce(-larger(all(-89.0f), -larger(all(-26.0f), x)));
	const vf half = power_of_two(__builtin_convertvector(e.n, vi) - 1);
	return choose(e.n == 0, e.rest, 2.0f * (half * e.rest + (half - 0.5f)));
}

static inline vf full_log(vf x) {
	const vi below = x < all(FLT_MIN);
	const vf y = vlog(choose(below, x * 0x1p23f, x)) - choose(below, all(15.9423847f), (vf){0});
	const vf end = choose(x == 0, all(-INFINITY), choose(x == INFINITY, x, all(NAN)));
	return choose((x <= 0) | (x == INFINITY), end, y);
}

// ln u for u = 1 + x as it is rounded, and the part of x that rounding took.
static inline vf vlog1p(vf x) {
	const vf u = 1.0f + x, rest = (x - (u - 1.0f)) / u;
	return full_log(u) + choose(rest == rest, rest, (vf){0});
}

static inline vf vtanh(vf x) {
	const vf e = full_expm1(-2.0f * magnitude(x));
	return signed_as(-e / (2.0f + e), x);
}

static inline vf full_sigmoid(vf x) { return 1.0f / (1.0f + full_exp(-x)); }

// Polynomials for small x, and for ln(1 − |erf x|).
static inline vf verf(vf x) {
	const vf t = magnitude(x), s = x * x;
	vf p = all(-5.96761703e-4f);
	p = p * s + 4.99119423e-3f;
	p = p * s - 2.67681349e-2f;
	p = p * s + 1.12819925e-1f;
	p = p * s - 3.76125336e-1f;
	p = p * s + 1.28379166e-1f;
	vf q = t * -1.72853470e-5f + 3.83197126e-4f, u = t * -3.88396438e-3f + 2.42546219e-2f;
	q = q * s + u;
	q = q * t - 1.06777877e-1f;
	q = q * t - 6.34846687e-1f;
	q = q * t - 1.28717512e-1f;
	q = q * t - t;
	// beyond 4 it is 1, where the polynomial overflows
	return choose(t > 0.927734375f, signed_as(choose(t > 4.0f, all(1.0f), 1.0f - full_exp(q)), x), p * x + x);
}

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
static inline vf vgelu(vf x) { return 0.5f * x * (1.0f + verf(x * SQRT_HALF)); }
static inline vf vgelu_tanh(vf x) {
	return 0.5f * x * (1.0f + vtanh(0.797884561f * (x + 0.044715f * x * x * x)));
}
#undef SQRT_HALF

static inline vf vselu(vf x) { return choose(x > 0, 1.05070099f * x, 1.75809934f * full_expm1(x)); }
static inline vf vsoftplus(vf x) { return choose(x > 20.0f, x, vlog1p(full_exp(x))); }
static inline vf vlogsigmoid(vf x) { return choose(x < 0, x, (vf){0}) - vlog1p(full_exp(-magnitude(x))); }
