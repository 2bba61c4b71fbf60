// Package portablebf16 has the kernels for any processor, over bfloat16.
package portablebf16

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
