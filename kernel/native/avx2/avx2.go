//go:build amd64

// Package avx2 has the kernels for AVX2, over float32.
package avx2

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
