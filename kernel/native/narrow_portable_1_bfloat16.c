#define WEFT_OF_BFLOAT16
#include "narrow_portable_1.c"
