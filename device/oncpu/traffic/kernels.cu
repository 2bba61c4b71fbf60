// The kernels whose traffic tests count.
#include "attend_back.cuh"
#include "spmm.cuh"
