// Package assert reports in tests what is not as it should be. Package require ends a test instead.
package assert

import "github.com/google/go-cmp/cmp"

// reporter is a test, of package testing or of rapid.
type reporter interface {
	Helper()
	Error(args ...any)
}

// NoError reports what went wrong, if anything did.
func NoError(t reporter, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Equal reports how a value differs from the wanted one.
func Equal(t reporter, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Error(diff)
	}
}
