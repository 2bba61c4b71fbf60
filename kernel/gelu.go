package kernel

// #include "native/weft.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"

	"weft/tensor"
)

// GELU is x·Φ(x) (Hendrycks & Gimpel 2016), PyTorch's nn.GELU, where Φ(x) = (1 + erf(x/√2))/2 is the
// distribution function of the normal distribution. Its derivative does not follow from its output, so the
// kernels that compute an activation in one pass with other work refuse it.
const GELU = Sigmoid + 1

// GELU is z = x·Φ(x), element by element. z may be x.
func (t *Team) GELU(z, x *tensor.Matrix) { t.inGo(C.weft_gelu, z, x, x, 0, normal().times) }

// GELUBackward is dx = g·(Φ(x) + x·φ(x)), where φ is Φ's derivative: the gradient of GELU's input. dx may be
// g.
func (t *Team) GELUBackward(dx, g, x *tensor.Matrix) {
	t.inGo(C.weft_gelu_back, dx, g, x, 0, slope().times)
}

// inGo is z = f(y, x) for an element-wise function in Go, which gets some elements at a time, in Float32. A
// device runs the kernel of that name on y, x and alpha instead.
func (t *Team) inGo(name C.int, z, y, x *tensor.Matrix, alpha float32, f func(z, y, x []float32)) {
	tensor.SameShape(z, y)
	tensor.SameShape(z, x)
	r := on(name, z, y, x).streams(z, x) // z, y and x have one element type
	if y != x {
		r = r.streams(y)
	}
	n := z.Len()
	if t.backend.has(name) {
		args := &C.weft_combine_args{z: storage(z), x: storage(y), y: storage(x), alpha: C.float(alpha)}
		t.rows(r, unsafe.Pointer(args), n, 4)
		return
	}
	parts := max(1, min(t.threads*chunks, n/grain))
	call, part := Call{Kernel: names[name], Shape: Shape{z.Rows, z.Cols}, Bytes: r.bytes},
		func(k int) (lo, hi int) { return n * k / parts, n * (k + 1) / parts }
	if z.Element == tensor.Float32 {
		to, by, at := z.Floats(), y.Floats(), x.Floats() // a plan also brings them back
		t.make(call, parts, func(k int) {
			lo, hi := part(k)
			f(to[lo:hi], by[lo:hi], at[lo:hi])
		})
		return
	}
	to, by, at := z.BFloat16s(), y.BFloat16s(), x.BFloat16s()
	t.make(call, parts, func(k int) {
		var zs, ys, xs [1024]float32
		for lo, hi := part(k); lo < hi; lo += len(zs) {
			m := min(len(zs), hi-lo)
			for i := range m {
				ys[i], xs[i] = tensor.FromBFloat16(by[lo+i]), tensor.FromBFloat16(at[lo+i])
			}
			f(zs[:m], ys[:m], xs[:m])
			for i, v := range zs[:m] {
				to[lo+i] = tensor.RoundBFloat16(v)
			}
		}
	})
}

// spline approximates a function that is 0 at −∞ and 1 at ∞. Around each of many nodes it is the parabola
// with the function's values at the node and half-way to its neighbours. The error is at most h³/72√3·¼ times
// the third derivative, where h is the distance of two nodes: 1e-8 for Φ, and 1e-7 for GELU's derivative.
type spline [2*reach*perUnit + 1][3]float32

const (
	reach   = 6  // the last node; beyond it Φ is within 1e-9 of 0 or 1
	perUnit = 64 // nodes in a unit
)

var (
	normal = sync.OnceValue(func() *spline { return newSpline(distribution) })
	slope  = sync.OnceValue(func() *spline {
		return newSpline(func(x float64) float64 { return distribution(x) + x*density(x) })
	})
)

func distribution(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// newSpline returns the spline of f. Its coefficients multiply powers of the distance to the node, in units
// of h.
func newSpline(f func(x float64) float64) *spline {
	s := &spline{}
	for k := range s {
		at := func(d float64) float64 { return f((float64(k)+d)/perUnit - reach) }
		before, here, after := at(-.5), at(0), at(.5)
		s[k] = [3]float32{float32(here), float32(after - before), float32(2 * (after - 2*here + before))}
	}
	return s
}

// times is z = y·s(x). z may be x or y.
func (s *spline) times(z, y, x []float32) {
	const whole = 3 << 22 // adding it rounds to a whole number, which is then in the low bits
	y, z = y[:len(x)], z[:len(x)]
	for i, v := range x {
		p := v * perUnit
		nearest := p + whole
		k := math.Float32bits(nearest) - math.Float32bits(whole) + reach*perUnit
		if k >= uint32(len(s)) {
			z[i] = y[i] * beyond(v)
			continue
		}
		c, d := &s[k], p-(nearest-whole)
		z[i] = y[i] * (c[0] + d*(c[1]+d*c[2]))
	}
}

// beyond returns the value of a spline beyond its nodes; NaN at NaN.
func beyond(x float32) float32 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return 0
	}
	return x
}
