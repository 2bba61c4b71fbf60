package nn

import (
	"math"

	"weft/kernel"
	"weft/tensor"
)

// tileRows is the number of rows of a tile. Each tile's losses are summed in the order of rows, on one
// thread. The sums of the tiles are then added in order.
const tileRows = 1024

// softmax returns the sum over the listed rows (Int32, 1 × n) of a loss that no kernel computes: with
// weights, with smoothed targets, or a focal loss. It adds scale times its gradient to g, unless g is nil.
func (y *Targets) softmax(team *kernel.Team, g, logits, rows *tensor.Matrix, scale float64) (sum float64) {
	z := logits.ReadFloats()
	class := y.Class.ReadInt32s()
	listed := rows.ReadInt32s()
	columns := y.Classes
	var dz []float32
	if g != nil {
		dz = g.WriteFloats()
	}
	sums := make([]float64, (len(listed)+tileRows-1)/tileRows)
	team.Parallel(len(sums), func(tile int) {
		nll, a := make([]float64, columns), make([]float64, columns)
		for _, row := range listed[tile*tileRows : min((tile+1)*tileRows, len(listed))] {
			at := int(row) * columns
			negativeLogs(nll, z[at:at+columns])
			loss, all := y.terms(a, nll, int(class[row]))
			sums[tile] += loss
			if dz == nil {
				continue
			}
			for c := range columns {
				dz[at+c] += float32(scale * (math.Exp(-nll[c])*all - a[c]))
			}
		}
	})
	for _, s := range sums {
		sum += s
	}
	return sum
}

// negativeLogs sets nll to −ln softmax(z).
func negativeLogs(nll []float64, z []float32) {
	top, sum := math.Inf(-1), 0.
	for _, x := range z {
		top = max(top, float64(x))
	}
	for _, x := range z {
		sum += math.Exp(float64(x) - top)
	}
	for c, x := range z {
		nll[c] = math.Log(sum) + top - float64(x)
	}
}

// ClassLoss returns the loss of a row whose label is class, with the weight of that class. nll is −ln p for
// each class, where p is the softmax of the row. It sets a, which is 0, to ∂loss/∂nll.
type ClassLoss func(a, nll []float64, class int, weight float64) (loss float64)

// Focal returns the focal loss −(1−p)^γ·ln p, where p is the probability of the row's class (Lin et al. 2017,
// equation 5, with Targets.Weights as α).
func Focal(gamma float64) ClassLoss {
	return func(a, nll []float64, class int, weight float64) float64 {
		rest := -math.Expm1(-nll[class]) // 1−p
		if rest == 0 {
			return 0
		}
		share := weight * math.Pow(rest, gamma)
		a[class] = share * (1 + gamma*(1-rest)/rest*nll[class])
		return share * nll[class]
	}
}

// terms returns the loss of a row whose label is class, from nll = −ln p for each class. It sets a to
// ∂loss/∂nll, and returns the sum of a: the gradient of logit c is p_c·Σa − a_c.
func (y *Targets) terms(a, nll []float64, class int) (loss, all float64) {
	weight := func(c int) float64 {
		if y.Weights == nil {
			return 1
		}
		return y.Weights[c]
	}
	if y.Loss != nil {
		clear(a)
		loss = y.Loss(a, nll, class, weight(class))
		for _, slope := range a {
			all += slope
		}
		return loss, all
	}
	for c := range a {
		a[c] = y.Smoothing / float64(y.Classes) * weight(c)
		if c == class {
			a[c] += (1 - y.Smoothing) * weight(c)
		}
		loss += a[c] * nll[c]
		all += a[c]
	}
	return loss, all
}
