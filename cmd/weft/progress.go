package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"weft/train"
)

// progress shows how a training goes on: on a terminal one line that is written over, elsewhere plain lines, few enough to read.
type progress struct {
	out     io.Writer
	width   func() int // of the terminal, nil: not a terminal
	clock   func() time.Time
	atMost  bool // the run may end before its last epoch
	mu      sync.Mutex
	drawn   bool // the live line is on the screen
	first   time.Time
	shownAt time.Time
	shown   int // the last epoch that was shown
	results train.Epoch
}

// newProgress shows on out, live if it is a terminal.
func newProgress(out io.Writer, o *train.Options) *progress {
	p := &progress{out: out, clock: time.Now, atMost: o.Patience > 0}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.width = func() int { return terminalWidth(f) }
	}
	return p
}

// epoch shows that an epoch is done, if it is time to.
func (p *progress) epoch(e train.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	if p.first.IsZero() {
		p.first = now
	}
	if e.Evaluated {
		p.results = e
	}
	if !p.due(e, now) {
		return
	}
	p.shown, p.shownAt = e.Epoch, now
	line := p.line(e, now)
	if p.width == nil {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%s\x1b[K", cut(line, p.width()-1))
	p.drawn = true
}

// due reports whether the epoch deserves a line. A live line changes ten times a second at most. Plain lines come with the
// first and the last epoch, with each tenth of the epochs, and in between ever more rarely: after a second at first, after a
// twentieth of the time that the run has taken once that is longer.
func (p *progress) due(e train.Epoch, now time.Time) bool {
	since := now.Sub(p.shownAt)
	switch {
	case p.shown == 0 || e.Epoch == e.Epochs:
		return true
	case p.width != nil:
		return since >= 100*time.Millisecond
	}
	return since >= max(time.Second, now.Sub(p.first)/20) || (e.Epoch-p.shown)*10 >= e.Epochs
}

func (p *progress) line(e train.Epoch, now time.Time) string {
	digits := len(fmt.Sprint(e.Epochs))
	each := seconds(e.Seconds) // with evaluation, once two epochs tell
	if e.Epoch > 1 && now.After(p.first) {
		each = now.Sub(p.first) / time.Duration(e.Epoch-1)
	}
	parts := []string{fmt.Sprintf("epoch %*d/%d", digits, e.Epoch, e.Epochs), fmt.Sprintf("loss %.4f", e.Loss)}
	if p.results.Evaluated {
		parts = append(parts, "train "+percent(p.results.Train), "val "+percent(p.results.Val), "test "+percent(p.results.Test))
	}
	parts = append(parts, duration(seconds(e.Seconds))+"/epoch", megabytes(e.PeakBytes))
	if left := e.Epochs - e.Epoch; left > 0 {
		text := duration(each*time.Duration(left)) + " left"
		if p.atMost {
			text = "at most " + text
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}

// say prints a line of its own, above the live line.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintf(p.out, format+"\n", args...)
}

// end takes the live line away.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *progress) erase() {
	if p.drawn {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.drawn = false
	}
}

// cut shortens a line to so many characters.
func cut(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:max(width, 0)])
}
