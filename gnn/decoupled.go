package gnn

import (
	"weft/autograd"
	"weft/nn"
)

var appnpModel = ModelKind{
	Name: "appnp", Settings: append([]string{"alpha", "rounds", "aggregation-chunks"}, graphSettings...),
	EdgeWeights: true, OneDirection: true,
	list: "lins", weight: ".weight", bias: ".bias", rounds: 10,
	propagation: func(s *Spec, at Module) Block {
		return NewPropagation(at, Symmetric, Rounds{s.Rounds, s.Alpha})
	},
}

// Decoupled models first compute the logits of each vertex by itself, Z = MLP(X). Then they aggregate the
// logits in rounds, without a weight or an activation between: Hᵏ⁺¹ = (1−a)·Â·Hᵏ + a·Z. APPNP (Gasteiger et
// al. 2019) has a teleport probability a > 0. NeutronTP (PVLDB 18(2), 2024, section 4.1) has a = 0, and as
// many rounds as layers. A decoupled model is not the same function as the coupled one, whose layers
// aggregate and transform in turn.

// Decoupled R-GCN has an MLP whose last layer is one of RGCN. The first round needs a weight for each
// relation, and the other rounds need none:
//
//	Z_v   = W_0·h_v + Σ_r mean_{u∈N_r(v)} W_r·h_u + b                       h = MLP(X), of Layers−1 layers
//	H¹    = Z
//	Hᵏ⁺¹_v = (1−a)·(Hᵏ_v + Σ_{r∈R(v)} mean_{u∈N_r(v)} Hᵏ_u) / (1+|R(v)|) + a·Z_v
//
// R(v) are the relations into vertices of v's type. Their mean counts the vertex itself as one more relation,
// as decoupled GraphSAGE counts it as one more neighbour. There are Layers rounds, the first included.
// NeutronTP evaluates an R-GCN (section 5.8), but does not define its decoupled form.

// propagationPath is the module path of a decoupled model's rounds.
const propagationPath = "propagation"

// Propagation is the rounds of a decoupled model with a linear aggregation.
type Propagation struct {
	p       Propagator
	r       Reduce
	epsilon *nn.Buffer // GIN's ε, added to the weight of the vertex's own row; nil: none
	rounds  Rounds
}

// NewPropagation makes the rounds k of the aggregation r, for rows × m.In.
func NewPropagation(m Module, r Reduce, k Rounds) *Propagation {
	return &Propagation{p: m.Propagator, r: r, rounds: k}
}

// NewGINPropagation makes the rounds of GIN's aggregation, (1+ε)·x_i + Σ_{j→i} x_j. ε is 0 unless loaded
// weights have another value.
func NewGINPropagation(m Module, k Rounds) *Propagation {
	return &Propagation{
		p: m.Propagator, r: Reduce{Kind: KindSum, Self: 1},
		epsilon: m.Params.Buffer(m.Path+".eps", 1, 0), rounds: k,
	}
}

// Forward computes the rounds for a vertex type's rows, rows × classes.
func (c *Propagation) Forward(s State) State {
	r := c.r
	if c.epsilon != nil {
		r.Self += c.epsilon.Values[0]
	}
	return s.with(c.p.Propagate(s.Rows[0], r, c.rounds))
}

// AttentionPropagation is the rounds of a decoupled graph attention network. GATv1's coefficients are
// computed from Z alone, with one head over the class columns and LeakyReLU slope 0.2. Every round uses the
// same coefficients, of which dropout drops the same ones.
type AttentionPropagation struct {
	aSource, aTarget *nn.Param
	p                Propagator
	o                AttentionPropagationOptions
}

// AttentionPropagationOptions are the settings of AttentionPropagation.
type AttentionPropagationOptions struct {
	Rounds  Rounds
	Dropout float64 // probability that a coefficient is dropped
}

// NewAttentionPropagation makes the rounds; m.In is the number of classes.
func NewAttentionPropagation(m Module, o AttentionPropagationOptions) *AttentionPropagation {
	return &AttentionPropagation{
		aSource: m.Params.Attention(m.Path+".att_src", 1, m.In),
		aTarget: m.Params.Attention(m.Path+".att_dst", 1, m.In), p: m.Propagator, o: o,
	}
}

// Forward computes the rounds for a vertex type's rows, rows × classes.
func (c *AttentionPropagation) Forward(s State) State {
	z := s.Rows[0]
	score := func(a *nn.Param) *autograd.Var { return autograd.HeadDot(z, a.On(z.Tape()), 1) }
	return s.with(c.p.Attend(Attention{
		Source: z, SourceScore: score(c.aSource), TargetScore: score(c.aTarget),
		Heads: 1, Slope: 0.2, Dropout: c.o.Dropout, Loops: OneLoop,
	}, c.o.Rounds))
}

// RelationalPropagation is the rounds of decoupled R-GCN after the first.
type RelationalPropagation struct {
	slices   Slicer // nil: rows are not sliced
	rounds   [][]relationalMean
	teleport float32
}

// relationalMean is the mean over a vertex and its relations, for one vertex type in one round.
type relationalMean struct {
	target    int
	relations []meanOf
	count     int // the number of relations into the type, plus one for the vertex itself
}

// meanOf is the mean over the neighbours of one relation.
type meanOf struct {
	p      Propagator
	source int
}

// newRelationalPropagation makes the rounds. c says which relations each of them has.
func newRelationalPropagation(c computed, schema Schema, teleport float64, e Env) *RelationalPropagation {
	block := &RelationalPropagation{slices: e.Slicer, teleport: float32(teleport)}
	propagator := e.Propagators
	if e.Slicer != nil {
		propagator = e.Slicer.SlicePropagator
	}
	made := map[int]Propagator{}
	for k, relations := range c.relations {
		var round []relationalMean
		for i, read := range c.rows[k+1] {
			if !read {
				continue
			}
			mean := relationalMean{target: i, count: 1}
			for _, r := range relations {
				if schema.Relations[r].Target != i {
					continue
				}
				if name := schema.Relations[r].Name; made[r] == nil {
					made[r] = propagator(propagationPath+"."+name, Along{Relation: name})
				}
				mean.relations = append(mean.relations, meanOf{made[r], schema.Relations[r].Source})
				mean.count++
			}
			round = append(round, mean)
		}
		block.rounds = append(block.rounds, round)
	}
	return block
}

// Forward computes the rounds for the rows of all types, rows × classes.
func (c *RelationalPropagation) Forward(s State) State {
	if c.slices == nil {
		return StateOf(c.columns(s.Rows))
	}
	return StateOf(c.slices.OnSlices(propagationPath, s.Rows, c.columns))
}

// columns computes the rounds for some columns.
func (c *RelationalPropagation) columns(x []*autograd.Var) *autograd.Var {
	h := x
	for _, round := range c.rounds {
		next := make([]*autograd.Var, len(x))
		for _, mean := range round {
			next[mean.target] = c.mean(mean, h, x)
		}
		for i, v := range h {
			if v != nil && v != x[i] {
				v.Drop()
			}
		}
		h = next
	}
	return h[0]
}

// mean computes one round for one vertex type. x is the rows before the first round.
func (c *RelationalPropagation) mean(m relationalMean, h, x []*autograd.Var) *autograd.Var {
	own := h[m.target]
	var sum *autograd.Var
	for _, r := range m.relations {
		sum = plus(sum, r.p.Propagate(h[r.source], Mean, Once))
	}
	share := (1 - c.teleport) / float32(m.count)
	if sum == nil {
		sum = autograd.Scale(share, own)
	} else {
		sum = autograd.Combine(share, own, share, sum)
	}
	if c.teleport > 0 {
		sum = autograd.Combine(c.teleport, x[m.target], 1, sum)
	}
	return sum
}
