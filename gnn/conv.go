package gnn

import (
	"cmp"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
)

// Convolution is one layer of graph work. Forward returns its output without the bias, and the bias to add
// (nil for none), so that the bias is added in one pass with what follows.
type Convolution interface {
	Forward(x *autograd.Var) (*autograd.Var, *nn.Param)
}

// Bipartite is a convolution that also computes along a relation between two types of vertices.
type Bipartite interface {
	Convolution
	// Between is Forward where source are the rows of the relation's sources, and target those of its
	// targets, which the result has. Within one type both are one value.
	Between(source, target *autograd.Var) (*autograd.Var, *nn.Param)
}

// ConvolutionFunc is a function that is a Convolution.
type ConvolutionFunc func(x *autograd.Var) (*autograd.Var, *nn.Param)

// Forward calls f.
func (f ConvolutionFunc) Forward(x *autograd.Var) (*autograd.Var, *nn.Param) { return f(x) }

// Module is what a layer is made from: its place in the model, the widths of its rows, and what it computes
// with.
type Module struct {
	Path    string // the module path (`convs.1`): it names parameters and keys caches and dropout masks
	In, Out int    // columns of the layer's input and output
	// InTarget is the width of the targets' rows, In that of the sources', on a graph with several types of
	// vertices or edges: no self loops are added there, and graph attention has a weight for each end. 0: a
	// graph of one type and relation.
	InTarget   int
	Params     *nn.Params
	Propagator Propagator
	Activation kernel.Activation // inside the convolution, where it has any
	// Norm follows the convolution (nil for none), which then needs no bias if it is a batch norm.
	Norm nn.Norm
	// Inner makes a norm inside the convolution, where it has any.
	Inner func(path string, width int) nn.Norm
	// Plain leaves out what PyG's DirGNNConv switches off in the layers that it wraps: added self loops, and
	// the root weight where PyG's layer has the option root_weight.
	Plain  bool
	halved bool // the wrapper takes half of the output
}

// target is the width of the rows of an edge's target.
func (m Module) target() int { return cmp.Or(m.InTarget, m.In) }

// bias makes the bias that comes before m.Norm, or before no norm.
func (m Module) bias(name string, n int, init nn.Init) *nn.Param {
	return biasBefore(m.Norm, m, name, n, init)
}

func biasBefore(norm nn.Norm, m Module, name string, n int, init nn.Init) *nn.Param {
	if b, ok := norm.(*nn.BatchNorm); ok {
		share := float32(1)
		if m.halved {
			share = 0.5
		}
		m.Params.CancelledBias(m.Path+name, b.RunningMean(), share)
		return nil
	}
	return m.Params.Bias(m.Path+name, n, init)
}
