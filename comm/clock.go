package comm

import "time"

// rounds is how many messages go to rank 0 and back to estimate a clock. On a busy machine some of them are
// late.
const rounds = 16

// ClockOffset estimates what to add to this rank's clock to get the clock of the group's rank 0. uncertainty
// bounds its error. Several messages go to rank 0 and back, and the fastest counts. The estimate assumes that
// rank 0 read its clock at the middle of that message's time, and uncertainty is half of that time. All ranks
// of the group call it, each with its own clock.
func (c *Comm) ClockOffset(k Kind,
	clock func() time.Duration,
) (offset, uncertainty time.Duration, err error) {
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

// askClock asks rank 0, which answers the ranks one after the other.
func (c *Comm) askClock(k Kind, clock func() time.Duration,
	at []int64,
) (offset, uncertainty time.Duration, err error) {
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
