// Package require ends tests that cannot go on. Its checks are those of package assert.
package require

import "weft/internal/assert"

// ender is a test that can be ended.
type ender interface {
	Helper()
	Fatal(args ...any)
}

// ending ends a test where a check reports.
type ending struct{ ender }

func (e ending) Error(args ...any) {
	e.Helper()
	e.Fatal(args...)
}

// NoError ends a test if there is an error, and reports it.
func NoError(t ender, err error, about ...any) {
	t.Helper()
	assert.NoError(ending{t}, err, about...)
}

// Equal ends a test whose value is not the wanted one.
func Equal[T any](t ender, want, got T, about ...any) {
	t.Helper()
	assert.Equal(ending{t}, want, got, about...)
}

// Len ends a test with a list of another length.
func Len(t ender, list any, length int, about ...any) {
	t.Helper()
	assert.Len(ending{t}, list, length, about...)
}
