package partition

import (
	"cmp"
	"slices"
)

// Bisect divides points into k parts by recursive coordinate bisection: the longest side of the box around
// the points is divided at the median, and so are both halves (Berger and Bokhari, "A Partitioning Strategy
// for Nonuniform Problems on Multiprocessors", IEEE Transactions on Computers, 1987). points has the
// coordinates of one point behind those of another, as many as there are dimensions. Parts differ by one
// point at most if k is a power of two.
func Bisect(points []float32, dimensions, k int) []int32 {
	parts := make([]int32, len(points)/dimensions)
	order := make([]int32, len(parts))
	for i := range order {
		order[i] = int32(i)
	}
	b := bisection{points, dimensions, parts}
	b.divide(order, 0, k)
	return parts
}

// bisection is the work of Bisect.
type bisection struct {
	points     []float32
	dimensions int
	parts      []int32
}

// divide divides some of the points into k parts, which are numbered from first on.
func (b *bisection) divide(some []int32, first, k int) {
	if k == 1 {
		for _, i := range some {
			b.parts[i] = int32(first)
		}
		return
	}
	axis := b.longest(some)
	slices.SortFunc(some, func(i, j int32) int {
		return cmp.Or(cmp.Compare(b.at(i, axis), b.at(j, axis)), cmp.Compare(i, j))
	})
	left := k / 2
	middle := len(some) * left / k
	b.divide(some[:middle], first, left)
	b.divide(some[middle:], first+left, k-left)
}

// at is a coordinate of a point.
func (b *bisection) at(point int32, axis int) float32 { return b.points[int(point)*b.dimensions+axis] }

// longest is the axis along which points extend furthest.
func (b *bisection) longest(some []int32) (axis int) {
	most := float32(-1)
	for a := range b.dimensions {
		if len(some) == 0 {
			break
		}
		low, high := b.at(some[0], a), b.at(some[0], a)
		for _, i := range some {
			low, high = min(low, b.at(i, a)), max(high, b.at(i, a))
		}
		if high-low > most {
			axis, most = a, high-low
		}
	}
	return axis
}
