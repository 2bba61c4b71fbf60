package engine

import (
	"weft/graph"
	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// labels are the labels of a share's training vertices, as an input of the model.
type labels struct {
	labels   *graph.Labels
	training []bool // by row
}

// labelsOf returns the labels of the rows of the first vertex type; nil if they are no input.
func (c *Config) labelsOf(v *partition.Values) *labels {
	if c.LabelInput == 0 || v != &c.Share.Types[0] {
		return nil
	}
	l := &labels{&v.Labels, make([]bool, v.Count)}
	if c.Split.Number < len(v.Splits) {
		for _, row := range v.Splits[c.Split.Number].Train {
			l.training[row] = true
		}
	}
	return l
}

// columns appends the labels of a row.
func (l *labels) columns(to []int32, row int) []int32 {
	switch {
	case l == nil || !l.training[row]:
	case l.labels.MultiLabel():
		for k, x := range l.labels.Multi[row*l.labels.Classes : (row+1)*l.labels.Classes] {
			if x == 1 {
				to = append(to, int32(k))
			}
		}
	default:
		to = append(to, int32(l.labels.Class[row]))
	}
	return to
}

// shown are the elements of the features in which labels stand.
type shown struct {
	nn.LabelInput
	values []labelValues
	epoch  int // the epoch whose labels are shown; −1: none yet
}

// labelValues are the elements of one matrix in which labels stand.
type labelValues struct {
	in       *tensor.Matrix
	places   []int64 // of the elements
	vertices []int32 // the vertex of each, by its original id
}

// show shows the labels that an epoch shows, counted from 1, or all labels: 0.
func (s *shown) show(epoch int) {
	if s == nil || s.epoch == epoch {
		return
	}
	s.epoch = epoch
	shows := s.Shows(epoch)
	for _, v := range s.values {
		v.in.SetWritable()
		set := v.setter() // a plan sets the elements, too, so that a matrix at rest comes back to memory
		for k, place := range v.places {
			if shows(int64(v.vertices[k])) {
				set(place, 1)
			} else {
				set(place, 0)
			}
		}
		v.in.SetReadOnly()
	}
}

// setter returns what sets an element.
func (v *labelValues) setter() func(place int64, x float32) {
	if v.in.Element == tensor.BFloat16 {
		halves := v.in.BFloat16s()
		return func(place int64, x float32) { halves[place] = tensor.RoundBFloat16(x) }
	}
	floats := v.in.Floats()
	return func(place int64, x float32) { floats[place] = x }
}

// add lists an element.
func (v *labelValues) add(place int64, vertex int32) {
	v.places, v.vertices = append(v.places, place), append(v.vertices, vertex)
}

// findLabels lists the elements in which labels stand among the features of some rows.
func (c *Config) findLabels(f *features, l *loader) *shown {
	if l.labels == nil {
		return nil
	}
	s := &shown{LabelInput: nn.LabelInput{Probability: c.LabelInput, Seed: c.Seed}, epoch: -1}
	if f.sparse == nil {
		s.values = []labelValues{{in: f.dense}}
	} else {
		s.values = []labelValues{{in: f.sparse.Rows.Values}, {in: f.sparse.Columns.Values}}
	}
	c.Team.Serial(func() {
		ids := make([]int32, 0, f.rows.Here)
		row := 0
		var columns []int32
		l.each(func(from int) {
			id := int32(from)
			if list := c.Share.Types[0].IDs; list != nil {
				id = list[from]
			}
			ids = append(ids, id)
			columns = l.labels.columns(columns[:0], from)
			for k, column := range columns {
				if f.sparse == nil {
					s.values[0].add(int64(row)*int64(f.dense.Cols)+int64(l.features)+int64(column), id)
				} else {
					s.values[0].add(f.sparse.Rows.Indptr.Int64s()[row+1]-int64(len(columns)-k), id)
				}
			}
			row++
		})
		if f.sparse != nil {
			s.values[1].transposed(f.sparse.Columns, l.features, ids)
		}
	})
	return s
}

// transposed lists the elements of a transposed matrix in all columns from column from on.
func (v *labelValues) transposed(columns *kernel.CSR, from int, ids []int32) {
	indptr := columns.Indptr.Int64s()
	rows := columns.Indices.Int32s()
	for at := indptr[from]; at < indptr[columns.Rows]; at++ {
		v.add(at, ids[rows[at]])
	}
}
