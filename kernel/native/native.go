// Package native has the C code of package kernel: its functions in headers, the choice of a SIMD level, and
// products by oneDNN. A package for each SIMD level and element type compiles the headers. weft.h lists
// everything. The C takes most of a first build. The go command compiles several packages at a time, and
// compiles one anew only if its own files or its imports have changed. So these packages have no tests, and
// import nothing that changes.
package native

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
// #cgo LDFLAGS: -ldnnl -lgomp -lm
import "C"

import "embed"

// The headers are embedded in this package, so that packages that include them are compiled anew when they
// change: the go command does not look for headers in other folders. Package kernel includes one of them, and
// the packages of the levels include all.
//
//go:embed *.h
var _ embed.FS

// Arguments has the headers that the kernels of a device include.
//
//go:embed functions.h matrices.h weft.h workspace.h *_args.h
var Arguments embed.FS
