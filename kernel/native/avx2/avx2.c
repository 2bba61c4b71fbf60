//go:build amd64

#include "../level_avx2.h"
