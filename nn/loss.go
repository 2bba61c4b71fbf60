package nn

import (
	"fmt"

	"weft/autograd"
	"weft/tensor"
)

// Targets are the labels that a loss compares logits with: one class per vertex, or several binary labels per
// vertex.
type Targets struct {
	Classes int
	Class   *tensor.Matrix // Int32, 1 × rows
	Multi   *tensor.Matrix // Float32, rows × Classes, 0 or 1, NaN where a label is missing
}

// Loss returns this worker's part of the mean loss over the listed rows (Int32, 1 × n) of all workers. With
// one class per vertex, it is the cross-entropy of the softmax, and the mean is over rows. With several
// labels, it is the binary cross-entropy of the sigmoid, and the mean is over the labels that are not
// missing. total is the number of terms of the mean on all workers.
func Loss(logits *autograd.Var, y Targets, rows *tensor.Matrix, total int) float64 {
	return loss(nil, logits, y, rows, total)
}

// LossGradient returns Loss and dLoss/dlogits.
func LossGradient(logits *autograd.Var, y Targets, rows *tensor.Matrix, total int) (float64, *tensor.Matrix) {
	g := logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
	return loss(g, logits, y, rows, total), g
}

// loss also adds the gradient to g, unless g is nil.
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
