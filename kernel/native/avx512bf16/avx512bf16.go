//go:build amd64

// Package avx512bf16 compiles the kernels of package native for AVX-512, over bfloat16. Package native calls
// them on processors that have it.
package avx512bf16

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
