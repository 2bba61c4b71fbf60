package nn

import (
	"weft/autograd"
	"weft/kernel"
)

// Dropout drops elements at one place of the model in training. Its mask depends on the seed, the epoch, the
// module path, the vertex and the column. It does not depend on the partitions, nor on the number of threads.
type Dropout struct {
	Path string  // the module path
	P    float64 // probability
}

// Mask returns the mask for the rows of x. In evaluation it drops nothing.
func (d Dropout) Mask(x *autograd.Var) kernel.Mask {
	t := x.Tape()
	if !t.Training || d.P == 0 {
		return kernel.Mask{}
	}
	return kernel.NewMask(t.Random.Key(d.Path), d.P, x.RowSet().IDs)
}
