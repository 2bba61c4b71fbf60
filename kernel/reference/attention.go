package reference

import "math"

// Attention says over which edges softmax attention runs. Matrices of H heads of width C have H·C columns,
// head after head; a vector for the heads is laid out alike. Destination i is row i of the same vertices:
// sources index rows of z too.
type Attention struct {
	Indptr  []int64 // len rows+1
	Indices []int32 // len E
	Heads   int
	Slope   float64 // λ of LeakyReLU
	// SelfEdge adds one edge i→i to every row. Self loops among Indices stay; WithoutLoops takes them away.
	SelfEdge bool
	// Mask multiplies coefficients after the softmax (attention dropout: 0 or 1/(1−p)): entry e·H + h; nil
	// means 1.
	Mask []float64
	// SelfMask is the mask of the added edges: entry i·H + h; nil means 1.
	SelfMask []float64
}

// Rows returns the number of destinations.
func (a *Attention) Rows() int { return len(a.Indptr) - 1 }

// WithoutLoops returns the in-neighbour lists without the self loops i→i; other edges stay in their order.
func WithoutLoops(indptr []int64, indices []int32) ([]int64, []int32) {
	p, s := []int64{0}, []int32{}
	for i := range len(indptr) - 1 {
		for _, j := range indices[indptr[i]:indptr[i+1]] {
			if int(j) != i {
				s = append(s, j)
			}
		}
		p = append(p, int64(len(s)))
	}
	return p, s
}

// edges lists, for row i and head h, the sources and the masks of its edges, the added self edge last.
func (a *Attention) edges(i, h int) (sources []int, mask []float64) {
	for e := a.Indptr[i]; e < a.Indptr[i+1]; e++ {
		sources = append(sources, int(a.Indices[e]))
		mask = append(mask, or(a.Mask, int(e)*a.Heads+h, 1))
	}
	if a.SelfEdge {
		sources = append(sources, i)
		mask = append(mask, or(a.SelfMask, i*a.Heads+h, 1))
	}
	return sources, mask
}

// softmax returns α_k = exp(s_k) / Σ_l exp(s_l) and lse = log Σ_l exp(s_l), −∞ where s is empty.
func softmax(s []float64) (alpha []float64, lse float64) {
	top := math.Inf(-1)
	for _, v := range s {
		top = math.Max(top, v)
	}
	if len(s) == 0 {
		return nil, top
	}
	sum := 0.0
	for _, v := range s {
		sum += math.Exp(v - top)
	}
	lse = top + math.Log(sum)
	alpha = make([]float64, len(s))
	for k, v := range s {
		alpha[k] = math.Exp(v - lse)
	}
	return alpha, lse
}

// attend returns o_i = Σ_k α_k m_k v_{j_k} for every row and head, given the scores of a row's edges, and
// lse, entry i·H + h.
func (a *Attention) attend(v *Matrix, score func(i, h, j int) float64) (o *Matrix, lse []float64) {
	o = New(a.Rows(), v.Cols)
	lse = make([]float64, a.Rows()*a.Heads)
	width := v.Cols / a.Heads
	for i := range a.Rows() {
		for h := range a.Heads {
			sources, mask := a.edges(i, h)
			s := make([]float64, len(sources))
			for k, j := range sources {
				s[k] = score(i, h, j)
			}
			alpha, l := softmax(s)
			lse[i*a.Heads+h] = l
			for k, j := range sources {
				for c := h * width; c < (h+1)*width; c++ {
					o.Add(i, c, alpha[k]*mask[k]*v.At(j, c))
				}
			}
		}
	}
	return o, lse
}

// attendBackward adds the gradient of attend with respect to v to dv, and hands the gradient of each score to
// dscore:
//
//	dv_j += α_ij m_ij dO_i
//	g_ij  = m_ij ⟨dO_i, v_j⟩,  ds_ij = α_ij (g_ij − Σ_k α_ik g_ik)
func (a *Attention) attendBackward(dv, v, dO *Matrix, score func(i, h, j int) float64, dscore func(i, h, j int, ds float64)) {
	width := v.Cols / a.Heads
	for i := range a.Rows() {
		for h := range a.Heads {
			sources, mask := a.edges(i, h)
			s := make([]float64, len(sources))
			for k, j := range sources {
				s[k] = score(i, h, j)
			}
			alpha, _ := softmax(s)
			g := make([]float64, len(sources))
			mean := 0.0
			for k, j := range sources {
				for c := h * width; c < (h+1)*width; c++ {
					dv.Add(j, c, alpha[k]*mask[k]*dO.At(i, c))
					g[k] += mask[k] * dO.At(i, c) * v.At(j, c)
				}
				mean += alpha[k] * g[k]
			}
			for k, j := range sources {
				dscore(i, h, j, alpha[k]*(g[k]-mean))
			}
		}
	}
}

// GAT returns the attention of Veličković et al., "Graph Attention Networks" (arXiv 1710.10903), per head h:
//
//	s_ij = LeakyReLU_λ(⟨aSrc_h, z_j⟩ + ⟨aDst_h, z_i⟩),  α_i = softmax over the in-edges of i,  o_i = Σ_j α_ij m_ij z_j
//
// z is vertices×H·C; aSrc and aDst have H·C entries; o is rows×H·C; lse has the entry log Σ_j exp s_ij at i·H
// + h. A row without an edge has o = 0 and lse = −∞.
func GAT(a *Attention, z *Matrix, aSrc, aDst []float64) (o *Matrix, lse []float64) {
	return a.attend(z, func(i, h, j int) float64 {
		return LeakyReLU(gatSum(a, z, aSrc, aDst, i, h, j), a.Slope)
	})
}

// gatSum is ⟨aSrc_h, z_j⟩ + ⟨aDst_h, z_i⟩.
func gatSum(a *Attention, z *Matrix, aSrc, aDst []float64, i, h, j int) (sum float64) {
	width := z.Cols / a.Heads
	for c := h * width; c < (h+1)*width; c++ {
		sum += aSrc[c]*z.At(j, c) + aDst[c]*z.At(i, c)
	}
	return sum
}

// GATBackward returns the gradients of GAT. With dp_ij = ds_ij LeakyReLU'_λ(…):
//
//	dz_j += α_ij m_ij dO_i + dp_ij aSrc_h,  dz_i += dp_ij aDst_h,  daSrc_h += dp_ij z_j,  daDst_h += dp_ij z_i
func GATBackward(a *Attention, z *Matrix, aSrc, aDst []float64, dO *Matrix) (dz *Matrix, daSrc, daDst []float64) {
	dz = New(z.Rows, z.Cols)
	daSrc, daDst = make([]float64, z.Cols), make([]float64, z.Cols)
	width := z.Cols / a.Heads
	score := func(i, h, j int) float64 { return LeakyReLU(gatSum(a, z, aSrc, aDst, i, h, j), a.Slope) }
	a.attendBackward(dz, z, dO, score, func(i, h, j int, ds float64) {
		dp := ds * LeakyReLUSlope(gatSum(a, z, aSrc, aDst, i, h, j), a.Slope)
		for c := h * width; c < (h+1)*width; c++ {
			dz.Add(j, c, dp*aSrc[c])
			dz.Add(i, c, dp*aDst[c])
			daSrc[c] += dp * z.At(j, c)
			daDst[c] += dp * z.At(i, c)
		}
	})
	return dz, daSrc, daDst
}

// Scored is GAT of given scores, vertices×H, in the place of the two products with z:
//
//	s_ij = LeakyReLU_λ(source_jh + target_ih)
func Scored(a *Attention, z, source, target *Matrix) (o *Matrix) {
	o, _ = a.attend(z, func(i, h, j int) float64 { return LeakyReLU(source.At(j, h)+target.At(i, h), a.Slope) })
	return o
}

// ScoredBackward returns the gradients of Scored. With dp_ij as in GATBackward:
//
//	dz_j += α_ij m_ij dO_i,  dsource_j += dp_ij,  dtarget_i += dp_ij
func ScoredBackward(a *Attention, z, source, target, dO *Matrix) (dz, dSource, dTarget *Matrix) {
	dz, dSource, dTarget = New(z.Rows, z.Cols), New(z.Rows, a.Heads), New(z.Rows, a.Heads)
	t := func(i, h, j int) float64 { return source.At(j, h) + target.At(i, h) }
	score := func(i, h, j int) float64 { return LeakyReLU(t(i, h, j), a.Slope) }
	a.attendBackward(dz, z, dO, score, func(i, h, j int, ds float64) {
		dp := ds * LeakyReLUSlope(t(i, h, j), a.Slope)
		dSource.Add(j, h, dp)
		dTarget.Add(i, h, dp)
	})
	return dz, dSource, dTarget
}

// GATv2 returns the attention of Brody et al., "How Attentive are Graph Attention Networks?" (arXiv
// 2105.14491), per head h:
//
//	s_ij = ⟨att_h, LeakyReLU_λ(zl_j + zr_i)⟩,  α_i = softmax over the in-edges of i,  o_i = Σ_j α_ij m_ij zl_j
//
// zl (sources) and zr (destinations) are vertices×H·C, att has H·C entries; o and lse as in GAT.
func GATv2(a *Attention, zl, zr *Matrix, att []float64) (o *Matrix, lse []float64) {
	return a.attend(zl, func(i, h, j int) float64 { return gatv2Score(a, zl, zr, att, i, h, j) })
}

func gatv2Score(a *Attention, zl, zr *Matrix, att []float64, i, h, j int) (s float64) {
	width := zl.Cols / a.Heads
	for c := h * width; c < (h+1)*width; c++ {
		s += att[c] * LeakyReLU(zl.At(j, c)+zr.At(i, c), a.Slope)
	}
	return s
}

// GATv2Backward returns the gradients of GATv2. With p_ij = zl_j + zr_i and dp_ij = ds_ij att_h ⊙
// LeakyReLU'_λ(p_ij):
//
//	dzl_j += α_ij m_ij dO_i + dp_ij,  dzr_i += dp_ij,  datt_h += ds_ij LeakyReLU_λ(p_ij)
func GATv2Backward(a *Attention, zl, zr *Matrix, att []float64, dO *Matrix) (dzl, dzr *Matrix, datt []float64) {
	dzl, dzr = New(zl.Rows, zl.Cols), New(zr.Rows, zr.Cols)
	datt = make([]float64, zl.Cols)
	width := zl.Cols / a.Heads
	score := func(i, h, j int) float64 { return gatv2Score(a, zl, zr, att, i, h, j) }
	a.attendBackward(dzl, zl, dO, score, func(i, h, j int, ds float64) {
		for c := h * width; c < (h+1)*width; c++ {
			p := zl.At(j, c) + zr.At(i, c)
			dp := ds * att[c] * LeakyReLUSlope(p, a.Slope)
			dzl.Add(j, c, dp)
			dzr.Add(i, c, dp)
			datt[c] += ds * LeakyReLU(p, a.Slope)
		}
	})
	return dzl, dzr, datt
}
