package engine

import (
	"math"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
)

// features are the input features of a worker's rows, in its team's memory.
type features struct {
	rows    *autograd.RowSet
	dense   *tensor.Matrix   // rows × F, or nil
	sparse  *autograd.Sparse // or nil
	varying bool             // nothing computed from them is cached over epochs
}

// input returns the state before the first block: the features of each vertex type, in the order of the
// types.
func input(all []*features, t *autograd.Tape) (s gnn.State) {
	s.H = all[0].On(t)
	for _, f := range all[1:] {
		s.Others = append(s.Others, f.On(t))
	}
	return s
}

// On puts the features on a tape: rows × F.
func (f *features) On(t *autograd.Tape) *autograd.Var {
	switch {
	case f.sparse != nil:
		return t.SparseConstant(f.sparse, f.rows)
	case f.varying:
		return t.Constant(f.dense, f.rows)
	}
	return t.Fixed(f.dense, f.rows)
}

// loadAllFeatures copies the features of an axis' rows, of each vertex type.
func loadAllFeatures(c Config, axis Axis) []*features {
	types := axis.Types()
	all := []*features{c.load(&c.Share.Values, types[0], axis.Places(0))}
	for i := range c.Share.Others {
		all = append(all, c.load(&c.Share.Others[i], types[i+1], axis.Places(i+1)))
	}
	return all
}

// loadFeatures copies the features of some rows of the first vertex type, those of the vertices.
func loadFeatures(c Config, rows *autograd.RowSet, vertices []int32) *features {
	return c.load(&c.Share.Values, rows, c.Share.Values.Places(vertices))
}

// load copies the features of some rows of a vertex type. nil is all rows.
func (c *Config) load(v *partition.Values, rows *autograd.RowSet, places []int32) *features {
	team := c.Team
	l := loader{team: team, share: c.Share, from: &v.Features, rows: v.Rows, places: places, normalize: c.NormalizeRows, standard: c.Standard}
	f := &features{rows: rows, varying: c.VaryingInput}
	if !l.from.Sparse() {
		f.dense = team.Memory.NewElement(tensor.Features, team.Storage, rows.Here, l.from.Columns)
		l.fill(f.dense)
		return f
	}
	entries := len(l.from.Indices)
	if l.places != nil {
		entries = 0
		for _, row := range l.places {
			entries += int(l.from.Indptr[row+1] - l.from.Indptr[row])
		}
	}
	a := &kernel.CSR{
		Rows: rows.Here, Cols: l.from.Columns, Indptr: team.Memory.NewElement(tensor.Features, tensor.Int64, 1, rows.Here+1),
		Indices: team.Memory.NewElement(tensor.Features, tensor.Int32, 1, entries), Values: team.Memory.New(tensor.Features, 1, entries),
	}
	l.fillStructure(a)
	l.fill(a.Values)
	f.sparse = &autograd.Sparse{Rows: a, Columns: team.Transpose(a, tensor.Features)}
	return f
}

// loader copies from a share, whose files are mapped.
type loader struct {
	team      *kernel.Team
	share     *partition.Share
	from      *graph.Features
	rows      int
	places    []int32 // the rows to copy; nil: all
	normalize bool    // each row is divided by its sum
	standard  *Standard
}

// Standard is how the columns of features are standardised: x becomes (x − mean)/deviation.
type Standard struct{ Means, Deviations []float32 }

// of is the standardised value of a column; nil changes none.
func (s *Standard) of(x float32, column int) float32 {
	if s == nil {
		return x
	}
	return (x - s.Means[column]) / s.Deviations[column]
}

// each calls f for each row to copy.
func (l *loader) each(f func(row int)) {
	if l.places == nil {
		for row := range l.rows {
			f(row)
		}
		return
	}
	for _, row := range l.places {
		f(int(row))
	}
}

// scale is the factor of a row: with normalize, 1 / its sum. A row whose sum is 0 stays as it is.
func (l *loader) scale(row int) float32 {
	if !l.normalize {
		return 1
	}
	sum := 0.0
	for _, x := range l.from.Row(row) {
		sum += float64(x)
	}
	if s := float32(1 / sum); !math.IsInf(float64(s), 0) {
		return s
	}
	return 1
}

// fillStructure copies the CSR structure of the stored values.
func (l *loader) fillStructure(a *kernel.CSR) {
	if l.team.Planning() {
		return
	}
	indptr, indices := a.Indptr.Int64s(), a.Indices.Int32s()
	at := 0
	indptr[0] = 0
	l.each(func(row int) {
		n := copy(indices[indptr[at]:], l.from.Indices[l.from.Indptr[row]:l.from.Indptr[row+1]])
		at++
		indptr[at] = indptr[at-1] + int64(n)
	})
}

// unloadEvery is how many values fill copies from a mapped file before it releases the file's pages.
const unloadEvery = 16 << 20

// fill copies the stored feature values, each row times its scale, or standardised.
func (l *loader) fill(to *tensor.Matrix) {
	if l.team.Planning() {
		return
	}
	var floats []float32
	var halves []uint16 // instead, of a BFloat16 matrix
	if to.Element == tensor.BFloat16 {
		halves = to.BFloat16s()
	} else {
		floats = to.Floats()
	}
	at, unloaded := 0, 0
	l.each(func(row int) {
		s := l.scale(row)
		if at-unloaded > unloadEvery {
			l.share.Unload()
			unloaded = at
		}
		for k, x := range l.from.Row(row) {
			x = l.standard.of(x, k)
			if halves != nil {
				halves[at] = tensor.RoundBFloat16(s * x)
			} else {
				floats[at] = s * x
			}
			at++
		}
	})
}
