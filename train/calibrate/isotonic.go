package calibrate

import (
	"cmp"
	"slices"
)

// Steps is a function that does not fall. It is linear between points with ascending From, and constant
// before the first and behind the last one.
type Steps struct {
	From []float64 `json:"from"`
	To   []float64 `json:"to"`
}

// At is the function's value.
func (s Steps) At(x float64) float64 {
	k, found := slices.BinarySearch(s.From, x)
	switch {
	case found:
		return s.To[k]
	case k == 0:
		return s.To[0]
	case k == len(s.From):
		return s.To[k-1]
	}
	part := (x - s.From[k-1]) / (s.From[k] - s.From[k-1])
	return s.To[k-1] + part*(s.To[k]-s.To[k-1])
}

// isotonic is the function of least squares that does not fall. It pools adjacent violators: as long as a
// block's mean is not above the mean of the block before it, it merges both. Equal x begin as one block. The
// first and the last x of each block are points.
func isotonic(x, y []float64) (s Steps) {
	type block struct{ first, last, sum, count float64 }
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	var blocks []block
	mean := func(b block) float64 { return b.sum / b.count }
	pool := func() {
		for n := len(blocks); n > 1 && mean(blocks[n-1]) <= mean(blocks[n-2]); n-- {
			before := &blocks[n-2]
			before.last, before.sum = blocks[n-1].last, before.sum+blocks[n-1].sum
			before.count += blocks[n-1].count
			blocks = blocks[:n-1]
		}
	}
	for k, i := range order {
		if k > 0 && x[i] == x[order[k-1]] {
			blocks[len(blocks)-1].sum += y[i]
			blocks[len(blocks)-1].count++
			continue
		}
		pool()
		blocks = append(blocks, block{x[i], x[i], y[i], 1})
	}
	pool()
	for _, b := range blocks {
		s.From, s.To = append(s.From, b.first), append(s.To, mean(b))
		if b.last > b.first {
			s.From, s.To = append(s.From, b.last), append(s.To, mean(b))
		}
	}
	return s
}
