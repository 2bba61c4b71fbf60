// Package portable compiles the kernels of package native for any processor, over float32. Package native
// calls them where it has no better level.
package portable

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
import "C"

import _ "weft/kernel/native" // the headers
