// All kernels, as one program.
#include "pointwise.cuh"
#include "spmm.cuh"
