package commtest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"weft/comm"
)

// terms are numbers of one rank whose sum over ranks depends on the order of summation, also in double
// precision.
func terms(rank, n int) []float64 {
	random := rand.New(rand.NewPCG(uint64(rank), 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = math.Ldexp(random.Float64()-.5, random.IntN(60)-30)
	}
	return v
}

// sameSum compares sums with the sums computed one rank after the other.
func sameSum(got []float64, ranks int) error {
	want := terms(0, len(got))
	for r := 1; r < ranks; r++ {
		for i, x := range terms(r, len(got)) {
			want[i] += x
		}
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			return fmt.Errorf("sum %d of %d over %d ranks is %v, want %v", i, len(got),
				ranks, got[i], want[i])
		}
	}
	return nil
}

// singles are the terms in single precision.
func singles(rank, n int) []float32 {
	v := make([]float32, n)
	for i, x := range terms(rank, n) {
		v[i] = float32(x)
	}
	return v
}

func sameSingleSum(got []float32, ranks int) error {
	terms := make([][]float32, ranks)
	for r := range terms {
		terms[r] = singles(r, len(got))
	}
	for i := range got {
		want := float64(terms[0][i])
		for r := 1; r < ranks; r++ {
			want += float64(terms[r][i])
		}
		if math.Float32bits(got[i]) != math.Float32bits(float32(want)) {
			return fmt.Errorf("single sum %d of %d over %d ranks is %v, want %v", i, len(got), ranks,
				got[i], float32(want))
		}
	}
	return nil
}

// collectives tests all collectives, on a group of any size.
func collectives(c *comm.Comm) error {
	return errors.Join(sums(c), allToAll(c), allGather(c, comm.Setup), allGather(c, comm.Stage), exchange(c),
		broadcast(c), barrier(c), listsThroughFirst(c))
}

func sums(c *comm.Comm) error {
	for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 1000, 40_003} {
		values := terms(c.Rank(), n)
		single := singles(c.Rank(), n)
		if err := errors.Join(c.SumDoubles(comm.Statistics, values),
			c.SumFloats(comm.Gradient, single)); err != nil {
			return err
		}
		if err := errors.Join(sameSum(values, c.Size()), sameSingleSum(single, c.Size())); err != nil {
			return err
		}
	}
	return nil
}

// sumInBlocks sums more values than one block holds.
func sumInBlocks(c *comm.Comm) error {
	values := terms(c.Rank(), 550_001)
	if err := c.SumDoubles(comm.Gradient, values); err != nil {
		return err
	}
	return sameSum(values, c.Size())
}

func allToAll(c *comm.Comm) error {
	for _, scale := range []int{1, 1001} {
		length := func(from, to int) int { return (3*from + 5*to) % 4 * scale } // some are 0
		send, receive := make([][]byte, c.Size()), make([][]byte, c.Size())
		for r := range c.Size() {
			send[r] = pattern(length(c.Rank(), r), c.Rank(), r)
			receive[r] = make([]byte, length(r, c.Rank()))
		}
		if err := c.AllToAll(comm.Setup, send, receive); err != nil {
			return err
		}
		for r := range c.Size() {
			if err := same(fmt.Sprint("all-to-all from ", r), receive[r],
				pattern(length(r, c.Rank()), r, c.Rank())); err != nil {
				return err
			}
		}
	}
	return nil
}

func allGather(c *comm.Comm, k comm.Kind) error {
	all := make([][]byte, c.Size())
	for r := range all {
		all[r] = make([]byte, r*r*17) // rank 0 has none
	}
	local := pattern(len(all[c.Rank()]), c.Rank())
	if err := c.AllGather(k, local, all); err != nil {
		return err
	}
	lists, err := comm.GatherLists(c, k, local)
	if err != nil {
		return err
	}
	for r := range all {
		if err := same(fmt.Sprint("all-gather from ", r), all[r], pattern(r*r*17, r)); err != nil {
			return err
		}
		if err := same(fmt.Sprint("list from ", r), lists[r], all[r]); err != nil {
			return err
		}
	}
	return nil
}

// exchange tests Exchange: each rank has two values for each rank.
func exchange(c *comm.Comm) error {
	value := func(from, to, i int) int64 { return int64(100*from + 10*to + i) }
	var local, want []int64
	for r := range c.Size() {
		local = append(local, value(c.Rank(), r, 0), value(c.Rank(), r, 1))
		want = append(want, value(r, c.Rank(), 0), value(r, c.Rank(), 1))
	}
	got, err := comm.Exchange(c, comm.Setup, local...)
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("rank %d of %d got %v, want %v", c.Rank(), c.Size(), got, want)
	}
	return err
}

func broadcast(c *comm.Comm) error {
	for root := range c.Size() {
		data := make([]byte, 999)
		if c.Rank() == root {
			data = pattern(999, root)
		}
		if err := c.Broadcast(comm.Setup, data, root); err != nil {
			return err
		}
		if err := same(fmt.Sprint("broadcast from ", root), data, pattern(999, root)); err != nil {
			return err
		}
	}
	return nil
}

// listsThroughFirst tests the collectives of set-up that only the first rank sees whole.
func listsThroughFirst(c *comm.Comm) error {
	n, me := int64(c.Size()), int64(c.Rank())
	sums, most := []int64{me, -me * me, 7}, []int64{me, -me, 1 << 40 * (me % 3)}
	if err := errors.Join(c.SumInts(sums), c.MaxInts(most)); err != nil {
		return err
	}
	if want := []int64{n * (n - 1) / 2, -n * (n - 1) * (2*n - 1) / 6, 7 * n}; !slices.Equal(sums, want) {
		return fmt.Errorf("sums of integers over %d ranks: %v, want %v", n, sums, want)
	}
	if want := []int64{n - 1, 0, 1 << 40 * min(2, n-1)}; !slices.Equal(most, want) {
		return fmt.Errorf("largest integers of %d ranks: %v, want %v", n, most, want)
	}
	list := func(rank int) []byte { return pattern(rank%3*1001, rank) } // some ranks' lists are empty
	lists, err := comm.ToFirst(c, list(c.Rank()))
	if err != nil {
		return err
	}
	if me > 0 && lists != nil {
		return errors.New("lists on another rank than the first")
	}
	for r, theirs := range lists {
		if err := same(fmt.Sprint("list on the first rank from ", r), theirs, list(r)); err != nil {
			return err
		}
	}
	for length := range 3 { // the lists of the other ranks are ignored
		theirs, err := comm.FromFirst(c, pattern((length+c.Rank())*100, c.Rank()))
		if err != nil {
			return err
		}
		if err := same("list from the first rank", theirs, pattern(length*100, 0)); err != nil {
			return err
		}
	}
	return nil
}

// barrier tests that no rank leaves before the last has arrived, by the machine's clock, which all ranks of a
// test share.
func barrier(c *comm.Comm) error {
	for last := range c.Size() {
		if c.Rank() == last {
			time.Sleep(10 * time.Millisecond)
		}
		came := []int64{time.Now().UnixNano()}
		if err := c.Barrier(comm.Setup); err != nil {
			return err
		}
		left := time.Now().UnixNano()
		if err := c.Broadcast(comm.Setup, comm.Bytes(came), last); err != nil {
			return err
		}
		if left < came[0] { // when the last one came
			return fmt.Errorf("left the barrier %v before rank %d came", time.Duration(came[0]-left), last)
		}
	}
	return nil
}

// groups puts the even and the odd ranks of 0 to 5 into groups, in reverse order, and each other rank alone.
// Then it makes groups of these. All MaxRanks ranks take part, as every rank of a transport makes equally
// many groups.
func groups(c *comm.Comm) error {
	members := [][]int{{4, 2, 0}, {5, 3, 1}}[c.Rank()%2]
	if c.Rank() > 5 {
		members = []int{c.Rank()}
	}
	sent := c.Sent(comm.Setup)
	half := c.Group(members...)

	// The first two of a half, and the others alone.
	inHalf := []int{half.Rank()}
	if half.Size() == 3 && half.Rank() < 2 {
		inHalf = []int{0, 1}
	}
	part := half.Group(inHalf...)
	if c.Sent(comm.Setup) != sent {
		return errors.New("a group was made with messages")
	}
	if err := isGroup(half, c.Rank(), members); err != nil {
		return err
	}
	members = members[inHalf[0] : inHalf[0]+len(inHalf)]
	if err := isGroup(part, c.Rank(), members); err != nil {
		return err
	}

	// Messages of one kind and peer in three groups do not match each other.
	var ps []*comm.Pending
	var got [3]byte
	if part.Size() == 2 {
		peer := members[1-part.Rank()]
		ps = append(ps,
			c.Send(comm.Halo, []byte{10}, peer), half.Send(comm.Halo, []byte{20}, 1-part.Rank()),
			part.Send(comm.Halo, []byte{30}, 1-part.Rank()),
			part.Receive(comm.Halo, got[2:], 1-part.Rank()), half.Receive(comm.Halo, got[1:2], 1-part.Rank()),
			c.Receive(comm.Halo, got[:1], peer))
	}
	if err := wait(ps...); err != nil {
		return err
	}
	if part.Size() == 2 && got != [3]byte{10, 20, 30} {
		return fmt.Errorf("messages of three groups arrived as %v", got)
	}
	return c.Barrier(comm.Setup)
}

// isGroup exchanges all ranks' numbers.
func isGroup(c *comm.Comm, rank int, members []int) error {
	ranks := make([]int64, c.Size())
	all := make([][]byte, c.Size())
	for r := range all {
		all[r] = comm.Bytes(ranks[r : r+1])
	}
	if err := c.AllGather(comm.Setup, comm.Bytes([]int64{int64(rank)}), all); err != nil {
		return err
	}
	var got []int
	for _, r := range ranks {
		got = append(got, int(r))
	}
	if !slices.Equal(got, members) || members[c.Rank()] != rank {
		return fmt.Errorf("rank %d is %d of the group %v, want a group %v", rank, c.Rank(), got, members)
	}
	return nil
}

// counters tests the exact bytes and messages of every call.
func counters(c *comm.Comm) error {
	n, me := c.Size(), c.Rank()
	others := int64(n - 1)
	next, before := (me+1)%n, (me+n-1)%n
	empty, four := make([][]byte, n), make([][]byte, n)
	for r := range n {
		four[r] = make([]byte, 4)
	}
	throughFirst := func(asks, answers int) comm.Traffic { // rank 0 answers the others
		if me == 0 {
			return comm.Traffic{Bytes: int64(answers) * others, Messages: others}
		}
		return comm.Traffic{Bytes: int64(asks), Messages: 1}
	}
	share := int64(10+n-1) / int64(n) // of ten values
	owned := min(share, max(0, 10-share*int64(me)))
	for _, test := range []struct {
		name string
		kind comm.Kind
		call func() error
		want comm.Traffic
	}{
		{"message", comm.Halo, func() error {
			return wait(c.Receive(comm.Halo, make([]byte, 1234), before),
				c.Send(comm.Halo, make([]byte, 1234), next))
		}, comm.Traffic{Bytes: 1234, Messages: 1}},
		{"empty message", comm.Halo, func() error {
			return wait(c.Receive(comm.Halo, nil, before), c.Send(comm.Halo, nil, next))
		}, comm.Traffic{}},
		{"all-to-all", comm.Setup, func() error {
			return c.AllToAll(comm.Setup, four, four)
		}, comm.Traffic{Bytes: 4 * others, Messages: others}},
		{"empty all-to-all", comm.Setup, func() error {
			return c.AllToAll(comm.Setup, empty, empty)
		}, comm.Traffic{}},
		{"all-gather", comm.Stage, func() error {
			return c.AllGather(comm.Stage, four[me], four)
		}, comm.Traffic{Bytes: 4 * others, Messages: others}},
		{"short all-gather", comm.Setup, func() error {
			return c.AllGather(comm.Setup, four[me], four)
		}, throughFirst(4, 4*n)},
		{"exchange", comm.Setup, func() error {
			_, err := comm.Exchange(c, comm.Setup, make([]int32, n)...)
			return err
		}, throughFirst(4*n, 4*n)},
		{"sum of integers", comm.Setup, func() error {
			return c.SumInts(make([]int64, 3))
		}, throughFirst(24, 24)},
		{"barrier", comm.Setup, func() error { return c.Barrier(comm.Setup) }, comm.Traffic{}},
		{
			"sum", comm.Gradient, func() error { return c.SumFloats(comm.Gradient, make([]float32, 10)) },
			comm.Traffic{Bytes: 4 * (10 - owned + owned*others), Messages: messages(n, me, 10) +
				others*min(1, owned)},
		},
	} {
		start := c.Sent(test.kind)
		if err := test.call(); err != nil {
			return fmt.Errorf("%s: %w", test.name, err)
		}
		now := c.Sent(test.kind)
		if got := (comm.Traffic{
			Bytes:    now.Bytes - start.Bytes,
			Messages: now.Messages - start.Messages,
		}); got != test.want {
			return fmt.Errorf("%s: counted %+v, want %+v", test.name, got, test.want)
		}
	}
	start := c.Sent(comm.Setup)
	if err := c.Broadcast(comm.Setup, make([]byte, 100), 1); err != nil {
		return err
	}
	want := int64(0)
	if me == 1 {
		want = 100 * others
	}
	if got := c.Sent(comm.Setup).Bytes - start.Bytes; got != want {
		return fmt.Errorf("broadcast: counted %d bytes, want %d", got, want)
	}
	return nil
}

// messages is how many other ranks have values to sum, if all ranks divide so many values equally.
func messages(ranks, me, values int) int64 {
	share := (values + ranks - 1) / ranks
	var n int64
	for r := range ranks {
		if r != me && r*share < values {
			n++
		}
	}
	return n
}
