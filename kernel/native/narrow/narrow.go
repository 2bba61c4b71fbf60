//go:build amd64

// Package narrow compiles kernels for rows of fewer columns than a vector has lanes. The kernels of the SIMD
// levels call them.
package narrow

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
