package comm

import "time"

// ticks is how many ticks of a Deadline are a timeout.
const ticks = 50

// Deadline ends a wait after a time in which this process ran. It counts ticks and reads no clock, so a stop
// of the process, however long, counts as one tick (SIGSTOP, Slurm's scontrol suspend, a debugger). So
// processes that are stopped together go on together. A process that runs while its peer is stopped reaches
// its deadline.
type Deadline struct {
	ticker *time.Ticker // nil: there is no deadline
	c      <-chan time.Time
	left   int
}

// NewDeadline is the deadline of a wait that begins now. A timeout of 0 sets none.
func NewDeadline(timeout time.Duration) *Deadline {
	if timeout == 0 {
		return &Deadline{}
	}
	ticker := time.NewTicker((timeout + ticks - 1) / ticks)
	return &Deadline{ticker: ticker, c: ticker.C, left: ticks}
}

// InTime receives from a channel. in is false if the timeout has passed since the wait began, or since InTime
// last returned false.
func InTime[T any](d *Deadline, done <-chan T) (result T, in bool) {
	for {
		select {
		case result = <-done:
			return result, true
		case <-d.c:
			if d.left--; d.left == 0 {
				d.left = ticks
				return result, false
			}
		}
	}
}

// Stop ends the ticks.
func (d *Deadline) Stop() {
	if d.ticker != nil {
		d.ticker.Stop()
	}
}
