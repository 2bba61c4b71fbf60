package main

import (
	"strings"
	"testing"
	"time"
)

// Elsewhere than on a terminal a line comes every ten seconds, on it the same line is written over.
func TestStages(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	s := newStages(&out)
	s.clock = func() time.Time { return now }
	s.shownAt = now
	for k := range int64(31) {
		s.show("reading edges", 100_000*k, 3_000_000)
		now = now.Add(time.Second)
	}
	s.erase()
	want := "reading edges 33 %  1,000,000 of 3,000,000  20 s left\n" +
		"reading edges 66 %  2,000,000 of 3,000,000  10 s left\n" +
		"reading edges 100 %  3,000,000 of 3,000,000  0.0 ms left\n"
	if out.String() != want {
		t.Errorf("said\n%swant\n%s", out.String(), want)
	}
	out.Reset()
	s.width = func() int { return 30 }
	s.show("sorting edges", 1, 2)
	now = now.Add(time.Second)
	s.show("sorting edges", 2, 2)
	s.erase()
	if got := out.String(); !strings.Contains(got, "\x1b[K\rsorting edges 100 %") || strings.Contains(got, "\n") || !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("said %q", got)
	}
}
