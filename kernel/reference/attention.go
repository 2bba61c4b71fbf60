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
	// SelfEdge adds one edge i→i to every row. Self loops among Indices stay; WithoutLoops removes them.
	SelfEdge bool
	// Mask multiplies coefficients after the softmax (attention dropout: 0 or 1/(1−p)): entry e·H + h; nil
	// means 1.
	Mask []float64
	// SelfMask is the mask of the added edges: entry i·H + h; nil means 1.
	SelfMask []float64
	// Features has a row for each of Indices, and SelfFeatures one for each of the added edges: e_ij below.
	// nil: none.
	Features, SelfFeatures *Matrix
}

// edge is an edge into a row, with its mask for one head.
type edge struct {
	source   int
	mask     float64
	features []float64
}

// times returns column c of the product of the edge's features with a matrix; 0 for nil.
func (e edge) times(w *Matrix, c int) (sum float64) {
	if w != nil {
		for f, x := range e.features {
			sum += x * w.At(f, c)
		}
	}
	return sum
}

// add adds d times the edge's features to column c.
func (e edge) add(dw *Matrix, c int, d float64) {
	if dw != nil {
		for f, x := range e.features {
			dw.Add(f, c, d*x)
		}
	}
}

// like returns a matrix of zeros in the shape of m; nil for nil.
func like(m *Matrix) *Matrix {
	if m == nil {
		return nil
	}
	return New(m.Rows, m.Cols)
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

// edges lists the edges into row i with their masks for head h, the added self edge last.
func (a *Attention) edges(i, h int) (list []edge) {
	row := func(m *Matrix, k int) []float64 {
		if m == nil {
			return nil
		}
		return m.row(k)
	}
	for e := a.Indptr[i]; e < a.Indptr[i+1]; e++ {
		list = append(list, edge{int(a.Indices[e]), or(a.Mask, int(e)*a.Heads+h, 1), row(a.Features, int(e))})
	}
	if a.SelfEdge {
		list = append(list, edge{i, or(a.SelfMask, i*a.Heads+h, 1), row(a.SelfFeatures, i)})
	}
	return list
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

// scoreOf returns the score of an edge into row i for head h.
type scoreOf func(i, h int, e edge) float64

// attend returns o_i = Σ_k α_k m_k (v_{j_k} + e_k w) for every row and head, given the scores of a row's edges,
// and lse, entry i·H + h. w is features×H·C, nil: 0.
func (a *Attention) attend(v, w *Matrix, score scoreOf) (o *Matrix, lse []float64) {
	o = New(a.Rows(), v.Cols)
	lse = make([]float64, a.Rows()*a.Heads)
	width := v.Cols / a.Heads
	for i := range a.Rows() {
		for h := range a.Heads {
			edges := a.edges(i, h)
			s := make([]float64, len(edges))
			for k, e := range edges {
				s[k] = score(i, h, e)
			}
			alpha, l := softmax(s)
			lse[i*a.Heads+h] = l
			for k, e := range edges {
				for c := h * width; c < (h+1)*width; c++ {
					o.Add(i, c, alpha[k]*e.mask*(v.At(e.source, c)+e.times(w, c)))
				}
			}
		}
	}
	return o, lse
}

// attendBackward adds the gradients of attend with respect to v and w to dv and dw, and passes the gradient
// of each score to dscore:
//
//	dv_j += α_ij m_ij dO_i
//	dw   += e_ijᵀ α_ij m_ij dO_i
//	g_ij  = m_ij ⟨dO_i, v_j + e_ij w⟩,  ds_ij = α_ij (g_ij − Σ_k α_ik g_ik)
func (a *Attention) attendBackward(dv, v, dw, w, dO *Matrix, score scoreOf,
	dscore func(i, h int, e edge, ds float64),
) {
	width := v.Cols / a.Heads
	for i := range a.Rows() {
		for h := range a.Heads {
			edges := a.edges(i, h)
			s := make([]float64, len(edges))
			for k, e := range edges {
				s[k] = score(i, h, e)
			}
			alpha, _ := softmax(s)
			g := make([]float64, len(edges))
			mean := 0.0
			for k, e := range edges {
				for c := h * width; c < (h+1)*width; c++ {
					dv.Add(e.source, c, alpha[k]*e.mask*dO.At(i, c))
					e.add(dw, c, alpha[k]*e.mask*dO.At(i, c))
					g[k] += e.mask * dO.At(i, c) * (v.At(e.source, c) + e.times(w, c))
				}
				mean += alpha[k] * g[k]
			}
			for k, e := range edges {
				dscore(i, h, e, alpha[k]*(g[k]-mean))
			}
		}
	}
}

// GAT returns the attention of Veličković et al., "Graph Attention Networks" (arXiv 1710.10903), per head h,
// with the features of edges that PyG's GATConv takes:
//
//	s_ij = LeakyReLU_λ(⟨aSrc_h, z_j⟩ + ⟨aDst_h, z_i⟩ + ⟨aEdge_h, e_ij⟩),  α_i = softmax over the in-edges of i,  o_i = Σ_j α_ij m_ij z_j
//
// z is vertices×H·C; aSrc and aDst have H·C entries; aEdge is features×H, nil: 0; o is rows×H·C; lse has the
// entry log Σ_j exp s_ij at i·H + h. A row without an edge has o = 0 and lse = −∞.
func GAT(a *Attention, z *Matrix, aSrc, aDst []float64, aEdge *Matrix) (o *Matrix, lse []float64) {
	return a.attend(z, nil, func(i, h int, e edge) float64 {
		return LeakyReLU(gatSum(a, z, aSrc, aDst, aEdge, i, h, e), a.Slope)
	})
}

// gatSum returns ⟨aSrc_h, z_j⟩ + ⟨aDst_h, z_i⟩ + ⟨aEdge_h, e_ij⟩.
func gatSum(a *Attention, z *Matrix, aSrc, aDst []float64, aEdge *Matrix, i, h int, e edge) (sum float64) {
	width := z.Cols / a.Heads
	for c := h * width; c < (h+1)*width; c++ {
		sum += aSrc[c]*z.At(e.source, c) + aDst[c]*z.At(i, c)
	}
	return sum + e.times(aEdge, h)
}

// GATBackward returns the gradients of GAT. With dp_ij = ds_ij LeakyReLU'_λ(…):
//
//	dz_j += α_ij m_ij dO_i + dp_ij aSrc_h,  dz_i += dp_ij aDst_h,  daSrc_h += dp_ij z_j,  daDst_h += dp_ij z_i,  daEdge_h += dp_ij e_ij
func GATBackward(a *Attention, z *Matrix, aSrc, aDst []float64, aEdge,
	dO *Matrix,
) (dz *Matrix, daSrc, daDst []float64, daEdge *Matrix) {
	dz, daEdge = New(z.Rows, z.Cols), like(aEdge)
	daSrc, daDst = make([]float64, z.Cols), make([]float64, z.Cols)
	width := z.Cols / a.Heads
	score := func(i, h int, e edge) float64 {
		return LeakyReLU(gatSum(a, z, aSrc, aDst, aEdge, i, h, e), a.Slope)
	}
	a.attendBackward(dz, z, nil, nil, dO, score, func(i, h int, e edge, ds float64) {
		dp := ds * LeakyReLUSlope(gatSum(a, z, aSrc, aDst, aEdge, i, h, e), a.Slope)
		for c := h * width; c < (h+1)*width; c++ {
			dz.Add(e.source, c, dp*aSrc[c])
			dz.Add(i, c, dp*aDst[c])
			daSrc[c] += dp * z.At(e.source, c)
			daDst[c] += dp * z.At(i, c)
		}
		e.add(daEdge, h, dp)
	})
	return dz, daSrc, daDst, daEdge
}

// Scored returns GAT's o for given scores, vertices×H, instead of the two products with z:
//
//	s_ij = LeakyReLU_λ(source_jh + target_ih)
func Scored(a *Attention, z, source, target *Matrix) (o *Matrix) {
	o, _ = a.attend(z, nil, func(i, h int, e edge) float64 {
		return LeakyReLU(source.At(e.source, h)+target.At(i, h), a.Slope)
	})
	return o
}

// ScoredBackward returns the gradients of Scored. With dp_ij as in GATBackward:
//
//	dz_j += α_ij m_ij dO_i,  dsource_j += dp_ij,  dtarget_i += dp_ij
func ScoredBackward(a *Attention, z, source, target, dO *Matrix) (dz, dSource, dTarget *Matrix) {
	dz, dSource, dTarget = New(z.Rows, z.Cols), New(z.Rows, a.Heads), New(z.Rows, a.Heads)
	t := func(i, h int, e edge) float64 { return source.At(e.source, h) + target.At(i, h) }
	score := func(i, h int, e edge) float64 { return LeakyReLU(t(i, h, e), a.Slope) }
	a.attendBackward(dz, z, nil, nil, dO, score, func(i, h int, e edge, ds float64) {
		dp := ds * LeakyReLUSlope(t(i, h, e), a.Slope)
		dSource.Add(e.source, h, dp)
		dTarget.Add(i, h, dp)
	})
	return dz, dSource, dTarget
}

// GATv2 returns the attention of Brody et al., "How Attentive are Graph Attention Networks?" (arXiv
// 2105.14491), per head h, with the features of edges that PyG's GATv2Conv takes:
//
//	s_ij = ⟨att_h, LeakyReLU_λ(zl_j + zr_i + e_ij w)⟩,  α_i = softmax over the in-edges of i,  o_i = Σ_j α_ij m_ij zl_j
//
// zl (sources) and zr (destinations) are vertices×H·C, att has H·C entries; w is features×H·C, nil: 0; o and
// lse as in GAT.
func GATv2(a *Attention, zl, zr *Matrix, att []float64, w *Matrix) (o *Matrix, lse []float64) {
	return a.attend(zl, nil, func(i, h int, e edge) float64 { return gatv2Score(a, zl, zr, att, w, i, h, e) })
}

func gatv2Score(a *Attention, zl, zr *Matrix, att []float64, w *Matrix, i, h int, e edge) (s float64) {
	width := zl.Cols / a.Heads
	for c := h * width; c < (h+1)*width; c++ {
		s += att[c] * LeakyReLU(zl.At(e.source, c)+zr.At(i, c)+e.times(w, c), a.Slope)
	}
	return s
}

// GATv2Backward returns the gradients of GATv2. With p_ij = zl_j + zr_i + e_ij w and dp_ij = ds_ij att_h ⊙
// LeakyReLU'_λ(p_ij):
//
//	dzl_j += α_ij m_ij dO_i + dp_ij,  dzr_i += dp_ij,  datt_h += ds_ij LeakyReLU_λ(p_ij),  dw += e_ijᵀ dp_ij
func GATv2Backward(a *Attention, zl, zr *Matrix, att []float64, w,
	dO *Matrix,
) (dzl, dzr *Matrix, datt []float64, dw *Matrix) {
	dzl, dzr, dw = New(zl.Rows, zl.Cols), New(zr.Rows, zr.Cols), like(w)
	datt = make([]float64, zl.Cols)
	width := zl.Cols / a.Heads
	score := func(i, h int, e edge) float64 { return gatv2Score(a, zl, zr, att, w, i, h, e) }
	a.attendBackward(dzl, zl, nil, nil, dO, score, func(i, h int, e edge, ds float64) {
		for c := h * width; c < (h+1)*width; c++ {
			p := zl.At(e.source, c) + zr.At(i, c) + e.times(w, c)
			dp := ds * att[c] * LeakyReLUSlope(p, a.Slope)
			dzl.Add(e.source, c, dp)
			dzr.Add(i, c, dp)
			datt[c] += ds * LeakyReLU(p, a.Slope)
			e.add(dw, c, dp)
		}
	})
	return dzl, dzr, datt, dw
}

// DotProduct returns the attention of Shi et al., "Masked Label Prediction" (arXiv 2009.03509), per head h,
// in the form of PyG's TransformerConv, for queries that are divided by √C:
//
//	s_ij = ⟨q_i, k_j + e_ij w⟩,  α_i = softmax over the in-edges of i,  o_i = Σ_j α_ij m_ij (v_j + e_ij w)
//
// q, k and v are vertices×H·C; w is features×H·C, nil: 0; o and lse as in GAT.
func DotProduct(a *Attention, q, k, v, w *Matrix) (o *Matrix, lse []float64) {
	return a.attend(v, w, func(i, h int, e edge) float64 { return dotScore(a, q, k, w, i, h, e) })
}

func dotScore(a *Attention, q, k, w *Matrix, i, h int, e edge) (s float64) {
	width := k.Cols / a.Heads
	for c := h * width; c < (h+1)*width; c++ {
		s += q.At(i, c) * (k.At(e.source, c) + e.times(w, c))
	}
	return s
}

// DotProductBackward returns the gradients of DotProduct:
//
//	dq_i += ds_ij (k_j + e_ij w),  dk_j += ds_ij q_i,  dv_j += α_ij m_ij dO_i,  dw += e_ijᵀ (ds_ij q_i + α_ij m_ij dO_i)
func DotProductBackward(a *Attention, q, k, v, w, dO *Matrix) (dq, dk, dv, dw *Matrix) {
	dq, dk, dv, dw = New(q.Rows, q.Cols), New(k.Rows, k.Cols), New(v.Rows, v.Cols), like(w)
	width := k.Cols / a.Heads
	score := func(i, h int, e edge) float64 { return dotScore(a, q, k, w, i, h, e) }
	a.attendBackward(dv, v, dw, w, dO, score, func(i, h int, e edge, ds float64) {
		for c := h * width; c < (h+1)*width; c++ {
			dq.Add(i, c, ds*(k.At(e.source, c)+e.times(w, c)))
			dk.Add(e.source, c, ds*q.At(i, c))
			e.add(dw, c, ds*q.At(i, c))
		}
	})
	return dq, dk, dv, dw
}
