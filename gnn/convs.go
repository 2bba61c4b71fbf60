package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Convolution is one layer of graph work. Forward returns its output without the bias, and the bias to add (nil for none), so that
// the bias is added in one pass with what follows.
type Convolution interface {
	Forward(x *autograd.Var) (*autograd.Var, *nn.Param)
}

// ConvolutionFunc is a function that is a Convolution.
type ConvolutionFunc func(x *autograd.Var) (*autograd.Var, *nn.Param)

// Forward calls f.
func (f ConvolutionFunc) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return f(x) }

// Site is where a convolution is made.
type Site struct {
	Path       string // names its parameters and keys its caches and masks
	In, Out    int
	Params     *nn.Params
	Propagator Propagator
	Rows       nn.Rows
	Activation kernel.Activation // inside the convolution, where it has any
	// Norm follows the convolution (nil for none), which then needs no bias if it is a batch norm.
	Norm nn.Norm
	// Inner makes a norm inside the convolution, where it has any.
	Inner func(path string, width int) nn.Norm
	// Plain leaves out what a wrapper adds for all of its convolutions: self loops and the root weight.
	Plain bool
	share float32 // of the convolution in the wrapper's output
}

// bias makes the bias that comes before s.Norm, or before no norm.
func (s Site) bias(name string, n int, init nn.Init) *nn.Param {
	return biasBefore(s.Norm, s, name, n, init)
}

func biasBefore(norm nn.Norm, s Site, name string, n int, init nn.Init) *nn.Param {
	if b, ok := norm.(*nn.BatchNorm); ok {
		s.Params.CancelledBias(s.Path+name, b.RunningMean(), s.share)
		return nil
	}
	return s.Params.Bias(s.Path+name, n, init)
}

// GCN is the graph convolution of Kipf & Welling (2017): z = D^−½(A+I)D^−½·x·W + b.
type GCN struct {
	w, b *nn.Param
	p    Propagator
	op   Reduce
}

// NewGCN makes a GCN layer; x is rows × s.In, its output rows × s.Out.
func NewGCN(s Site) *GCN {
	c := &GCN{w: s.Params.Weight(s.Path+".lin.weight", s.In, s.Out, nn.Glorot(s.In, s.Out)), p: s.Propagator, op: Symmetric}
	if s.Plain {
		c.op = SymmetricNoLoops
	}
	c.b = s.bias(".bias", s.Out, nn.Constant(0))
	return c
}

// Forward computes the layer.
func (c *GCN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return c.p.AggregateLinear(x, c.w.On(x.Tape()), c.op), c.b
}

// SAGE is GraphSAGE (Hamilton et al. 2017) without sampling: z_i = W_l·⊕_{j→i} x_j + b + W_r·x_i.
type SAGE struct {
	left, right, b *nn.Param
	p              Propagator
	op             Reduce
}

// NewSAGE makes a GraphSAGE layer with aggregation op.
func NewSAGE(s Site, op Reduce) *SAGE {
	c := &SAGE{left: s.Params.Weight(s.Path+".lin_l.weight", s.In, s.Out, nn.FanIn(s.In)), p: s.Propagator, op: op}
	c.b = s.bias(".lin_l.bias", s.Out, nn.FanIn(s.In))
	if !s.Plain {
		c.right = s.Params.Weight(s.Path+".lin_r.weight", s.In, s.Out, nn.FanIn(s.In))
	}
	return c
}

// Forward computes the layer.
func (c *SAGE) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	z := c.p.AggregateLinear(x, c.left.On(x.Tape()), c.op)
	if c.right != nil {
		z = autograd.AddLinear(z, x, c.right.On(x.Tape()))
	}
	return z, c.b
}

// GAT is graph attention (Veličković et al. 2018), or GATv2 (Brody et al. 2022); the equations are at Attention.
type GAT struct {
	source, target   *nn.Param // GATv1 has no transform of its own for targets
	sourceB, targetB *nn.Param // GATv2
	aSource, aTarget *nn.Param
	b                *nn.Param
	p                Propagator
	a                Attention
	average          bool
	sourceDropout    nn.Dropout
	targetDropout    nn.Dropout
}

// GATOptions are a graph attention layer's settings. The site's Out is Heads times the width of a head, or the width of a head
// when the heads are averaged.
type GATOptions struct {
	V2               bool
	Heads            int
	Average          bool
	Dropout          float64 // on the coefficients
	TransformDropout float64 // on the transformed features
}

// NewGAT makes a graph attention layer, with LeakyReLU slope 0.2.
func NewGAT(s Site, o GATOptions) *GAT {
	out := s.Out
	if o.Average {
		out *= o.Heads
	}
	weight := func(name string) *nn.Param { return s.Params.Weight(s.Path+name, s.In, out, nn.Glorot(s.In, out)) }
	c := &GAT{
		p: s.Propagator, a: Attention{Heads: o.Heads, Slope: 0.2, Dropout: o.Dropout, SelfLoops: !s.Plain}, average: o.Average,
		sourceDropout: nn.Dropout{Site: s.Path + ".source", P: o.TransformDropout, Rows: s.Rows},
		targetDropout: nn.Dropout{Site: s.Path + ".target", P: o.TransformDropout, Rows: s.Rows},
	}
	if o.V2 {
		c.source, c.sourceB = weight(".lin_l.weight"), s.Params.Bias(s.Path+".lin_l.bias", out, nn.FanIn(s.In))
		c.target, c.targetB = weight(".lin_r.weight"), s.Params.Bias(s.Path+".lin_r.bias", out, nn.FanIn(s.In))
		c.aSource = s.Params.Attention(s.Path+".att", o.Heads, out)
	} else {
		c.source = weight(".lin.weight")
		c.aSource = s.Params.Attention(s.Path+".att_src", o.Heads, out)
		c.aTarget = s.Params.Attention(s.Path+".att_dst", o.Heads, out)
	}
	c.b = s.bias(".bias", s.Out, nn.Constant(0))
	return c
}

// Forward computes the layer.
func (c *GAT) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t, a := x.Tape(), c.a
	transform := func(w, b *nn.Param, d nn.Dropout) *autograd.Var {
		return autograd.Finish(autograd.Linear(x, w.On(t)), b.On(t), kernel.Identity, d.Mask(t))
	}
	a.ASource, a.ATarget = c.aSource.On(t), c.aTarget.On(t)
	a.Source = transform(c.source, c.sourceB, c.sourceDropout)
	a.Target = a.Source
	if c.target != nil {
		a.Target = transform(c.target, c.targetB, c.targetDropout)
	}
	z := c.p.Attend(a)
	if c.average {
		z = autograd.HeadMean(z, c.a.Heads)
	}
	return z, c.b
}

// GIN is the graph isomorphism network (Xu et al. 2019): z_i = W_2·act(norm(W_1·((1+ε)·x_i + Σ_{j→i} x_j) + b_1)) + b_2, with ε = 0
// unless loaded weights say otherwise.
type GIN struct {
	w1, b1, w2, b2 *nn.Param
	epsilon        *nn.Buffer
	norm           nn.Norm
	act            kernel.Activation
	rows           nn.Rows
	p              Propagator
}

// NewGIN makes a GIN layer.
func NewGIN(s Site) *GIN {
	c := &GIN{p: s.Propagator, act: s.Activation, rows: s.Rows, epsilon: s.Params.Buffer(s.Path+".eps", 1, 0)}
	c.w1 = s.Params.Weight(s.Path+".nn.lins.0.weight", s.In, s.Out, nn.FanIn(s.In))
	c.norm = s.Inner(s.Path+".nn.norms.0", s.Out)
	inner := s
	inner.share = 1
	c.b1 = biasBefore(c.norm, inner, ".nn.lins.0.bias", s.Out, nn.FanIn(s.In))
	c.w2 = s.Params.Weight(s.Path+".nn.lins.1.weight", s.Out, s.Out, nn.FanIn(s.Out))
	c.b2 = s.bias(".nn.lins.1.bias", s.Out, nn.FanIn(s.Out))
	return c
}

// Forward computes the layer.
func (c *GIN) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t := x.Tape()
	h := c.p.AggregateLinear(x, c.w1.On(t), Reduce{KindSum, 1 + c.epsilon.Values[0]})
	h = finish(h, c.b1, c.norm, c.rows, c.act, kernel.Mask{})
	return autograd.Linear(h, c.w2.On(t)), c.b2
}

// Linear is a layer without graph work: z = x·W + b.
type Linear struct {
	w, b *nn.Param
}

// NewLinear makes a linear layer.
func NewLinear(s Site) *Linear {
	return &Linear{s.Params.Weight(s.Path+".weight", s.In, s.Out, nn.FanIn(s.In)), s.bias(".bias", s.Out, nn.FanIn(s.In))}
}

// Forward computes the layer.
func (c *Linear) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	return autograd.Linear(x, c.w.On(x.Tape())), c.b
}

// Both aggregates along the edges and against them, each with its own weights (Rossi et al. 2023; PyG's DirGNNConv with α = ½):
// z = ½·conv_in(x) + ½·conv_out(x) + W·x + b.
type Both struct {
	in, out Convolution
	root    *Linear
}

// NewBoth makes the pair; conv makes one of them at a site.
func NewBoth(s Site, props Propagators, conv func(Site) Convolution) *Both {
	half := func(path string, reversed bool) Convolution {
		h := s
		h.Path, h.Propagator, h.Plain, h.share = s.Path+path, props(s.Path+path, reversed), true, s.share/2
		return conv(h)
	}
	c := &Both{in: half(".conv_in", false), out: half(".conv_out", true)}
	root := s
	root.Path += ".lin"
	c.root = NewLinear(root)
	return c
}

// Forward computes the layer.
func (c *Both) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) {
	t := x.Tape()
	half := func(conv Convolution) *autograd.Var {
		z, b := conv.Forward(x)
		return autograd.Finish(z, b.On(t), kernel.Identity, kernel.Mask{})
	}
	z := autograd.Combine(0.5, half(c.in), 0.5, half(c.out))
	return autograd.AddLinear(z, x, c.root.w.On(t)), c.root.b
}
