package portable

// By default GCC fuses a product and a sum if it sees both in one expression. What it sees depends on the
// element type, and on inlining. The results of a kernel over bfloat16 would then not be those over float32,
// rounded. They would also differ from the portable kernels on x86, which has no such instruction at this
// level. With -std=c11 GCC rounds each operation. This has the effect of -ffp-contract=off, which cgo does
// not accept.

// #cgo CFLAGS: -std=c11 -D_GNU_SOURCE
import "C"
