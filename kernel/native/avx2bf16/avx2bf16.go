//go:build amd64

// Package avx2bf16 has the kernels for AVX2, over bfloat16.
package avx2bf16

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
