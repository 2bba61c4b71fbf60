package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/graph"
	_ "weft/internal/early"
)

// interrupts passes the signals that end a process to the part of the program that can end in order. There is
// one, as signals are the process's.
var interrupts struct {
	watch    sync.Once
	mu       sync.Mutex
	attended func(os.Signal) // nil: nothing needs to be put in order
	// explain is the error of a process that a signal ends at once; nil: launch.ErrInterrupted.
	explain func(os.Signal) error
	parting bool // the process is about to end in order
}

// WatchSignals takes the signals that end a process: SIGINT, SIGTERM, SIGQUIT, SIGUSR1 (which Slurm sends
// ahead of a time limit) and, unless the process was told to outlive its terminal, SIGHUP. If nobody attends
// to them, the process ends at once.
func WatchSignals() {
	interrupts.watch.Do(func() {
		signals := make(chan os.Signal, 2)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1)
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(signals, syscall.SIGHUP)
		}
		go attend(signals)
	})
}

// SameRequest is the time after a signal in which further signals count as the same request. GNU timeout
// sends a signal both to its child and to their common group.
const SameRequest = time.Second

// attend passes on each signal that comes, once a request. Whoever attends hears it to the end before the
// work for which it was stops, so that a signal at the last moment is not lost.
func attend(signals <-chan os.Signal) {
	var taken time.Time
	for s := range signals {
		if !taken.IsZero() && time.Since(taken) < SameRequest {
			continue
		}
		taken = time.Now()
		handleSignal(s)
	}
}

// handleSignal hands on a signal.
func handleSignal(s os.Signal) {
	interrupts.mu.Lock()
	defer interrupts.mu.Unlock()
	switch {
	case interrupts.parting:
		endAtOnce(s)
	case interrupts.attended != nil:
		interrupts.attended(s)
	default:
		err := launch.ErrInterrupted
		if interrupts.explain != nil {
			err = interrupts.explain(s)
		}
		fmt.Fprintln(os.Stderr, ui.OneLine(err))
		os.Exit(ExitInterrupted)
	}
}

// attendWith passes the signals that follow to handle, with the function that heard them before (nil: none),
// until stop is called. handle itself must not call stop.
func attendWith(handle func(s os.Signal, around func(os.Signal))) (stop func()) {
	interrupts.mu.Lock()
	defer interrupts.mu.Unlock()
	around := interrupts.attended
	interrupts.attended = func(s os.Signal) { handle(s, around) }
	return func() {
		interrupts.mu.Lock()
		defer interrupts.mu.Unlock()
		interrupts.attended = around
	}
}

// RemoveOnSignal makes the first signal remove what exists of the store or partition that is being written,
// and end the process, until stop is called.
func RemoveOnSignal(stderr io.Writer, path string) (stop func()) {
	stop = attendWith(func(os.Signal, func(os.Signal)) {
		graph.RemoveStaging(func() {
			fmt.Fprintln(stderr, ui.OneLine(fmt.Errorf("interrupted; %s is not written", path)))
			os.Exit(ExitInterrupted)
		})
	})
	WatchSignals()
	return stop
}

// explainSignals sets the error of a process that a signal ends at once.
func explainSignals(f func(os.Signal) error) {
	interrupts.mu.Lock()
	defer interrupts.mu.Unlock()
	interrupts.explain = f
}

// partWithSignals leaves a process that is about to end in order to itself: only a signal that asks for an
// end at once is heard.
func partWithSignals() {
	interrupts.mu.Lock()
	defer interrupts.mu.Unlock()
	interrupts.parting = true
}

// UntilSignal returns a context that the first signal cancels, after it has called notice. The work then ends
// in order and keeps its results. A further SIGINT or SIGQUIT ends the process at once, after lastWords,
// which may be nil; a third one does not wait for these. Until stop is called, work within other work hears a
// signal first, and the other work afterwards.
func UntilSignal(parent context.Context, notice func(os.Signal),
	lastWords func(),
) (ctx context.Context, stop func()) {
	WatchSignals()
	ctx, cancel := context.WithCancelCause(parent)
	rest := attendWith(func(s os.Signal, around func(os.Signal)) {
		first := ctx.Err() == nil
		if first {
			notice(s)
			cancel(launch.ErrInterrupted)
		}
		switch {
		case !first && lastWords != nil && endsAtOnce(s):
			speak := lastWords
			lastWords = nil
			go func() {
				speak()
				os.Exit(ExitInterrupted)
			}()
		case around != nil:
			around(s)
		case !first:
			endAtOnce(s)
		}
	})
	return ctx, sync.OnceFunc(func() {
		rest()
		cancel(errWorkEnded)
	})
}

// errWorkEnded is the cause of a context of UntilSignal that stop has ended.
var errWorkEnded = errors.New("stopped")

// Heard calls the stop of a context of UntilSignal. It returns why the context ended before that; nil: it had
// not ended.
func Heard(ctx context.Context, stop func()) error {
	stop()
	if err := context.Cause(ctx); !errors.Is(err, errWorkEnded) {
		return err
	}
	return nil
}

// endsAtOnce reports whether a second signal asks for an end at once, and not for an orderly one.
func endsAtOnce(s os.Signal) bool { return s == syscall.SIGINT || s == syscall.SIGQUIT }

// endAtOnce ends the process because of a signal that asks for that.
func endAtOnce(s os.Signal) {
	if endsAtOnce(s) {
		os.Exit(ExitInterrupted)
	}
}
