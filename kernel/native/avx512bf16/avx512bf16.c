//go:build amd64

#define WEFT_OF_BFLOAT16
#include "../level_avx512.h"
