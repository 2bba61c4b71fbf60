package gnn

import (
	"cmp"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Convolution is one graph convolution. Forward returns its output without the bias, and the bias to add (nil
// for none). The caller adds the bias in one pass with the norm or activation that follows.
type Convolution interface {
	Forward(x *autograd.Var) (*autograd.Var, *nn.Param)
}

// Bipartite is a convolution that can also aggregate along a relation between two vertex types.
type Bipartite interface {
	Convolution
	// Between is Forward for a relation between two vertex types: source holds the rows of its sources,
	// target the rows of its targets. The result has the targets' rows. Within one type both are the same
	// value.
	Between(source, target *autograd.Var) (*autograd.Var, *nn.Param)
}

// ConvolutionFunc is a function as a Convolution.
type ConvolutionFunc func(x *autograd.Var) (*autograd.Var, *nn.Param)

// Forward calls f.
func (f ConvolutionFunc) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return f(x) }

// Module is the argument from which a layer is made: its path in the model, the widths of its rows, and the
// parameters and Propagator that it computes with.
type Module struct {
	Path    string // the module path (`convs.1`): it names parameters and keys caches and dropout masks
	In, Out int    // columns of the layer's input and output
	// InTarget is the width of the targets' rows, and In the width of the sources', in a graph with several
	// types of vertices or edges. Convolutions then add no self loops, and graph attention has one weight for
	// sources and one for targets. 0: the graph has one vertex type and one relation.
	InTarget int
	// EdgeColumns is the width of the features of the edges; 0: they have none.
	EdgeColumns int
	Params      *nn.Params
	Propagator  Propagator
	Degrees     Degrees           // Env.Degrees
	Activation  kernel.Activation // the activation inside the convolution, if it has one
	// Norm follows the convolution; nil: none. If it centres columns, the convolution needs no bias.
	Norm nn.Norm
	// Centred says that the output is added to a sum that only norms read which centre columns. Then, too,
	// the convolution needs no bias.
	Centred bool
	// Offset is a bias in the layer's input whose gradient this layer computes: the input has it detached.
	// Such a layer is Centred. nil: none.
	Offset *nn.Param
	// Inner makes the norm inside the convolution, if it has one.
	Inner func(path string, width int) nn.Norm
	// Plain leaves out what PyG's DirGNNConv switches off in the layers that it wraps: added self loops, and
	// the root weight if PyG's layer has the option root_weight.
	Plain  bool
	halved bool // the output is halved for Both
}

// target returns the width of the targets' rows.
func (m Module) target() int { return cmp.Or(m.InTarget, m.In) }

// loops returns the self loops of graph attention: PyG's layers replace the stored ones by one for each
// vertex.
func (m Module) loops() Loops {
	if m.Plain || m.InTarget != 0 {
		return StoredLoops
	}
	return OneLoop
}

// bias makes the bias that is added before m.Norm, or the last bias if there is no norm.
func (m Module) bias(name string, n int, init nn.Init) *nn.Param {
	return m.biasThrough("", name, n, init)
}

// centred reports whether only norms that centre columns read the output.
func (m Module) centred() bool {
	switch m.Norm.(type) {
	case *nn.BatchNorm, *nn.PairNorm:
		return true
	}
	return m.Centred
}

// biasThrough is bias for a bias that is multiplied by a weight before it is added.
func (m Module) biasThrough(weight, name string, n int, init nn.Init) *nn.Param {
	shift := nn.Shift{Bias: m.Path + name, Share: 1, Through: weight}
	if m.halved {
		shift.Share = 0.5
	}
	if !m.centred() {
		return m.Params.Bias(m.Path+name, n, init)
	}
	m.Params.CancelledBias(m.Path+name, n)
	m.Params.Shift(m.Norm, shift)
	return nil
}
