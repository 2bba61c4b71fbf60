package mfg

import (
	"iter"
	"math/bits"
	"slices"
)

// marks is a set of the rows of a vertex type, a bit each. Its work grows with the marked rows, and with
// 1/4096 of all rows.
type marks struct {
	words []uint64
	used  []uint64 // which words have a mark, a bit each
	ranks []int32  // by such word: how many marked rows come before it, once counted
}

const wordBits = 64

func newMarks(rows int) *marks {
	m := &marks{}
	m.reach(rows)
	return m
}

// reach makes room for so many rows.
func (m *marks) reach(rows int) {
	words := (rows + wordBits - 1) / wordBits
	if more := words - len(m.words); more > 0 {
		m.words = append(m.words, make([]uint64, more)...)
		m.used = append(m.used, make([]uint64, (words+wordBits-1)/wordBits-len(m.used))...)
	}
}

// add marks rows.
func (m *marks) add(rows ...int32) {
	for _, row := range rows {
		at := row / wordBits
		m.words[at] |= 1 << (row % wordBits)
		m.used[at/wordBits] |= 1 << (at % wordBits)
	}
}

// each yields the places of the words with marks, ascending, from the place of a row on.
func (m *marks) each(row int) iter.Seq[int] {
	return func(yield func(int) bool) {
		first := row / wordBits
		for i := first / wordBits; i < len(m.used); i++ {
			for used := m.used[i]; used != 0; used &= used - 1 {
				if at := i*wordBits + bits.TrailingZeros64(used); at >= first && !yield(at) {
					return
				}
			}
		}
	}
}

// has reports whether a row is marked.
func (m *marks) has(row int32) bool { return m.words[row/wordBits]>>(row%wordBits)&1 == 1 }

// clone is a copy, without counts.
func (m *marks) clone() *marks {
	return &marks{words: slices.Clone(m.words), used: slices.Clone(m.used)}
}

// list returns the marked rows from lo on and below hi, ascending, minus lo.
func (m *marks) list(lo, hi int) (rows []int32) {
	rows = []int32{}
	for at := range m.each(lo) {
		if at*wordBits >= hi {
			break
		}
		for word := m.words[at]; word != 0; word &= word - 1 {
			if row := at*wordBits + bits.TrailingZeros64(word); lo <= row && row < hi {
				rows = append(rows, int32(row-lo))
			}
		}
	}
	return rows
}

// count prepares for rank.
func (m *marks) count() {
	if len(m.ranks) < len(m.words) {
		m.ranks = make([]int32, len(m.words))
	}
	n := 0
	for at := range m.each(0) {
		m.ranks[at] = int32(n)
		n += bits.OnesCount64(m.words[at])
	}
}

// rank returns how many rows below a marked row are marked. Nothing may have been marked since count.
func (m *marks) rank(row int32) int32 {
	before := m.words[row/wordBits] & (1<<(row%wordBits) - 1)
	return m.ranks[row/wordBits] + int32(bits.OnesCount64(before))
}

// clear removes all marks.
func (m *marks) clear() {
	for at := range m.each(0) {
		m.words[at] = 0
	}
	clear(m.used)
}
