// Command weft trains graph neural networks on whole graphs. See weft --help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/ui"
	"weft/comm/mpi"
	"weft/internal/launch"
	"weft/internal/refusal"
)

// Exit statuses, a contract with the programs that call weft.
const (
	exitDone        = 0
	exitFailed      = 1   // the work itself failed
	exitRefused     = 2   // the request makes no sense; nothing was done
	exitInterrupted = 130 // stopped by a signal; results so far are kept
)

func main() {
	prepare()
	mpi.Exit(run())
}

// prepare does what a process needs once, before its command.
func prepare() {
	endWithParent()
	watchSignals()
	ui.OutliveReaders()
	limitMemory()
}

// run runs the command that the arguments of the process name, and returns its exit status.
func run() int {
	root, started := newRoot(os.Args[1:]...)
	root.SetOut(&ui.Output{File: os.Stdout, Name: "standard output"})
	root.SetErr(&ui.Output{File: os.Stderr, Name: "standard error"})
	root.SetArgs(longOut(os.Args[1:]))
	return execute(root, started)
}

// execute runs the command and returns its exit status. An error is one line on standard error.
func execute(root *cobra.Command, started *bool) (status int) {
	stderr := root.ErrOrStderr()
	defer func() {
		if fault := recover(); fault != nil {
			sayError(stderr, launch.Recovered(fault, ""))
			status = exitFailed
		}
	}()
	completeCommands(root)
	cmd, err := root.ExecuteC()
	if err != nil && !*started {
		err = shareMistake(cmd, err)
	}
	if out, ok := root.OutOrStdout().(*ui.Output); ok && err == nil {
		err = out.Check()
	}
	if err == nil {
		return exitDone
	}
	if launch.Told(err) {
		return statusOf(err, *started)
	}
	if rank, ok := root.ErrOrStderr().(*onlyErrors); ok {
		stderr = rank.errors
	}
	sayError(stderr, err)
	return statusOf(err, *started)
}

// sayError prints an error, and where the program is at fault how to find out where.
func sayError(stderr io.Writer, err error) {
	var more interface {
		error
		Print(out io.Writer)
	}
	if errors.As(err, &more) {
		more.Print(stderr)
	}
	var fault *launch.Fault
	if !errors.As(err, &fault) {
		fmt.Fprintln(stderr, ui.OneLine(err))
		return
	}
	fmt.Fprintln(stderr, ui.OneLine(fmt.Errorf("%w (WEFT_DEBUG=1 prints where)", err)))
	if os.Getenv("WEFT_DEBUG") == "1" {
		fmt.Fprintf(stderr, "%s", fault.Where)
	}
}

// statusOf is the exit status of an error; started says that a subcommand was running.
func statusOf(err error, started bool) int {
	switch {
	case errors.Is(err, launch.ErrInterrupted):
		return exitInterrupted
	case refusal.Is(err) || !started: // an error before a subcommand runs is about flags or arguments
		return exitRefused
	}
	return exitFailed
}
