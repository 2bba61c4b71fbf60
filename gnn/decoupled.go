package gnn

import (
	"weft/autograd"
	"weft/nn"
)

// Decoupled models first compute the logits of each vertex by itself, Z = MLP(X). Then they aggregate the
// logits in rounds, without a weight or an activation between: Hᵏ⁺¹ = (1−a)·Â·Hᵏ + a·Z. APPNP (Gasteiger et
// al. 2019) has a teleport probability a > 0. NeutronTP (PVLDB 18(2), 2024, section 4.1) has a = 0, and as
// many rounds as layers. A decoupled model is not the same function as the coupled one, whose layers
// aggregate and transform in turn.

// propagationPath is the module path of a decoupled model's rounds.
const propagationPath = "propagation"

// Propagation is the rounds of a decoupled model with a linear aggregation.
type Propagation struct {
	p       Propagator
	r       Reduce
	epsilon *nn.Buffer // GIN's ε, added to the weight of the vertex's own row; nil: none
	rounds  Rounds
}

// NewPropagation makes the rounds of an aggregation.
func NewPropagation(m Module, r Reduce, k Rounds) *Propagation {
	return &Propagation{p: m.Propagator, r: r, rounds: k}
}

// NewGINPropagation makes the rounds of GIN's aggregation, (1+ε)·x_i + Σ_{j→i} x_j. ε is 0 unless loaded
// weights have another value.
func NewGINPropagation(m Module, k Rounds) *Propagation {
	return &Propagation{p: m.Propagator, r: Reduce{KindSum, 1}, epsilon: m.Params.Buffer(m.Path+".eps", 1, 0), rounds: k}
}

// Forward computes the rounds for State.H, rows × classes.
func (c *Propagation) Forward(s State) State {
	r := c.r
	if c.epsilon != nil {
		r.Self += c.epsilon.Values[0]
	}
	return State{H: c.p.Propagate(s.H, r, c.rounds), H0: s.H0}
}

// AttentionPropagation is the rounds of a decoupled graph attention network. GATv1's coefficients are
// computed from Z alone, with one head over the class columns and LeakyReLU slope 0.2. Every round uses the
// same coefficients, with the same ones dropped.
type AttentionPropagation struct {
	aSource, aTarget *nn.Param
	p                Propagator
	o                AttentionPropagationOptions
}

// AttentionPropagationOptions are the settings of AttentionPropagation.
type AttentionPropagationOptions struct {
	Rounds  Rounds
	Dropout float64 // on the coefficients
	// Stop sends no gradient through the coefficients, as in the code that NeutronTP's authors released. Z
	// then gets no gradient from them, and the attention vectors keep their initial values.
	Stop bool
}

// NewAttentionPropagation makes the rounds; m.In is the number of classes.
func NewAttentionPropagation(m Module, o AttentionPropagationOptions) *AttentionPropagation {
	c := &AttentionPropagation{
		aSource: m.Params.Attention(m.Path+".att_src", 1, m.In), aTarget: m.Params.Attention(m.Path+".att_dst", 1, m.In), p: m.Propagator, o: o,
	}
	if o.Stop {
		c.aSource.Decay, c.aTarget.Decay = nn.NoDecay, nn.NoDecay
	}
	return c
}

// Forward computes the rounds for State.H, rows × classes.
func (c *AttentionPropagation) Forward(s State) State {
	score := func(a *nn.Param) *autograd.Var {
		v := autograd.HeadDot(s.H, a.On(s.H.Tape()), 1)
		if c.o.Stop {
			v = autograd.Detach(v)
		}
		return v
	}
	return State{H: c.p.Attend(Attention{
		Source: s.H, SourceScore: score(c.aSource), TargetScore: score(c.aTarget),
		Heads: 1, Slope: 0.2, Dropout: c.o.Dropout, SelfLoops: true,
	}, c.o.Rounds), H0: s.H0}
}
