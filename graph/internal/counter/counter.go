// Package counter draws random numbers as pure functions of a seed, a purpose and an index, so that they do
// not depend on the order, the number of threads or the number of passes in which they are asked for. The
// mixing is that of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
// OOPSLA 2014). Generated graphs and random features are drawn by it.
package counter

import (
	"hash/fnv"
	"math"
	"math/bits"
)

const golden = 0x9e3779b97f4a7c15 // 2⁶⁴ divided by the golden ratio, odd

// Stream is the key of one purpose under one seed: edges, features, labels.
type Stream uint64

// New returns the stream of a purpose. Streams of different purposes or seeds are independent.
func New(seed uint64, purpose string) Stream {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return Stream(mix(mix(seed+golden) ^ h.Sum64()))
}

// At returns the sequence of draws that belongs to an index.
func (s Stream) At(index uint64) Sequence { return Sequence(mix(uint64(s) + index*golden)) }

// Sequence is the state of a SplitMix64 generator.
type Sequence uint64

// Next draws 64 uniform bits.
func (q *Sequence) Next() uint64 {
	*q += golden
	return mix(uint64(*q))
}

// Below draws a uniform integer of [0, n). The bias of the multiplication, n/2⁶⁴, is accepted.
func (q *Sequence) Below(n uint64) uint64 {
	high, _ := bits.Mul64(q.Next(), n)
	return high
}

// Normals fills a row with the standard normal numbers of an index. A shorter row is a prefix of a longer
// one.
func (s Stream) Normals(row []float32, index uint64) {
	q := s.At(index)
	for j := 0; j < len(row); j += 2 {
		// Box and Muller's pair from one draw; 32 bits for the radius reach 6.7 deviations.
		draw := q.Next()
		radius := math.Sqrt(-2 * math.Log((float64(draw>>32)+0.5)/(1<<32)))
		sin, cos := math.Sincos(2 * math.Pi / (1 << 32) * float64(uint32(draw)))
		row[j] = float32(radius * cos)
		if j+1 < len(row) {
			row[j+1] = float32(radius * sin)
		}
	}
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
