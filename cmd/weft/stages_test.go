package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/assert"
	"weft/internal/require"
)

// On a terminal one line is written over and taken off in the end; elsewhere nothing is shown.
func TestStages(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := newStages(&out)
	s.clock = func() time.Time { return now }
	work := func() {
		s.show("reading a file", 0, 0)
		for k := range int64(31) {
			s.show("reading edges", 100_000*k, 3_000_000)
			now = now.Add(100 * time.Millisecond)
		}
		s.show("sorting edges", 0, 2)
		s.show("sorting edges", 1, 2)
		s.erase()
	}
	work()
	if out.Len() > 0 {
		t.Errorf("where there is no terminal, said %q", out.String())
	}
	s.width = func() int { return 70 }
	work()
	lines := strings.Split(out.String(), "\x1b[K")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "\r")
	}
	for at, want := range map[int]string{
		0:  "reading a file",
		1:  "reading edges 0 %  0 of 3,000,000",
		6:  "reading edges 33 %  1,000,000 of 3,000,000  2.0 s left",
		16: "reading edges 100 %  3,000,000 of 3,000,000  0.0 ms left",
		17: "sorting edges 0 %  0 of 2", // its second call comes too soon
		18: "",
		19: "",
	} {
		if at >= len(lines) || lines[at] != want {
			t.Errorf("line %d of %q, want %q", at, lines, want)
		}
	}
	if strings.Contains(out.String(), "\n") || len(lines) != 20 {
		t.Errorf("%d lines: %q", len(lines), out.String())
	}
}

// A stage that says nothing itself shows each second on a terminal how long it takes; elsewhere it is a line
// after five seconds, and after a twentieth of the time of all stages.
func TestSilentStage(t *testing.T) {
	for _, c := range []struct {
		columns func() int
		want    string
	}{
		{func() int { return 70 }, "\rdividing|\rdividing  1.0 s|\rdividing  2.0 s|\rdividing  3.0 s"},
		{nil, ""},
	} {
		var out strings.Builder
		now := time.Unix(0, 0)
		s := newStages(&out)
		s.clock, s.width, s.silent = func() time.Time { return now }, c.columns, usualSilence
		s.show("dividing", 0, 0)
		for range 3 {
			now = now.Add(time.Second)
			s.tick()
			s.tick()
		}
		assert.Equal(t, c.want, strings.ReplaceAll(strings.TrimSuffix(out.String(), "\x1b[K"), "\x1b[K", "|"))
		if c.columns == nil {
			for range 297 {
				now = now.Add(time.Second)
				s.tick()
			}
			s.erase()
			s.tick()
			lines := strings.Split(out.String(), "\n")
			assert.Equal(t, []string{"dividing  5.0 s", "dividing  10 s"}, lines[:2])
			assert.Equal(t, "dividing  4 min 55 s", lines[len(lines)-2])
			assert.Len(t, lines, 41)
		}
		s.erase()
	}
}

// TestShortStages: many stages, between which others may write, are a line after five seconds, however short
// each of them is. A line that says something else counts, and erase ends the time.
func TestShortStages(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := newStages(&out)
	s.clock, s.silent = func() time.Time { return now }, usualSilence
	work := func(n int) {
		for k := range n {
			s.show(fmt.Sprint("mesh ", k), 0, 0)
			for range 2 {
				now = now.Add(time.Second)
				s.tick()
			}
			s.pause()
			s.tick()
		}
	}
	work(6)
	assert.Equal(t, "mesh 2  1.0 s\nmesh 4  2.0 s\n", out.String())
	out.Reset()
	s.line("found")
	work(3)
	assert.Equal(t, "found\nmesh 2  1.0 s\n", out.String())
	out.Reset()
	s.erase()
	work(2)
	assert.Equal(t, "", out.String())
	s.erase()
}

// terminal is a pseudo-terminal; said returns what was written to it, after it is closed.
func terminal(t *testing.T) (tty *os.File, said func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = master.Close() })
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	all := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // an error ends it once the terminal is closed
		all <- string(text)
	}()
	return tty, func() string {
		assert.NoError(t, tty.Close())
		return <-all
	}
}

// TestProgressOfSetUp: the commands that make, divide and check a store show their stages in order on a
// terminal, take the line off in the end, and show nothing elsewhere.
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
			assert.Equal(t, exitDone, execute(root, started), "%s: status", c.args)
			return out.String()
		}
		tty, said := terminal(t)
		command(tty, filepath.Join(dir, "shown"))
		text := said()
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
