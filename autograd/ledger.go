package autograd

import (
	"fmt"

	"weft/tensor"
)

// Ledger counts the recorded operations that may still add to each parameter's gradient, over all tapes of
// one step. A parameter may be used on several tapes. Its gradient is complete when the last of these
// operations has run backward. All operations on a parameter must be recorded before the first backward step
// that settles it.
type Ledger struct {
	complete func(grad *tensor.Matrix)
	open     map[*tensor.Matrix]int // operations to come, by the parameter's gradient; 0: complete
}

// NewLedger returns a Ledger that calls complete with each parameter's gradient, as soon as nothing will be
// added to it.
func NewLedger(complete func(grad *tensor.Matrix)) *Ledger {
	return &Ledger{complete, map[*tensor.Matrix]int{}}
}

// expect counts one more operation for each parameter among inputs. It panics if the gradient of one is
// already complete, because the addition would be missed.
func (l *Ledger) expect(inputs []*Var) {
	for _, in := range inputs {
		if in.origin == parameter && in.requiresGrad {
			if n, seen := l.open[in.grad]; seen && n == 0 {
				panic(fmt.Sprintf("autograd: a parameter of %d×%d is used after its gradient was complete",
					in.rows, in.cols))
			}
			l.open[in.grad]++
		}
	}
}

// settle counts one operation less for each parameter among inputs, and calls complete with each gradient
// that nothing will be added to.
func (l *Ledger) settle(inputs []*Var) {
	for _, in := range inputs {
		if in.origin == parameter && in.requiresGrad {
			l.open[in.grad]--
			if l.open[in.grad] == 0 {
				l.complete(in.grad)
			}
		}
	}
}
