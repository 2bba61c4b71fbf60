#define WEFT_OF_BFLOAT16
#include "../level_portable.h"
