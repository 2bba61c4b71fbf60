package bench

import (
	"fmt"

	"weft/kernel"
	"weft/tensor"
)

// rowWork are the kernels that go over a matrix row by row. Their bound is what they stream: each is told
// what it reads, writes, and updates in place. None of them draws random numbers here: what dropout costs is
// arithmetic, which this bound does not know.
func (b *bench) rowWork() (cases []testCase) {
	shapes := [][2]int{{4096, 256}, {b.large / 4 / 256, 256}, {b.large / 4 / 41, 41}}
	if b.Quick {
		shapes = [][2]int{{512, 41}}
	}
	add := func(name string, build func(rows, cols int, a *arrays) *job) {
		for _, s := range shapes {
			cases = append(cases, testCase{name, fmt.Sprintf("%d×%d", s[0], s[1]), func() (*job, func()) {
				a := &arrays{team: b.team}
				return build(s[0], s[1], a), a.release
			}})
		}
	}
	team := b.team
	add("bias and relu", func(rows, cols int, a *arrays) *job {
		x, bias := a.matrix(rows, cols), a.matrix(1, cols)
		return &job{run: func() { team.Finish(x, x, bias, kernel.ReLU, kernel.Mask{}) }, flops: 2 * elements(x), updated: 4 * x.Len()}
	})
	add("relu backward", func(rows, cols int, a *arrays) *job {
		g, z := a.matrix(rows, cols), a.matrix(rows, cols)
		return &job{
			run: func() { team.FinishBackward(g, g, z, kernel.ReLU, kernel.Mask{}) }, flops: elements(g),
			read: []*tensor.Matrix{z}, updated: 4 * g.Len(),
		}
	})
	add("gelu", func(rows, cols int, a *arrays) *job {
		x, z := a.matrix(rows, cols), a.zeros(rows, cols)
		return &job{run: func() { team.GELU(z, x) }, flops: 8 * elements(x), read: []*tensor.Matrix{x}, written: 4 * z.Len()}
	})
	add("add", func(rows, cols int, a *arrays) *job {
		z, x := a.matrix(rows, cols), a.matrix(rows, cols)
		return &job{run: func() { team.Axpy(z, 1, x) }, flops: 2 * elements(x), read: []*tensor.Matrix{x}, updated: 4 * z.Len()}
	})
	add("column sums", func(rows, cols int, a *arrays) *job {
		x, sum := a.matrix(rows, cols), a.zeros(1, cols)
		return &job{run: func() { team.ColumnSums(sum, x, nil) }, flops: elements(x), read: []*tensor.Matrix{x}}
	})
	add("moments", func(rows, cols int, a *arrays) *job {
		x, m := a.matrix(rows, cols), kernel.NewMoments(cols)
		return &job{run: func() { team.Moments(m, x) }, flops: 4 * elements(x), read: []*tensor.Matrix{x}}
	})
	add("normalize", func(rows, cols int, a *arrays) *job {
		x, z, n := a.matrix(rows, cols), a.zeros(rows, cols), a.normalization(cols)
		return &job{
			run: func() { team.Normalize(z, x, n, kernel.ReLU, kernel.Mask{}) }, flops: 4 * elements(x),
			read: []*tensor.Matrix{x}, written: 4 * z.Len(),
		}
	})
	add("normalize backward sums", func(rows, cols int, a *arrays) *job {
		g, x, n := a.matrix(rows, cols), a.matrix(rows, cols), a.normalization(cols)
		sumG, sumGX := make([]float64, cols), make([]float64, cols)
		return &job{
			run: func() { team.NormalizeSums(sumG, sumGX, g, x, n, kernel.ReLU, kernel.Mask{}) }, flops: 7 * elements(x),
			read: []*tensor.Matrix{x}, updated: 4 * g.Len(),
		}
	})
	add("normalize backward", func(rows, cols int, a *arrays) *job {
		g, x, n, row := a.matrix(rows, cols), a.matrix(rows, cols), a.normalization(cols), a.matrix(1, cols)
		return &job{
			run: func() { team.NormalizeBackward(g, g, x, n, row, row) }, flops: 5 * elements(x),
			read: []*tensor.Matrix{x}, updated: 4 * g.Len(),
		}
	})
	for _, norm := range []struct {
		name     string
		backward bool
	}{{"layer norm", false}, {"layer norm backward", true}} {
		add(norm.name, func(rows, cols int, a *arrays) *job {
			g, x, n, row := a.matrix(rows, cols), a.matrix(rows, cols), a.normalization(cols), a.zeros(1, cols)
			n.Mean, n.Rstd = a.zeros(rows, 1), a.filled(rows, 1, 1)
			// A gradient that shrank each time would become subnormal, which is slow
			n.Gamma = a.filled(1, cols, 1)
			if norm.backward {
				return &job{
					run: func() {
						team.LayerNormBackward(kernel.NormGradients{X: g, Gamma: row, Beta: row}, g, x, n, kernel.ReLU, kernel.Mask{})
					}, flops: 14 * elements(x),
					read: []*tensor.Matrix{x, n.Mean, n.Rstd}, updated: 4 * g.Len(),
				}
			}
			return &job{
				run: func() { team.LayerNorm(g, x, n, 1e-5, kernel.ReLU, kernel.Mask{}) }, flops: 8 * elements(x),
				read: []*tensor.Matrix{x}, written: 4 * (g.Len() + 2*rows),
			}
		})
	}
	heads := func(cols int) int {
		if cols%4 == 0 {
			return 4
		}
		return 1
	}
	add("head dot", func(rows, cols int, a *arrays) *job {
		z, v, out := a.matrix(rows, cols), a.matrix(1, cols), a.zeros(rows, heads(cols))
		return &job{run: func() { team.HeadDot(out, z, v) }, flops: 2 * elements(z), read: []*tensor.Matrix{z}, written: 4 * out.Len()}
	})
	add("row dots", func(rows, cols int, a *arrays) *job {
		x, y, out := a.matrix(rows, cols), a.matrix(rows, cols), a.zeros(rows, heads(cols))
		return &job{run: func() { team.RowDots(out, x, y) }, flops: 2 * elements(x), read: []*tensor.Matrix{x, y}, written: 4 * out.Len()}
	})
	add("head dot backward", func(rows, cols int, a *arrays) *job {
		z, v, s := a.matrix(rows, cols), a.matrix(1, cols), a.matrix(rows, heads(cols))
		dz, dv := a.zeros(rows, cols), a.zeros(1, cols)
		return &job{
			run: func() { team.HeadDotBackward(dz, dv, s, z, v) }, flops: 4 * elements(z),
			read: []*tensor.Matrix{z, s, s}, updated: 4 * dz.Len(),
		}
	})
	add("adam", func(rows, cols int, a *arrays) *job {
		w, g, m, v := a.matrix(rows, cols), a.matrix(rows, cols), a.zeros(rows, cols), a.zeros(rows, cols)
		step := kernel.AdamStep{Rate: 1e-3, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8, Clip: 1, Step: 1}
		return &job{run: func() { team.Adam(w, g, m, v, step) }, flops: 12 * elements(w), read: []*tensor.Matrix{g}, updated: 12 * w.Len()}
	})
	return cases
}

func elements(m *tensor.Matrix) float64 { return float64(m.Len()) }
