package generate

import (
	"math"

	"weft/graph"
	"weft/graph/internal/counter"
)

// classes assigns the vertices to classes in turn, in a random order: vertex v has the class order.at(v) mod
// count. The inverse of the order finds the members of a class without a list.
type classes struct {
	count uint64
	order permutation
}

func newClasses(o *Options) *classes {
	vertices, _ := o.size()
	return &classes{uint64(o.Classes), newPermutation(vertices, counter.New(o.Seed, "labels").At(0))}
}

func (c *classes) class(vertex uint64) uint64 { return c.order.at(vertex) % c.count }

// size returns the number of vertices of a class.
func (c *classes) size(class uint64) uint64 { return (c.order.n - class + c.count - 1) / c.count }

// member returns the k-th vertex of a class.
func (c *classes) member(class, k uint64) uint64 { return c.order.inverse(k*c.count + class) }

// other returns the k-th vertex of all other classes.
func (c *classes) other(class, k uint64) uint64 {
	others := c.count - 1
	round := min(k/others, c.order.n/c.count) // the last turn may lack classes
	return c.order.inverse(round*c.count + skip(k-round*others, class))
}

// featureFunc writes the features of a vertex into row.
type featureFunc func(row []float32, vertex int)

func newFeatures(o *Options, classes *classes) featureFunc {
	noise := counter.New(o.Seed, "features")
	if o.Kind != SBM {
		return func(row []float32, vertex int) { noise.Normals(row, uint64(vertex)) }
	}
	centres := make([]float32, o.Classes*o.Features)
	stream := counter.New(o.Seed, "centres")
	for class := range o.Classes {
		stream.Normals(centres[class*o.Features:(class+1)*o.Features], uint64(class))
	}
	return func(row []float32, vertex int) {
		noise.Normals(row, uint64(vertex))
		centre := centres[int(classes.class(uint64(vertex)))*len(row):]
		for j := range row {
			row[j] = centre[j] + 2*row[j]
		}
	}
}

// newSplit divides the vertices at random: 60 % for training, 20 % for validation, 20 % for testing, rounded
// to the nearest.
func newSplit(o *Options) graph.Split {
	vertices, _ := o.size()
	order := newPermutation(vertices, counter.New(o.Seed, "split").At(0))
	train := int(math.Round(float64(vertices) * 0.6))
	val := int(math.Round(float64(vertices) * 0.8))
	s := graph.Split{
		Train: make([]int64, 0, train), Val: make([]int64, 0, val-train),
		Test: make([]int64, 0, vertices-val),
	}
	for v := range vertices {
		switch place := int(order.at(uint64(v))); {
		case place < train:
			s.Train = append(s.Train, int64(v))
		case place < val:
			s.Val = append(s.Val, int64(v))
		default:
			s.Test = append(s.Test, int64(v))
		}
	}
	return s
}
