// Conversions between vectors of bfloat16s and vectors of words. Each takes one instruction or two, where a
// compiler makes five of __builtin_convertvector.

#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef uint16_t halves_2 __attribute__((vector_size(4)));
typedef uint16_t halves_4 __attribute__((vector_size(8)));
typedef uint16_t halves_8 __attribute__((vector_size(16)));
typedef uint16_t halves_16 __attribute__((vector_size(32)));
typedef uint32_t words_2 __attribute__((vector_size(8)));
typedef uint32_t words_4 __attribute__((vector_size(16)));
typedef uint32_t words_8 __attribute__((vector_size(32)));
typedef uint32_t words_16 __attribute__((vector_size(64)));

static inline words_2 words_of_2(halves_2 h) { return __builtin_convertvector(h, words_2); }
static inline halves_2 halves_of_2(words_2 w) { return __builtin_convertvector(w, halves_2); }
#if defined(__AVX2__)
static inline words_4 words_of_4(halves_4 h) {
	return (words_4)_mm_cvtepu16_epi32((__m128i)(__v2di){(int64_t)h, 0});
}
static inline halves_4 halves_of_4(words_4 w) {
	return (halves_4)((__v2di)_mm_packus_epi32((__m128i)w, (__m128i)w))[0];
}
static inline words_8 words_of_8(halves_8 h) { return (words_8)_mm256_cvtepu16_epi32((__m128i)h); }
static inline halves_8 halves_of_8(words_8 w) {
	return (halves_8)_mm_packus_epi32(_mm256_castsi256_si128((__m256i)w),
	                                  _mm256_extracti128_si256((__m256i)w, 1));
}
#else
static inline words_4 words_of_4(halves_4 h) { return __builtin_convertvector(h, words_4); }
static inline halves_4 halves_of_4(words_4 w) { return __builtin_convertvector(w, halves_4); }
static inline words_8 words_of_8(halves_8 h) { return __builtin_convertvector(h, words_8); }
static inline halves_8 halves_of_8(words_8 w) { return __builtin_convertvector(w, halves_8); }
#endif
#if defined(__AVX512F__)
static inline words_16 words_of_16(halves_16 h) { return (words_16)_mm512_cvtepu16_epi32((__m256i)h); }
static inline halves_16 halves_of_16(words_16 w) { return (halves_16)_mm512_cvtepi32_epi16((__m512i)w); }
#else
static inline words_16 words_of_16(halves_16 h) { return __builtin_convertvector(h, words_16); }
static inline halves_16 halves_of_16(words_16 w) { return __builtin_convertvector(w, halves_16); }
#endif
// A vector's bfloat16s as words, and the lower halves of words as a vector of bfloat16s.
#define WORDS_OF(h) \
	_Generic((h), halves_2: words_of_2, halves_4: words_of_4, halves_8: words_of_8, halves_16: words_of_16)(h)
#define HALVES_OF(w) \
	_Generic((w), words_2: halves_of_2, words_4: halves_of_4, words_8: halves_of_8, words_16: halves_of_16)(w)
