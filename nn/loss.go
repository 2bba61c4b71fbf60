package nn

import (
	"fmt"

	"weft/autograd"
	"weft/tensor"
)

// Targets are what a loss compares logits with: one class per vertex, or several labels per vertex.
type Targets struct {
	Classes int
	Class   *tensor.Matrix // Int32, 1 × rows
	Multi   *tensor.Matrix // Float32, rows × Classes, 0 or 1, NaN where a label is missing
}

// Loss is the mean over the listed rows (Int32, 1 × n) of the cross-entropy with softmax; with several labels
// the mean over all labels of the listed rows of the binary cross-entropy with σ. total is how many terms the
// mean has on all workers, rows or labels that are not missing, and the result is this worker's share of it.
func Loss(logits *autograd.Var, y Targets, rows *tensor.Matrix, total int) float64 {
	return loss(nil, logits, y, rows, total)
}

// LossGradient is Loss, and dLoss/dlogits.
func LossGradient(logits *autograd.Var, y Targets, rows *tensor.Matrix, total int) (float64, *tensor.Matrix) {
	g := logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
	return loss(g, logits, y, rows, total), g
}

// loss adds the gradient to g, unless that is nil.
func loss(g *tensor.Matrix, logits *autograd.Var, y Targets, rows *tensor.Matrix, total int) float64 {
	team := logits.Tape().Team
	if logits.Cols() != y.Classes {
		panic(fmt.Sprintf("nn: a model with %d outputs for %d classes", logits.Cols(), y.Classes))
	}
	if total == 0 {
		return 0
	}
	scale := 1 / float64(total)
	if y.Multi != nil {
		return scale * team.BinaryCrossEntropy(g, logits.Value(), rows, y.Multi, scale)
	}
	return scale * team.CrossEntropy(g, logits.Value(), rows, y.Class, scale)
}
