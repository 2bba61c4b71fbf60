package reference

import (
	"math"
	"slices"
)

// LogSoftmax returns y_ij = x_ij − log Σ_k exp x_ik.
func LogSoftmax(x *Matrix) *Matrix {
	y := New(x.Rows, x.Cols)
	for i := range x.Rows {
		_, lse := softmax(row(x, i))
		for j := range x.Cols {
			y.Set(i, j, x.At(i, j)-lse)
		}
	}
	return y
}

// CrossEntropy returns −(1/n) Σ_{i∈rows} log softmax(logits_i)[labels_i], n = len(rows). labels has one class
// per row of logits; every listed row must have one.
func CrossEntropy(logits *Matrix, labels, rows []int64) float64 {
	logp := LogSoftmax(logits)
	sum := 0.0
	for _, i := range rows {
		sum -= logp.At(int(i), int(labels[i]))
	}
	return sum / float64(len(rows))
}

// CrossEntropyBackward returns the gradient of CrossEntropy: (softmax(logits_i) − onehot(labels_i))/n in each
// listed row (once for each time it is listed), zero elsewhere.
func CrossEntropyBackward(logits *Matrix, labels, rows []int64) (dlogits *Matrix) {
	dlogits = New(logits.Rows, logits.Cols)
	n := float64(len(rows))
	for _, i := range rows {
		p, _ := softmax(row(logits, int(i)))
		for j := range p {
			dlogits.Add(int(i), j, p[j]/n)
		}
		dlogits.Add(int(i), int(labels[i]), -1/n)
	}
	return dlogits
}

// Hits returns how many of the listed rows have their largest logit at the label. The first of equal logits
// is the largest; NaN in the first column counts as the largest; elsewhere it is ignored.
func Hits(logits *Matrix, labels, rows []int64) (n int) {
	for _, i := range rows {
		top := 0
		for c, x := range row(logits, int(i)) {
			if x > logits.At(int(i), top) {
				top = c
			}
		}
		if labels[i] == int64(top) {
			n++
		}
	}
	return n
}

// Finite reports whether no element is a NaN or an infinity.
func Finite(x *Matrix) bool {
	return !slices.ContainsFunc(x.Data, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
}

// Sigmoid is 1/(1 + exp(−x)).
func Sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// BCEWithLogits returns the binary cross-entropy of sigmoid(logits) against targets (0 or 1, of the shape of
// logits, NaN where one is missing), the mean over the n entries of the listed rows whose target is there:
//
//	(1/n) Σ_{i∈rows} Σ_j max(x_ij, 0) − x_ij t_ij + log(1 + exp(−|x_ij|))
func BCEWithLogits(logits, targets *Matrix, rows []int64) float64 {
	sum, n := 0.0, 0
	eachTarget(targets, rows, func(i, j int, t float64) {
		x := logits.At(i, j)
		sum += math.Max(x, 0) - x*t + math.Log1p(math.Exp(-math.Abs(x)))
		n++
	})
	return sum / float64(n)
}

// BCEWithLogitsBackward returns the gradient of BCEWithLogits: (sigmoid(x_ij) − t_ij)/n where a listed row
// has a target, and zero elsewhere.
func BCEWithLogitsBackward(logits, targets *Matrix, rows []int64) (dlogits *Matrix) {
	dlogits = New(logits.Rows, logits.Cols)
	n := 0
	eachTarget(targets, rows, func(int, int, float64) { n++ })
	eachTarget(targets, rows, func(i, j int, t float64) {
		dlogits.Add(i, j, (Sigmoid(logits.At(i, j))-t)/float64(n))
	})
	return dlogits
}

// eachTarget calls f for each target of the listed rows that is not missing.
func eachTarget(targets *Matrix, rows []int64, f func(i, j int, t float64)) {
	for _, i := range rows {
		for j := range targets.Cols {
			if t := targets.At(int(i), j); !math.IsNaN(t) {
				f(int(i), j, t)
			}
		}
	}
}
