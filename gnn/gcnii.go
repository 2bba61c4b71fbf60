package gnn

import (
	"math"

	"weft/autograd"
	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

var gcniiModel = ModelKind{
	Name: "gcnii", Settings: []string{
		"alpha", "theta", "shared-weights", "conv-weight-decay",
		"direction", "aggregation-chunks", "drop-edge",
	}, EdgeWeights: true, OneDirection: true,
	list: "convs", deep: gcnii,
}

// GCNII is a layer of the deep graph convolutional network of Chen et al. (2020), PyG's GCN2Conv, with its
// activation and dropout. Each layer reads the output x of the layer before and the initial residual h0.
//
//	z  = ((1−α)·Â·x + α·h0)·M(W1)             M(W) = (1−β)·I + β·W, β = ln(θ/l + 1) of layer l = 1, 2, …
//	z* = (1−α)·Â·x·M(W1) + α·h0·M(W2)         GCNII*: h0 has a weight of its own
//
// with Â as in GCN.
type GCNII struct {
	w1, w2     *nn.Param // w2 nil: one weight for both
	p          Propagator
	o          GCNIIOptions
	beta       float32
	activation kernel.Activation
	dropout    nn.Dropout
}

// GCNIIOptions are the settings of a layer, with PyG's names.
type GCNIIOptions struct {
	Alpha         float64 // share of the initial residual
	Theta         float64 // strength of the weights; λ in the publication
	Layer         int     // from 1
	SharedWeights bool
	Dropout       float64 // on the layer's output
	Last          bool    // no later block reads the initial residual
}

// NewGCNII makes a layer whose input, output and initial residual have m.In columns. Initial values are drawn
// as in the authors' code.
func NewGCNII(m Module, o GCNIIOptions) *GCNII {
	weight := func(name string) *nn.Param {
		w := m.Params.Matrix(m.Path+name, m.In, m.In, nn.FanIn(m.In))
		w.Decay = nn.ConvDecay
		return w
	}
	c := &GCNII{
		w1: weight(".weight1"), p: m.Propagator, o: o, beta: float32(math.Log1p(o.Theta / float64(o.Layer))),
		activation: m.Activation, dropout: nn.Dropout{Path: m.Path, P: o.Dropout},
	}
	if !o.SharedWeights {
		c.w2 = weight(".weight2")
	}
	return c
}

// Forward computes the layer for a vertex type's rows and State.H0, both rows × m.In.
func (c *GCNII) Forward(s State) State {
	alpha := float32(c.o.Alpha)
	h := c.p.Propagate(s.Rows[0], Symmetric, Once)
	if c.w2 == nil {
		h = autograd.Linear(autograd.Combine(alpha, s.H0, 1-alpha, h), c.identityMap(h.Tape(), c.w1, 1))
	} else {
		h = autograd.Linear(h, c.identityMap(h.Tape(), c.w1, 1-alpha))
		h = autograd.AddLinear(h, autograd.Alias(s.H0), c.identityMap(h.Tape(), c.w2, alpha))
	}
	s = s.with(autograd.Finish(h, nil, c.activation, c.dropout.Mask(h)))
	if c.o.Last {
		s.H0 = nil
	}
	return s
}

// identityMap returns scale·M(w). It combines the weights and not the rows, which saves a pass over the rows.
func (c *GCNII) identityMap(t *autograd.Tape, w *nn.Param, scale float32) *autograd.Var {
	m := autograd.Scale(scale*c.beta, w.On(t))
	// Read in rows of n+1 elements, the diagonal is the first column, and the last element.
	all, n := m.Value().Reshape(1, m.Rows()*m.Cols()), m.Cols()
	more := t.Memory().New(tensor.Buffers, n, 1)
	t.Team.Fill(more, scale*(1-c.beta))
	t.Team.Columns(all.Prefix(n-1, n+1), 0, more.RowRange(1, n), 0, 1, kernel.Accumulate)
	t.Team.Columns(all, all.Cols-1, more.RowRange(0, 1), 0, 1, kernel.Accumulate)
	more.Release()
	return m
}

// InitialResidual is the block before the layers of a GCNII. Its output before dropout is h0, which all
// layers read.
type InitialResidual struct {
	Layer   *Layer // the layer that computes h0, without dropout
	Dropout nn.Dropout
}

// Forward returns the state with the rows and H0.
func (b *InitialResidual) Forward(s State) State {
	h0 := b.Layer.Forward(s).Rows[0]
	h := h0
	if mask := b.Dropout.Mask(h0); mask.Active() {
		h = autograd.Dropout(autograd.Copy(h0), mask)
	}
	return State{Rows: []*autograd.Var{h}, H0: h0}
}
