package mfg

import (
	"math/bits"
	"slices"
)

// marks is a set of the rows of a vertex type, a bit each.
type marks struct {
	words []uint64
	ranks []int32 // of each word: marked rows before it; nil: not counted
}

const wordBits = 64

func newMarks(rows int) *marks { return &marks{words: make([]uint64, (rows+wordBits-1)/wordBits)} }

// add marks rows.
func (m *marks) add(rows ...int32) {
	for _, row := range rows {
		m.words[row/wordBits] |= 1 << (row % wordBits)
	}
}

// has reports whether a row is marked.
func (m *marks) has(row int32) bool { return m.words[row/wordBits]>>(row%wordBits)&1 == 1 }

// clone is a copy, not counted.
func (m *marks) clone() *marks { return &marks{words: slices.Clone(m.words)} }

// list returns the marked rows from lo on and below hi, ascending, less lo.
func (m *marks) list(lo, hi int) (rows []int32) {
	rows = []int32{}
	for at := lo / wordBits; at < (hi+wordBits-1)/wordBits; at++ {
		for word := m.words[at]; word != 0; word &= word - 1 {
			if row := at*wordBits + bits.TrailingZeros64(word); lo <= row && row < hi {
				rows = append(rows, int32(row-lo))
			}
		}
	}
	return rows
}

// count prepares rank.
func (m *marks) count() {
	m.ranks = make([]int32, len(m.words))
	n := 0
	for i, word := range m.words {
		m.ranks[i] = int32(n)
		n += bits.OnesCount64(word)
	}
}

// rank returns how many rows below one are marked. Nothing was marked since count.
func (m *marks) rank(row int32) int32 {
	before := m.words[row/wordBits] & (1<<(row%wordBits) - 1)
	return m.ranks[row/wordBits] + int32(bits.OnesCount64(before))
}
