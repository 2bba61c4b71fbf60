//go:build amd64

#pragma GCC push_options
#pragma GCC target("avx2,fma")
enum { VW = 2 };
#define NARROW_KERNELS weft_narrow_avx2_2
#include "../narrow.h"
#pragma GCC pop_options
