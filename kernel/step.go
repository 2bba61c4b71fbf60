package kernel

// #include "native/weft.h"
import "C"

import (
	"math"
	"unsafe"

	"weft/tensor"
)

// AdamStep holds one step's settings. Step counts from 1; Clip multiplies the gradient; Decoupled is AdamW's
// weight decay.
type AdamStep struct {
	Rate, Beta1, Beta2, Epsilon, Decay, Clip float64
	Step                                     int
	Decoupled                                bool
}

// Adam makes one step of Adam or AdamW on w, with moments m and v, all of one shape, in PyTorch's definition.
func (t *Team) Adam(w, g, m, v *tensor.Matrix, s AdamStep) {
	args := &C.weft_adam_args{
		w: floats(w), g: floats(g), m: floats(m), v: floats(v), lr: C.float(s.Rate), beta1: C.float(s.Beta1),
		beta2: C.float(s.Beta2), rest1: C.float(1 - s.Beta1), rest2: C.float(1 - s.Beta2),
		epsilon: C.float(s.Epsilon),
		decay:   C.float(s.Decay), clip: C.float(s.Clip), decoupled: boolean(s.Decoupled),
		correction1: C.float(1 - math.Pow(s.Beta1, float64(s.Step))),
		correction2: C.float(1 - math.Pow(s.Beta2, float64(s.Step))),
	}
	t.rows(on(C.weft_adam).streams(w, w, m, m, v, v, g), unsafe.Pointer(args), w.Len(), 8)
}

// SGDStep holds one step's settings. Clip multiplies the gradient. First says that this is the first step,
// which overwrites the buffer.
type SGDStep struct {
	Rate, Momentum, Decay, Clip float64
	First                       bool
}

// SGD makes one step w −= rate·b with b = momentum·b + clip·g + decay·w; the buffer b is nil without
// momentum.
func (t *Team) SGD(w, g, b *tensor.Matrix, s SGDStep) {
	args := &C.weft_sgd_args{
		w: floats(w), g: floats(g), momentum: floats(b), lr: C.float(s.Rate), mu: C.float(s.Momentum),
		decay: C.float(s.Decay), clip: C.float(s.Clip), first: boolean(s.First),
	}
	t.rows(on(C.weft_sgd).streams(w, w, g, b, b), unsafe.Pointer(args), w.Len(), 4)
}
