package launch

import (
	"context"
	"fmt"
	"os"
	"time"

	"weft/comm"
)

// End takes leave of the other ranks with the result of this rank's work, and returns it. The caller says it
// unless it is Told.
//
// If the work is done (nil), the ranks wait for each other and close the connection. If it ends with a Common
// error, rank 0 says it before any of several ranks ends, because a launcher ends the others when the first
// one ends. The connection is not closed then: to close it, the ranks would need a launcher that is not
// already ending them. Any other error is this rank's own.
func (r Ranks) End(err error, say func(error)) error {
	switch {
	case err == nil:
		return r.Comm.Close()
	case isCommon(err) && r.Comm.Size() > 1:
		if r.First() {
			say(err)
		}
		if broken := r.Comm.Barrier(comm.Setup); broken != nil {
			return broken
		}
		return told{err}
	}
	return err
}

// Interrupted is the error of a rank that a signal ends at once: it says what the rank waited for.
func (r Ranks) Interrupted(s os.Signal) error {
	what, lasted := r.Comm.Waiting()
	if what == "" {
		return fmt.Errorf("rank %d: %w", r.Rank(), ErrInterrupted)
	}
	return r.during(s, what, lasted)
}

// AfterSignal waits until this rank has waited long for another one, and returns an error that names it. It
// returns nil if ctx ends before. When a rank has died, a launcher sends a signal to all ranks, and leaves
// them a second or more. If all ranks live they go on, and wait for moments only.
func (r Ranks) AfterSignal(ctx context.Context, s os.Signal) error {
	const long, often = 250 * time.Millisecond, 50 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for {
		if what, lasted := r.Comm.Waiting(); lasted >= long {
			return r.during(s, what, lasted)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r Ranks) during(s os.Signal, what string, lasted time.Duration) error {
	return fmt.Errorf("rank %d: signal %q during %s, for %s", r.Rank(), s, what,
		lasted.Round(time.Millisecond))
}
