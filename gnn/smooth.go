package gnn

import (
	"math"

	"weft/autograd"
)

// Smoothing improves the class probabilities of a trained model, by known labels and along the edges. It is
// Correct and Smooth (Huang et al., "Combining Label Propagation and Simple Models Out-performs Graph Neural
// Networks", ICLR 2021), PyG's CorrectAndSmooth, with Â as in GCN but without self loops that the graph
// lacks:
//
//	E = Y − Z for vertices with known labels, else 0                      (residuals)
//	Ê = E⁰ = E, Eᵏ⁺¹ = (1−Teleport)·Â·Eᵏ + Teleport·E                     (Correct)
//	Z' = Z + s·Ê
//	G = Y for vertices with known labels, else Z'
//	G⁰ = G, Gᵏ⁺¹ = (1−Teleport)·Â·Gᵏ + Teleport·G, clamped to [0, 1]      (Smooth)
//
// The paper's α is 1 − Teleport. Without a Scale Eᵏ is clamped to [−1, 1], and s is σ/‖Ê_i‖₁ for vertex i,
// where σ is the mean of ‖E_j‖₁ over the known labels; s is 1 where that is above 1000 (autoscale). With a
// Scale s is Scale, and the rows of Eᵏ for known labels are reset to E after each round (FDiff-scale).
//
// Without rounds of Smooth the result is G, clamped to [0, 1], as probabilities are. PyG does not clamp it.
//
// With Z = 0 and without rounds of Correct this is label propagation (Zhu and Ghahramani 2002), PyG's
// LabelPropagation.
type Smoothing struct {
	Correct, Smooth Rounds // a part with no rounds is left out
	Scale           float64
}

// Columns returns the number of columns of the input for so many classes: probabilities Z, labels Y as 0 and
// 1, and 1 where the label is known, else 0. A vertex without a known label has Y = 0.
func (s Smoothing) Columns(classes int) int { return 2*classes + 1 }

// Blocks returns the model: one block without parameters and without a backward pass.
func (s Smoothing) Blocks(classes int) []BlockSpec {
	rounds := s.Correct.Count + s.Smooth.Count
	return []BlockSpec{{
		In: s.Columns(classes), Out: classes, Rounds: rounds, Cost: Cost{Edge: rounds * classes},
		Build: func(e Env) Block {
			along := Along{Relation: e.Only()}
			return &smoother{s, classes, e.Propagators("correct", along), e.Propagators("smooth", along)}
		},
	}}
}

type smoother struct {
	Smoothing
	classes         int
	correct, smooth Propagator
}

// Forward implements Block.
func (s *smoother) Forward(in State) State {
	x := in.Rows[0]
	known := autograd.Columns(x, 2*s.classes, 1)
	labels := autograd.Columns(x, s.classes, s.classes)
	z := autograd.Columns(x, 0, s.classes)
	if s.Correct.Count > 0 {
		z = s.corrected(z, labels, known)
	}
	z = autograd.Add(labels, unknown(z, known))
	if s.Smooth.Count > 0 {
		z = propagated(s.smooth, z, s.Smooth, func(x *autograd.Var) *autograd.Var { return clamped(x, 0, 1) })
	} else {
		z = clamped(z, 0, 1)
	}
	return StateOf(z)
}

// corrected returns Z'.
func (s *smoother) corrected(z, labels, known *autograd.Var) *autograd.Var {
	residuals := autograd.Combine(1, labels, -1, autograd.HeadScale(z, known))
	if s.Scale > 0 {
		e := propagated(s.correct, residuals, s.Correct, func(x *autograd.Var) *autograd.Var {
			return autograd.Add(residuals, unknown(x, known))
		})
		return autograd.Combine(1, z, float32(s.Scale), e)
	}
	e := propagated(s.correct, residuals, s.Correct,
		func(x *autograd.Var) *autograd.Var { return clamped(x, -1, 1) })
	return autograd.Add(z, autograd.HeadScale(e, scales(e, residuals, known)))
}

// propagated runs the rounds from x, and applies an operation after each.
func propagated(p Propagator, x *autograd.Var, k Rounds,
	after func(x *autograd.Var) *autograd.Var,
) *autograd.Var {
	h := x
	for range k.Count {
		next := x.Tape().Scope(func() *autograd.Var {
			z := p.Propagate(h, SymmetricNoLoops, Once)
			if k.Teleport > 0 {
				z = autograd.Combine(float32(k.Teleport), x, float32(1-k.Teleport), z)
			}
			return after(z)
		})
		if h != x {
			h.Drop()
		}
		h = next
	}
	return h
}

// unknown sets the rows of known labels to 0.
func unknown(x, known *autograd.Var) *autograd.Var {
	is := known.Value().ReadFloats()
	return eachRow(x, x.Cols(), func(row int, z, x []float32) {
		if is[row] == 0 {
			copy(z, x)
		} else {
			clear(z)
		}
	})
}

func clamped(x *autograd.Var, least, most float32) *autograd.Var {
	return eachRow(x, x.Cols(), func(_ int, z, x []float32) {
		for c, v := range x {
			z[c] = min(max(v, least), most)
		}
	})
}

// scales returns the factors s of autoscale: rows × 1.
func scales(e, residuals, known *autograd.Var) *autograd.Var {
	// the sum of ‖E_j‖₁, and the number of known labels
	sums := []float64{norm(residuals.Value().ReadFloats()), norm(known.Value().ReadFloats())}
	e.RowSet().Sum(sums)
	const most = 1000
	return eachRow(e, 1, func(_ int, z, e []float32) {
		s := sums[0] / sums[1] / norm(e)
		if !(s <= most) {
			s = 1
		}
		z[0] = float32(s)
	})
}

// norm returns ‖x‖₁.
func norm(x []float32) (sum float64) {
	for _, v := range x {
		sum += math.Abs(float64(v))
	}
	return sum
}

// eachRow computes a row of so many columns from each row of x.
func eachRow(x *autograd.Var, columns int, f func(row int, z, x []float32)) *autograd.Var {
	const tile = 1024
	t := x.Tape()
	rows := x.Rows()
	width := x.Cols()
	result := t.NewLike(x, rows, columns)
	z, from := result.WriteFloats(), x.Value().ReadFloats()
	t.Team.Parallel((rows+tile-1)/tile, func(k int) {
		for row := k * tile; row < min((k+1)*tile, rows); row++ {
			f(row, z[row*columns:(row+1)*columns], from[row*width:(row+1)*width])
		}
	})
	return t.Record(autograd.Op{Value: result, Inputs: []*autograd.Var{x}})
}
