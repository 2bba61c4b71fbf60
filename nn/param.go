// Package nn holds the parts of a network without graph work: parameters and their initial values,
// normalisation, dropout and losses.
package nn

import (
	"hash/fnv"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"weft/autograd"
	"weft/checkpoint"
	"weft/internal/refusal"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/tensor"
)

// Param is a trained matrix and its gradient.
type Param struct {
	Name        string // the name in PyTorch's state_dict
	Value, Grad *tensor.Matrix
	Decay       Decay
	Layer       int // index of the layer that it belongs to, from 0
	// Fixed: an optimizer leaves it as it is
	Fixed bool
	// Rate is a factor of the learning rate; 0: 1. OwnDecay is a weight decay in place of that of Decay; nil:
	// there is none
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
	NoDecay     Decay = iota // none: biases and norms
	WeightDecay              // that of weights
	ConvDecay                // that of convolutions with a decay of their own
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

// Buffer is state that is stored with the parameters and not trained, such as batch norm's running
// statistics.
type Buffer struct {
	Name   string
	Values []float32
	Of     *tensor.Matrix // instead of Values: 1 × n, which are where the team computes
	Count  *int64         // instead of Values: an integer scalar
	// Keeps: a state without it leaves the values as they are
	Keeps bool

	shape []int // in files; nil: that of a vector
}

// InFiles is the buffer's shape in files.
func (b *Buffer) InFiles() []int {
	if b.shape == nil {
		return []int{b.Len()}
	}
	return b.shape
}

// Len is the number of values.
func (b *Buffer) Len() int {
	if b.Of != nil {
		return b.Of.Len()
	}
	return len(b.Values)
}

// Read are the values, to be read. In a plan those of Of are zeros.
func (b *Buffer) Read() []float32 {
	if b.Of == nil {
		return b.Values
	}
	if held := b.Of.ReadFloats(); held != nil {
		return held
	}
	return make([]float32, b.Of.Len())
}

// Write are the values, to be changed. A plan has none of Of.
func (b *Buffer) Write() []float32 {
	if b.Of != nil {
		return b.Of.WriteFloats()
	}
	return b.Values
}

// Params are a model's parameters and buffers, in the order in which they were made.
type Params struct {
	List    []*Param
	Buffers []*Buffer
	// InitScheme is what Weight draws from, one of InitSchemes. Empty: auto.
	InitScheme string

	team      *kernel.Team
	seed      uint64
	like      *Params // whose values these are; nil: they have their own
	again     bool    // another set commits
	layer     int
	named     map[string]*Param
	buffers   map[string]*Buffer
	cancelled []cancelledBias
	shifts    []shift
	unused    []string
	commits   []func()
	pending   []*tensor.Matrix // what they read
	once      map[any]bool     // the keys of OnCommitOnce
	saves     *Snapshot        // that Keep fills; nil: none
}

// cancelledBias is a bias that the model leaves out, because the norms after it would subtract it again.
type cancelledBias struct {
	name  string
	width int
}

// Shift says that a running mean is moved by a file's bias × Share where the model leaves that bias out. The
// model then computes what one with the bias does. The layer that leaves it out may be one of another stage.
type Shift struct {
	Bias    string
	Share   float32
	Through string // the weight, in × out, that the bias is multiplied by first; empty: none
}

// shift is a Shift of a running mean.
type shift struct {
	Shift
	mean *Buffer
}

// apply moves the mean by a file's bias.
func (s *shift) apply(bias []float32, ps *Params) {
	if by := ps.Named(s.Through); by != nil {
		w := by.Value
		through := make([]float32, w.Cols)
		for i, weight := range w.ReadFloats() {
			through[i%w.Cols] += bias[i/w.Cols] * weight
		}
		bias = through
	}
	mean := s.mean.Write()
	for i, x := range bias {
		mean[i] -= s.Share * x
	}
}

// NewParams returns an empty set. Initial values are drawn from the seed and each parameter's name.
func NewParams(team *kernel.Team, seed uint64) *Params {
	return &Params{
		team: team, seed: seed, named: map[string]*Param{}, buffers: map[string]*Buffer{},
		once: map[any]bool{},
	}
}

// Sharing returns an empty set for an inference by the same model on other rows: what is made in it has the
// values of this set, in whose tables each vertex has a row, and no gradients. Several goroutines may use
// such sets of their own while nobody changes this one.
func (ps *Params) Sharing(team *kernel.Team) *Params {
	made := NewParams(team, ps.seed)
	made.like = ps
	return made
}

// Again returns a set for the same model on some of the rows: what is made in it are the parameters and
// buffers of this set, with their gradients. It takes no memory, and Commit of this set alone moves buffers.
func (ps *Params) Again() *Params {
	made := *ps
	made.commits, made.pending, made.again = nil, nil, true
	return &made
}

// RowsOn is On for some of the rows that a table has, in a set from Again or in a chunk of a pipeline.
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

// Init fills a parameter's initial values.
type Init func(values []float32, r *rand.Rand)

// Uniform draws from ±bound.
func Uniform(bound float64) Init {
	return func(values []float32, r *rand.Rand) {
		for i := range values {
			values[i] = float32((2*r.Float64() - 1) * bound)
		}
	}
}

// Normal draws from the standard normal distribution, PyTorch's default for an embedding.
func Normal() Init {
	return func(values []float32, r *rand.Rand) {
		for i := range values {
			values[i] = float32(r.NormFloat64())
		}
	}
}

// Constant sets every value.
func Constant(x float32) Init {
	return func(values []float32, _ *rand.Rand) {
		for i := range values {
			values[i] = x
		}
	}
}

// Glorot is uniform in ±√(6/(in+out)) (Glorot & Bengio 2010).
func Glorot(in, out int) Init { return Uniform(math.Sqrt(6 / float64(in+out))) }

// FanIn is uniform in ±1/√in, PyTorch's default for a linear layer's weight and bias.
func FanIn(in int) Init { return Uniform(1 / math.Sqrt(float64(max(1, in)))) }

// InitSchemes are what the weights of linear layers are drawn from: auto is the model's own distribution,
// glorot is Glorot, and torch is FanIn.
var InitSchemes = []string{"auto", "glorot", "torch"}

// Weight makes a linear layer's in × out weight. Files hold it as [out, in]. InitScheme may replace init.
func (ps *Params) Weight(name string, in, out int, init Init) *Param {
	switch ps.InitScheme {
	case "glorot":
		init = Glorot(in, out)
	case "torch":
		init = FanIn(in)
	}
	p := ps.add(name, in, out, init)
	p.shape, p.transposed, p.Decay = []int{out, in}, true, WeightDecay
	return p
}

// Matrix makes an in × out weight that files hold in this shape.
func (ps *Params) Matrix(name string, in, out int, init Init) *Param {
	p := ps.add(name, in, out, init)
	p.shape, p.Decay = []int{in, out}, WeightDecay
	return p
}

// Tensor makes a weight of several axes that files hold in this shape. All axes but the last are its rows.
func (ps *Params) Tensor(name string, shape []int, init Init) *Param {
	rows := 1
	for _, n := range shape[:len(shape)-1] {
		rows *= n
	}
	p := ps.add(name, rows, shape[len(shape)-1], init)
	p.shape, p.Decay = shape, WeightDecay
	return p
}

// Any makes a parameter of any shape, with weight decay: the rows of all axes but the last, or the transpose
// of a matrix that files hold as [out, in]. Its values are those of a file.
func (ps *Params) Any(name string, shape []int, transposed bool) *Param {
	rows, cols := 1, 1
	for _, n := range shape {
		rows, cols = rows*cols, n
	}
	if transposed {
		rows, cols = cols, rows
	}
	p := ps.add(name, rows, cols, Constant(0))
	p.shape, p.transposed, p.Decay = shape, transposed, WeightDecay
	return p
}

// Table makes an embedding, which has a row for each vertex in one table or several. Files hold it as
// [tables, vertices, columns], or as [vertices, columns] if tables is 0, which means one. The initial values
// of each row are drawn from the seed, the name, the table and the vertex's id, so that they are the same on
// any number of workers. An embedding may rest on disk.
func (ps *Params) Table(name string, rows *autograd.RowSet, tables, columns int, init Init) *Param {
	count := max(1, tables)
	p := ps.make(name, count*rows.Here, columns)
	p.Rows, p.Tables, p.shape, p.Decay = rows, count, []int{rows.Total, columns}, WeightDecay
	if tables > 0 {
		p.shape = []int{tables, rows.Total, columns}
	}
	if ps.like != nil {
		all := p.Value.Floats()
		p.Value = ps.team.Memory.New(tensor.Parameters, count*rows.Here, columns)
		p.take(all)
		return p
	}
	p.Value.Unpin()
	p.Grad.Unpin() // no replica sums it
	values := p.Value.WriteFloats()
	source := rand.NewPCG(0, 0)
	key := hash(name)
	draw := rand.New(source)
	for i := range len(values) / max(1, columns) {
		table, row := i/rows.Here, i%rows.Here
		source.Seed(ps.seed, autograd.Mix(key^autograd.Mix(uint64(table*rows.Total+p.vertex(row)))))
		init(values[i*columns:(i+1)*columns], draw)
	}
	return p
}

// vertex returns the vertex that row i of each table belongs to.
func (p *Param) vertex(row int) int {
	if p.Rows.IDs == nil {
		return row
	}
	return int(p.Rows.IDs.ReadInt32s()[row])
}

// Bias makes a vector (1 × n) without weight decay.
func (ps *Params) Bias(name string, n int, init Init) *Param {
	p := ps.add(name, 1, n, init)
	p.shape = []int{n}
	return p
}

// shared is the vector of that name, or a new one of n equal values.
func (ps *Params) shared(name string, n int, value float32) *Param {
	if p := ps.Named(name); p != nil {
		return p
	}
	return ps.Bias(name, n, Constant(value))
}

// Attention makes a vector of n values with weight decay that files hold as [1, heads, n/heads].
func (ps *Params) Attention(name string, heads, n int) *Param {
	p := ps.add(name, 1, n, Glorot(heads, n/heads))
	p.shape, p.Decay = []int{1, heads, n / heads}, WeightDecay
	return p
}

func (ps *Params) add(name string, rows, cols int, init Init) *Param {
	p := ps.make(name, rows, cols)
	if ps.like == nil {
		init(p.Value.WriteFloats(), rand.New(rand.NewPCG(ps.seed, hash(name))))
	}
	return p
}

// make makes a parameter without values.
func (ps *Params) make(name string, rows, cols int) *Param {
	if ps.named[name] != nil {
		panic("nn: two parameters called " + name)
	}
	p := &Param{Name: name, Layer: ps.layer}
	if ps.like != nil {
		of := ps.like.List[len(ps.List)]
		if of.Name != name {
			panic("nn: " + name + " where the same model has " + of.Name)
		}
		p.Value = of.Value
	} else {
		p.Value = ps.team.Memory.New(tensor.Parameters, rows, cols)
		p.Grad = ps.team.Zeros(tensor.Gradients, rows, cols).Pin()
	}
	ps.List, ps.named[name] = append(ps.List, p), p
	return p
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Buffer makes a buffer of n equal values, or returns the one of that name.
func (ps *Params) Buffer(name string, n int, value float32) *Buffer {
	return ps.buffer(&Buffer{Name: name, Values: slices.Repeat([]float32{value}, n)})
}

// Running makes a buffer of n equal values, or has the one of that name, be where the team computes.
func (ps *Params) Running(name string, n int, value float32) *Buffer {
	b := ps.Buffer(name, n, value)
	if b.Of == nil {
		b.Of = ps.team.Memory.New(tensor.Parameters, 1, n)
		copy(b.Of.WriteFloats(), b.Values)
		b.Values = nil
	}
	return b
}

// Frozen is Buffer of any shape. Its values are those of a file.
func (ps *Params) Frozen(name string, shape []int) *Buffer {
	n := 1
	for _, size := range shape {
		n *= size
	}
	return ps.buffer(&Buffer{Name: name, Values: make([]float32, n), shape: append([]int{}, shape...)})
}

// Counter makes an integer buffer, or returns the one of that name.
func (ps *Params) Counter(name string) *Buffer {
	return ps.buffer(&Buffer{Name: name, Count: new(int64)})
}

func (ps *Params) buffer(b *Buffer) *Buffer {
	if made := ps.buffers[b.Name]; made != nil {
		return made
	}
	if ps.like != nil {
		b = ps.like.Buffers[len(ps.Buffers)]
	}
	ps.Buffers, ps.buffers[b.Name] = append(ps.Buffers, b), b
	return b
}

// Named is the parameter of that name; nil: there is none, as where a block is built without those before it.
func (ps *Params) Named(name string) *Param { return ps.named[name] }

// CancelledBias says that a layer has no bias of this name, because the norms after it would subtract it
// again. Files hold zeros for it. If a file has such a bias, it moves the running means of Shift.
func (ps *Params) CancelledBias(name string, width int) {
	ps.cancelled = append(ps.cancelled, cancelledBias{name, width})
}

// Shift has loaded biases move the running mean of a norm. Other norms have none.
func (ps *Params) Shift(norm Norm, by Shift) {
	if norm, ok := norm.(*BatchNorm); ok {
		ps.shifts = append(ps.shifts, shift{by, norm.runningMean})
	}
}

// BeginLayer says that the parameters made from now on belong to layer i.
func (ps *Params) BeginLayer(i int) { ps.layer = i }

// OnCommit registers a function that Commit calls once for each epoch. It updates what an epoch changes
// besides parameters. pending is what it reads that a training pass has set: Float64. Release releases it.
func (ps *Params) OnCommit(f func(), pending ...*tensor.Matrix) {
	ps.commits, ps.pending = append(ps.commits, f), append(ps.pending, pending...)
}

// Pending is what Commit reads that the training pass has set, such as means and variances of a batch: to be
// changed to that of another pass of the same parameters.
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

// Finite reports whether no parameter and no buffer holds a NaN or an infinity.
func (ps *Params) Finite() bool {
	return ps.team.Finite(ps.matrices()...) &&
		!slices.ContainsFunc(ps.Buffers, func(b *Buffer) bool { return !tensor.Finite(b.Values) })
}

// Release releases the memory.
func (ps *Params) Release() {
	for _, p := range ps.List {
		p.Value.Release()
		p.Grad.Release()
	}
	for _, b := range ps.Buffers {
		b.Of.Release()
	}
	for _, m := range ps.pending {
		m.Release()
	}
}

// Tensor is a tensor as weight files hold it.
type Tensor = safetensors.Tensor

// State holds a model's values by name, as PyTorch's state_dict does.
type State = map[string]Tensor

// ReadState reads a safetensors file of weights, such as the one in a run directory. Params.Load checks which
// weights a model needs.
func ReadState(path string) (State, error) {
	state, _, err := safetensors.ReadFile(path)
	return state, err
}

// DecodeState reads what EncodeState, or PyTorch's safetensors, has written, up to the end of r.
func DecodeState(r io.Reader) (State, error) {
	state, _, err := safetensors.ReadStream(r)
	return state, err
}

// EncodeState writes weights in the format of safetensors files.
func EncodeState(w io.Writer, state State) error {
	return safetensors.Write(w, state, map[string]string{"format": "pt"})
}

// State returns a copy of all values by name, in the shapes that files hold. For an embedding it returns the
// rows of this worker's vertices; the shape has their number in place of the number of all vertices.
func (ps *Params) State() State {
	state := State{}
	for _, p := range ps.List {
		values := slices.Clone(p.Value.ReadFloats())
		if p.transposed {
			values = transpose(values, p.Value.Rows, p.Value.Cols)
		}
		state[p.Name] = Tensor{Shape: p.here(), Float32: values}
	}
	for _, b := range ps.Buffers {
		if b.Count != nil {
			state[b.Name] = Tensor{Shape: []int{}, Int64: []int64{*b.Count}}
		} else {
			state[b.Name] = Tensor{Shape: b.InFiles(), Float32: slices.Clone(b.Read())}
		}
	}
	for _, c := range ps.cancelled {
		state[c.name] = Tensor{Shape: []int{c.width}, Float32: make([]float32, c.width)}
	}
	return state
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

// aliases are older names of the same tensors.
var aliases = map[string]string{"lin.weight": "lin_src.weight"}

// Allow lets a state hold tensors of these names, which this set does not have. A name that ends in a dot
// stands for all names that begin with it.
func (ps *Params) Allow(names ...string) { ps.unused = append(ps.unused, names...) }

// allowed reports whether a state may hold this tensor, which the set does not have.
func (ps *Params) allowed(name string) bool {
	return slices.ContainsFunc(ps.unused, func(unused string) bool {
		return name == unused || strings.HasSuffix(unused, ".") && strings.HasPrefix(name, unused)
	})
}

// Names returns the names that a state for this set may hold.
func (ps *Params) Names() []string {
	names := slices.Clone(ps.unused)
	for _, p := range ps.List {
		names = append(names, p.Name)
	}
	for _, b := range ps.Buffers {
		names = append(names, b.Name)
	}
	for _, c := range ps.cancelled {
		names = append(names, c.name)
	}
	return names
}

// namesIn returns the names of this set's tensors in a state. An older name is translated if this set knows
// the newer one and the state does not hold both.
func (ps *Params) namesIn(state State) map[string]string {
	known := map[string]bool{}
	for _, name := range ps.Names() {
		known[name] = true
	}
	names := map[string]string{}
	for name := range state {
		here := name
		for newer, older := range aliases {
			if path, found := strings.CutSuffix(name, older); found {
				here = path + newer
			}
		}
		if _, both := state[here]; both || !known[here] {
			here = name
		}
		names[here] = name
	}
	return names
}

// Load sets all values from a state. It refuses a missing, unknown or wrongly shaped tensor by name. A
// missing integer is 0, as in PyTorch, whose older files lack those of batch norm.
func (ps *Params) Load(state State) error {
	names := ps.namesIn(state)
	used := map[string]bool{}
	take := func(name string, shape []int) (Tensor, error) {
		found, ok := names[name]
		v := state[found]
		if !ok {
			return v, refusal.Weights.Errorf("the weights lack %s %v; was the model built with the same "+
				"settings?", name, shape)
		}
		used[name] = true
		if !slices.Equal(v.Shape, shape) {
			return v, refusal.Weights.Errorf("the weights hold %s as %v, this model needs %v; was the "+
				"model built with the same settings?", found, v.Shape, shape)
		}
		return v, nil
	}
	floats := func(name string, shape []int) ([]float32, error) {
		v, err := take(name, shape)
		if err == nil && v.Float32 == nil && v.Int64 != nil {
			err = refusal.Weights.Errorf("the weights hold %s as integers, this model needs floats", name)
		}
		if err == nil && !tensor.Finite(v.Float32) {
			err = refusal.Weights.Errorf("the weights hold a value in %s that is not finite", name)
		}
		return v.Float32, err
	}
	for _, p := range ps.List {
		values, err := floats(p.Name, p.shape)
		if err != nil {
			return err
		}
		p.take(values)
	}
	for _, b := range ps.Buffers {
		_, there := names[b.Name]
		if b.Count != nil && !there {
			*b.Count = 0
			continue
		}
		if b.Keeps && !there {
			continue
		}
		if b.Count != nil {
			v, err := take(b.Name, []int{})
			if err != nil {
				return err
			}
			if len(v.Int64) != 1 {
				return refusal.Weights.Errorf("the weights hold %s as something other than one integer",
					b.Name)
			}
			*b.Count = v.Int64[0]
			continue
		}
		values, err := floats(b.Name, b.InFiles())
		if err != nil {
			return err
		}
		copy(b.Write(), values)
	}
	for _, c := range ps.cancelled {
		if _, ok := names[c.name]; !ok {
			continue
		}
		if _, err := floats(c.name, []int{c.width}); err != nil {
			return err
		}
	}
	for _, s := range ps.shifts {
		if _, ok := names[s.Bias]; !ok {
			continue
		}
		bias, err := floats(s.Bias, []int{s.mean.Len()})
		if err != nil {
			return err
		}
		s.apply(bias, ps)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !used[name] && !ps.allowed(name) {
			return refusal.Weights.Errorf("the weights hold %s, which this model does not have; was the "+
				"model built with the same settings?", names[name])
		}
	}
	return nil
}

// take sets the values to those of a file. For an embedding it takes the rows of this worker's vertices.
func (p *Param) take(values []float32) {
	if p.transposed {
		values = transpose(values, p.Value.Cols, p.Value.Rows)
	}
	if p.Rows == nil || p.Rows.Here == p.Rows.Total {
		copy(p.Value.WriteFloats(), values)
		return
	}
	to := p.Value.WriteFloats()
	columns := p.Value.Cols
	for table := range p.Tables {
		for row := range p.Rows.Here {
			from := values[(table*p.Rows.Total+p.vertex(row))*columns:]
			to = to[copy(to, from[:columns]):]
		}
	}
}

func transpose(values []float32, rows, cols int) []float32 {
	out := make([]float32, len(values))
	for r := range rows {
		for c := range cols {
			out[c*rows+r] = values[r*cols+c]
		}
	}
	return out
}

// Snapshot is a copy of all values, for Restore. Its zero value is empty.
type Snapshot struct {
	values *tensor.Matrix // of matrices
	floats [][]float32    // of other buffers
	counts []int64
}

// Save has Keep copy all values into s, whose memory it reuses. So the values of each epoch are brought into
// memory only when they change.
func (ps *Params) Save(s *Snapshot) {
	if s.values == nil {
		n := 0
		for _, m := range ps.matrices() {
			n += m.Len()
		}
		s.values = ps.team.Memory.New(tensor.Parameters, 1, n)
	}
	ps.saves = s
}

// Keep makes the copy of the last Save, if there has been one since. It must be called before values change.
// It brings all values into memory, whether or not it copies them.
func (ps *Params) Keep() {
	for _, m := range ps.matrices() {
		m.Pointer()
	}
	s := ps.saves
	ps.saves = nil
	if s == nil {
		return
	}
	s.floats, s.counts = s.floats[:0], s.counts[:0]
	for _, b := range ps.Buffers {
		switch {
		case b.Count != nil:
			s.counts = append(s.counts, *b.Count)
		case b.Of == nil:
			s.floats = append(s.floats, slices.Clone(b.Values))
		}
	}
	if !ps.team.Memory.OnDevice() {
		to := s.values.WriteFloats()
		for _, m := range ps.matrices() {
			to = to[copy(to, m.ReadFloats()):]
		}
		return
	}
	place, team := s.places(), ps.team.Unwatched()
	for _, m := range ps.matrices() {
		team.Copy(place(m.Len()).Reshape(m.Rows, m.Cols), m)
	}
}

// places returns a function that returns where the next values of a snapshot are: so many × 1.
func (s *Snapshot) places() func(n int) *tensor.Matrix {
	all, from := s.values.Reshape(s.values.Len(), 1), 0
	return func(n int) *tensor.Matrix {
		from += n
		return all.RowRange(from-n, from)
	}
}

// Restore sets all values to a snapshot of this set, and releases the snapshot's memory.
func (ps *Params) Restore(s *Snapshot) {
	if ps.saves == s { // the values are still these
		ps.saves = nil
		s.Release()
		return
	}
	from := s.values.ReadFloats()
	for _, m := range ps.matrices() {
		from = from[copy(m.WriteFloats(), from):]
	}
	floats, counts := s.floats, s.counts
	for _, b := range ps.Buffers {
		switch {
		case b.Count != nil:
			*b.Count, counts = counts[0], counts[1:]
		case b.Of == nil:
			copy(b.Values, floats[0])
			floats = floats[1:]
		}
	}
	s.Release()
}

// Like refuses another model's set whose values Copy cannot take: it must have the same tensors, and none
// with a row for each vertex.
func (ps *Params) Like(from *Params) error {
	for _, p := range from.List {
		if p.Rows != nil {
			return refusal.Weights.Errorf("the model learns %s, with a row for each vertex of its graph, "+
				"and other vertices have none; take a model of features", p.Name)
		}
	}
	mine, theirs := ps.Arrays(), from.Arrays()
	for k := range max(len(mine), len(theirs)) {
		switch {
		case k >= min(len(mine), len(theirs)) || mine[k].Name != theirs[k].Name:
			return refusal.Weights.Errorf("the model has other parameters there, as the graphs have other " +
				"relations or vertex types; give graphs with the same")
		case !slices.Equal(mine[k].Shape, theirs[k].Shape):
			return refusal.Weights.Errorf("the model has %s as %v there, and as %v on the graph that is "+
				"trained on; give graphs with as many features of vertices and edges",
				strings.TrimPrefix(mine[k].Name, "parameters/"), mine[k].Shape, theirs[k].Shape)
		}
	}
	return nil
}

// Copy sets all values to those of another set of the same tensors.
func (ps *Params) Copy(from *Params) {
	for i, p := range ps.List {
		copy(p.Value.WriteFloats(), from.List[i].Value.ReadFloats())
	}
	for i, b := range ps.Buffers {
		copy(b.Write(), from.Buffers[i].Read())
		if b.Count != nil {
			*b.Count = *from.Buffers[i].Count
		}
	}
}

// Arrays lists all parameters and buffers. Matrices are in × out here, unlike in State.
func (ps *Params) Arrays() []checkpoint.Array {
	var counts []*int64
	for _, b := range ps.Buffers {
		if b.Count != nil {
			counts = append(counts, b.Count)
		}
	}
	var values []checkpoint.Array
	for _, p := range ps.List {
		values = append(values, checkpoint.Array{Of: p.Value})
	}
	for _, b := range ps.Buffers {
		values = append(values, checkpoint.Array{Of: b.Of, Floats: b.Values})
	}
	return ps.arrays("parameters/", values, counts)
}

// ArraysOf lists the values of a snapshot of this set, as Arrays does.
func (ps *Params) ArraysOf(s *Snapshot) []checkpoint.Array {
	ps.Keep()
	var values []checkpoint.Array
	place, floats := s.places(), s.floats
	for _, p := range ps.List {
		values = append(values, checkpoint.Array{Of: place(p.Value.Len())})
	}
	for _, b := range ps.Buffers {
		a := checkpoint.Array{}
		switch {
		case b.Of != nil:
			a.Of = place(b.Len())
		case b.Count == nil:
			a.Floats, floats = floats[0], floats[1:]
		}
		values = append(values, a)
	}
	var counts []*int64
	for i := range s.counts {
		counts = append(counts, &s.counts[i])
	}
	return ps.arrays("best/", values, counts)
}

// matrices are the values of the parameters, and those buffers that are matrices.
func (ps *Params) matrices() (all []*tensor.Matrix) {
	for _, p := range ps.List {
		all = append(all, p.Value)
	}
	for _, b := range ps.Buffers {
		if b.Of != nil {
			all = append(all, b.Of)
		}
	}
	return all
}

// arrays are values, in the order of all, and counts, by their names.
func (ps *Params) arrays(
	prefix string, values []checkpoint.Array, counts []*int64,
) (arrays []checkpoint.Array) {
	for i, p := range ps.List {
		arrays = append(arrays, p.Array(prefix+p.Name, values[i].Of))
	}
	for i, b := range ps.Buffers {
		a := values[len(ps.List)+i]
		a.Name, a.Shape = prefix+b.Name, []int{b.Len()}
		if b.Count != nil {
			a = checkpoint.Array{Name: a.Name, Count: counts[0]}
			counts = counts[1:]
		}
		arrays = append(arrays, a)
	}
	return arrays
}

// Array is an array of values that belong to those of the parameter, one by one.
func (p *Param) Array(name string, values *tensor.Matrix) checkpoint.Array {
	a := checkpoint.Array{Name: name, Shape: []int{p.Value.Rows, p.Value.Cols}, Of: values, Rows: p.Rows}
	if p.Rows != nil {
		a.Shape = []int{p.Tables, p.Rows.Here, p.Value.Cols}
	}
	return a
}

// Release releases the memory of a snapshot, which is then empty.
func (s *Snapshot) Release() {
	s.values.Release()
	s.values = nil
}
