package main

import (
	"fmt"
	"io"
	"time"
)

// stages shows how far work is that has several stages: on a terminal in one line that is written over,
// elsewhere in a line now and then, once it has taken a while.
type stages struct {
	liveLine
	clock func() time.Time

	stage   string
	began   time.Time // the stage
	shownAt time.Time
}

func newStages(out io.Writer) *stages {
	return &stages{liveLine: newLiveLine(out), clock: time.Now, shownAt: time.Now()}
}

// show shows that so many of all items of a stage are done, if it is time to.
func (s *stages) show(stage string, done, all int64) {
	now, every := s.clock(), 10*time.Second
	if s.width != nil {
		every = 200 * time.Millisecond
	}
	if stage != s.stage {
		s.stage, s.began = stage, now
	}
	if now.Sub(s.shownAt) < every || all == 0 {
		return
	}
	s.shownAt = now
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
