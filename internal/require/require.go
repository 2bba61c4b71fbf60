// Package require ends tests that cannot go on.
package require

// NoError ends a test, with what went wrong if anything did.
func NoError(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
