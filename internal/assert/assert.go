// Package assert reports in tests what is not as it should be. Package require ends a test instead. The last
// arguments say what a check is about: a value, or a format and its values, or nothing. Tests of all packages
// call it.
package assert

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"

	"weft/internal/refusal"
)

// reporter is a test, of package testing or of rapid.
type reporter interface {
	Helper()
	Error(args ...any)
}

// report reports what is wrong with what a check is about.
func report(t reporter, about []any, wrong string) {
	t.Helper()
	switch len(about) {
	case 0:
	case 1:
		wrong = fmt.Sprintf("%v: %s", about[0], wrong)
	default:
		wrong = fmt.Sprintf(about[0].(string), about[1:]...) + ": " + wrong
	}
	t.Error(wrong)
}

// NoError reports what went wrong, if anything did.
func NoError(t reporter, err error, about ...any) {
	t.Helper()
	if err != nil {
		report(t, about, err.Error())
	}
}

// Equal reports how a value differs from the wanted one. Fields that are not exported count too. If the value
// is a text of several lines, it reports the lines that differ.
func Equal[T any](t reporter, want, got T, about ...any) {
	t.Helper()
	kind := reflect.TypeFor[T]().Kind()
	if text := reflect.ValueOf(want); kind == reflect.String && strings.Count(text.String(), "\n") > 1 {
		lines := strings.Split(text.String(), "\n")
		Equal(t, lines, strings.Split(reflect.ValueOf(got).String(), "\n"), about...)
		return
	}
	if kind <= reflect.Complex128 || kind == reflect.String {
		if any(want) != any(got) {
			report(t, about, fmt.Sprintf("%#v, want %#v", got, want))
		}
		return
	}
	if reflect.DeepEqual(want, got) {
		return // far faster than cmp
	}
	every := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(want, got, every); diff != "" {
		report(t, about, fmt.Sprintf("%.5000s", diff))
	}
}

// Near reports a number farther from the wanted one than is allowed, or none.
func Near(t reporter, want, got, within float64, about ...any) {
	t.Helper()
	if !(math.Abs(want-got) <= within) {
		report(t, about, fmt.Sprintf("%v, want %v within %v", got, want, within))
	}
}

// EqualBy is Equal with options of the comparison.
func EqualBy(t reporter, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Error(diff)
	}
}

// Len reports a list of another length.
func Len(t reporter, list any, length int, about ...any) {
	t.Helper()
	if n := reflect.ValueOf(list).Len(); n != length {
		report(t, about, fmt.Sprintf("%d of %.1000s, want %d", n, fmt.Sprint(list), length))
	}
}

// Empty reports a list that is not empty.
func Empty(t reporter, list any, about ...any) {
	t.Helper()
	Len(t, list, 0, about...)
}

// Contains reports a text without a part of it.
func Contains(t reporter, text, part string, about ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		report(t, about, fmt.Sprintf("%q, want a text with %q", text, part))
	}
}

// Error reports that there is no error.
func Error(t reporter, err error, about ...any) {
	t.Helper()
	if err == nil {
		report(t, about, "no error")
	}
}

// ErrorIs reports another error, or none.
func ErrorIs(t reporter, err, want error, about ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		report(t, about, fmt.Sprintf("%v, want %v", err, want))
	}
}

// ErrorContains reports an error without a part of its text, or none.
func ErrorContains(t reporter, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		report(t, about, fmt.Sprintf("%v, want an error with %q", err, part))
	}
}

// EqualError reports an error of another text, or none.
func EqualError(t reporter, err error, text string, about ...any) {
	t.Helper()
	if err == nil || err.Error() != text {
		report(t, about, fmt.Sprintf("%v, want %s", err, text))
	}
}

// Refused reports an error that is no refusal of one line with a part of its text.
func Refused(t reporter, err error, part string, about ...any) {
	t.Helper()
	if !refusal.Is(err) || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "\n") {
		report(t, about, fmt.Sprintf("%v, want a refusal with %q", err, part))
	}
}

// RefusedFor is Refused of an error whose text begins with what it is about.
func RefusedFor(t reporter, err error, subject, part string, about ...any) {
	t.Helper()
	Refused(t, err, part, about...)
	if err != nil && !strings.HasPrefix(err.Error(), subject) {
		report(t, about, fmt.Sprintf("%v, want a text that begins with %q", err, subject))
	}
}

// EqualRefusal reports an error that is no refusal with this text.
func EqualRefusal(t reporter, err error, text string, about ...any) {
	t.Helper()
	if !refusal.Is(err) || err.Error() != text {
		report(t, about, fmt.Sprintf("%v, want the refusal %s", err, text))
	}
}
