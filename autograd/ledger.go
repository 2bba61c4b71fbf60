package autograd

import (
	"fmt"

	"weft/tensor"
)

// Ledger counts, over all tapes of one step, the recorded operations that may still add to each parameter's
// gradient. A parameter may be used on several tapes: its gradient is complete when the last of these
// operations has run backward. All forward work on a parameter comes before the first backward step that
// settles it.
type Ledger struct {
	complete func(grad *tensor.Matrix)
	open     map[*tensor.Matrix]int // by the parameter's gradient; 0: it is complete
}

// NewLedger calls complete with each parameter's gradient when nothing will be added to it any more.
func NewLedger(complete func(grad *tensor.Matrix)) *Ledger {
	return &Ledger{complete, map[*tensor.Matrix]int{}}
}

// expect counts one more operation that may add to the parameters among inputs. It panics where the gradient
// of one is complete: what would still be added to it would be missed.
func (l *Ledger) expect(inputs []*Var) {
	for _, in := range inputs {
		if in.parameter && in.wants {
			if n, seen := l.open[in.grad]; seen && n == 0 {
				panic(fmt.Sprintf("autograd: a parameter of %d×%d is used after its gradient was complete", in.rows, in.cols))
			}
			l.open[in.grad]++
		}
	}
}

// settle counts one less, and says which gradients are complete.
func (l *Ledger) settle(inputs []*Var) {
	for _, in := range inputs {
		if in.parameter && in.wants {
			if l.open[in.grad]--; l.open[in.grad] == 0 {
				l.complete(in.grad)
			}
		}
	}
}
