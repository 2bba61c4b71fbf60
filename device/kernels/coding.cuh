// Encoding of rows to be sent. kernel/native/row_args.h has the formats, and kernel/native/coding.h the
// rounding. The bits are the same as there. A warp has a row.
#pragma once
#include "random.cuh"

// Z and R, with which a row of integers begins. They are loaded and stored byte by byte, as rows lie at any
// address.
struct row_range {
	float least, range;
	DEVICE void load(const uint8_t *p) {
		uint32_t words[2] = {};
		UNROLL for (int i = 0; i < 8; i++)
			words[i / 4] |= (uint32_t)p[i] << i % 4 * 8;
		least = __uint_as_float(words[0]), range = __uint_as_float(words[1]);
	}
	DEVICE void store(uint8_t *p, int lane) const {
		if (lane < 8)
			p[lane] = (uint8_t)(__float_as_uint(lane < 4 ? least : range) >> lane % 4 * 8);
	}
};
enum { RANGE_BYTES = 8, MOST = 0x7f7fffff }; // the bits of the largest float

// Z and R of a row; NaN and 0 if a number of it, or R, is not finite.
template <typename T> DEVICE row_range range_of(const T *x, const int32_t *columns, int64_t count, int lane) {
	float least = __uint_as_float(MOST), most = -least, odd = 0;
	for (int64_t c = lane; c < count; c += 32) {
		const float v = number(x[columns ? columns[c] : c]);
		odd += v - v, least = v < least ? v : least, most = v > most ? v : most;
	}
	least = -largest_of_warp(-least);
	const row_range r = {least, largest_of_warp(most) - least};
	return sum_of_warp(odd) != 0 || r.range - r.range != 0 ? row_range{__uint_as_float(0x7fc00000), 0} : r;
}

// Encodes a row as integers. A lane has the eight columns of a counter. The lane of an even column also packs
// the code of the next column, if codes have 4 bits.
template <typename T> DEVICE void encode_integers(uint8_t *z, const T *x, const weft_encode_args &a,
                                                  uint32_t vertex, int bits, int lane) {
	const row_range r = range_of(x, a.columns, a.count, lane);
	const float levels = (float)((1 << bits) - 1), scale = levels / r.range;
	const bool equal = !(r.range > 0) || scale - scale != 0; // or almost equal
	r.store(z, lane);
	for (int64_t at = 0; at < a.count; at += 2 * BATCH) {
		const int64_t first = at + lane / LANES * BATCH + lane % LANES;
		const uint32_t batch = (uint32_t)(first / BATCH);
		const random_words words = random_bits(a.key, vertex, batch, lane % LANES, a.stream);
		UNROLL for (int i = 0; i < 8; i++) {
			const int64_t c = first + i * LANES;
			uint32_t code = 0;
			if (c < a.count && !equal) {
				const float v = number(x[a.columns ? a.columns[c] : c]);
				const float random = ((float)word_of(words, i) + 0.5f) / 65536.0f;
				code = (uint32_t)fminf(fmaf(v - r.least, scale, random), levels);
			}
			const uint32_t next = __shfl_xor_sync(ALL, code, 1);
			if (bits == 8 && c < a.count)
				z[RANGE_BYTES + c] = (uint8_t)code;
			if (bits == 4 && c < a.count && c % 2 == 0)
				z[RANGE_BYTES + c / 2] = (uint8_t)(code | next << 4);
		}
	}
}

// The bytes of an encoded row of `count` integers.
DEVICE int64_t coded(int64_t count, int bits) { return RANGE_BYTES + (count * bits + 7) / 8; }

// Row i of z = the encoded columns of a row of x.
STORAGE_KERNEL(encode, weft_encode_args) {
	const int64_t i = first + thread_number() / 32, row = i < last && a.rows ? a.rows[i] : i;
	const int lane = threadIdx.x % 32, bits = a.format == WEFT_FORMAT_INT8 ? 8 : 4;
	const T *x = (const T *)a.x + row * a.cols;
	if (i >= last)
		return;
	if (a.format == WEFT_FORMAT_FLOAT32 || a.format == WEFT_FORMAT_BFLOAT16)
		for (int64_t c = lane; c < a.count; c += 32)
			store_either(a.z, a.format, i * a.count + c, number(x[a.columns ? a.columns[c] : c]));
	else
		encode_integers((uint8_t *)a.z + i * coded(a.count, bits), x, a, (uint32_t)(a.ids ? a.ids[row] : row),
		                bits, lane);
}

// Decodes row i of x into the columns of a row of z, or adds it to them.
STORAGE_KERNEL(decode, weft_decode_args) {
	const int64_t i = first + thread_number() / 32;
	const int lane = threadIdx.x % 32, bits = a.format == WEFT_FORMAT_INT8 ? 8 : 4;
	if (i >= last)
		return;
	const bool numbers = a.format == WEFT_FORMAT_FLOAT32 || a.format == WEFT_FORMAT_BFLOAT16;
	const uint8_t *codes = (const uint8_t *)a.x + i * coded(a.count, bits);
	row_range r = {};
	if (!numbers)
		r.load(codes);
	const float step = r.range / (float)((1 << bits) - 1);
	T *z = (T *)a.z + (a.rows ? a.rows[i] : i) * a.cols;
	for (int64_t c = lane; c < a.count; c += 32) {
		const auto code = [&] {
			return (float)(bits == 8 ? codes[RANGE_BYTES + c] : codes[RANGE_BYTES + c / 2] >> c % 2 * 4 & 15);
		};
		const float v = numbers ? load_either(a.x, a.format, i * a.count + c) : fmaf(code(), step, r.least);
		T *to = z + (a.columns ? a.columns[c] : c);
		// with a list of columns −0 becomes 0
		round_to(to, a.accumulate ? v + number(*to) : a.columns ? v + 0.0f : v);
	}
}
