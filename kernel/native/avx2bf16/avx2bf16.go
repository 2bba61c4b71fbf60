//go:build amd64

// Package avx2bf16 compiles the kernels of package native for AVX2, over bfloat16. Package native calls them
// on processors without AVX-512.
package avx2bf16

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
