enum { VW = 1 };
#define NARROW_KERNELS weft_narrow_portable_1
#include "narrow.h"
