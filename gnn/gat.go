package gnn

import (
	"slices"

	"weft/autograd"
	"weft/nn"
)

var gatModel = ModelKind{
	Name: "gat", Settings: slices.Concat([]string{"blocks", "jk"}, attentionSettings, eitherForm),
	Decoupled: slices.Concat([]string{"attention-dropout"}, decoupledSettings), blocks: 2,
	list: "convs", weight: ".lin.weight", bias: ".bias",
	convolution: func(s *Spec, at Module, last bool) Convolution { return NewGAT(at, s.attention(last)) },
	propagation: func(s *Spec, at Module) Block {
		return NewAttentionPropagation(at, AttentionPropagationOptions{s.rounds(), s.AttentionDropout})
	},
	cost: func(in, out, edge int) Cost { return Cost{in*out + 2*out, out + edge} },
}

// GAT is graph attention (Veličković et al. 2018) with LeakyReLU slope 0.2. Attention has the equations. As
// in PyG, the features of edges enter the scores through a weight and an attention vector of their own.
type GAT struct {
	w, wTarget, aSource, aTarget, b *nn.Param // wTarget nil: targets use w
	wEdge, aEdge                    *nn.Param // nil: features of edges are not used
	p                               Propagator
	o                               GATOptions
	dropout, targetDropout          nn.Dropout
	loops                           Loops
}

// GATOptions are the settings of a graph attention layer. If the heads are averaged, the Module's Out is the
// width of one head; otherwise it is Heads times that width.
type GATOptions struct {
	Heads            int
	Average          bool
	Dropout          float64 // on the coefficients
	TransformDropout float64 // on the transformed features
	EdgeFeatures     bool    // the scores also depend on the features of the edges
}

// columns returns how many columns all heads have together.
func (o GATOptions) columns(out int) int {
	if o.Average {
		return o.Heads * out
	}
	return out
}

// NewGAT makes a graph attention layer.
func NewGAT(m Module, o GATOptions) *GAT {
	n := o.columns(m.Out)
	weight := func(name string, in int) *nn.Param {
		return m.Params.Weight(m.Path+name, in, n, nn.Glorot(in, n))
	}
	c := &GAT{
		p: m.Propagator, o: o, loops: m.loops(),
		dropout:       nn.Dropout{Path: m.Path + ".source", P: o.TransformDropout},
		targetDropout: nn.Dropout{Path: m.Path + ".target", P: o.TransformDropout},
	}
	if m.InTarget == 0 {
		c.w = weight(".lin.weight", m.In)
	} else {
		c.w, c.wTarget = weight(".lin_src.weight", m.In), weight(".lin_dst.weight", m.InTarget)
	}
	c.aSource, c.aTarget = m.Params.Attention(m.Path+".att_src", o.Heads, n),
		m.Params.Attention(m.Path+".att_dst", o.Heads, n)
	if o.EdgeFeatures {
		c.wEdge, c.aEdge = weight(".lin_edge.weight", m.EdgeColumns),
			m.Params.Attention(m.Path+".att_edge", o.Heads, n)
	}
	c.b = m.bias(".bias", m.Out, nn.Constant(0))
	return c
}

// Forward computes the layer.
func (c *GAT) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return c.Between(x, x) }

// Between computes the layer along a relation between two types. Sources have one weight, and targets
// another.
func (c *GAT) Between(source, target *autograd.Var) (*autograd.Var, *nn.Param) {
	t := source.Tape()
	z := autograd.Dropout(autograd.Linear(source, c.w.On(t)), c.dropout.Mask(source))
	a := Attention{Source: z, Heads: c.o.Heads, Slope: 0.2, Dropout: c.o.Dropout, Loops: c.loops}
	if c.wTarget == nil {
		a.Target, a.ASource, a.ATarget = z, c.aSource.On(t), c.aTarget.On(t)
	} else {
		ends := autograd.Dropout(autograd.Linear(target, c.wTarget.On(t)), c.targetDropout.Mask(target))
		a.SourceScore, a.TargetScore = autograd.HeadDot(z, c.aSource.On(t), c.o.Heads),
			autograd.HeadDot(ends, c.aTarget.On(t), c.o.Heads)
	}
	if c.wEdge != nil { // aEdge·(W_edge·e) of all edges is linear in e
		a.EdgeVector = autograd.HeadDot(c.wEdge.On(t), c.aEdge.On(t), c.o.Heads)
	}
	z = c.p.Attend(a, Once)
	if c.o.Average {
		z = autograd.HeadMean(z, c.o.Heads)
	}
	return z, c.b
}
