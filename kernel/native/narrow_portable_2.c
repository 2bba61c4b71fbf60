enum { VW = 2 };
#define NARROW_KERNELS weft_narrow_portable_2
#include "narrow.h"
