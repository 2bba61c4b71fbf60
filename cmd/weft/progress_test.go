package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui/uitest"
	"weft/internal/assert"
	"weft/internal/require"
)

// TestProgressOfSetUp: the commands that make, divide and check a store, and that plan a run, show their
// stages in order on a terminal, take the line off in the end, and show nothing elsewhere.
func TestProgressOfSetUp(t *testing.T) {
	t.Setenv("TERM", "xterm")
	dir := t.TempDir()
	list := filepath.Join(dir, "edges.csv")
	require.NoError(t, os.WriteFile(list, []byte("0,1\n1,2\n"), 0o600))
	for _, c := range []struct {
		args   string
		stages []string
	}{
		{
			"generate sbm %s/made --vertices 20000 --degree 6",
			[]string{"counting edges", "making edges", "making features"},
		},
		{"train %s/made --show-plan", []string{"planning the run"}},
		{"partition %s/made -k 2", []string{"dividing by METIS", "dividing edges"}},
		{"partition %s/made -k 2 --method range", []string{"dividing edges", "reversing edges"}},
		{
			"partition %s/made -k 2 --method stream",
			[]string{"clustering, pass 1", "contracting", "refining, pass 1, moves", "dividing edges"},
		},
		{"inspect %s/made --json", []string{
			"checking the bytes of the graph", "counting edges",
			"checking the bytes of range-2, share 0", "checking the bytes of stream-2, share 1",
		}},
		{"import edges " + list + " %s/listed", []string{"reading " + list, "sorting edges"}},
		{"import edges " + list + " %s/named --self-loops", []string{"reading " + list, "writing"}},
	} {
		command := func(err io.Writer, store string) string {
			var out strings.Builder
			root, started := newRoot()
			root.SetArgs(strings.Fields(fmt.Sprintf(c.args, store)))
			root.SetOut(&out)
			root.SetErr(err)
			assert.Equal(t, cli.ExitDone, execute(root, started), "%s: status", c.args)
			return out.String()
		}
		tty, screen := uitest.Open(t)
		command(tty, filepath.Join(dir, "shown"))
		text := screen()
		rest := text
		for _, stage := range c.stages {
			at := strings.Index(rest, "\r"+stage)
			if at < 0 {
				t.Errorf("%s: %q is not shown, or not in its place, of %q", c.args, stage, text)
				break
			}
			rest = rest[at:]
		}
		if !strings.HasSuffix(text, "\r\x1b[K") || strings.Contains(text, "\n") {
			t.Errorf("%s: leaves %q", c.args, text)
		}
		var elsewhere strings.Builder
		command(&elsewhere, filepath.Join(dir, "elsewhere"))
		assert.Equal(t, "", elsewhere.String(), "%s: where there is no terminal", c.args)
	}
}
