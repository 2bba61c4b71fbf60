// All kernels, as one program.
#include "loss.cuh"
#include "norm.cuh"
#include "pointwise.cuh"
#include "product.cuh"
#include "rows.cuh"
#include "spmm.cuh"
#include "step.cuh"
#include "sums.cuh"
