// Package alloctest counts the bytes that readers of foreign files allocate. Tests of readers call it.
package alloctest

import (
	"runtime"
	"testing"
)

// Bytes returns how many bytes do allocates, with those that are freed again.
func Bytes(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A reader may allocate fixed bytes for buffers, and per byte of a file the lists that grow from a thousand
// bytes: deflate packs up to so many into one.
const (
	buffers = 64 << 20
	perByte = 16 << 10
)

// Reading runs do, which reads files of so many bytes. It fails the test if do allocates more than their
// contents can ask for, as for a size that a file only claims.
func Reading(t testing.TB, bytes int, do func()) {
	t.Helper()
	if took := Bytes(do); took > buffers+perByte*uint64(bytes) {
		t.Errorf("%d bytes were allocated for files of %d", took, bytes)
	}
}
