package nn

import (
	"weft/autograd"
	"weft/kernel"
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
	// Weights are the classes' weights in the loss; nil: 1 each. Like Loss, they are for one class per
	// vertex.
	Weights []float64
	// Loss is the loss of a vertex. nil: the cross-entropy, with Smoothing.
	Loss ClassLoss
}

// Loss returns this worker's part of the mean loss over the listed rows (Int32, 1 × n) of all workers. With
// one class per vertex, it is the cross-entropy of the softmax, and the mean is over rows. With several
// labels, it is the binary cross-entropy of the sigmoid, and the mean is over the labels that are not
// missing. total is the number of terms of the mean on all workers, or the sum of the weights of their
// classes.
func Loss(logits *autograd.Var, y Targets, rows *tensor.Matrix, total float64) float64 {
	return loss(nil, logits, y, rows, total)()
}

// LossGradient returns a function that returns Loss, and dLoss/dlogits. The function is called once. Only
// that call waits for the device, so a caller can launch the backward pass before it.
func LossGradient(logits *autograd.Var, y Targets, rows *tensor.Matrix, total float64) (
	value func() float64, grad *tensor.Matrix,
) {
	g := logits.Tape().Team.Zeros(tensor.Gradients, logits.Rows(), logits.Cols())
	return loss(g, logits, y, rows, total), g
}

// loss also adds the gradient to g, unless g is nil.
func loss(g *tensor.Matrix, logits *autograd.Var, y Targets, rows *tensor.Matrix,
	total float64,
) func() float64 {
	team := logits.Tape().Team
	y.mustFit(logits)
	if total == 0 {
		return func() float64 { return 0 }
	}
	scale := 1 / total
	sum := y.sum(team, g, logits.Value(), rows, scale)
	return func() float64 { return scale * sum() }
}

// sum begins to add up the losses of the listed rows (Int32, 1 × n). It returns a function that returns the
// sum, to be called once. It adds scale times the gradient to g, unless g is nil.
func (y *Targets) sum(team *kernel.Team, g, logits, rows *tensor.Matrix, scale float64) func() float64 {
	if !y.InKernels() {
		sum := y.softmax(team, g, logits, rows, scale)
		return func() float64 { return sum }
	}
	sums := team.Ask(y.ask(team, g, logits, rows, scale))
	return func() float64 { return sums()[0] }
}

// InKernels reports whether a kernel computes the loss, so that LossSum may be called.
func (y *Targets) InKernels() bool {
	return y.Multi != nil || y.Smoothing == 0 && y.Weights == nil && y.Loss == nil
}

// LossSum is Loss times total, for Team.Read. InKernels must be true.
func LossSum(logits *autograd.Var, y Targets, rows *tensor.Matrix) kernel.Sum {
	y.mustFit(logits)
	return y.ask(logits.Tape().Team, nil, logits.Value(), rows, 1)
}

// ask returns the kernel's sum of the losses. The kernel adds scale times the gradient to g, unless g is nil.
func (y *Targets) ask(team *kernel.Team, g, logits, rows *tensor.Matrix, scale float64) kernel.Sum {
	if y.Multi != nil {
		return team.BinaryCrossEntropy(g, logits, rows, y.Multi, scale)
	}
	return team.CrossEntropy(g, logits, rows, y.Class, scale)
}

// mustFit panics unless the logits have as many columns as there are classes.
func (y *Targets) mustFit(logits *autograd.Var) {
	if logits.Cols() != y.Classes {
		panic(tensor.Mismatched("the model gives %d×%d, and the labels need %d columns", logits.Rows(),
			logits.Cols(), y.Classes))
	}
}
