package ui

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"weft/internal/assert"
)

// On a terminal one line is written over and taken off in the end; elsewhere nothing is shown.
func TestPhases(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := NewPhases(&out)
	s.Clock = func() time.Time { return now }
	work := func() {
		s.Show("reading a file", 0, 0)
		for k := range int64(31) {
			s.Show("reading edges", 100_000*k, 3_000_000)
			now = now.Add(100 * time.Millisecond)
		}
		s.Show("sorting edges", 0, 2)
		s.Show("sorting edges", 1, 2)
		now = now.Add(200 * time.Millisecond)
		s.Show("sorting edges", 1, math.MaxInt64)
		s.Erase()
	}
	work()
	if out.Len() > 0 {
		t.Errorf("where there is no terminal, said %q", out.String())
	}
	s.Width = func() int { return 70 }
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
		18: "sorting edges 0 %  1281023 h 53 min left",
		19: "",
		20: "",
	} {
		if at >= len(lines) || lines[at] != want {
			t.Errorf("line %d of %q, want %q", at, lines, want)
		}
	}
	if strings.Contains(out.String(), "\n") || len(lines) != 21 {
		t.Errorf("%d lines: %q", len(lines), out.String())
	}
}

// A phase that says nothing itself shows each second on a terminal how long it takes; elsewhere it is a line
// after five seconds, and after a twentieth of the time of all phases.
func TestSilentPhase(t *testing.T) {
	for _, c := range []struct {
		columns func() int
		want    string
	}{
		{func() int { return 70 }, "\rdividing|\rdividing  1.0 s|\rdividing  2.0 s|\rdividing  3.0 s"},
		{nil, ""},
	} {
		var out strings.Builder
		now := time.Unix(0, 0)
		s := NewPhases(&out)
		s.Clock, s.Width, s.silent = func() time.Time { return now }, c.columns, usualSilence
		s.Show("dividing", 0, 0)
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
			s.Erase()
			s.tick()
			lines := strings.Split(out.String(), "\n")
			assert.Equal(t, []string{"dividing  5.0 s", "dividing  10 s"}, lines[:2])
			assert.Equal(t, "dividing  4 min 55 s", lines[len(lines)-2])
			assert.Len(t, lines, 41)
		}
		s.Erase()
	}
}

// TestShortPhases: many phases, between which others may write, are a line after five seconds, however short
// each of them is. A line that says something else counts, and erase ends the time.
func TestShortPhases(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := NewPhases(&out)
	s.Clock, s.silent = func() time.Time { return now }, usualSilence
	work := func(n int) {
		for k := range n {
			s.Show(fmt.Sprint("mesh ", k), 0, 0)
			for range 2 {
				now = now.Add(time.Second)
				s.tick()
			}
			s.Pause()
			s.tick()
		}
	}
	work(6)
	assert.Equal(t, "mesh 2  1.0 s\nmesh 4  2.0 s\n", out.String())
	out.Reset()
	s.Line("found")
	work(3)
	assert.Equal(t, "found\nmesh 2  1.0 s\n", out.String())
	out.Reset()
	s.Erase()
	work(2)
	assert.Equal(t, "", out.String())
	s.Erase()
}
