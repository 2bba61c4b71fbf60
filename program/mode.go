package program

// mode says which passes code is for. A program that differs in training and in evaluation is one list of
// values, in which opChoose takes one of two: what only leads to the other is not computed. Cuts into
// blocks, paths and parameters are those of both.
type mode uint8

const (
	inTraining mode = iota
	inEvaluation
	inBoth // what is computed in any of them
	modes
)

// taken is the value whose elements x has in a mode, where x is a choice.
func (m mode) taken(x *value) *value {
	for x.op == opChoose && m != inBoth {
		x = x.in[m]
	}
	return x
}
