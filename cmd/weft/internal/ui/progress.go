package ui

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"weft/comm/mpi"
	"weft/train"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/setting"
)

// Progress shows the progress of a training: on a terminal one line that is rewritten, and elsewhere a few
// plain lines.
type Progress struct {
	LiveLine
	Clock   func() time.Time
	atMost  bool      // the run may end before its last epoch
	until   time.Time // when --max-time ends the run; zero: never
	mu      sync.Mutex
	ended   bool // nothing more is shown
	first   time.Time
	before  int // epochs before the first one of this process
	shownAt time.Time
	shown   int // the last epoch that was shown
	results train.Epoch
	recent  []float64 // seconds of the last epochs, at most medianOf
}

// medianOf is over how many epochs, up to the shown one, the median is taken that is the time of an epoch.
const medianOf = 101

// NewProgress shows progress on out, as a live line if that is a terminal.
func NewProgress(out io.Writer, o *setting.Options) *Progress {
	p := &Progress{LiveLine: newLiveLine(out), Clock: time.Now, atMost: o.Patience > 0}
	if o.MaxTime > 0 {
		p.until = ProcessStart.Add(o.MaxTime)
	}
	return p
}

// LiveLine is a line that is rewritten, on a terminal. Elsewhere each is a line of its own.
type LiveLine struct {
	Out   io.Writer
	Width func() int // of the terminal; nil: it is no terminal
	drawn bool       // it is on the screen
}

// newLiveLine makes a line on out, live if it is a terminal.
func newLiveLine(out io.Writer) LiveLine {
	if f := terminalOf(out); f != nil && os.Getenv("TERM") != "dumb" {
		return LiveLine{Out: f, Width: func() int {
			return terminalColumns(f)
		}} // f passes control sequences on as they are
	}
	return LiveLine{Out: out}
}

// terminalOf is the terminal that out is; nil: it is none. An MPI launcher may give a rank a terminal,
// wherever its own output goes.
func terminalOf(out io.Writer) *os.File {
	f, _ := out.(*os.File)
	if o, ok := out.(*Output); ok {
		f = o.File
	}
	if f == nil || !term.IsTerminal(int(f.Fd())) || mpi.Launched() {
		return nil
	}
	return f
}

// draw shows as many fields as fit.
func (l *LiveLine) draw(fields []field) {
	if l.Width == nil {
		fmt.Fprintln(l.Out, join(fields))
		return
	}
	fmt.Fprintf(l.Out, "\r%s\x1b[K", fit(fields, l.Width()-1))
	l.drawn = true
}

// erase takes the line off the screen.
func (l *LiveLine) erase() {
	if l.drawn {
		fmt.Fprint(l.Out, "\r\x1b[K")
		l.drawn = false
	}
}

// terminalColumns is the width of a terminal, and 80 if it does not tell.
func terminalColumns(f *os.File) int {
	if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
		return n
	}
	return 80
}

// Epoch shows that an epoch is done, if it is due.
func (p *Progress) Epoch(e train.Epoch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	now := p.Clock()
	if p.first.IsZero() {
		p.first, p.before = now, e.Epoch-1
	}
	if e.Evaluated {
		p.results = e
	}
	if p.recent = append(p.recent, e.Seconds); len(p.recent) > medianOf {
		p.recent = p.recent[1:]
	}
	if !p.due(e, now) {
		return
	}
	p.shown, p.shownAt = e.Epoch, now
	p.draw(p.fields(e, now))
}

// due reports whether to show the epoch. A live line changes at most ten times a second. Plain lines show the
// first and the last epoch, each tenth of the epochs, and some in between: after a second at first, and after
// a twentieth of the run's time once that is longer.
func (p *Progress) due(e train.Epoch, now time.Time) bool {
	since := now.Sub(p.shownAt)
	switch {
	case p.shown == 0 || e.Epoch == e.Epochs:
		return true
	case p.Width != nil:
		return since >= 100*time.Millisecond
	}
	return since >= max(time.Second, now.Sub(p.first)/20) || (e.Epoch-p.shown)*10 >= e.Epochs
}

// field is a part of a line. On a narrow terminal the fields of the highest rank are left out first.
type field struct {
	text string
	rank int
}

// fields are the parts of an epoch's line, padded so that each stays in its column.
func (p *Progress) fields(e train.Epoch, now time.Time) []field {
	digits := len(fmt.Sprint(e.Epochs))
	fields := []field{
		{fmt.Sprintf("epoch %*d/%d", digits, e.Epoch, e.Epochs), 0},
		{fmt.Sprintf("loss %.4f", e.Loss), 1},
	}
	if r := &p.results; r.Evaluated {
		label := " "
		if r.Metric != metric.Accuracy {
			label = " " + r.Metric + " "
		}
		if !math.IsNaN(r.Train) { // link prediction does not measure training edges
			fields = append(fields, field{"train" + label + padded(Measured(r.Metric, r.Train), 8), 6})
		}
		fields = append(fields, field{"val" + label + padded(Measured(r.Metric, r.Val), 8), 2},
			field{"test" + label + padded(Measured(r.Metric, r.Test), 8), 5})
	}
	fields = append(fields, field{padded(Duration(Seconds(rundir.Median(p.recent))), 6) + "/epoch", 4},
		field{padded(Megabytes(e.PeakBytes), 6), 7})
	if left := p.left(e, now); left != "" {
		fields = append(fields, field{left, 3})
	}
	return fields
}

// Remaining says after an epoch how much longer the run goes on; "": it was the last one.
func (p *Progress) Remaining(e train.Epoch) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left(e, p.Clock())
}

// left is Remaining at the time now.
func (p *Progress) left(e train.Epoch, now time.Time) string {
	left := e.Epochs - e.Epoch
	if left <= 0 {
		return ""
	}
	each := Seconds(e.Seconds) // with evaluation, once two epochs tell that
	if done := e.Epoch - 1 - p.before; done > 0 && now.After(p.first) {
		each = now.Sub(p.first) / time.Duration(done)
	}
	epochs := Seconds(each.Seconds() * float64(left))
	if limit := p.until.Sub(now); !p.until.IsZero() && limit < epochs {
		return Duration(max(limit, 0)) + " left of --max-time"
	}
	return When(p.atMost, "at most ") + Duration(epochs) + " left"
}

// padded puts spaces in front of a text up to a width.
func padded(text string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0)) + text
}

func join(fields []field) string {
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.text
	}
	return strings.Join(texts, "  ")
}

// fit leaves out whole fields until the rest fits the width. If the epoch does not fit, it shows nothing.
func fit(fields []field, width int) string {
	for utf8.RuneCountInString(join(fields)) > width {
		last := slices.MaxFunc(fields, func(a, b field) int { return cmp.Compare(a.rank, b.rank) })
		if last.rank == 0 {
			short := strings.TrimLeft(last.text, "epoch ")
			if utf8.RuneCountInString(short) > width {
				return ""
			}
			return short
		}
		fields = slices.DeleteFunc(slices.Clone(fields), func(f field) bool { return f == last })
	}
	return join(fields)
}

// Say prints a line of its own, above the live line.
func (p *Progress) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintln(p.Out, Printable(InOneLine(fmt.Sprintf(format, args...))))
}

// Warn prints a warning as a line of its own on standard error, also where no progress is shown.
func (p *Progress) Warn(stderr io.Writer, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	fmt.Fprintln(stderr, "weft: "+Printable(InOneLine(fmt.Sprintf(format, args...))))
}

// End removes the live line for good.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	p.ended = true
}

// ProcessStart is when this process started, as far as --max-time is concerned.
var ProcessStart = time.Now()
