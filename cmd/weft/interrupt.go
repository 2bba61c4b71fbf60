package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted ends a command that a signal stopped.
var errInterrupted = errors.New("interrupted")

// untilSignal returns a context that the first SIGINT, SIGTERM or SIGUSR1 (which Slurm sends ahead of a time limit) cancels,
// after telling notice. The work then ends in order and keeps its results; a SIGINT that follows ends the process at once.
func untilSignal(parent context.Context, notice func(os.Signal)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1)
	go func() {
		for s := range signals {
			if ctx.Err() == nil {
				notice(s)
				cancel(errInterrupted)
			} else if s == syscall.SIGINT {
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
