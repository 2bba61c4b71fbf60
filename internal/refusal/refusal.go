// Package refusal marks the errors that are the request's fault: a bad flag, a damaged file, an impossible mesh. The command
// answers them with exit status 2; every other error means that the work itself failed, status 1.
package refusal

import (
	"errors"
	"fmt"
)

type refused struct{ error }

func (r refused) Unwrap() error { return r.error }

// Errorf returns an error that says why a request is refused. The text is one line: the file or flag, the reason, the way out.
// It wraps errors as fmt.Errorf does.
func Errorf(format string, args ...any) error { return refused{fmt.Errorf(format, args...)} }

// Is reports whether err, or an error it wraps, is a refusal.
func Is(err error) bool {
	var r refused
	return errors.As(err, &r)
}
