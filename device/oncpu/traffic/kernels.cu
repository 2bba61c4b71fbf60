// The kernels whose traffic tests count.
#include "attend_back.cuh"
#include "softmax_sum.cuh"
#include "spmm.cuh"
