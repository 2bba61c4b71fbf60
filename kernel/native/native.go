// Package native has the C of package kernel: its functions in headers, which a package for each SIMD level and
// type of elements compiles, the choice between these, and products by oneDNN. weft.h says what there is. The go
// command compiles several packages at a time, and one anew only where its own files or those of its imports are
// changed; the C takes most of a first build. So these packages have no tests and import nothing that changes.
package native

// #cgo CFLAGS: -O3 -g1 -std=gnu11 -Wno-psabi
// #cgo LDFLAGS: -ldnnl -lgomp -lm
import "C"

import "embed"

// The headers are parts of this package, so that what includes them is compiled anew where they change: the go
// command does not look for headers in other folders. Package kernel includes one of them, and the packages of
// the levels all.
//
//go:embed *.h
var _ embed.FS

// Arguments has the headers that kernels of a device include.
//
//go:embed functions.h matrices.h weft.h workspace.h *_args.h
var Arguments embed.FS
