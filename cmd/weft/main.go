// Command weft trains graph neural networks on whole graphs. See weft --help. The commands are in internal/*,
// by subject. This package joins them, and turns an error into one line and an exit status.
package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/comm/mpi"
	"weft/internal/refusal"
)

func main() {
	prepare()
	mpi.Exit(run())
}

// prepare does what a process needs once, before its command.
func prepare() {
	endWithParent()
	cli.WatchSignals()
	ui.OutliveReaders()
	cli.LimitMemory()
}

// run runs the command that the arguments of the process name, and returns its exit status.
func run() int {
	root, started := newRoot(os.Args[1:]...)
	root.SetOut(&ui.Output{File: os.Stdout, Called: "standard output"})
	root.SetErr(&ui.Output{File: os.Stderr, Called: "standard error"})
	root.SetArgs(longOut(os.Args[1:]))
	return execute(root, started)
}

// execute runs the command and returns its exit status. An error is one line on standard error.
func execute(root *cobra.Command, started *bool) (status int) {
	stderr := root.ErrOrStderr()
	defer func() {
		if fault := recover(); fault != nil {
			cli.SayError(stderr, launch.Recovered(fault, ""))
			status = cli.ExitFailed
		}
	}()
	completeCommands(root)
	cmd, err := root.ExecuteC()
	if err != nil && !*started {
		err = cli.ShareMistake(cmd, err)
	}
	if out, ok := root.OutOrStdout().(*ui.Output); ok && err == nil {
		err = out.Check()
	}
	if err == nil {
		return cli.ExitDone
	}
	if launch.Told(err) {
		return statusOf(err, *started)
	}
	if rank, ok := root.ErrOrStderr().(*cli.OnlyErrors); ok {
		stderr = rank.Errors
	}
	cli.SayError(stderr, err)
	return statusOf(err, *started)
}

// statusOf is the exit status of an error. started says that a subcommand was running.
func statusOf(err error, started bool) int {
	switch {
	case errors.Is(err, launch.ErrInterrupted):
		return cli.ExitInterrupted
	case refusal.Is(err) || !started: // an error before a subcommand runs is about flags or arguments
		return cli.ExitRefused
	}
	return cli.ExitFailed
}
