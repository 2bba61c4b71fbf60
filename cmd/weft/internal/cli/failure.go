package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
)

// Exit statuses, a contract with the programs that call weft.
const (
	ExitDone        = 0
	ExitFailed      = 1   // the work itself failed
	ExitRefused     = 2   // the request makes no sense; nothing was done
	ExitInterrupted = 130 // stopped by a signal; results so far are kept
)

// SayError prints an error and, if the program is at fault, how to find out where.
func SayError(stderr io.Writer, err error) {
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
