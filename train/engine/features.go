package engine

import (
	"math"

	"weft/autograd"
	"weft/gnn"
	"weft/kernel"
	"weft/parallel/chunked"
	"weft/partition"
	"weft/tensor"
)

// features are the input features of a worker's rows, in its team's memory.
type features struct {
	rows    *autograd.RowSet
	dense   *tensor.Matrix   // rows × F, or nil
	sparse  *autograd.Sparse // or nil
	varying bool             // nothing computed from them is cached over epochs
	labels  *shown           // columns of shown labels among them; nil: none
}

// input returns the state before the first block: the features of each vertex type, in the order of the
// types.
func input(all []*features, t *autograd.Tape, c *Call) (s gnn.State) {
	for kind, f := range all {
		s.Rows = append(s.Rows, c.featuresOf(kind).on(t, f))
	}
	return s
}

// featuresOf returns the features that the call gives for a vertex type.
func (c *Call) featuresOf(kind int) InputMatrix {
	if c.Features == nil {
		return InputMatrix{}
	}
	return c.Features[kind]
}

// on puts the given features on a tape, or the graph's if none are given: rows × F.
func (g InputMatrix) on(t *autograd.Tape, f *features) *autograd.Var {
	switch {
	case g.Values == nil:
		return f.On(t)
	case g.Differentiable:
		return t.Input(g.Values, f.rows)
	}
	return t.Constant(g.Values, f.rows)
}

// gradients are the gradients of the features that the call gives, after the backward pass.
func (c *Call) gradients(inputs gnn.State) (grads []*tensor.Matrix) {
	grads = make([]*tensor.Matrix, len(c.Features))
	for kind, supplied := range c.Features {
		if supplied.Differentiable {
			grads[kind] = inputs.Rows[kind].TakeGrad()
		}
	}
	return grads
}

// On puts the features on a tape: rows × F. If the tape has edges of its own, nothing computed from the
// features is cached.
func (f *features) On(t *autograd.Tape) *autograd.Var {
	varying := f.varying || t.Edges != nil
	switch {
	case f.sparse != nil && varying:
		return t.SparseConstant(f.sparse, f.rows)
	case f.sparse != nil:
		return t.SparseFixed(f.sparse, f.rows)
	case varying:
		return t.Constant(f.dense, f.rows)
	}
	return t.Fixed(f.dense, f.rows)
}

// loadAllFeatures copies the features of an axis' rows, of each vertex type.
func loadAllFeatures(c Config, axis Axis) (all []*features) {
	for kind, rows := range axis.Types() {
		all = append(all, c.load(kind, rows, axis.Places(kind)))
	}
	return all
}

// loadFeatures copies the features of a chunk's rows, of each vertex type.
func loadFeatures(c Config, chunk *chunked.Chunk) (all []*features) {
	for kind, rows := range chunk.Types() {
		all = append(all, c.load(kind, rows, chunk.Held(kind)))
	}
	return all
}

// load copies the features of some rows of a vertex type, which kind numbers. places nil is all rows.
func (c *Config) load(kind int, rows *autograd.RowSet, places []int32) *features {
	team := c.Team
	v := &c.Share.Types[kind]
	l := loader{
		team: team, share: c.Share, values: v, places: places,
		normalize: c.NormalizeFeatures == "row",
		labels:    c.labelsOf(v), features: v.FeatureColumns(),
	}
	l.columns = l.features
	if c.Standard != nil {
		l.standard = c.Standard[kind]
	}
	if l.labels != nil {
		l.columns += c.LabelColumns
	}
	f := &features{rows: rows, varying: c.variesInput()}
	if !l.values.Features.Sparse() {
		f.dense = team.Memory.NewElement(tensor.Features, team.Storage, rows.Here, l.columns)
		l.fill(f.dense, func(i int) int { return i * l.columns })
		f.labels = c.findLabels(f, &l)
		return f
	}
	entries := l.entries()
	a := &kernel.CSR{
		Rows: rows.Here, Cols: l.columns,
		Indptr:  team.Memory.NewElement(tensor.Features, tensor.Int64, 1, rows.Here+1),
		Indices: team.Memory.NewElement(tensor.Features, tensor.Int32, 1, entries),
		Values:  team.Memory.New(tensor.Features, 1, entries),
	}
	l.fillStructure(a)
	indptr := a.Indptr.Int64s()
	l.fill(a.Values, func(i int) int { return int(indptr[i]) })
	f.sparse = &autograd.Sparse{Rows: a, Columns: team.Transpose(a, tensor.Features)}
	f.labels = c.findLabels(f, &l)
	return f
}

// loader copies from a share, whose files are mapped.
type loader struct {
	team      *kernel.Team
	share     *partition.Share
	values    *partition.Values
	places    []int32 // the rows to copy; nil: all
	normalize bool    // each row is divided by its sum
	standard  *Standard
	labels    *labels // which follow the features; nil: none
	features  int     // columns of the features
	columns   int     // columns of the features and the labels
	row       []int32 // room for the labels of one row
}

// Standard is how the columns of a vertex type's features are standardised: x becomes (x − mean)/deviation.
type Standard struct{ Means, Deviations []float32 }

// scaled is the standardised value of a column. A nil Standard changes nothing.
func (s *Standard) scaled(x float32, column int) float32 {
	if s == nil {
		return x
	}
	return (x - s.Means[column]) / s.Deviations[column]
}

// count is the number of rows to copy.
func (l *loader) count() int {
	if l.places == nil {
		return l.values.Count
	}
	return len(l.places)
}

// rowOf is the i-th row to copy.
func (l *loader) rowOf(i int) int {
	if l.places == nil {
		return i
	}
	return int(l.places[i])
}

// each calls f for each row to copy.
func (l *loader) each(f func(row int)) {
	for i := range l.count() {
		f(l.rowOf(i))
	}
}

// scale is the factor of a row's features: with normalize, 1 / their sum. If the sum is 0 they stay as they
// are.
func (l *loader) scale(row []float32) float32 {
	if !l.normalize {
		return 1
	}
	sum := 0.0
	for _, x := range row {
		sum += float64(x)
	}
	if s := float32(1 / sum); !math.IsInf(float64(s), 0) {
		return s
	}
	return 1
}

// entries is the number of values of sparse features and their labels.
func (l *loader) entries() (n int) {
	if l.places == nil && l.labels == nil {
		return len(l.values.Features.Indices)
	}
	l.each(func(row int) {
		n += int(l.values.Features.Indptr[row+1]-l.values.Features.Indptr[row]) + l.behind(row)
	})
	return n
}

// fillStructure copies the CSR structure of the stored values. In each row the labels follow them.
func (l *loader) fillStructure(a *kernel.CSR) {
	from := &l.values.Features
	indptr := a.Indptr.WriteInt64s()
	indices := a.Indices.WriteInt32s()
	l.team.Serial(func() {
		at := 0
		indptr[0] = 0
		l.each(func(row int) {
			end := indptr[at] +
				int64(copy(indices[indptr[at]:], from.Indices[from.Indptr[row]:from.Indptr[row+1]]))
			l.row = l.labels.columns(l.row[:0], row)
			for _, column := range l.row {
				indices[end] = int32(l.features) + column
				end++
			}
			at++
			indptr[at] = end
		})
	})
}

// unloadEvery is how many values fill copies from a mapped file before it releases the file's pages.
// rowsOfPart is how many rows a thread copies at a time.
const unloadEvery, rowsOfPart = 16 << 20, 256

// fill copies the stored feature values, each row times its scale, or standardised. The values of the i-th
// copied row begin at element begins(i).
func (l *loader) fill(to *tensor.Matrix, begins func(i int) int) {
	l.team.Serial(func() { l.copyRows(to, begins) })
}

func (l *loader) copyRows(to *tensor.Matrix, begins func(i int) int) {
	var floats []float32
	var halves []uint16 // in place of floats, for a BFloat16 matrix
	if to.Element == tensor.BFloat16 {
		halves = to.BFloat16s()
	} else {
		floats = to.WriteFloats()
	}
	if l.labels != nil {
		clear(floats)
		clear(halves)
	}
	for first, end, n := 0, 0, l.count(); first < n; first = end {
		if first > 0 {
			l.share.Unload()
		}
		for end = first + 1; end < n && begins(end)-begins(first) < unloadEvery; end++ {
		}
		l.team.Parallel((end-first+rowsOfPart-1)/rowsOfPart, func(part int) {
			var room []float32
			for i := first + part*rowsOfPart; i < min(first+(part+1)*rowsOfPart, end); i++ {
				from := l.values.FeatureRow(room, l.rowOf(i))
				if l.values.Arrangement != nil {
					room = from
				}
				if halves != nil {
					l.halves(halves[begins(i):], from)
				} else {
					l.floats(floats[begins(i):], from)
				}
			}
		})
	}
}

// floats copies the values of a row.
func (l *loader) floats(to, from []float32) {
	switch s := l.scale(from); {
	case l.standard != nil:
		for k, x := range from {
			to[k] = s * l.standard.scaled(x, k)
		}
	case s != 1:
		for k, x := range from {
			to[k] = s * x
		}
	default:
		copy(to, from)
	}
}

// halves is floats, rounded to bfloat16s.
func (l *loader) halves(to []uint16, from []float32) {
	s := l.scale(from)
	for k, x := range from {
		to[k] = tensor.RoundBFloat16(s * l.standard.scaled(x, k))
	}
}

// behind is the number of labels behind the sparse features of a row. Their values are 0 until show.
func (l *loader) behind(row int) int {
	if l.labels == nil {
		return 0
	}
	l.row = l.labels.columns(l.row[:0], row)
	return len(l.row)
}
