package reference

// Rounds are a step applied so many times from x: Hᵏ⁺¹ = (1−Teleport)·step(Hᵏ) + Teleport·x, H⁰ = x.
type Rounds struct {
	Count    int
	Teleport float64
}

// Forward returns the result of the rounds from x.
func (k Rounds) Forward(x *Matrix, step func(h *Matrix) *Matrix) *Matrix {
	return k.all(x, step)[k.Count]
}

// all returns the inputs of the rounds, and then the result.
func (k Rounds) all(x *Matrix, step func(h *Matrix) *Matrix) []*Matrix {
	h := []*Matrix{x}
	for i := range k.Count {
		h = append(h, step(h[i]).times(1-k.Teleport).Plus(x.times(k.Teleport)))
	}
	return h
}

// Backward returns the gradient of x for dz, the gradient of the result. It calls back for each round, the
// last one first, with the step's input and the gradient of its output. back returns the gradient of the
// input.
func (k Rounds) Backward(x, dz *Matrix, step func(h *Matrix) *Matrix,
	back func(h, dz *Matrix) *Matrix,
) *Matrix {
	h, dx := k.all(x, step), New(x.Rows, x.Cols)
	for i := k.Count - 1; i >= 0; i-- {
		dx = dx.Plus(dz.times(k.Teleport))
		dz = back(h[i], dz.times(1-k.Teleport))
	}
	return dx.Plus(dz)
}

func (m *Matrix) times(a float64) *Matrix { return m.Map(func(v float64) float64 { return a * v }) }
