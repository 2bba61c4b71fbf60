package portablebf16

// GCC rounds each operation with this option, as in package portable.

// #cgo CFLAGS: -std=c11 -D_GNU_SOURCE
import "C"
