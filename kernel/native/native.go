// Package native has the C functions of package kernel, at each SIMD level, and its products by oneDNN. It has
// no tests and imports nothing that changes, so that the C, which takes minutes to compile, is compiled
// anew only where it is changed itself. weft.h says what there is.
package native

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
// #cgo LDFLAGS: -ldnnl -lgomp -lm
import "C"

import _ "embed"

// The header is a part of this package, so that package kernel, which includes it, is compiled anew where it
// changes: the go command does not look for headers in other folders.
//
//go:embed weft.h
var _ string
