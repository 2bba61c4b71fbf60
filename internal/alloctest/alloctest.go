// Package alloctest counts the bytes that readers of foreign files allocate, for their tests.
package alloctest

import (
	"runtime"
	"testing"
)

// Bytes is how many bytes do allocates, those that are freed again among them.
func Bytes(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What a reader may allocate: buffers, and for each byte of a file what a thousand bytes become that it was
// deflated from, in lists that grow.
const (
	buffers = 64 << 20
	perByte = 16 << 10
)

// Reading fails the test where do, which reads files of so many bytes, allocates more than their contents can
// ask for: a size that is only claimed, say.
func Reading(t testing.TB, bytes int, do func()) {
	t.Helper()
	if took := Bytes(do); took > buffers+perByte*uint64(bytes) {
		t.Errorf("%d bytes were allocated for files of %d", took, bytes)
	}
}
