package gnn

import (
	"weft/autograd"
	"weft/nn"
)

var sageModel = ModelKind{
	Name: "sage", Settings: append([]string{"aggregation"}, blockSettings...), Decoupled: linearRounds,
	blocks: 1, list: "convs", weight: ".lin_l.weight", bias: ".lin_l.bias",
	convolution: func(s *Spec, at Module, _ bool) Convolution { return NewSAGE(at, s.aggregation()) },
	propagation: func(s *Spec, at Module) Block {
		return NewPropagation(at, Reduce{Kind: KindMean, Self: 1}, s.rounds())
	},
	cost: func(in, out, _ int) Cost { return Cost{in * out, min(in, out)} },
	root: true,
}

// SAGE is GraphSAGE (Hamilton et al. 2017) without sampling: z_i = W_l·⊕_{j→i} x_j + b + W_r·x_i.
type SAGE struct {
	left, right, b *nn.Param
	offset         *nn.Param // Module.Offset
	p              Propagator
	r              Reduce
}

// NewSAGE makes a GraphSAGE layer with aggregation r.
func NewSAGE(m Module, r Reduce) *SAGE {
	c := &SAGE{
		left: m.Params.Weight(m.Path+".lin_l.weight", m.In, m.Out, nn.FanIn(m.In)),
		p:    m.Propagator, r: r, offset: m.Offset,
	}
	c.b = m.bias(".lin_l.bias", m.Out, nn.FanIn(m.In))
	if root := m.Path + ".lin_r.weight"; m.Plain {
		m.Params.Allow(root) // DirGNNConv keeps this weight of the layer that it wraps, and never uses it
	} else {
		c.right = m.Params.Weight(root, m.target(), m.Out, nn.FanIn(m.target()))
	}
	return c
}

// Forward computes the layer.
func (c *SAGE) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types. W_l transforms the sources' rows, W_r the
// targets'.
func (c *SAGE) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	left := c.left.On(source.Tape())
	var z *autograd.Var
	if c.r.Kind == KindMax { // not linear, so aggregation and product do not commute
		z = autograd.Linear(c.p.Propagate(source, c.r, Once), left)
	} else {
		z = c.p.AggregateLinear(source, left, c.r)
	}
	if c.right != nil {
		z = autograd.AddLinear(z, target, c.right.On(target.Tape()))
	}
	if c.offset != nil {
		z = offset(z, source, c.p, c.offset.On(z.Tape()), left)
	}
	return z, c.b
}

// offset gives the bias b its gradient, in a layer before a norm that subtracts the columns' means. The layer
// computes z: means of rows of source (weights with the sum 1) times w; nil is the identity. Each row of
// source has b added, detached. All vertices with in-neighbours have the same b·w in z, and the norm cancels
// it. Vertices without in-neighbours lack it, so b has a gradient through them alone. The sum of the rows of
// source's gradient would have the same value, but with rounding errors, and Adam would magnify these to
// steps as long as any other.
func offset(z, source *autograd.Var, p Propagator, b, w *autograd.Var) *autograd.Var {
	t := z.Tape()
	if !t.Training {
		return z
	}
	return t.Scope(func() *autograd.Var {
		alone := autograd.Mapped(p.Propagate(autograd.Ones(source), Mean, Once), func(x float64) float64 {
			if x > 0 {
				return 0
			}
			return 1
		})
		none := autograd.Combine(-1, b, 1, autograd.Detach(b)) // 0, with a gradient
		if w != nil {
			none = autograd.Float32(autograd.Linear(none, w))
		}
		return autograd.AddLinear(z, alone, none)
	})
}
