package main

import (
	"fmt"
	"io"
	"time"
)

// stages shows how far work is that has several stages, in one line that is written over. Elsewhere than on a
// terminal it shows nothing.
type stages struct {
	liveLine
	clock func() time.Time

	stage   string
	began   time.Time // the stage
	shownAt time.Time
}

func newStages(out io.Writer) *stages { return &stages{liveLine: newLiveLine(out), clock: time.Now} }

// show shows that so many of all items of a stage are done, at most five times a second. Without a number of
// items it shows the stage.
func (s *stages) show(stage string, done, all int64) {
	if s.width == nil {
		return
	}
	now := s.clock()
	if stage != s.stage {
		s.stage, s.began = stage, now
	} else if now.Sub(s.shownAt) < 200*time.Millisecond {
		return
	}
	s.shownAt = now
	if all == 0 {
		s.draw([]field{{stage, 0}})
		return
	}
	fields := []field{
		{fmt.Sprintf("%s %d %%", stage, 100*done/all), 0},
		{fmt.Sprintf("%s of %s", count(done), count(all)), 2},
	}
	if took := now.Sub(s.began); done > 0 && took > 0 {
		left := time.Duration(float64(took) / float64(done) * float64(all-done))
		fields = append(fields, field{duration(left) + " left", 1})
	}
	s.draw(fields)
}
