package gnn

import (
	"cmp"

	"weft/autograd"
	"weft/nn"
)

var rgcnModel = ModelKind{
	Name: "rgcn", Settings: append([]string{"num-blocks"}, relationalSettings...),
	Decoupled: append([]string{"teleport"}, relationalSettings...), list: "convs", Featureless: true,
	weight: ".weight", bias: ".bias", relations: newRGCN,
	cost: func(in, out, _ int) Cost { return Cost{in * out, min(in, out)} },
}

// RGCN is a layer of the relational graph convolutional network (Schlichtkrull et al. 2018), PyG's RGCNConv:
//
//	z_i = Σ_r mean_{j∈N_r(i)} W_r·x_j + W_0·x_i + b
//
// The relations share weights by one of two decompositions, or share none:
//
//	W_r = Σ_b a_rb·V_b             basis decomposition: each relation r weights the bases V_b by a_rb
//	W_r = diag(Q_r1, …, Q_rB)      block-diagonal decomposition
//
// A layer without relations is W_0·x_i + b; the MLP of decoupled R-GCN has such layers.
//
// Vertices without features have one-hot rows x_j, so W_r·x_j is row j of an embedding table W_r. The layer
// looks rows up in the tables and sums them. No product with x is computed.
type RGCN struct {
	comp      *nn.Param // a: relations × bases; nil without bases
	blocks    int       // 0: none
	sources   []rgcnSource
	targets   []rgcnTarget // by vertex type
	relations []rgcnRelation
}

// rgcnSource has the weights of the relations from one vertex type.
type rgcnSource struct {
	weight    *nn.Param // the matrices of the type's bases or relations, stacked
	typ       int
	in        int   // rows of each matrix: the columns of x or, for a table, this worker's rows of the type
	table     bool  // the vertices have no features
	relations []int // indices into the schema, ascending: the relations that are computed
	all       []int // the relations with weights; without bases, in the order of weight's matrices
}

// rgcnRelation is one relation of the schema.
type rgcnRelation struct {
	p      Propagator
	target int
}

// rgcnTarget has the root weight and the bias of one vertex type.
type rgcnTarget struct {
	root, bias *nn.Param // root nil: the type has no output; bias nil: the norm after the layer cancels it
	rows       *autograd.RowSet
}

// newRGCN makes layer l. With several vertex types, the first layer has weights for each type as source, and
// a root weight and a bias for each type as target; the types share the coefficients of the bases. In later
// layers all types share all weights.
func newRGCN(l *typedLayer, b *Layer, e Env) GraphConvolution {
	s, homogeneous := l.spec, len(l.schema.Types) == 1
	c := &RGCN{
		blocks: s.NumBlocks, relations: make([]rgcnRelation, len(l.schema.Relations)),
		targets: make([]rgcnTarget, len(l.schema.Types)),
	}
	count := len(l.schema.Relations)
	if s.Bases > 0 && len(l.computed.relations[l.i]) > 0 {
		c.comp = e.Params.Matrix(l.path("comp"), count, s.Bases, nn.Glorot(count, s.Bases))
	}
	shared := l.i > 0 || homogeneous // all types share the weights
	named := func(name string, i int) string {
		if shared {
			return l.path(name)
		}
		return l.path(name, l.schema.Types[i].Name)
	}
	made := map[string]*nn.Param{}
	once := func(name string, make func() *nn.Param) *nn.Param {
		if made[name] == nil {
			made[name] = make()
		}
		return made[name]
	}
	for i := range l.schema.Types {
		from := rgcnSource{typ: i, in: l.in[i], table: l.in[i] == 0}
		for k, r := range l.schema.Relations {
			if shared || r.Source == i {
				from.all = append(from.all, k)
			}
		}
		for _, k := range l.computed.relations[l.i] {
			if l.schema.Relations[k].Source == i {
				from.relations = append(from.relations, k)
			}
		}
		if from.table {
			from.in = e.Rows[i].Here
		}
		if len(from.relations) > 0 {
			name := named("weight", i)
			from.weight = once(name, func() *nn.Param {
				return l.rgcnWeight(name, i, cmp.Or(s.Bases, len(from.all)), e)
			})
			c.sources = append(c.sources, from)
		}
		if !l.computed.rows[l.i+1][i] {
			continue
		}
		to := &c.targets[i]
		name := named("root", i)
		to.rows = e.Rows[i]
		to.root = once(name, func() *nn.Param { return l.rgcnRoot(name, i, e) })
		at := Module{Path: named("bias", i), Params: e.Params, Norm: b.Types[i].Norm}
		to.bias = once(at.Path, func() *nn.Param { return at.bias("", l.out, nn.Constant(0)) })
	}
	for _, k := range l.computed.relations[l.i] {
		r := l.schema.Relations[k]
		c.relations[k] = rgcnRelation{e.Propagators(l.path(r.Name), Along{Relation: r.Name}), r.Target}
	}
	return c
}

// rgcnWeight makes so many matrices for relations from vertex type i.
func (l *typedLayer) rgcnWeight(name string, i, matrices int, e Env) *nn.Param {
	in, blocks := l.in[i], l.spec.NumBlocks
	switch {
	case in == 0:
		return e.Params.Table(name, e.Rows[i], matrices, l.out, nn.Glorot(e.Rows[i].Total, l.out))
	case blocks > 0:
		return e.Params.Tensor(name, []int{matrices, blocks, in / blocks, l.out / blocks},
			nn.Glorot(in/blocks, l.out/blocks))
	}
	return e.Params.Tensor(name, []int{matrices, in, l.out}, nn.Glorot(in, l.out))
}

// rgcnRoot makes W_0 for vertex type i.
func (l *typedLayer) rgcnRoot(name string, i int, e Env) *nn.Param {
	if in := l.in[i]; in > 0 {
		return e.Params.Matrix(name, in, l.out, nn.Glorot(in, l.out))
	}
	return e.Params.Table(name, e.Rows[i], 0, l.out, nn.Glorot(e.Rows[i].Total, l.out))
}

// Forward computes the layer for the rows of all types.
func (c *RGCN) Forward(x []*autograd.Var) (z, bias []*autograd.Var) {
	t := StateOf(x...).tape()
	z, bias = make([]*autograd.Var, len(x)), make([]*autograd.Var, len(x))
	for i := range c.sources {
		from := &c.sources[i]
		for k, w := range c.weights(t, from) {
			r, h := c.relations[k], x[from.typ]
			if from.table {
				h = t.Scope(func() *autograd.Var { return r.p.Propagate(autograd.Stored(w), Mean, Once) })
			} else {
				h = r.p.AggregateLinear(h, w, Mean)
			}
			w.Drop()
			z[r.target] = plus(z[r.target], h)
		}
	}
	for i, to := range c.targets {
		if to.root == nil {
			continue
		}
		z[i], bias[i] = to.add(z[i], x[i]), to.bias.On(t)
	}
	return z, bias
}

// add adds W_0·x to z, which may be nil.
func (to *rgcnTarget) add(z, x *autograd.Var) *autograd.Var {
	root := to.root.On(x.Tape())
	switch table := x.Cols() == 0; {
	case table && z == nil:
		return autograd.Stored(autograd.Copy(root))
	case table:
		return autograd.Add(root, z)
	case z == nil:
		return autograd.Linear(x, root)
	}
	return autograd.AddLinear(z, x, root)
}

// weights iterates over the relations from a type and the weights of each, which the caller drops: columns of
// x × out, or the rows of a table. It sums the bases for some relations at a time, as many as there are
// bases. So the sums take no more memory than the bases.
func (c *RGCN) weights(t *autograd.Tape, from *rgcnSource) func(yield func(int, *autograd.Var) bool) {
	var rows *autograd.RowSet
	if from.table {
		rows = from.weight.Rows
	}
	matrix := func(stacked *autograd.Var, i int) *autograd.Var {
		return autograd.Rows(stacked, i*from.in, (i+1)*from.in, rows)
	}
	return func(yield func(int, *autograd.Var) bool) {
		w := from.weight.On(t)
		if c.comp == nil {
			for i, at := 0, 0; i < len(from.relations); at++ {
				if from.all[at] != from.relations[i] {
					continue
				}
				m := matrix(w, at)
				if c.blocks > 0 {
					m = autograd.BlockDiagonal(m, c.blocks)
				}
				if !yield(from.relations[i], m) {
					return
				}
				i++
			}
			return
		}
		comp := c.comp.On(t)
		for lo := 0; lo < len(from.relations); lo += comp.Cols() {
			group := from.relations[lo:min(lo+comp.Cols(), len(from.relations))]
			sums := autograd.BasisDecomposition(comp, group, w)
			for i, k := range group {
				if !yield(k, matrix(sums, i)) {
					return
				}
			}
			sums.Drop()
		}
	}
}
