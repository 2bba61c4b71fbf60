package train

import (
	"context"
	"errors"

	"weft/comm/launch"
	"weft/internal/refusal"
)

// Refused reports whether an error says that the request makes no sense, such as an impossible mesh or a
// graph that the model does not fit. Nothing was computed then, and the error says what to change; the
// command's exit status is 2. Any other error says that a run failed; Interrupted and *Diverged are two kinds
// of it.
func Refused(err error) bool { return refusal.Is(err) }

// Interrupted reports whether an error says that a run was asked to stop.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, launch.ErrInterrupted)
}

// Damaged reports whether an error is about a damaged file. A damaged file is cut short, its bytes have
// changed, or its content contradicts itself or the files beside it. It may be a file of a graph store, a
// partition, a run, a checkpoint or weights, or of another program. Fetch or write it again. All these errors
// are Refused, too. A missing file counts as damage only if another file lists it.
func Damaged(err error) bool { return refusal.IsDamaged(err) }
