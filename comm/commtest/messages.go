package commtest

import (
	"errors"
	"fmt"
	"time"

	"weft/comm"
)

// order tests that messages of one kind between two ranks arrive in the order in which they were sent,
// whatever messages of other kinds there are.
func order(c *comm.Comm) error {
	const messages = 40
	kinds := []comm.Kind{comm.Halo, comm.ToSlices, comm.Stage}
	length := func(i int) int { return 1 + i*i%700 }
	got := map[[3]int][]byte{}
	var ps []*comm.Pending
	for k := len(kinds) - 1; k >= 0; k-- { // messages are received kind by kind, and sent in turn
		for peer := range c.Size() {
			for i := range messages {
				if peer != c.Rank() {
					b := make([]byte, length(i))
					got[[3]int{peer, k, i}] = b
					ps = append(ps, c.Receive(kinds[k], b, peer))
				}
			}
		}
	}
	for i := range messages {
		for peer := range c.Size() {
			for k, kind := range kinds {
				if peer != c.Rank() {
					ps = append(ps, c.Send(kind, pattern(length(i), c.Rank(), peer, k, i), peer))
				}
			}
		}
	}
	if err := wait(ps...); err != nil {
		return err
	}
	for key, b := range got {
		peer, k, i := key[0], key[1], key[2]
		if err := same(fmt.Sprintf("message %d of %v from %d", i, kinds[k], peer), b,
			pattern(length(i), peer, c.Rank(), k, i)); err != nil {
			return err
		}
	}
	return nil
}

// sizes tests that messages of any length are sent in both directions at once.
func sizes(c *comm.Comm) error {
	peer := 1 - c.Rank()
	for _, n := range []int{0, 1, 3, 4095, 4096, 4097, 65535, 65537, 1<<20 + 1, 8 << 20} {
		b := make([]byte, n)
		r, s := c.Receive(comm.Halo, b, peer), c.Send(comm.Halo, pattern(n, c.Rank(), n), peer)
		if err := wait(r, s); err != nil {
			return err
		}
		if err := same("message", b, pattern(n, peer, n)); err != nil {
			return err
		}
	}
	return nil
}

// manySmall sends many small messages around a ring, with several in flight at any time.
func manySmall(c *comm.Comm) error {
	const messages, window = 3000, 32
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	var sends, receives [messages]*comm.Pending
	out, in := make([]int64, messages), make([]int64, messages)
	for i := range messages + window {
		if i < messages {
			out[i] = int64(c.Rank()<<32 | i)
			receives[i] = c.Receive(comm.Stage, comm.Bytes(in[i:i+1]), before)
			sends[i] = c.Send(comm.Stage, comm.Bytes(out[i:i+1]), next)
		}
		if j := i - window; j >= 0 {
			if err := wait(receives[j], sends[j]); err != nil {
				return err
			}
			if in[j] != int64(before<<32|j) {
				return fmt.Errorf("message %d: %x", j, in[j])
			}
		}
	}
	return nil
}

// allPairs tests that every rank can have a message in flight to every other rank before any rank waits.
func allPairs(c *comm.Comm) error {
	const n = 200_001
	got := make([][]byte, c.Size())
	var ps []*comm.Pending
	for peer := range c.Size() {
		if peer != c.Rank() {
			got[peer] = make([]byte, n)
			ps = append(ps, c.Send(comm.Halo, pattern(n, c.Rank(), peer), peer))
		}
	}
	for peer := range c.Size() {
		if peer != c.Rank() {
			ps = append(ps, c.Receive(comm.Halo, got[peer], peer))
		}
	}
	if err := wait(ps...); err != nil {
		return err
	}
	for peer := range c.Size() {
		if peer != c.Rank() {
			if err := same(fmt.Sprint("from ", peer), got[peer], pattern(n, peer, c.Rank())); err != nil {
				return err
			}
		}
	}
	return nil
}

// toItself tests that a rank may send to itself, which does not count.
func toItself(c *comm.Comm) error {
	before := c.Sent(comm.Halo)
	b := make([]byte, 1000)
	if err := wait(c.Send(comm.Halo, pattern(1000, c.Rank()), c.Rank()),
		c.Receive(comm.Halo, b, c.Rank())); err != nil {
		return err
	}
	if now := c.Sent(comm.Halo); now != before {
		return fmt.Errorf("counted: %v, then %v", before, now)
	}
	return same("own message", b, pattern(1000, c.Rank()))
}

// concurrentKinds has one goroutine for each kind send messages and run collectives at its own speed.
func concurrentKinds(c *comm.Comm) error {
	errs := make([]error, comm.Kinds)
	var joins []func()
	for k := range comm.Kinds {
		joins = append(joins, c.Beside(func(aside *comm.Comm) { errs[k] = oneKind(aside, k) }))
	}
	for _, join := range joins {
		join()
	}
	return errors.Join(errs...)
}

func oneKind(c *comm.Comm, k comm.Kind) error {
	next, before := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
	for i := range 20 {
		n := 1 + 999*i*int(k)
		b := make([]byte, n)
		if err := wait(c.Receive(k, b, before),
			c.Send(k, pattern(n, c.Rank(), int(k), i), next)); err != nil {
			return err
		}
		if err := same(fmt.Sprint(k), b, pattern(n, before, int(k), i)); err != nil {
			return err
		}
		values := terms(c.Rank(), 50+int(k))
		if err := c.SumDoubles(k, values); err != nil {
			return err
		}
		if err := sameSum(values, c.Size()); err != nil {
			return fmt.Errorf("%v: %w", k, err)
		}
	}
	return nil
}

// rendezvous tests that nothing is buffered: the send of the smallest message does not end before its receive
// begins.
func rendezvous(c *comm.Comm) error {
	asked := make([]int64, 1) // when rank 1 asked, by the machine's clock
	if c.Rank() == 1 {
		time.Sleep(50 * time.Millisecond)
		asked[0] = time.Now().UnixNano()
		if err := c.Receive(comm.Halo, make([]byte, 1), 0).Wait(); err != nil {
			return err
		}
	} else if err := c.Send(comm.Halo, []byte{1}, 1).Wait(); err != nil {
		return err
	}
	ended := time.Now().UnixNano()
	if err := c.Broadcast(comm.Setup, comm.Bytes(asked), 1); err != nil {
		return err
	}
	if ended < asked[0] {
		return fmt.Errorf("the send ended %v before it was received", time.Duration(asked[0]-ended))
	}
	return nil
}
