// Package native has the C of package bench: the probe loops for each SIMD level, and the choice between
// these. It has no tests, so that the C is compiled only where it changes.
package native

// #cgo CFLAGS: -O3 -std=gnu11 -Wno-psabi
import "C"

import "embed"

// The header is a part of this package, so that what includes it is compiled anew where it changes: the go
// command does not look for headers in other folders.
//
//go:embed probe.h
var _ embed.FS
