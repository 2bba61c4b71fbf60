package comm

import (
	"cmp"
	"slices"
)

// Split makes a group of the ranks that give the same color, in the order of their keys and, where these are equal, of their ranks, as
// MPI_Comm_split does. Every rank of the group calls it; a negative color joins no group and gets nil. A rank makes one Split at a time, over
// all its groups.
func (c *Comm) Split(color, key int) (*Comm, error) {
	e := c.end
	e.mu.Lock()
	mine := []int64{int64(color), int64(key), int64(e.groups)}
	e.mu.Unlock()
	all, err := Gather(c, Setup, mine...)
	if err != nil {
		return nil, err
	}
	said := slices.Collect(slices.Chunk(all, len(mine)))

	// The new groups have no rank in common, so that one number serves them all; it is new to all of their ranks.
	number := 0
	var members []int
	for r, s := range said {
		number = max(number, int(s[2]))
		if int(s[0]) == color {
			members = append(members, r)
		}
	}
	e.mu.Lock()
	e.groups = number + 1
	e.mu.Unlock()
	if color < 0 {
		return nil, nil
	}
	slices.SortStableFunc(members, func(a, b int) int { return cmp.Compare(said[a][1], said[b][1]) })
	part := &Comm{end: e, rank: slices.Index(members, c.rank), ranks: make([]int, len(members)), tags: number * int(Kinds)}
	for i, r := range members {
		part.ranks[i] = c.ranks[r]
	}
	return part, nil
}
