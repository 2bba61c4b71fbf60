package generate

import (
	"math/bits"

	"weft/graph/internal/counter"
)

// permutation is a seeded bijection of [0, n) without a table. Rounds of multiplication, addition and
// xorshift are a bijection of [0, 2^b). They are applied again to a value outside [0, n), until it is inside
// (cycle walking). That takes fewer than two applications on average, because 2^b < 2n.
type permutation struct {
	n, mask uint64
	shift   uint // at least b/2, which makes the xorshift its own inverse
	rounds  [4]round
}

type round struct{ multiply, inverse, add uint64 } // multiply·inverse = 1 modulo 2⁶⁴

func newPermutation(n int, key counter.Sequence) permutation {
	b := max(1, bits.Len64(uint64(n-1)))
	p := permutation{n: uint64(n), mask: 1<<b - 1, shift: uint(b+1) / 2}
	for i := range p.rounds {
		m := key.Next() | 1
		inverse := m // right in three bits; each of Newton's steps doubles their number
		for range 5 {
			inverse *= 2 - m*inverse
		}
		p.rounds[i] = round{m, inverse, key.Next()}
	}
	return p
}

// at returns the image of x.
func (p *permutation) at(x uint64) uint64 {
	for {
		for i := range p.rounds {
			r := &p.rounds[i]
			x = (x*r.multiply + r.add) & p.mask
			x ^= x >> p.shift
		}
		if x < p.n {
			return x
		}
	}
}

// inverse returns the x whose image is y.
func (p *permutation) inverse(y uint64) uint64 {
	for {
		for i := len(p.rounds) - 1; i >= 0; i-- {
			r := &p.rounds[i]
			y ^= y >> p.shift
			y = (y - r.add) * r.inverse & p.mask
		}
		if y < p.n {
			return y
		}
	}
}
