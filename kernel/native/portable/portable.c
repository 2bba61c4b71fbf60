#include "../level_portable.h"
