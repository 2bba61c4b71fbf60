// The kernels whose traffic is counted.
#include "attend_back.cuh"
#include "spmm.cuh"
