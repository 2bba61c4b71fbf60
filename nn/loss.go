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
	// Smoothing is ε in [0, 1). With one class per vertex the target of a vertex is 1−ε at its class, and
	// ε/Classes more at every class (Szegedy et al. 2016; CrossEntropyLoss's label_smoothing in PyTorch).
	Smoothing float64
}

// Loss returns this worker's part of the mean loss over the listed rows (Int32, 1 × n) of all workers. With
// one class per vertex, it is the cross-entropy of the softmax, and the mean is over rows. With several
// labels, it is the binary cross-entropy of the sigmoid, and the mean is over the labels that are not
// missing. total is the number of terms of the mean on all workers.
func Loss(logits *autograd.Var, y Targets, rows *tensor.Matrix, total float64) float64 {
	return loss(nil, logits, y, rows, total)
}

// LossGradient returns Loss and dLoss/dlogits.
func LossGradient(logits *autograd.Var, y Targets, rows *tensor.Matrix, total float64) (float64, *tensor.Matrix) {
	g := logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
	return loss(g, logits, y, rows, total), g
}

// loss also adds the gradient to g, unless g is nil.
func loss(g *tensor.Matrix, logits *autograd.Var, y Targets, rows *tensor.Matrix, total float64) float64 {
	team := logits.Tape().Team
	if logits.Cols() != y.Classes {
		panic(fmt.Sprintf("nn: a model with %d outputs for %d classes", logits.Cols(), y.Classes))
	}
	if total == 0 {
		return 0
	}
	scale := 1 / total
	if y.Multi != nil {
		return scale * team.BinaryCrossEntropy(g, logits.Value(), rows, y.Multi, scale)
	}
	sum := team.CrossEntropy(g, logits.Value(), rows, y.Class, scale)
	if y.Smoothing > 0 && !team.Planning() {
		sum += smooth(g, logits.Value(), rows, y, scale)
	}
	return scale * sum
}

// smooth returns what label smoothing adds to the sum of the rows' cross-entropies: with log-sum-exp l, a row
// z of class y has (1−ε)(l − z_y) + ε/C·Σ_c (l − z_c) = (l − z_y) + ε(z_y − mean z). It adds scale times its
// gradient to g, unless g is nil. It goes over the rows in their order, so the threads change no bit.
func smooth(g, logits, rows *tensor.Matrix, y Targets, scale float64) (sum float64) {
	c, class := logits.Cols, y.Class.Int32s()
	even := float32(-scale * y.Smoothing / float64(c))
	for _, row := range rows.Int32s() {
		z, mean := logits.Floats()[int(row)*c:][:c], 0.
		for _, v := range z {
			mean += float64(v) / float64(c)
		}
		sum += y.Smoothing * (float64(z[class[row]]) - mean)
		if g != nil {
			dz := g.Floats()[int(row)*c:][:c]
			for k := range dz {
				dz[k] += even
			}
			dz[class[row]] += float32(scale * y.Smoothing)
		}
	}
	return sum
}
