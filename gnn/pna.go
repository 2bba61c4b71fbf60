package gnn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

var pnaModel = ModelKind{
	Name: "pna", Settings: append([]string{"jk"}, graphSettings...), OneDirection: true, list: "convs",
	weight: ".pre_nns.0.0.weight", bias: ".lin.bias", reads: 2,
	convolution: func(_ *Spec, at Module, _ bool) Convolution { return NewPNA(at) },
	cost:        func(in, out, _ int) Cost { return Cost{2*in*in + 13*in*out + out*out, 4*in + 1} },
	degrees:     true,
}

// PNA is principal neighbourhood aggregation (Corso et al. 2020), PyG's PNAConv with one tower, one layer
// before and after the aggregation, and without edge features:
//
//	m_ij = W_t·x_i + W_s·x_j + b,  a_i = [mean, min, max, std]_{j→i} m_ij
//	z_i  = W·(W_post·[x_i, a_i, log(d_i+1)/δ·a_i, δ/log(d_i+1)·a_i] + b_post) + b_out
//
// d_i is the in-degree, and δ the mean of log(d+1) in the training graph. The term W_t·x_i + b is the same
// for all j. It moves the mean, the minimum and the maximum, and does not change the deviation. So only
// W_s·x_j is aggregated.
type PNA struct {
	pre, preBias, post, postBias, lin, bias *nn.Param
	delta                                   *nn.Buffer
	p                                       Propagator
}

// Degrees are means over the vertices of the training graph, along one edge direction.
type Degrees struct {
	Mean, MeanLog float64 // of the in-degree d, and of log(d+1)
}

// NewPNA makes a PNA layer.
func NewPNA(m Module) *PNA {
	c := &PNA{p: m.Propagator}
	pre, post := m.Path+".pre_nns.0.0", m.Path+".post_nns.0.0"
	c.pre, c.preBias = m.Params.Weight(pre+".weight", 2*m.In, m.In, nn.FanIn(2*m.In)),
		m.Params.Bias(pre+".bias", m.In, nn.FanIn(2*m.In))
	c.post = m.Params.Weight(post+".weight", 13*m.In, m.Out, nn.FanIn(13*m.In))
	c.postBias = m.biasThrough(m.Path+".lin.weight", ".post_nns.0.0.bias", m.Out, nn.FanIn(13*m.In))
	c.lin = m.Params.Weight(m.Path+".lin.weight", m.Out, m.Out, nn.FanIn(m.Out))
	c.bias = m.bias(".lin.bias", m.Out, nn.FanIn(m.Out))
	m.Params.Buffer(m.Path+".aggr_module.avg_deg_lin", 1, float32(m.Degrees.Mean))
	c.delta = m.Params.Buffer(m.Path+".aggr_module.avg_deg_log", 1, float32(m.Degrees.MeanLog))
	return c
}

// Forward computes the layer.
func (c *PNA) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	x = autograd.Dense(x)
	t := x.Tape()
	n := x.Cols()
	delta := float64(c.delta.Values[0])
	var degree *autograd.Var
	var a *autograd.Var
	t.ScopeOf(func() []*autograd.Var {
		degree, a = c.aggregate(x)
		return []*autograd.Var{degree, a}
	})
	post := c.post.On(t)
	part := func(k int) *autograd.Var { return autograd.Rows(post, n+4*n*k, n+4*n*(k+1), nil) }
	z := autograd.AddLinear(autograd.Linear(a, part(0)), x, autograd.Rows(post, 0, n, nil))
	for k, scaler := range []func(d float64) float64{
		func(d float64) float64 { return ratio(math.Log1p(d), delta) },
		func(d float64) float64 { return delta / math.Log1p(math.Max(1, d)) },
	} {
		z = autograd.Add(autograd.HeadScale(autograd.Linear(a, part(k+1)), autograd.Mapped(degree, scaler)),
			z)
	}
	z = autograd.Finish(z, c.postBias.On(t), kernel.Identity, kernel.Mask{})
	return autograd.Linear(z, c.lin.On(t)), c.bias
}

// aggregate returns the in-degree of each vertex, and a: rows × four times the columns of x. Both are 0 where
// a vertex has no in-neighbours.
func (c *PNA) aggregate(x *autograd.Var) (degree, a *autograd.Var) {
	const least = 1e-5 // the least variance, as in PyG
	t := x.Tape()
	n := x.Cols()
	pre := c.pre.On(t)
	target := autograd.Finish(autograd.Linear(x, autograd.Rows(pre, 0, n, nil)), c.preBias.On(t),
		kernel.Identity, kernel.Mask{})
	source := autograd.Linear(x, autograd.Rows(pre, n, 2*n, nil))
	sums := c.p.Propagate(autograd.Join(source, autograd.Multiply(source, source), autograd.Ones(source)),
		Sum, Once)
	most := c.p.Propagate(autograd.Join(source, autograd.Scale(-1, source)), Max, Once)
	degree = autograd.Columns(sums, 2*n, 1)
	each := autograd.Mapped(degree, func(d float64) float64 { return ratio(1, d) })
	mean, square := autograd.HeadScale(autograd.Columns(sums, 0, n), each),
		autograd.HeadScale(autograd.Columns(sums, n, n), each)
	deviation := autograd.Sqrt(autograd.Combine(-1, autograd.Multiply(mean, mean), 1, square), least)
	target = autograd.HeadScale(target,
		autograd.Mapped(degree, func(d float64) float64 { return math.Min(d, 1) }))
	smallest, largest := autograd.Combine(-1, autograd.Columns(most, n, n), 1, autograd.Copy(target)),
		autograd.Add(target, autograd.Columns(most, 0, n))
	return degree, autograd.Join(autograd.Add(target, mean), smallest, largest, deviation)
}

// ratio returns a/b, and 0 where b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
