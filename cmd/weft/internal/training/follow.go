package training

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
)

// follower is a program that follows a run, or the runs of a sweep, with --follow: it is told each epoch, and
// answers with a line. A nil follower does nothing.
type follower struct {
	out     io.Writer
	answers *bufio.Reader // nil: it does not answer
	errs    io.Writer
	stopped bool // an answer has ended a run
}

// newFollower is the follower at the other ends of standard output and input, if one is asked for.
func newFollower(cmd *cobra.Command, asked bool) *follower {
	if !asked {
		return nil
	}
	return &follower{
		out: cmd.OutOrStdout(), answers: bufio.NewReader(cmd.InOrStdin()),
		errs: cmd.ErrOrStderr(),
	}
}

// checkFollow refuses --follow if results are not printed for programs.
func checkFollow(follow, json bool) error {
	if follow && !json {
		return refusal.Errorf("--follow: prints for programs; give --json, too")
	}
	return nil
}

// epoch tells an epoch and waits for the answer, as long as standard input is open. It reports whether the
// answer ends the run.
func (f *follower) epoch(e json.Marshaler) (stops bool) {
	if f == nil {
		return false
	}
	if err := ui.PrintJSON(f.out, e); err != nil || f.answers == nil { // the command reports err at its end
		return false
	}
	line, err := f.answers.ReadString('\n')
	switch {
	case err != nil: // the end of standard input
		f.answers = nil
	case line == "stop\n":
		f.stopped = true
		return true
	case line != "\n":
		fmt.Fprintf(f.errs, "weft: warning: --follow: the answer %.20q is neither empty nor stop; the "+
			"run goes on\n", line)
	}
	return false
}

// hasStopped reports whether an answer has ended the run.
func (f *follower) hasStopped() bool { return f != nil && f.stopped }
