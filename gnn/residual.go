package gnn

import (
	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// PreActivation is the norm, activation and dropout before a convolution: mask(act(norm(x))).
type PreActivation struct {
	Norm       nn.Norm // nil for none
	Activation kernel.Activation
	Dropout    nn.Dropout
}

func (p *PreActivation) forward(x *autograd.Var, use nn.InputUse) *autograd.Var {
	mask := p.Dropout.Mask(x)
	switch {
	case p.Norm != nil:
		return p.Norm.Forward(x, use, p.Activation, mask)
	case use == nn.OutOfPlace && (p.Activation != kernel.Identity || mask.Active()):
		x = autograd.Copy(x)
	}
	return autograd.Finish(x, nil, p.Activation, mask)
}

// ResidualBlock adds its input to the output of a convolution: z = x + f(conv(mask(act(norm(x))))). Without a
// feed-forward part f it is "res+" of DeeperGCN (Li et al. 2020), PyG's DeepGCNLayer. With one it is the
// block of Platonov et al. (2023).
type ResidualBlock struct {
	PreActivation
	Conv        Convolution
	FeedForward *FeedForward // nil for none
}

// Forward computes the block for a vertex type's rows, rows × the width of the model.
func (b *ResidualBlock) Forward(s State) State {
	z, bias := b.Conv.Forward(b.forward(s.Rows[0], nn.OutOfPlace))
	if b.FeedForward != nil {
		z, bias = b.FeedForward.forward(z, bias)
	}
	z = autograd.Finish(z, bias.On(z.Tape()), kernel.Identity, b.FeedForward.mask(z))
	return s.with(autograd.Add(s.Rows[0], z))
}

// FeedForward is a linear map, an activation, and a linear map, with dropout after each map. In Platonov et
// al.'s code, GCN and GraphSAGE aggregate without weights before the first linear map. Here the convolution's
// weight is that map, and First is nil.
type FeedForward struct {
	First      *Linear
	Activation kernel.Activation
	Inner      nn.Dropout
	Second     *Linear
	Outer      nn.Dropout
}

// forward computes everything except the last bias and dropout, for z + bias. It may reuse the memory of z.
func (f *FeedForward) forward(z *autograd.Var, bias *nn.Param) (*autograd.Var, *nn.Param) {
	if f.First != nil {
		z, bias = f.First.Forward(finish(z, bias.On(z.Tape()), nil, kernel.Identity, kernel.Mask{}))
	}
	return f.Second.Forward(finish(z, bias.On(z.Tape()), nil, f.Activation, f.Inner.Mask(z)))
}

// mask returns the mask of the last dropout.
func (f *FeedForward) mask(z *autograd.Var) kernel.Mask {
	if f == nil {
		return kernel.Mask{}
	}
	return f.Outer.Mask(z)
}

// Decoder is the last block of a model whose norms come first: z = mask(act(norm(x)))·W + b.
type Decoder struct {
	PreActivation
	Linear *Linear
}

// Forward computes the block for a vertex type's rows, rows × the width of the model.
func (d *Decoder) Forward(s State) State {
	z, bias := d.Linear.Forward(d.forward(s.Rows[0], nn.InPlace))
	return s.with(autograd.Finish(z, bias.On(z.Tape()), kernel.Identity, kernel.Mask{}))
}
