package program

// mode says which passes code is for. A program that differs between training and evaluation is one list of
// values, in which an opChoose takes one of two operands. Values that lead only to the other operand are not
// computed. Cuts into blocks, paths and parameters are the same in both modes.
type mode uint8

const (
	inTraining mode = iota
	inEvaluation
	inBoth // all that either mode computes
	modes
)

// taken returns the operand whose elements x has in a mode, if x is an opChoose, or else x.
func (m mode) taken(x *value) *value {
	for x.op == opChoose && m != inBoth {
		x = x.in[m]
	}
	return x
}
