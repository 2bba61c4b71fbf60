package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/require"
)

// A fault of the program is one line and status 1; a trace is printed only on request.
func TestInternalError(t *testing.T) {
	for debug, traced := range map[string]bool{"": false, "1": true} {
		t.Setenv("WEFT_DEBUG", debug)
		var stderr bytes.Buffer
		root, started := newRoot()
		root.AddCommand(&cobra.Command{
			Use: "fault", Run: func(*cobra.Command, []string) { panic("index out of range\nin a row") },
		})
		root.SetArgs([]string{"fault"})
		root.SetErr(&stderr)
		status := execute(root, started)
		if !strings.HasPrefix(stderr.String(), "weft: internal error: index out of range; in a row") ||
			status != cli.ExitFailed {
			t.Errorf("status %d: %s", status, stderr.String())
		}
		if got := strings.Contains(stderr.String(), "goroutine"); got != traced {
			t.Errorf("WEFT_DEBUG=%q: traced %v:\n%s", debug, got, stderr.String())
		}
	}
}

func TestOutputRemembersFailure(t *testing.T) {
	full, err := os.Open(os.DevNull) // not open for writing
	require.NoError(t, err)
	defer full.Close()
	var stderr bytes.Buffer
	root, started := newRoot()
	root.SetArgs([]string{"version"})
	root.SetErr(&stderr)
	root.SetOut(&ui.Output{File: full, Called: "standard output"})
	if status := execute(root, started); status != cli.ExitFailed ||
		!strings.HasPrefix(stderr.String(), "weft: standard output: ") {
		t.Errorf("status %d, %q", status, stderr.String())
	}
}
