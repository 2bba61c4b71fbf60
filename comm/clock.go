package comm

import "time"

// rounds is how many messages go to rank 0 and back to estimate a clock: a few are late on a busy machine.
const rounds = 16

// ClockOffset is what has to be added to this rank's clock for that of the group's rank 0, and by how much
// that may be off, either way: half of the time in which a message went to rank 0 and back, of the fastest of
// several. It is the midpoint of that time at which rank 0 is taken to have read its clock. All ranks of the
// group call it, each with its own clock.
func (c *Comm) ClockOffset(k Kind, clock func() time.Duration) (offset, uncertainty time.Duration, err error) {
	at := []int64{0}
	if c.rank > 0 {
		return c.askClock(k, clock, at)
	}
	for r := 1; r < c.Size(); r++ {
		for range rounds {
			if err := c.Receive(k, nil, r).Wait(); err != nil {
				return 0, 0, err
			}
			at[0] = int64(clock())
			if err := c.Send(k, Bytes(at), r).Wait(); err != nil {
				return 0, 0, err
			}
		}
	}
	return 0, 0, nil
}

// askClock asks rank 0, which answers one rank after the other.
func (c *Comm) askClock(k Kind, clock func() time.Duration, at []int64) (offset, uncertainty time.Duration, err error) {
	for round := range rounds {
		answer := c.Receive(k, Bytes(at), 0)
		asked := clock()
		question := c.Send(k, nil, 0)
		if err := answer.Wait(); err != nil {
			return 0, 0, err
		}
		answered := clock()
		if err := question.Wait(); err != nil {
			return 0, 0, err
		}
		if half := (answered - asked + 1) / 2; round == 0 || half < uncertainty {
			offset, uncertainty = time.Duration(at[0])-(asked+answered)/2, half
		}
	}
	return offset, uncertainty, nil
}
