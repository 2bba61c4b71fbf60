package nn

import (
	"fmt"
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Targets are what a loss compares logits with: one class per vertex, or several labels per vertex.
type Targets struct {
	Classes int
	Class   *tensor.Matrix // Int32, 1 × rows
	Multi   *tensor.Matrix // Float32, rows × Classes, 0 or 1
	// Missing says that some labels of Multi are NaN, which count nowhere.
	Missing bool
}

// Loss is the mean over the listed rows (Int32, 1 × n) of the cross-entropy with softmax; with several labels
// the mean over the listed rows and all classes of the binary cross-entropy with σ. total is the number of
// listed rows on all workers, or where labels are missing of the labels that are there, and the result is
// this worker's share of the mean.
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
	if y.Missing {
		return missing(team, g, logits.Value(), y.Multi, rows, 1/float64(total))
	}
	if y.Multi != nil {
		scale := 1 / (float64(total) * float64(y.Classes))
		return scale * team.BinaryCrossEntropy(g, logits.Value(), rows, y.Multi, scale)
	}
	scale := 1 / float64(total)
	return scale * team.CrossEntropy(g, logits.Value(), rows, y.Class, scale)
}

// missingTile is how many listed rows are added up by themselves.
const missingTile = 1024

// missing is scale times the sum over the listed rows and the classes whose label is there of the binary
// cross-entropy max(z, 0) − z·y + ln(1 + exp(−|z|)), added up tile by tile; its gradient is scale·(σ(z) − y).
func missing(team *kernel.Team, g, logits, labels, rows *tensor.Matrix, scale float64) (sum float64) {
	tiles := team.Memory.NewElement(tensor.Buffers, tensor.Float64, (rows.Cols+missingTile-1)/missingTile, 1)
	defer tiles.Release()
	team.Parallel(tiles.Rows, func(k int) {
		sum := 0.0
		for _, row := range rows.Int32s()[k*missingTile : min((k+1)*missingTile, rows.Cols)] {
			at := int(row) * logits.Cols
			for c, label := range labels.Floats()[at : at+logits.Cols] {
				if label != label { // NaN
					continue
				}
				z, y := float64(logits.Floats()[at+c]), float64(label)
				sum += max(z, 0) - z*y + math.Log1p(math.Exp(-math.Abs(z)))
				if g != nil {
					g.Floats()[at+c] += float32(scale * (1/(1+math.Exp(-z)) - y))
				}
			}
		}
		tiles.Doubles()[k] = sum
	})
	for _, tile := range tiles.Doubles() {
		sum += tile
	}
	return scale * sum
}
