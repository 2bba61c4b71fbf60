package generate

import "weft/graph/internal/counter"

// Homophily is the probability that both ends of an edge of an sbm graph are of one class. With 16 features,
// 16 classes and degree 20, the nearest class centre predicts about 53 % of the vertices. It predicts 78 % if
// features are averaged over one hop, and 92 % over two hops. So a model must use the graph, and the task is
// not trivial. With 0.8, two hops would predict 100 %.
const Homophily = 0.4

// edgeFunc draws the random edges first, first+1, … into two slices of equal length. Each is a pure function
// of the seed and its number.
type edgeFunc func(first uint64, source, target []uint32)

func newEdges(o *Options, classes *classes) edgeFunc {
	vertices, _ := o.size()
	draws := counter.New(o.Seed, "edges")
	switch o.Kind {
	case RMAT:
		relabel := newPermutation(vertices, counter.New(o.Seed, "scramble").At(0))
		return rmatEdges(o.Scale, draws, relabel)
	case SBM:
		return sbmEdges(draws, classes)
	default:
		return uniformEdges(uint64(vertices), draws)
	}
}

// eachEdge draws one edge at a time.
func eachEdge(edge func(i uint64) (source, target uint64)) edgeFunc {
	return func(first uint64, source, target []uint32) {
		for k := range source {
			s, t := edge(first + uint64(k))
			source[k], target[k] = uint32(s), uint32(t)
		}
	}
}

func uniformEdges(n uint64, draws counter.Stream) edgeFunc {
	return func(first uint64, source, target []uint32) {
		for k := range source {
			q := draws.At(first + uint64(k))
			t := q.Below(n)
			source[k], target[k] = uint32(skip(q.Below(n-1), t)), uint32(t)
		}
	}
}

// skip maps [0, n−1) to [0, n) without the number hole, in ascending order.
func skip(x, hole uint64) uint64 {
	if x >= hole {
		x++
	}
	return x
}

func sbmEdges(draws counter.Stream, classes *classes) edgeFunc {
	homophily := Homophily
	if classes.count == 1 {
		homophily = 1
	}
	stay := uint64(homophily * (1 << 32))
	return eachEdge(func(i uint64) (source, target uint64) {
		q := draws.At(i)
		place := q.Below(classes.order.n)
		class, member := place%classes.count, place/classes.count
		if q.Next()>>32 < stay {
			source = classes.member(class, skip(q.Below(classes.size(class)-1), member))
		} else {
			source = classes.other(class, q.Below(classes.order.n-classes.size(class)))
		}
		return source, classes.order.inverse(place)
	})
}

// rmatEdges draws an edge by halving the adjacency matrix scale times in both dimensions. The upper rows and
// the left columns are the vertices of high degree.
func rmatEdges(scale int, draws counter.Stream, relabel permutation) edgeFunc {
	// Graph500's a = 0.57, b = c = 0.19, d = 0.05, cumulated, as parts of 2³².
	const upToA, upToB, upToC = 57 << 32 / 100, 76 << 32 / 100, 95 << 32 / 100
	return eachEdge(func(i uint64) (source, target uint64) {
		q := draws.At(i)
		for source == target {
			source, target = 0, 0
			var draw uint64
			for level := range scale {
				if level%2 == 0 {
					draw = q.Next()
				} else {
					draw >>= 32
				}
				// Bit 63 of r−t is set where r < t: no branch to mispredict.
				r := draw & (1<<32 - 1)
				belowA, belowB, belowC := (r-upToA)>>63, (r-upToB)>>63, (r-upToC)>>63
				source = source<<1 | (belowA ^ belowB ^ belowC ^ 1) // the quadrants b and d
				target = target<<1 | (belowB ^ 1)                   // the quadrants c and d
			}
		}
		return relabel.at(source), relabel.at(target)
	})
}
