// Package portablebf16 compiles the kernels of package native for any processor, over bfloat16. Package
// native calls them where it has no better level.
package portablebf16

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
