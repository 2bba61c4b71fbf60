package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Output is a file to which the command prints. It escapes all unprintable characters but tabs and line
// breaks. It keeps the first write error, because results that did not arrive are a failure of the command.
type Output struct {
	*os.File
	Called string // the file's name in errors
	failed error
}

func (o *Output) Write(p []byte) (int, error) {
	_, err := o.WriteString(escaped(string(p), "\n\t"))
	if err == nil {
		return len(p), nil
	}
	if path := (*os.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	err = fmt.Errorf("%s: %w", o.Called, err)
	if o.failed == nil {
		o.failed = err
	}
	return 0, err
}

// Check returns the error of printing; nil: there was none. A reader that leaves before the end is no error.
func (o *Output) Check() error {
	if errors.Is(o.failed, syscall.EPIPE) {
		return nil
	}
	return o.failed
}

// Result is what a command returns: a JSON object for programs, which it can also print for people.
type Result interface{ Print(out io.Writer) }

// Show prints a result.
func Show(out io.Writer, r Result, asJSON bool) error {
	if asJSON {
		return PrintJSON(out, r)
	}
	r.Print(out)
	return nil
}

// ProgressOf is where a command shows its progress: standard output, unless a JSON object goes there.
func ProgressOf(cmd *cobra.Command, asJSON bool) io.Writer {
	if asJSON {
		return BesideResults(cmd)
	}
	return unlessQuiet(cmd, cmd.OutOrStdout())
}

// BesideResults is where a command shows progress that does not mix with its results.
func BesideResults(cmd *cobra.Command) io.Writer { return unlessQuiet(cmd, cmd.ErrOrStderr()) }

// QuietFlag is the flag that leaves progress out.
const QuietFlag = "quiet"

// AddQuiet adds the flag to a command that shows progress.
func AddQuiet(flags *pflag.FlagSet) {
	flags.BoolP(QuietFlag, "q", false, "show no progress: results, warnings and errors alone")
}

func unlessQuiet(cmd *cobra.Command, out io.Writer) io.Writer {
	if f := cmd.Flags().Lookup(QuietFlag); f != nil && f.Value.String() == "true" {
		return io.Discard
	}
	return out
}

// OutliveReaders makes writing to a pipe without a reader an error, where it would otherwise end the process.
// It handles the signal and does not ignore it, as started programs would inherit that.
func OutliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// EndWithReader undoes OutliveReaders, for long commands that only print.
func EndWithReader() { signal.Reset(syscall.SIGPIPE) }

// PrintJSON prints one JSON object on one line.
func PrintJSON(out io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = out.Write(append(printableJSON(text), '\n'))
	return err
}
