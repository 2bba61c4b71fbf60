package comm

// Collectives of set-up whose result, or whose terms, only the first rank sees whole.

// SumInts replaces each value by its sum over the ranks. It counts as Setup.
func (c *Comm) SumInts(values []int64) error {
	return c.reduce(values, func(a, b int64) int64 { return a + b })
}

// MaxInts replaces each value by the largest of all ranks. It counts as Setup.
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
	if err := c.toFirst(Setup, Bytes(values), all, within); err != nil {
		return err
	}
	if c.rank == 0 && !c.end.plans {
		for i, x := range theirs[len(values):] {
			values[i%len(values)] = combine(values[i%len(values)], x)
		}
	}
	return c.allFromFirst(Setup, Bytes(values), within)
}

// ToFirst returns, on the first rank, the lists of all ranks in their order. Their lengths may differ. The
// other ranks get nil. It counts as Setup.
func ToFirst[T byte | int32 | int64 | float32 | float64](c *Comm, local []T) ([][]T, error) {
	const within = "a gather"
	lengths := make([]int64, c.Size())
	parts := make([][]byte, c.Size())
	for r := range parts {
		parts[r] = Bytes(lengths[r : r+1])
	}
	lengths[c.rank] = int64(len(local))
	if err := c.toFirst(Setup, parts[c.rank], parts, within); err != nil {
		return nil, err
	}
	send, receive := make([][]byte, c.Size()), make([][]byte, c.Size()) // an empty list is not sent
	if c.rank > 0 {
		send[0] = Bytes(local)
		return nil, c.exchange(Setup, send, receive, within)
	}
	all := make([][]T, c.Size())
	for r, n := range lengths {
		all[r] = make([]T, n)
		receive[r] = Bytes(all[r])
	}
	copy(all[0], local)
	return all, c.exchange(Setup, send, receive, within)
}

// FromFirst returns the first rank's list on all ranks. It ignores the others' lists. It counts as Setup.
func FromFirst[T byte | int32 | int64 | float32 | float64](c *Comm, list []T) ([]T, error) {
	const within = "a broadcast"
	length := []int64{int64(len(list))}
	if err := c.allFromFirst(Setup, Bytes(length), within); err != nil {
		return nil, err
	}
	if c.rank > 0 {
		list = make([]T, length[0])
	}
	if length[0] == 0 {
		return list, nil
	}
	return list, c.allFromFirst(Setup, Bytes(list), within)
}

// allFromFirst sends the first rank's data to all.
func (c *Comm) allFromFirst(k Kind, data []byte, within string) error {
	answers := make([][]byte, c.Size())
	for r := range answers {
		answers[r] = data
	}
	return c.fromFirst(k, answers, data, within)
}
