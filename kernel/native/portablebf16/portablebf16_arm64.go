package portablebf16

// As for float32: GCC rounds each operation.

// #cgo CFLAGS: -std=c11 -D_GNU_SOURCE
import "C"
