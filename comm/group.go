package comm

import (
	"fmt"
	"slices"
)

// Group is the group of the given ranks of c, in that order. This rank must be one of them. No message is
// sent, so it works in a plan, too. The ranks agree by the order of their calls: every rank of the transport
// makes its first group, its second and so on in the same step. The lists of one step are equal or have no
// rank in common. Messages of different steps never match each other.
func (c *Comm) Group(ranks ...int) *Comm {
	g := &Comm{end: c.end, rank: slices.Index(ranks, c.rank), ranks: make([]int, len(ranks)), track: c.track}
	if g.rank < 0 {
		panic(fmt.Sprintf("comm: rank %d is not in its group %v", c.rank, ranks))
	}
	for i, r := range ranks {
		g.ranks[i] = c.ranks[r]
	}
	c.end.mu.Lock()
	defer c.end.mu.Unlock()
	g.tags = c.end.groups * int(Kinds)
	c.end.groups++
	return g
}
