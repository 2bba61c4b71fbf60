package comm

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrTimeout is wrapped by the error of a wait that passed its deadline.
	ErrTimeout = errors.New("no answer in time")

	// ErrAborted is wrapped by the errors of requests that Abort ended: another error is their cause.
	ErrAborted = errors.New("communication was aborted")

	// ErrLength is wrapped by the error of a receive whose message has another length.
	ErrLength = errors.New("message of another length")
)

// Error says where communication failed. Ranks are ranks of the whole run, also in a group made by Group.
type Error struct {
	Rank, Peer int
	Operation  string // "receive of halo rows", "send in an all-to-all of layout switches"
	Epoch      int    // 0: before the first epoch
	Layer      string // "": in no layer
	Err        error
}

// Error is one line: rank, operation, peer, epoch, layer, the reason, and what to do.
func (e *Error) Error() string {
	if own := (spoolError{}); errors.As(e.Err, &own) {
		return own.Error() // no other rank is involved
	}
	var b strings.Builder
	fmt.Fprintf(&b, "rank %d: %s, peer rank %d", e.Rank, e.Operation, e.Peer)
	b.WriteString(place{e.Epoch, e.Layer}.String())
	fmt.Fprintf(&b, ": %v", e.Err)
	switch {
	case errors.Is(e.Err, ErrAborted): // the cause has advice of its own
	case errors.Is(e.Err, ErrTimeout):
		fmt.Fprintf(&b, ": rank %d is stopped, dead or slow: see what it printed; a slow one needs "+
			"a longer --comm-timeout",
			e.Peer)
	case errors.Is(e.Err, ErrLength):
		b.WriteString(": start every rank with the same program, data and settings")
	default:
		fmt.Fprintf(&b, ": see what rank %d printed, and whether this rank still reaches its machine", e.Peer)
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// spoolError is why a message cannot be kept until it is received.
type spoolError struct{ error }

func (e spoolError) Unwrap() error { return e.error }

// Unwrap is the reason.
func (e *Error) Unwrap() error { return e.Err }

// place is a place in a run.
type place struct {
	epoch int
	layer string
}

// String is the place as the end of a sentence: ", epoch 3, layer convs.1".
func (p place) String() string {
	var s string
	if p.epoch > 0 {
		s = fmt.Sprintf(", epoch %d", p.epoch)
	}
	if p.layer != "" {
		s += ", layer " + p.layer
	}
	return s
}
