package kernel

// #include "native/weft.h"
import "C"

import (
	"math"

	"weft/tensor"
)

// Sqrt is z = √x, element by element, and 0 where x is at most least. z may be x.
func (t *Team) Sqrt(z, x *tensor.Matrix, least float32) {
	t.inGo(C.weft_sqrt, z, x, x, least, func(z, x, _ []float32) {
		for i, v := range x {
			z[i] = 0
			if !(v <= least) {
				z[i] = float32(math.Sqrt(float64(v)))
			}
		}
	})
}

// SqrtBackward is dx = g/(2·z), the gradient of Sqrt's input, from its output z, and 0 where z is 0. dx may
// be g.
func (t *Team) SqrtBackward(dx, g, z *tensor.Matrix) {
	t.inGo(C.weft_sqrt_back, dx, g, z, 0, func(dx, g, z []float32) {
		for i, v := range z {
			if v == 0 {
				dx[i] = 0
			} else {
				dx[i] = g[i] / (2 * v)
			}
		}
	})
}
