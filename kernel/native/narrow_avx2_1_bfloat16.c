//go:build amd64

#define WEFT_OF_BFLOAT16
#include "narrow_avx2_1.c"
