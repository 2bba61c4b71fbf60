package gnn

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

var transformerModel = ModelKind{
	Name: "transformer", Settings: slices.Concat([]string{"jk"}, scoreSettings, graphSettings),
	list: "convs", weight: ".lin_key.weight", bias: ".lin_skip.bias",
	convolution: func(s *Spec, at Module, last bool) Convolution {
		return NewTransformer(at, s.attention(last))
	},
	cost: func(in, out, edge int) Cost { return Cost{3 * in * out, 2*out + edge*out} },
	root: true,
}

// Transformer is the graph transformer operator (Shi et al. 2021, equations 3 and 4, as PyG's
// TransformerConv): z_i = W_skip·x_i + b_skip and softmax attention by dot products of queries and keys.
// Attention has the equations. Queries are divided by the root of a head's width.
type Transformer struct {
	key, query, value linear
	wEdge             *nn.Param // nil: features of edges are not used
	skip, b           *nn.Param // nil: left out
	centred           bool      // the norm that follows cancels the bias of the values
	p                 Propagator
	o                 GATOptions
}

// linear is a weight and a bias.
type linear struct{ w, b *nn.Param }

func (l linear) forward(x *autograd.Var) *autograd.Var { return l.with(x, l.b.On(x.Tape())) }

// with is of with another bias.
func (l linear) with(x, b *autograd.Var) *autograd.Var {
	return autograd.Finish(autograd.Linear(x, l.w.On(x.Tape())), b, kernel.Identity, kernel.Mask{})
}

// NewTransformer makes a graph transformer layer. o.TransformDropout must be 0.
func NewTransformer(m Module, o GATOptions) *Transformer {
	n := o.columns(m.Out)
	made := func(name string, in int) linear {
		return linear{
			m.Params.Weight(m.Path+name+".weight", in, n, nn.FanIn(in)),
			m.Params.Bias(m.Path+name+".bias", n, nn.FanIn(in)),
		}
	}
	c := &Transformer{
		centred: m.centred() && o.Dropout == 0,
		key:     made(".lin_key", m.In), query: made(".lin_query", m.target()),
		value: made(".lin_value", m.In), p: m.Propagator, o: o,
	}
	if o.EdgeFeatures {
		c.wEdge = m.Params.Weight(m.Path+".lin_edge.weight", m.EdgeColumns, n, nn.FanIn(m.EdgeColumns))
	}
	if skip := m.Path + ".lin_skip."; m.Plain {
		m.Params.Allow(skip) // DirGNNConv keeps this linear map of the layer that it wraps, and never uses it
	} else {
		c.skip = m.Params.Weight(skip+"weight", m.target(), m.Out, nn.FanIn(m.target()))
		c.b = m.bias(".lin_skip.bias", m.Out, nn.FanIn(m.target()))
	}
	return c
}

// Forward computes the layer.
func (c *Transformer) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types.
func (c *Transformer) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	t := source.Tape()
	width := c.query.w.Value.Cols / c.o.Heads
	value := c.value.b.On(t)
	if c.centred && t.Training {
		value = autograd.Detach(value)
	}
	a := Attention{
		Source: c.value.with(source, value), Key: c.key.forward(source),
		Target: autograd.Scale(float32(1/math.Sqrt(float64(width))), c.query.forward(target)),
		Heads:  c.o.Heads, Dropout: c.o.Dropout,
	}
	if c.wEdge != nil {
		a.EdgeWeight = c.wEdge.On(t)
	}
	z := c.p.Attend(a, Once)
	if c.centred {
		z = offset(z, a.Source, c.p, c.value.b.On(t), nil)
	}
	if c.o.Average {
		z = autograd.HeadMean(z, c.o.Heads)
	}
	if c.skip != nil {
		z = autograd.AddLinear(z, target, c.skip.On(t))
	}
	return z, c.b
}
