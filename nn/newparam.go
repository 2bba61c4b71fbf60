package nn

import (
	"hash/fnv"
	"math/rand/v2"

	"weft/autograd"
	"weft/tensor"
)

// A layer makes each of its parameters from its name, its shape in files, and the distribution of its initial
// values. The values are drawn from the seed and the name, so that they are the same on any number of
// workers.

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

// Any makes a parameter of any shape, with weight decay. All axes but the last are its rows; with transposed,
// files hold a matrix as [out, in]. Its values come from a file.
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
// [tables, vertices, columns], or as [vertices, columns] if tables is 0, which stands for one table. The
// initial values of each row are drawn from the seed, the name, the table and the vertex's id, so that they
// are the same on any number of workers. An embedding may rest on disk.
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
	p.Grad.Unpin() // it may rest: no replica sums it
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

// Bias makes a vector (1 × n) without weight decay.
func (ps *Params) Bias(name string, n int, init Init) *Param {
	p := ps.add(name, 1, n, init)
	p.shape = []int{n}
	return p
}

// shared returns the vector of that name, or makes it with n equal values.
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
		shared := ps.like.List[len(ps.List)]
		if shared.Name != name {
			panic("nn: " + name + " where the same model has " + shared.Name)
		}
		p.Value = shared.Value
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
