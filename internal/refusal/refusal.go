// Package refusal marks errors that are the request's fault: a bad setting, a damaged file, an impossible
// mesh. The command answers them with exit status 2. Any other error means that the work itself failed, with
// status 1. The package also tells damaged files apart, and marks the subject of an error. All packages that
// read users' input call it.
package refusal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// These bound a refusal's text, which may quote input of any length. A longer text keeps its beginning, which
// names the file or setting, and its end, which has the way out.
const (
	firstBytes = 1400
	lastBytes  = 600
)

type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

func (r refused) Error() string {
	text := r.error.Error()
	if len(text) <= firstBytes+lastBytes {
		return text
	}
	// This leaves out a character that is cut in two.
	return strings.ToValidUTF8(text[:firstBytes]+"[…]"+text[len(text)-lastBytes:], "")
}

// Errorf returns an error that says why a request is refused. The text is one line: the file or setting, the
// reason, the way out. A setting is named as its flag. Errorf wraps errors as fmt.Errorf does. The middle of
// a long text is cut out.
func Errorf(format string, args ...any) error {
	return refused{fmt.Errorf(format, args...)}
}

// List joins the first names for a message, and says how many more than most there are.
func List(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// In returns a refusal of the contents of a file, with the file's name in front of the error. nil stays nil.
func In(path string, err error) error {
	if err == nil {
		return nil
	}
	return Errorf("%s: %w", path, err)
}

// Advise adds a way out to a refusal. It returns any other error, such as too many open files, unchanged: the
// way out would not help.
func Advise(err error, wayOut string) error {
	if !Is(err) {
		return err
	}
	return fmt.Errorf("%w; %s", err, wayOut)
}

// Is reports whether err, or an error it wraps, is a refusal.
func Is(err error) bool {
	var r refused
	return errors.As(err, &r)
}

// damage marks an error of a file that is not whole.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

// Damaged returns a refusal of a file that is not whole: its bytes end too early, are not those that were
// written, or contradict each other or the files beside it. It wraps errors as Errorf does.
func Damaged(format string, args ...any) error { return damage{Errorf(format, args...)} }

// IsDamaged reports whether err, or an error it wraps, is about a file that is not whole.
func IsDamaged(err error) bool { return errors.As(err, new(damage)) }

// Subject is the subject of an error, without a name. The code that prints the error may put the name in
// front.
type Subject string

// The subjects of errors.
const (
	Graph   Subject = "graph"
	Weights Subject = "weights"
	Columns Subject = "columns" // columns of tables, other than those asked for or known
)

type about struct {
	error
	subject Subject
}

func (a about) Unwrap() error { return a.error }

// Errorf returns a refusal about the subject.
func (s Subject) Errorf(format string, args ...any) error { return s.Of(Errorf(format, args...)) }

// Of marks an error as about the subject.
func (s Subject) Of(err error) error { return about{err, s} }

// In reports whether err is about the subject.
func (s Subject) In(err error) bool { return SubjectOf(err) == s }

// SubjectOf returns the subject of err, "" if it has none.
func SubjectOf(err error) Subject {
	var a about
	errors.As(err, &a)
	return a.subject
}
