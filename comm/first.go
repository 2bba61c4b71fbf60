package comm

import "slices"

// The collectives of kind Setup go through the first rank of the group: the others send to it, and it
// answers. So the number of their messages grows with that of the ranks, not with its square.
//
// The others wait longer for the first rank than it waits for them (Pending.limit). If a rank is missing, the
// first one says which.

// toFirst gathers mine on the first rank. There all[r] becomes what rank r sent, and must have its length.
func (c *Comm) toFirst(mine []byte, all [][]byte, within string) error {
	send, receive := make([][]byte, c.Size()), make([][]byte, c.Size())
	if c.rank == 0 {
		receive = all
	} else {
		send[0] = mine
	}
	return c.exchange(Setup, send, receive, within)
}

// allGatherThroughFirst is AllGather without the own entry.
func (c *Comm) allGatherThroughFirst(mine []byte, all [][]byte) error {
	const within = "an all-gather"
	if err := c.toFirst(mine, all, within); err != nil {
		return err
	}
	whole := slices.Concat(all...)
	if err := c.broadcast(Setup, whole, 0, within); err != nil {
		return err
	}
	for r, theirs := range all {
		n := len(theirs)
		if r != c.rank {
			copy(theirs, whole)
		}
		whole = whole[n:]
	}
	return nil
}

// SumInts replaces each value by its sum over the ranks. It counts as Setup.
func (c *Comm) SumInts(values []int64) error {
	return c.reduce(values, func(a, b int64) int64 { return a + b })
}

// MaxInts replaces each value by the largest of the ranks. It counts as Setup.
func (c *Comm) MaxInts(values []int64) error {
	return c.reduce(values, func(a, b int64) int64 { return max(a, b) })
}

// reduce combines the values on the first rank, which sends the result to all.
func (c *Comm) reduce(values []int64, combine func(a, b int64) int64) error {
	const within = "a reduction"
	all := make([][]byte, c.Size())
	var theirs []int64
	if c.rank == 0 {
		theirs = make([]int64, len(values)*c.Size())
		for r := 1; r < c.Size(); r++ {
			all[r] = Bytes(theirs[r*len(values) : (r+1)*len(values)])
		}
	}
	if err := c.toFirst(Bytes(values), all, within); err != nil {
		return err
	}
	if c.rank == 0 && !c.end.plans() {
		for i, x := range theirs[len(values):] {
			values[i%len(values)] = combine(values[i%len(values)], x)
		}
	}
	return c.broadcast(Setup, Bytes(values), 0, within)
}

// ToFirst returns, on the first rank, the lists of all ranks in their order. Their lengths may differ. The
// other ranks get nil. It counts as Setup.
func ToFirst[T byte | int32 | int64 | float32 | float64](c *Comm, mine []T) ([][]T, error) {
	const within = "a gather"
	lengths, parts := make([]int64, c.Size()), make([][]byte, c.Size())
	for r := range parts {
		parts[r] = Bytes(lengths[r : r+1])
	}
	lengths[c.rank] = int64(len(mine))
	if err := c.toFirst(parts[c.rank], parts, within); err != nil {
		return nil, err
	}
	if c.rank > 0 {
		return nil, c.toFirst(Bytes(mine), parts, within)
	}
	all := make([][]T, c.Size())
	for r, n := range lengths {
		all[r] = make([]T, n)
		parts[r] = Bytes(all[r])
	}
	copy(all[0], mine)
	return all, c.toFirst(parts[0], parts, within)
}

// FromFirst returns the first rank's list on all ranks. The others' lists are ignored. It counts as Setup.
func FromFirst[T byte | int32 | int64 | float32 | float64](c *Comm, list []T) ([]T, error) {
	length := []int64{int64(len(list))}
	if err := c.Broadcast(Setup, Bytes(length), 0); err != nil {
		return nil, err
	}
	if c.rank > 0 {
		list = make([]T, length[0])
	}
	return list, c.Broadcast(Setup, Bytes(list), 0)
}
