package launch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"weft/internal/refusal"
)

// ErrInterrupted ends work that a signal stopped.
var ErrInterrupted = errors.New("interrupted")

// Common is an error to which all ranks come at the same point of their work. Their connection still works.
type Common struct{ Err error }

// Error is the text of the error itself.
func (c *Common) Error() string { return c.Err.Error() }

// Unwrap is the error itself.
func (c *Common) Unwrap() error { return c.Err }

// isCommon reports whether all ranks have come to the error.
func isCommon(err error) bool {
	var common *Common
	return errors.As(err, &common)
}

// kind is how a caller tells errors apart. It travels in front of an error's text.
type kind byte

const (
	failed      kind = iota // none of the others
	refused                 // refusal.Is
	interrupted             // ErrInterrupted
	cancelled               // context.Canceled
)

func kindOf(err error) kind {
	switch {
	case errors.Is(err, ErrInterrupted):
		return interrupted
	case refusal.Is(err):
		return refused
	case errors.Is(err, context.Canceled):
		return cancelled
	}
	return failed
}

// pack is an error as it travels to other ranks: its kind, its subject and its text. It is "" for nil.
func pack(err error) string {
	if err == nil {
		return ""
	}
	return string([]byte{byte(kindOf(err))}) + string(refusal.SubjectOf(err)) + "\x00" + err.Error()
}

// unpack makes another rank's error from what pack returned.
func unpack(packed string) (err error) {
	subject, text, _ := strings.Cut(packed[1:], "\x00")
	switch kind(packed[0]) {
	case refused:
		err = refusal.Errorf("%s", text)
	case interrupted:
		err = remote{text, ErrInterrupted}
	case cancelled:
		err = remote{text, context.Canceled}
	default:
		err = errors.New(text)
	}
	if subject != "" {
		err = refusal.Subject(subject).Of(err)
	}
	return err
}

// remote is another rank's error: its text and its kind.
type remote struct {
	text string
	kind error
}

func (r remote) Error() string { return r.text }
func (r remote) Unwrap() error { return r.kind }

// from names the rank that an error comes from, unless it is rank 0, or a signal has ended the work: a
// launcher sends signals to all ranks.
func from(rank int, err error) error {
	if k := kindOf(err); rank == 0 || k == interrupted || k == cancelled {
		return err
	}
	return fmt.Errorf("rank %d: %w", rank, err)
}

// Fault is a panic as an error: a fault of the program, or the end of a pass that cannot go on.
type Fault struct {
	Value any    // the panic's value
	Where []byte // its stack, for whoever looks for the fault
	place string // " on worker 1"
}

// Recovered returns the error of a panic. It is called on the stack of the panic. where is a text such as "
// on worker 1".
func Recovered(value any, where string) *Fault { return &Fault{value, debug.Stack(), where} }

// Error is one line.
func (f *Fault) Error() string { return fmt.Sprintf("internal error%s: %v", f.place, f.Value) }

// Unwrap is the panic's value if it is an error, such as that of refused memory.
func (f *Fault) Unwrap() error {
	err, _ := f.Value.(error)
	return err
}

// told is an error about which this process has nothing more to say.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

// Told reports whether an error has been said already, or is another rank's to say.
func Told(err error) bool { return errors.As(err, &told{}) }

// ToldByFirst is err, for a rank, of a fault that every rank finds. Only rank 0 says it.
func ToldByFirst(rank int, err error) error {
	if err == nil || rank == 0 {
		return err
	}
	return told{err}
}
