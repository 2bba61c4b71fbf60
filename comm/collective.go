package comm

import (
	"fmt"
	"unsafe"
)

// In these collectives each rank sends directly to each other rank, unless they are in setup.go. A rank
// begins with the next rank, so that not all send to the same rank at once. It waits for its receives first,
// so that the error of a wait names a rank that is missing, and not one that waits itself.

// SumDoubles replaces each element by its sum over the ranks. One rank computes the sum, in the order of the
// ranks, so it has the same bits on every rank and on every transport.
func (c *Comm) SumDoubles(k Kind, values []float64) error { return sum(c, k, values) }

// SumFloats replaces each element by its sum over the ranks. The sum is computed in double precision, in the
// order of the ranks, and rounded once.
func (c *Comm) SumFloats(k Kind, values []float32) error { return sum(c, k, values) }

// SumBlock is the number of bytes that a sum works on at a time. It bounds the memory for other ranks' terms.
const SumBlock = 4 << 20

func sum[T float32 | float64](c *Comm, k Kind, values []T) error {
	if c.Size() == 1 {
		return nil
	}
	var element T
	block := SumBlock / int(unsafe.Sizeof(element))
	terms := make([]T, partSize(min(block, len(values)), c.Size())*(c.Size()-1))
	for len(values) > 0 {
		n := min(block, len(values))
		if err := sumOne(c, k, values[:n], terms); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// partSize returns the largest number of values that one rank sums.
func partSize(values, ranks int) int { return (values + ranks - 1) / ranks }

// sumOne divides the values among the ranks, sums this rank's part and gathers all sums.
func sumOne[T float32 | float64](c *Comm, k Kind, values, terms []T) error {
	n := c.Size()
	size := partSize(len(values), n)
	part := func(r int) []T { return values[min(r*size, len(values)):min((r+1)*size, len(values))] }
	local := part(c.rank)

	send, receive := make([][]byte, n), make([][]byte, n)
	byRank := make([][]T, n) // the terms of each rank
	for r := range n {
		if r == c.rank {
			byRank[r] = local
			continue
		}
		byRank[r], terms = terms[:len(local)], terms[len(local):]
		send[r], receive[r] = Bytes(part(r)), Bytes(byRank[r])
	}
	if err := c.exchange(k, send, receive, "a sum"); err != nil {
		return err
	}
	if !c.end.plans { // a plan has no values, and touches none
		addUp(local, byRank)
	}
	for r := range n {
		if r != c.rank {
			send[r], receive[r] = Bytes(local), Bytes(part(r))
		}
	}
	return c.exchange(k, send, receive, "a sum")
}

// addUp sets local, which is one of the terms, to their sum.
func addUp[T float32 | float64](local []T, terms [][]T) {
	for i := range local {
		total := float64(terms[0][i])
		for _, term := range terms[1:] {
			total += float64(term[i])
		}
		local[i] = T(total)
	}
}

// AllToAll sends send[r] to rank r and receives receive[r] from it, for every rank r of the group. It copies
// its own entry. Both sides know the lengths. An entry of length 0 is not sent.
func (c *Comm) AllToAll(k Kind, send, receive [][]byte) error {
	if err := c.keep(receive[c.rank], send[c.rank], "an all-to-all"); err != nil {
		return err
	}
	return c.exchange(k, send, receive, "an all-to-all")
}

// AllToAllOf sends the numbers send[r] to rank r, and receives receive[r] from it, for every rank r.
func AllToAllOf[T int32 | int64 | float32](c *Comm, k Kind, send, receive [][]T) error {
	bytes := func(lists [][]T) (all [][]byte) {
		for _, list := range lists {
			all = append(all, Bytes(list))
		}
		return all
	}
	return c.AllToAll(k, bytes(send), bytes(receive))
}

// AllGather sends local to every rank of the group. all[r] becomes what rank r sent, which must have the same
// length.
func (c *Comm) AllGather(k Kind, local []byte, all [][]byte) error {
	const within = "an all-gather"
	if err := c.keep(all[c.rank], local, within); err != nil {
		return err
	}
	bytes := 0
	for _, part := range all {
		bytes += len(part)
	}
	if bytes == 0 {
		return nil
	}
	if k == Setup && bytes <= shortGather && !c.end.plans { // a plan knows what they send
		return c.gatherShort(k, local, all, within)
	}
	send := make([][]byte, c.Size())
	for r := range send {
		send[r] = local
	}
	return c.exchange(k, send, all, within)
}

// keep copies the rank's own entry.
func (c *Comm) keep(to, from []byte, within string) error {
	if len(to) != len(from) {
		return fmt.Errorf("rank %d: %s: %w: %d bytes to itself where %d are expected",
			c.end.transport.Rank(), within, ErrLength, len(from), len(to))
	}
	copy(to, from)
	return nil
}

// exchange sends send[r] to each other rank r, and receives receive[r] from it. It does not copy its own
// entry.
func (c *Comm) exchange(k Kind, send, receive [][]byte, within string) error {
	n := c.Size()
	receives, sends := make([]*Pending, 0, n), make([]*Pending, 0, n)
	for i := 1; i < n; i++ {
		if from := (c.rank + n - i) % n; len(receive[from]) > 0 {
			receives = append(receives, c.receive(k, receive[from], nil, from, within))
		}
	}
	for i := 1; i < n; i++ {
		if to := (c.rank + i) % n; len(send[to]) > 0 {
			sends = append(sends, c.send(k, send[to], nil, to, within))
		}
	}
	if n > 1 && k != Setup { // during set-up ranks may do different things
		c.LocalBarrier()
		defer c.KeepTurn()()
	}
	if err := waitAll(receives); err != nil {
		return err
	}
	return waitAll(sends)
}

// Broadcast sends the root's data to every other rank of the group, into data of the same length.
func (c *Comm) Broadcast(k Kind, data []byte, root int) error {
	send, receive := make([][]byte, c.Size()), make([][]byte, c.Size())
	if c.rank == root {
		for r := range send {
			send[r] = data
		}
	} else {
		receive[root] = data
	}
	return c.exchange(k, send, receive, "a broadcast")
}

// Gather returns the values of all ranks, in the order of the ranks. Every rank has equally many.
func Gather[T int32 | int64 | float32 | float64](c *Comm, k Kind, local ...T) ([]T, error) {
	n := len(local)
	all := make([]T, n*c.Size())
	parts := make([][]byte, c.Size())
	for r := range parts {
		parts[r] = Bytes(all[r*n : (r+1)*n])
	}
	return all, c.AllGather(k, Bytes(local), parts)
}

// GatherLists returns the values of all ranks, in the order of the ranks. Their numbers may differ.
func GatherLists[T byte | int32 | int64 | float32 | float64](c *Comm, k Kind, local []T) ([][]T, error) {
	lengths, err := Gather(c, k, int64(len(local)))
	if err != nil {
		return nil, err
	}
	all := make([][]T, len(lengths))
	parts := make([][]byte, len(lengths))
	for r, n := range lengths {
		all[r] = make([]T, n)
		parts[r] = Bytes(all[r])
	}
	return all, c.AllGather(k, Bytes(local), parts)
}
