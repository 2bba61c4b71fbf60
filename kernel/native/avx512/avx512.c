//go:build amd64

#include "../level_avx512.h"
