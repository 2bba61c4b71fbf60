package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// output is a file that the command prints to. It escapes all unprintable characters but tabs and line
// breaks. It keeps the first write error: results that did not arrive are a failure of the command.
type output struct {
	*os.File
	name   string // in errors
	failed error
}

func (o *output) Write(p []byte) (int, error) {
	_, err := o.WriteString(escaped(string(p), "\n\t"))
	if err == nil {
		return len(p), nil
	}
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	err = fmt.Errorf("%s: %w", o.name, err)
	if o.failed == nil {
		o.failed = err
	}
	return 0, err
}

// check says what went wrong with printing, nil if nothing did. That a reader leaves before the end is its
// own affair.
func (o *output) check() error {
	if errors.Is(o.failed, syscall.EPIPE) {
		return nil
	}
	return o.failed
}

// result is what a command comes to: a JSON object for programs, and what it draws for the eye.
type result interface{ print(out io.Writer) }

// show prints a result.
func show(out io.Writer, r result, asJSON bool) error {
	if asJSON {
		return printJSON(out, r)
	}
	r.print(out)
	return nil
}

// progressOf is where a command shows its progress: standard output, unless that takes a JSON object.
func progressOf(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return besideResults(cmd)
	}
	return unlessQuiet(cmd, cmd.OutOrStdout())
}

// besideResults is where a command shows progress that stands apart from its results.
func besideResults(cmd *cobra.Command) io.Writer { return unlessQuiet(cmd, cmd.ErrOrStderr()) }

const quietFlag = "quiet"

// addQuiet adds the flag to a command that shows progress.
func addQuiet(flags *pflag.FlagSet) {
	flags.BoolP(quietFlag, "q", false, "show no progress: results, warnings and errors alone")
}

func unlessQuiet(cmd *cobra.Command, out io.Writer) io.Writer {
	if f := cmd.Flags().Lookup(quietFlag); f != nil && f.Value.String() == "true" {
		return io.Discard
	}
	return out
}

// outliveReaders makes writing to a pipe without a reader an error, which else ends the process. It handles
// the signal and does not ignore it: started programs would inherit that.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// endWithReader undoes outliveReaders, for long commands that only print.
func endWithReader() { signal.Reset(syscall.SIGPIPE) }
