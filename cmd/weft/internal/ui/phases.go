package ui

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Phases shows how far work with several phases is. On a terminal it is one line that is rewritten. Elsewhere
// it is a line each five seconds, and after a twentieth of the time once that is longer.
type Phases struct {
	LiveLine
	Clock  func() time.Time
	silent time.Duration // how long nothing is shown, if there is no terminal

	mu          sync.Mutex
	phase       string
	done, all   int64
	first       time.Time // the beginning of the first phase
	began       time.Time // the beginning of this phase
	shownAt     time.Time
	stopTicking func() // nil: no phase is under way
}

// usualSilence is a little less than five seconds, as ticks come a little early or late.
const usualSilence = 4500 * time.Millisecond

// Silence is how long phases stay silent. In tests it has no end, because what a command says there must not
// depend on its speed.
var Silence = usualSilence

// NewPhases shows the phases of a command on out, as a live line if that is a terminal.
func NewPhases(out io.Writer) *Phases {
	return &Phases{LiveLine: newLiveLine(out), Clock: time.Now, silent: Silence}
}

// Show shows that done of all items of a phase are done, at most five times a second. Without a number of
// items it shows the phase. Until Erase it goes on to show how long the phase takes.
func (s *Phases) Show(phase string, done, all int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock()
	if s.first.IsZero() {
		s.first, s.shownAt = now, now
	}
	if s.stopTicking == nil {
		s.tickEach(time.Second)
	}
	next := phase != s.phase
	if next {
		s.phase, s.began = phase, now
	}
	s.done, s.all = done, all
	if s.Width != nil && (next || now.Sub(s.shownAt) >= 200*time.Millisecond) {
		s.say(now)
	}
}

// tickEach calls tick after each pause until erase.
func (s *Phases) tickEach(pause time.Duration) {
	ticker, ended := time.NewTicker(pause), make(chan struct{})
	s.stopTicking = sync.OnceFunc(func() {
		ticker.Stop()
		close(ended)
	})
	go func() {
		for {
			select {
			case <-ticker.C:
				s.tick()
			case <-ended:
				return
			}
		}
	}()
}

// tick shows the phase again, if it has long been silent.
func (s *Phases) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, pause := s.Clock(), time.Second
	if s.Width == nil {
		pause = max(s.silent, now.Sub(s.first)/20)
	}
	if s.stopTicking != nil && now.Sub(s.shownAt) >= pause {
		s.say(now)
	}
}

// say shows the phase.
func (s *Phases) say(now time.Time) {
	s.shownAt = now
	took := now.Sub(s.began)
	if s.all == 0 {
		fields := []field{{s.phase, 0}}
		if took >= time.Second {
			fields = append(fields, field{Duration(took), 1})
		}
		s.draw(fields)
		return
	}
	fields := []field{
		{fmt.Sprintf("%s %d %%", s.phase, 100*s.done/s.all), 0},
		{fmt.Sprintf("%s of %s", Count(s.done), Count(s.all)), 2},
	}
	if s.done > 0 && took > 0 {
		left := Seconds(took.Seconds() / float64(s.done) * float64(s.all-s.done))
		fields = append(fields, field{Duration(left) + " left", 1})
	}
	s.draw(fields)
}

// Pause takes the line off the screen until the next phase, while others may write. The time of silence goes
// on.
func (s *Phases) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// Line writes a line of its own.
func (s *Phases) Line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	fmt.Fprintln(s.Out, text)
	s.shownAt = s.Clock()
}

// Erase takes the line off the screen, and ends the phases.
func (s *Phases) Erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
	s.first = time.Time{}
}

// stop takes the line off the screen, and ends the phase.
func (s *Phases) stop() {
	if s.stopTicking != nil {
		s.stopTicking()
	}
	s.phase, s.stopTicking = "", nil
	s.erase()
}
