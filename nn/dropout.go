package nn

import (
	"weft/autograd"
	"weft/kernel"
)

// Dropout is a place where elements are dropped in training. Its mask depends on seed, epoch, site, vertex
// and column, and on nothing else: not on how the graph is divided, and not on threads.
type Dropout struct {
	Path string
	P    float64
}

// Mask is the place's mask for the rows of x; it drops nothing in evaluation.
func (d Dropout) Mask(x *autograd.Var) kernel.Mask {
	t := x.Tape()
	if !t.Training || d.P == 0 {
		return kernel.Mask{}
	}
	return kernel.NewMask(t.Random.Key(d.Path), d.P, x.RowSet().IDs)
}
