package engine

import (
	"slices"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// MFG is a worker's part in a pass for some vertices, over their message-flow graph. Each block computes only
// the rows on which the result depends. An inference for some vertices has the same bits as one for all.
type MFG struct {
	*Whole
	layers []*mfg.Layer // the input of each block, and the result
	ends   []int        // by number of first blocks of the model: where in Whole.model they end
	needs  []mfg.Need
	listed []int32   // this worker's vertices, as positions in the lists, one type behind another
	rows   [][]int32 // their rows in the share, by type
	kinds  []int     // the types that have listed vertices
	all    int       // the number of listed vertices
}

// layered is an Axis whose rows are the rows of the first layer.
type layered struct {
	*sar.Partition
	all []*mfg.Layer
}

// BeginEpoch implements Axis.
func (l layered) BeginEpoch(epoch int) {
	for _, layer := range l.all {
		layer.BeginEpoch(epoch)
	}
}

// Places implements Axis.
func (l layered) Places(kind int) []int32 { return l.all[0].Rows[kind] }

// narrowing is a block that keeps only the rows that the next layer reads.
type narrowing struct{ from, to *mfg.Layer }

// Loaded is a model on no rows. Inferences for several lists of vertices share it.
type Loaded struct {
	Params  *nn.Params  // tables have a row for each vertex
	Reaches []mfg.Reach // how far each block reaches
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

// NewMFG builds the model for listed vertices, by type. Each stands in its list once, in any order. Types at
// the end may be missing: none of their vertices is listed. All workers call it with the same lists, and each
// has a partition of its own. The parameters are those of loaded; with loaded nil it makes its own.
func NewMFG(c Config, vertices [][]int32, loaded *Loaded) (*MFG, error) {
	if loaded == nil {
		params, reaches := nn.NewParams(c.Team, c.Seed), Reaches(c.Blocks, sar.SchemaOf(c.Share))
		return newMFG(c, vertices, params, reaches)
	}
	return newMFG(c, vertices, loaded.Params.Sharing(c.Team), loaded.Reaches)
}

func newMFG(c Config, vertices [][]int32, params *nn.Params, reaches []mfg.Reach) (*MFG, error) {
	m, err := FindMFG(c, vertices, reaches)
	if err != nil {
		return nil, err
	}
	m.Build(params)
	return m, nil
}

// FindMFG finds the rows that the blocks reach from listed vertices, as given to NewMFG. It does not build
// the model.
func FindMFG(c Config, vertices [][]int32, reaches []mfg.Reach) (m *MFG, err error) {
	m = &MFG{Whole: &Whole{Config: c}, listed: []int32{}}
	w := mfg.Wanted{Gradients: c.Training}
	for kind, list := range vertices {
		listed, rows := find(&c.Share.Edges.Types[kind], list)
		for _, place := range listed {
			m.listed = append(m.listed, int32(m.all)+place)
		}
		m.rows = append(m.rows, rows)
		if m.all += len(list); len(list) > 0 {
			m.kinds = append(m.kinds, kind)
		}
		w.Rows = append(w.Rows, slices.Sorted(slices.Values(rows)))
	}
	m.layers, m.needs, err = mfg.New(c.env(), c.Options.Options, reaches, w)
	if err != nil {
		return nil, err
	}
	m.axis = layered{m.layers[0].Partition, m.layers}
	return m, nil
}

// Build builds the model on the rows that FindMFG found, with these parameters.
func (m *MFG) Build(params *nn.Params) {
	m.params, m.features = params, loadAllFeatures(m.Config, m.axis)
	m.ends = []int{0}
	for i, l := range m.layers[:len(m.layers)-1] {
		m.model = append(m.model,
			gnn.Build(m.Blocks, i, i+1, gnn.Env{
				Params: params, Schema: l.Schema(), Rows: l.Types(), Propagators: l.Propagator,
				Degrees: m.Degrees,
			})...)
		m.ends = append(m.ends, len(m.model))
		if next := m.layers[i+1]; next != l {
			m.model = append(m.model, narrowing{l, next})
		}
	}
	m.reducer = newReducer(m.Config, params.List)
}

// find finds this worker's vertices of a type in a list: their positions there, and their rows.
func find(owned *partition.PartRows, vertices []int32) (listed, rows []int32) {
	listed, rows = []int32{}, []int32{}
	for place, v := range vertices {
		row, found := int(v), true
		if owned.IDs != nil {
			row, found = slices.BinarySearch(owned.IDs, v)
		}
		if found {
			listed, rows = append(listed, int32(place)), append(rows, int32(row))
		}
	}
	return listed, rows
}

// Reaches returns how far each block reaches along edges: its rounds, and the relations for which it asks a
// Propagator. To find them it builds each block in a plan, without memory.
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

// Vertices are the positions of this worker's vertices in the lists, one behind another, ascending.
func (m *MFG) Vertices() []int32 { return m.listed }

// All is the length of the lists.
func (m *MFG) All() int { return m.all }

// Needs is what all workers together read for each block.
func (m *MFG) Needs() []mfg.Need { return m.needs }

// Infer computes the model without its last blocks, whose number is without, exactly and without dropout. It
// returns the rows of Vertices, dense, which the caller drops.
func (m *MFG) Infer(without int) *autograd.Var {
	m.features[0].labels.show(0)
	blocks := len(m.ends) - 1 - without
	in := input(m.features, autograd.NewTape(m.Team), &Call{})
	outputs := m.model[:m.ends[blocks]].Forward(in).Outputs(m.kinds...)
	at := m.layers[max(0, blocks-1)]
	for k, out := range outputs {
		rows := m.rows[m.kinds[k]]
		outputs[k] = autograd.Pick(out, placesIn(at.Rows[m.kinds[k]], rows),
			&autograd.RowSet{Here: len(rows), Total: autograd.NotVertices})
		out.Drop()
	}
	return inFloat32(gnn.Below(outputs))
}

// Forward implements gnn.Block.
func (n narrowing) Forward(s gnn.State) (next gnn.State) {
	take := func(x *autograd.Var, kind int) *autograd.Var {
		if x == nil { // no later layer reads the type
			return nil
		}
		return autograd.Pick(x, placesIn(n.from.Rows[kind], n.to.Rows[kind]), n.to.Types()[kind])
	}
	for kind, x := range s.Rows {
		next.Rows = append(next.Rows, take(x, kind))
	}
	switch s.H0 {
	case nil:
	case s.Rows[0]:
		next.H0 = next.Rows[0]
	default:
		next.H0 = take(s.H0, 0)
	}
	for _, x := range s.Beside {
		next.Beside = append(next.Beside, take(x, slices.Index(n.from.Types(), x.RowSet())))
	}
	return next
}

// placesIn are the places of rows in from. Both ascend.
func placesIn(from, rows []int32) []int32 {
	places := make([]int32, len(rows))
	for i, row := range rows {
		place, _ := slices.BinarySearch(from, row)
		places[i] = int32(place)
	}
	return places
}
