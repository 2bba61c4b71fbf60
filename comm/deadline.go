package comm

import "time"

// ticks is how many ticks of a Deadline are a timeout.
const ticks = 50

// Deadline ends a wait after a time in which this process ran. It counts ticks and reads no clock: of a time
// in which the process was stopped (SIGSTOP, Slurm's scontrol suspend, a debugger) a tick is left. Processes
// that are stopped together therefore go on together, however long it took. One that runs while its peer is
// stopped reaches its deadline.
type Deadline struct {
	C      <-chan time.Time // ticks; nil: there is no deadline
	ticker *time.Ticker
	left   int
}

// NewDeadline is that of a wait which begins now. A timeout of 0 sets none.
func NewDeadline(timeout time.Duration) *Deadline {
	if timeout == 0 {
		return &Deadline{}
	}
	d := &Deadline{ticker: time.NewTicker((timeout + ticks - 1) / ticks), left: ticks}
	d.C = d.ticker.C
	return d
}

// Passed counts a tick, which the caller has received. It reports whether the timeout has passed since the
// wait began, or since Passed last reported so.
func (d *Deadline) Passed() bool {
	if d.left--; d.left > 0 {
		return false
	}
	d.left = ticks
	return true
}

// Stop ends the ticks.
func (d *Deadline) Stop() {
	if d.ticker != nil {
		d.ticker.Stop()
	}
}
