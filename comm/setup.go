package comm

import "slices"

// What ranks tell each other before the first epoch is short, so the number of messages decides how long it
// takes. So it goes through rank 0 of the group, in 2·(N−1) messages, where each to each would take N·(N−1).

// shortGather is the most bytes, of all ranks together, that an all-gather sends through rank 0.
const shortGather = 1 << 18

// patience is how many timeouts a rank waits for an answer of rank 0. The wait of rank 0 ends before that,
// and its error names the rank that is missing.
const patience = 2

// toFirst sends local to rank 0, where received[r] becomes what rank r > 0 sent.
func (c *Comm) toFirst(k Kind, local []byte, received [][]byte, within string) error {
	if c.rank > 0 {
		return c.send(k, local, nil, 0, within).Wait()
	}
	ps := make([]*Pending, 0, c.Size())
	for r := 1; r < c.Size(); r++ {
		ps = append(ps, c.receive(k, received[r], nil, r, within))
	}
	return waitAll(ps)
}

// fromFirst sends each rank its entry of rank 0's answers.
func (c *Comm) fromFirst(k Kind, answers [][]byte, answer []byte, within string) error {
	if c.rank > 0 {
		p := c.receive(k, answer, nil, 0, within)
		p.patience = patience
		return p.Wait()
	}
	ps := make([]*Pending, 0, c.Size())
	for r := 1; r < c.Size(); r++ {
		ps = append(ps, c.send(k, answers[r], nil, r, within))
	}
	return waitAll(ps)
}

// Barrier waits until every rank of the group has called it.
func (c *Comm) Barrier(k Kind) error {
	const within = "a barrier"
	nothing := make([][]byte, c.Size())
	if err := c.toFirst(k, nil, nothing, within); err != nil {
		return err
	}
	return c.fromFirst(k, nothing, nil, within)
}

// gatherShort is AllGather through rank 0, without the rank's own entry.
func (c *Comm) gatherShort(k Kind, local []byte, all [][]byte, within string) error {
	if err := c.toFirst(k, local, all, within); err != nil {
		return err
	}
	joined := slices.Concat(all...)
	if err := c.allFromFirst(k, joined, within); err != nil {
		return err
	}
	for _, part := range all {
		joined = joined[copy(part, joined):]
	}
	return nil
}

// Exchange sends equally many values to every rank of the group: the first of local to rank 0, and so on. It
// returns what the ranks sent to this one, in their order. In a plan ranks of other workers send 0.
func Exchange[T int32 | int64 | float32 | float64](c *Comm, k Kind, local ...T) ([]T, error) {
	const within = "an exchange"
	n := c.Size()
	each := len(local) / n
	if c.end.plans {
		came := make([]T, len(local))
		send := make([][]byte, n)
		receive := make([][]byte, n)
		for r := range n {
			send[r], receive[r] = Bytes(local[r*each:(r+1)*each]), Bytes(came[r*each:(r+1)*each])
		}
		return came, c.AllToAll(k, send, receive)
	}
	received := make([][]byte, n)
	rows := [][]T{local}
	for r := 1; r < n && c.rank == 0; r++ {
		rows = append(rows, make([]T, len(local)))
		received[r] = Bytes(rows[r])
	}
	if err := c.toFirst(k, Bytes(local), received, within); err != nil {
		return nil, err
	}
	answers := make([][]byte, n)
	columns := make([][]T, n)
	for r := 0; r < n && c.rank == 0; r++ {
		for _, row := range rows {
			columns[r] = append(columns[r], row[r*each:(r+1)*each]...)
		}
		answers[r] = Bytes(columns[r])
	}
	if c.rank == 0 {
		return columns[0], c.fromFirst(k, answers, nil, within)
	}
	came := make([]T, len(local))
	return came, c.fromFirst(k, nil, Bytes(came), within)
}
