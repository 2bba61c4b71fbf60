package reference

// SoftmaxSum returns the softmax aggregation of Li et al., "DeeperGCN: All You Need to Train Deeper GCNs"
// (arXiv 2006.07739), equation 4, over the edges of a, which has as many heads as x has columns:
//
//	s_jc = t_c x_jc,  o_ic = Σ_j softmax_j(s_jc) x_jc
//
// x is vertices×C; t has C entries; lse has the entry log Σ_j exp s_jc at i·C + c. A row without an edge has
// o = 0 and lse = −∞.
func SoftmaxSum(a *Attention, x *Matrix, t []float64) (o *Matrix, lse []float64) {
	return a.attend(x, nil, softmaxScore(x, t))
}

func softmaxScore(x *Matrix, t []float64) scoreOf {
	return func(_, c int, e edge) float64 { return t[c] * x.At(e.source, c) }
}

// SoftmaxSumBackward returns the gradients of SoftmaxSum: dx_jc has t_c ds_ijc besides what attend gives, and
// dt_c = Σ_ij ds_ijc x_jc.
func SoftmaxSumBackward(a *Attention, x *Matrix, t []float64, dO *Matrix) (dx *Matrix, dt []float64) {
	dx, dt = New(x.Rows, x.Cols), make([]float64, x.Cols)
	a.attendBackward(dx, x, nil, nil, dO, softmaxScore(x, t), func(_, c int, e edge, ds float64) {
		dx.Add(e.source, c, t[c]*ds)
		dt[c] += ds * x.At(e.source, c)
	})
	return dx, dt
}
