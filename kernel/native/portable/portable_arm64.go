package portable

// By default GCC fuses a product and a sum where it sees both in one expression, and what it sees depends on the
// type of the elements and on what is inlined. A kernel of bfloat16s would then not be that of float32, rounded,
// and bits would be others than those of the portable kernels on x86, which has no such instruction at this
// level. In the C of the standard GCC rounds each operation. That is -ffp-contract=off, which cgo does not accept.

// #cgo CFLAGS: -std=c11 -D_GNU_SOURCE
import "C"
