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

// MFG is a worker's part of an inference for some vertices, by their message-flow graph. It computes each
// block only for those rows on which the result depends. They have the same bits as in an inference for all
// vertices.
type MFG struct {
	Config
	layers   []*mfg.Layer // of each block
	needs    []mfg.Need
	features []*features // by vertex type, of the rows of the first layer
	params   *nn.Params
	model    gnn.Model
	listed   []int32 // which of the listed vertices are this worker's: their places in the list
	rows     []int32 // the rows of these in the share
	all      int     // how many vertices are listed
}

// NewMFG builds the model for vertices of the first type, each listed once, in any order. All workers, of
// one partition each, call it with the same list.
func NewMFG(c Config, vertices []int32) (f *MFG, err error) {
	f = &MFG{Config: c, params: nn.NewParams(c.Team, c.Seed), all: len(vertices)}
	f.find(vertices)
	rows := slices.Clone(f.rows)
	slices.Sort(rows)
	schema := sar.SchemaOf(c.Share)
	f.layers, f.needs, err = mfg.New(c.Team, c.Groups, c.Share, reaches(c.Blocks, schema), rows, c.Order, sar.Options{Prefetch: c.Prefetch, KeepHalo: c.KeepHalo})
	if err != nil {
		return nil, err
	}
	first := f.layers[0]
	for i, set := range first.Types() {
		values := &c.Share.Values
		if i > 0 {
			values = &c.Share.Others[i-1]
		}
		f.features = append(f.features, c.load(values, set, first.Rows[i]))
	}
	for i, l := range f.layers {
		f.model = append(f.model, gnn.Build(c.Blocks, i, i+1, gnn.Env{Params: f.params, Schema: schema, Rows: l.Types(), Propagators: l.Propagator})...)
	}
	return f, nil
}

// find finds those of the vertices that are this worker's.
func (f *MFG) find(vertices []int32) {
	f.listed, f.rows = []int32{}, []int32{}
	ids := f.Share.Edges.IDs
	for place, v := range vertices {
		row, held := int(v), true
		if ids != nil {
			row, held = slices.BinarySearch(ids, v)
		}
		if held {
			f.listed, f.rows = append(f.listed, int32(place)), append(f.rows, int32(row))
		}
	}
}

// reaches are how the blocks reach along edges: what each asks for when it is built, which it is here on
// paper.
func reaches(blocks []gnn.BlockSpec, schema gnn.Schema) (all []mfg.Reach) {
	mem := tensor.NewMeter()
	defer mem.Close()
	var none []*autograd.RowSet
	for _, t := range schema.Types {
		none = append(none, &autograd.RowSet{Total: t.Vertices})
	}
	for i, b := range blocks {
		r := mfg.Reach{Rounds: max(1, b.Rounds)}
		gnn.Build(blocks, i, i+1, gnn.Env{
			Params: nn.NewParams(kernel.NewPlan(mem), 0), Schema: schema, Rows: none,
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

// Params are all of the model's.
func (f *MFG) Params() *nn.Params { return f.params }

// Vertices are the places of this worker's vertices in the list, ascending.
func (f *MFG) Vertices() []int32 { return f.listed }

// All is how many vertices the list has.
func (f *MFG) All() int { return f.all }

// Needs are what all workers together read for each block.
func (f *MFG) Needs() []mfg.Need { return f.needs }

// Infer computes the model without its last blocks, so many, exactly and without dropout. It returns the rows
// of Vertices, dense, which the caller drops.
func (f *MFG) Infer(without int) *autograd.Var {
	t := autograd.NewTape(f.Team)
	s, at := input(f.features, t), f.layers[0]
	for i := range len(f.model) - without {
		if next := f.layers[i]; next != at {
			s = f.pass(s, at, next)
			at = next
		}
		s = f.model[i : i+1].Forward(s)
	}
	out := s.Output()
	z := f.pick(out, at.Rows[0], f.rows, &autograd.RowSet{Here: len(f.rows), Total: autograd.NotVertices})
	out.Drop()
	return z
}

// pass takes of a state the rows that the next layer reads.
func (f *MFG) pass(s gnn.State, from, to *mfg.Layer) (next gnn.State) {
	types := to.Types()
	take := func(x *autograd.Var, kind int) *autograd.Var {
		if x == nil { // no layer reads the type from here on
			return nil
		}
		return f.pick(x, from.Rows[kind], to.Rows[kind], types[kind])
	}
	next.H = take(s.H, 0)
	switch s.H0 {
	case nil:
	case s.H:
		next.H0 = next.H
	default:
		next.H0 = take(s.H0, 0)
	}
	next.Others = make([]*autograd.Var, len(s.Others))
	for i, x := range s.Others {
		next.Others[i] = take(x, i+1)
	}
	for _, x := range s.Vars() {
		x.Drop()
	}
	return next
}

// pick takes some rows of a value, both by their places in the share; the value's ascend.
func (f *MFG) pick(x *autograd.Var, from, rows []int32, set *autograd.RowSet) *autograd.Var {
	t := x.Tape()
	places := f.Team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(rows))
	defer places.Release()
	for i, row := range rows {
		place, _ := slices.BinarySearch(from, row)
		places.Int32s()[i] = int32(place)
	}
	return t.Scope(func() *autograd.Var {
		x = autograd.Dense(x)
		z := t.New(len(rows), x.Cols())
		f.Team.Gather(z, x.Value(), places)
		return t.Record(autograd.Op{Value: z, Inputs: []*autograd.Var{x}, Rows: set})
	})
}
