// Package nn holds the parts of a network without graph work: parameters and their initial values,
// normalisation, dropout and losses. Package gnn makes layers of these parts, package task takes the losses,
// and package optim changes the parameters.
package nn

import (
	"slices"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// Param is a trained matrix and its gradient.
type Param struct {
	Name        string // the name in PyTorch's state_dict
	Value, Grad *tensor.Matrix
	Decay       Decay
	Layer       int // index of the layer that it belongs to, from 0
	// Fixed says that an optimizer leaves the parameter as it is.
	Fixed bool
	// Rate is a factor of the learning rate; 0 stands for 1. OwnDecay is a weight decay of its own; nil:
	// Decay says which applies.
	Rate     float64
	OwnDecay *float64
	// Rows are set for an embedding, which has a row for each vertex: each worker holds the rows of its own
	// vertices. nil: every replica holds the whole parameter.
	Rows *autograd.RowSet
	// Tables is the number of embedding tables. Value stacks their rows: (Tables·Rows.Here) × columns. It is
	// 0 without Rows.
	Tables int

	shape      []int // the shape in files, with all vertices
	transposed bool  // files hold the transpose: [out, in]
}

// Decay says which weight decay applies to a parameter.
type Decay uint8

// The kinds of weight decay.
const (
	NoDecay     Decay = iota // no decay: biases and norms
	WeightDecay              // Settings.WeightDecay of package optim
	ConvDecay                // Settings.ConvWeightDecay, for convolutions with a decay of their own
)

// On puts the parameter on a tape. The rows of a single embedding table have the RowSet of its vertices.
func (p *Param) On(t *autograd.Tape) *autograd.Var {
	switch {
	case p == nil:
		return nil
	case p.Tables == 1:
		return t.ParameterRows(p.Value, p.Grad, p.Rows)
	}
	return t.Parameter(p.Value, p.Grad)
}

// RowsOn is On for some of a table's rows: those of a set from Again, or of a chunk of a pipeline.
func (p *Param) RowsOn(t *autograd.Tape, rows *autograd.RowSet) *autograd.Var {
	if rows.Here == p.Rows.Here { // all of them
		return t.ParameterRows(p.Value, p.Grad, rows)
	}
	x := p.On(t)
	all, places := p.Rows.List(), make([]int32, rows.Here)
	for i, vertex := range rows.List() {
		places[i] = vertex
		if all != nil {
			place, _ := slices.BinarySearch(all, vertex)
			places[i] = int32(place)
		}
	}
	return autograd.Pick(x, places, rows)
}

// vertex returns the vertex that row i of each table belongs to.
func (p *Param) vertex(row int) int {
	if p.Rows.IDs == nil {
		return row
	}
	return int(p.Rows.IDs.ReadInt32s()[row])
}

// Shape returns the parameter's shape in files, with all vertices for an embedding.
func (p *Param) Shape() []int { return p.shape }

// here returns the shape of the part that this worker holds.
func (p *Param) here() []int {
	if p.Rows == nil {
		return p.shape
	}
	shape := slices.Clone(p.shape)
	shape[len(shape)-2] = p.Rows.Here
	return shape
}

// Params are a model's parameters and buffers, in the order in which they were made.
type Params struct {
	List    []*Param
	Buffers []*Buffer
	// InitScheme is the distribution that Weight draws from, one of InitSchemes. Empty: auto.
	InitScheme string

	team      *kernel.Team
	seed      uint64
	like      *Params // the set that has the values; nil: this one has its own
	again     bool    // Commit of another set moves the buffers
	layer     int
	named     map[string]*Param
	buffers   map[string]*Buffer
	cancelled []cancelledBias
	shifts    []shift
	unused    []string
	commits   []func()
	pending   []*tensor.Matrix // what commits read
	once      map[any]bool     // the keys of OnCommitOnce
	saves     *Snapshot        // the snapshot that Keep will fill; nil: none
}

// NewParams returns an empty set. Initial values are drawn from the seed and each parameter's name.
func NewParams(team *kernel.Team, seed uint64) *Params {
	return &Params{
		team: team, seed: seed, named: map[string]*Param{}, buffers: map[string]*Buffer{},
		once: map[any]bool{},
	}
}

// Sharing returns an empty set for inference by the same model on other rows. Parameters and buffers that are
// made in it have the values of this set, and no gradients. Each vertex must have a row in the tables of this
// set. Several goroutines may each use such a set while nobody changes this one.
func (ps *Params) Sharing(team *kernel.Team) *Params {
	made := NewParams(team, ps.seed)
	made.like = ps
	return made
}

// Again returns a set for the same model on some of the rows. Parameters and buffers that are made in it are
// those of this set, with their gradients, and take no memory. Only Commit of this set moves buffers.
func (ps *Params) Again() *Params {
	made := *ps
	made.commits, made.pending, made.again = nil, nil, true
	return &made
}

// Named returns the parameter of that name; nil: there is none, for instance because a block is built without
// the blocks before it.
func (ps *Params) Named(name string) *Param { return ps.named[name] }

// BeginLayer says that the parameters made from now on belong to layer i.
func (ps *Params) BeginLayer(i int) { ps.layer = i }

// OnCommit registers a function that Commit calls once for each epoch. f updates what an epoch changes
// besides parameters. pending (Float64) are the matrices that a training pass sets and f reads; Release
// releases them.
func (ps *Params) OnCommit(f func(), pending ...*tensor.Matrix) {
	ps.commits, ps.pending = append(ps.commits, f), append(ps.pending, pending...)
}

// Pending returns the matrices that a training pass sets and Commit reads, such as means and variances of a
// batch. A caller may replace their elements by those of another pass of the same parameters.
func (ps *Params) Pending() []*tensor.Matrix { return ps.pending }

// OnCommitOnce registers the function that make returns, unless there has been a call with this key.
func (ps *Params) OnCommitOnce(key any, make func() func()) {
	if !ps.once[key] {
		ps.once[key] = true
		ps.OnCommit(make())
	}
}

// Team computes with the parameters.
func (ps *Params) Team() *kernel.Team { return ps.team }

// Commit ends an epoch's training pass. The running statistics of norms are updated once, however many
// forward passes the epoch made.
func (ps *Params) Commit() {
	for _, f := range ps.commits {
		f()
	}
}

// ZeroGrad sets all gradients to zero.
func (ps *Params) ZeroGrad() {
	for _, p := range ps.List {
		ps.team.Zero(p.Grad)
	}
}

// Count returns the number of trained values.
func (ps *Params) Count() (n int) {
	for _, p := range ps.List {
		n += p.Value.Len()
	}
	return n
}

// NotFinite looks for NaN and infinities. sum is 0 if no parameter and no buffer in a matrix holds one;
// onHost reports whether a buffer in the host's memory does.
func (ps *Params) NotFinite() (sum kernel.Sum, onHost bool) {
	return ps.team.NotFinite(ps.matrices()...),
		slices.ContainsFunc(ps.Buffers, func(b *Buffer) bool { return !tensor.Finite(b.Values) })
}

// Release releases the memory.
func (ps *Params) Release() {
	for _, p := range ps.List {
		p.Value.Release()
		p.Grad.Release()
	}
	for _, b := range ps.Buffers {
		b.Matrix.Release()
	}
	for _, m := range ps.pending {
		m.Release()
	}
}

// matrices returns the values of the parameters, and of the buffers that are matrices.
func (ps *Params) matrices() (all []*tensor.Matrix) {
	for _, p := range ps.List {
		all = append(all, p.Value)
	}
	for _, b := range ps.Buffers {
		if b.Matrix != nil {
			all = append(all, b.Matrix)
		}
	}
	return all
}
