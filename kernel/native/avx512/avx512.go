//go:build amd64

// Package avx512 has the kernels for AVX-512, over float32.
package avx512

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
