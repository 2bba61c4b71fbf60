package engine

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/parallel/sar"
	"weft/tensor"
)

// MFG is a worker's part in an inference for some vertices, over their message-flow graph. Each block
// computes only the rows that the result depends on. They have the same bits as in an inference for all
// vertices.
type MFG struct {
	Config
	layers   []*mfg.Layer // of each block
	needs    []mfg.Need
	features []*features // by vertex type, of the rows of the first layer
	params   *nn.Params
	model    gnn.Model
	listed   []int32 // this worker's vertices, by their positions in the list
	rows     []int32 // their rows in the share
	all      int     // the number of listed vertices
}

// Loaded is a model on no rows: what its inferences for several lists of vertices have in common.
type Loaded struct {
	Params  *nn.Params  // with a row for each vertex in tables
	Reaches []mfg.Reach // of its blocks
}

// NewLoaded builds the model, whose parameters have the values that nn.NewParams gives them.
func NewLoaded(c Config) *Loaded {
	schema := sar.SchemaOf(c.Share)
	l := &Loaded{Params: nn.NewParams(c.Team, c.Seed), Reaches: Reaches(c.Blocks, schema)}
	var all []*autograd.RowSet
	for _, t := range schema.Types {
		all = append(all, autograd.AllHere(t.Vertices))
	}
	gnn.Build(c.Blocks, 0, len(c.Blocks), gnn.Env{
		Params: l.Params, Schema: schema, Rows: all,
		Propagators: func(string, gnn.Along) gnn.Propagator { return nil },
	})
	return l
}

// NewMFG builds the model for vertices of the first type, each listed once, in any order. All workers call it
// with the same list. Each has a partition of its own. The parameters are those of loaded; nil: it makes its
// own.
func NewMFG(c Config, vertices []int32, loaded *Loaded) (m *MFG, err error) {
	m = &MFG{Config: c, all: len(vertices)}
	m.find(vertices)
	rows := slices.Clone(m.rows)
	slices.Sort(rows)
	schema := sar.SchemaOf(c.Share)
	var reaches []mfg.Reach
	if loaded != nil {
		m.params = loaded.Params.Sharing(c.Team)
		reaches = loaded.Reaches
	} else {
		m.params, reaches = nn.NewParams(c.Team, c.Seed), Reaches(c.Blocks, schema)
	}
	m.layers, m.needs, err = mfg.New(c.env(), c.Options.Options, reaches, rows)
	if err != nil {
		return nil, err
	}
	first := m.layers[0]
	for i, set := range first.Types() {
		m.features = append(m.features, c.load(i, set, first.Rows[i]))
	}
	for i, l := range m.layers {
		m.model = append(m.model,
			gnn.Build(c.Blocks, i, i+1, gnn.Env{
				Params: m.params, Schema: schema, Rows: l.Types(),
				Propagators: l.Propagator,
			})...)
	}
	return m, nil
}

// find finds this worker's vertices in the list.
func (m *MFG) find(vertices []int32) {
	m.listed, m.rows = []int32{}, []int32{}
	ids := m.Share.Edges.Types[0].IDs
	for place, v := range vertices {
		row, held := int(v), true
		if ids != nil {
			row, held = slices.BinarySearch(ids, v)
		}
		if held {
			m.listed, m.rows = append(m.listed, int32(place)), append(m.rows, int32(row))
		}
	}
}

// Reaches returns how far each block reaches along edges: its rounds, and the relations whose Propagator it
// asks for. To find them it builds each block in a plan, without memory.
func Reaches(blocks []gnn.BlockSpec, schema gnn.Schema) (all []mfg.Reach) {
	mem := tensor.NewMeter()
	defer mem.Close()
	var none []*autograd.RowSet
	for _, t := range schema.Types {
		none = append(none, &autograd.RowSet{Total: t.Vertices})
	}
	for i, b := range blocks {
		r := mfg.Reach{Rounds: max(1, b.Rounds)}
		gnn.Build(blocks, i, i+1, gnn.Env{
			Params: nn.NewParams(kernel.NewPlan(1, mem), 0), Schema: schema, Rows: none,
			Propagators: func(_ string, a gnn.Along) gnn.Propagator {
				if !slices.Contains(r.Along, a) {
					r.Along = append(r.Along, a)
				}
				return nil
			},
		})
		all = append(all, r)
	}
	return all
}

// Params are all parameters of the model.
func (m *MFG) Params() *nn.Params { return m.params }

// Vertices are the positions of this worker's vertices in the list, ascending.
func (m *MFG) Vertices() []int32 { return m.listed }

// All is the length of the list.
func (m *MFG) All() int { return m.all }

// Needs is what all workers together read for each block.
func (m *MFG) Needs() []mfg.Need { return m.needs }

// Infer computes the model without its last blocks, exactly and without dropout. It returns the rows of
// Vertices, dense, which the caller drops.
func (m *MFG) Infer(without int) *autograd.Var {
	t := autograd.NewTape(m.Team)
	m.features[0].labels.show(0)
	s := input(m.features, t, &Call{})
	at := m.layers[0]
	for i := range len(m.model) - without {
		if next := m.layers[i]; next != at {
			s = m.narrow(s, at, next)
			at = next
		}
		s = m.model[i : i+1].Forward(s)
	}
	out := s.Output()
	z := m.pick(out, at.Rows[0], m.rows, &autograd.RowSet{Here: len(m.rows), Total: autograd.NotVertices})
	out.Drop()
	return inFloat32(z)
}

// narrow reduces a state to the rows that the next layer reads.
func (m *MFG) narrow(s gnn.State, from, to *mfg.Layer) (next gnn.State) {
	types := to.Types()
	take := func(x *autograd.Var, kind int) *autograd.Var {
		if x == nil { // no later layer reads the type
			return nil
		}
		return m.pick(x, from.Rows[kind], to.Rows[kind], types[kind])
	}
	for i, x := range s.Rows {
		next.Rows = append(next.Rows, take(x, i))
	}
	switch s.H0 {
	case nil:
	case s.Rows[0]:
		next.H0 = next.Rows[0]
	default:
		next.H0 = take(s.H0, 0)
	}
	for _, x := range s.Vars() {
		x.Drop()
	}
	return next
}

// pick gathers some rows of a value. from and rows are rows of the share; from ascends.
func (m *MFG) pick(x *autograd.Var, from, rows []int32, set *autograd.RowSet) *autograd.Var {
	t := x.Tape()
	places := m.Team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(rows))
	defer places.Release()
	for i, row := range rows {
		place, _ := slices.BinarySearch(from, row)
		places.Int32s()[i] = int32(place)
	}
	return t.Scope(func() *autograd.Var {
		x = autograd.Dense(x)
		z := t.NewLike(x, len(rows), x.Cols())
		m.Team.Gather(z, x.Value(), places)
		return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Rows: set})
	})
}
