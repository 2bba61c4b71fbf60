package edges

import (
	"math"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
)

// EdgeData says what is copied of a relation in addition to its edges and their weights.
type EdgeData bool

// WithFeatures copies the features of the edges, if the relation has any. They are stored with the edges'
// destinations, so that they never travel. WithoutFeatures leaves them out.
const (
	WithFeatures    EdgeData = false
	WithoutFeatures EdgeData = true
)

// features allocates the features of so many edges of the relation; nil if they are not copied.
func (d EdgeData) features(team *kernel.Team, r *graph.Relation, edges int) *tensor.Matrix {
	if d == WithoutFeatures || r.Features.Columns == 0 {
		return nil
	}
	return team.Memory.NewCommon(tensor.Features, team.Storage, edges, r.Features.Columns)
}

// copyFeatures returns a function that writes the features of edge k of the relation to a row.
func copyFeatures(to *tensor.Matrix, r *graph.Relation) func(row int, k int64) {
	write, columns := to.Writer(), r.Features.Columns
	return func(row int, k int64) { write(row*columns, r.Features.Dense[int(k)*columns:][:columns]) }
}

// FeatureRows returns, for each entry of Out, the row of its features in Features: Int32, 1 × entries. It is
// made at its first use. Parallel edges have the same order in both matrices.
func (b *Block) FeatureRows(team *kernel.Team) (*tensor.Matrix, error) {
	if b.featureRows != nil {
		return b.featureRows, nil
	}
	entries := b.Out.Indices.Len()
	if entries > math.MaxInt32 {
		return nil, refusal.Errorf("attention of %d edges with features between two partitions, and %d are "+
			"possible; take more partitions", entries, math.MaxInt32)
	}
	b.featureRows = team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, entries)
	b.listFeatureRows(team)
	team.Memory.SetAllReadOnly(tensor.Graph)
	return b.featureRows, nil
}

// listFeatureRows fills the list, if there is one, from the entries.
func (b *Block) listFeatureRows(team *kernel.Team) {
	if b.featureRows == nil {
		return
	}
	b.featureRows.SetWritable()
	columns := b.In.Indices.ReadInt32s()
	indptr := b.Out.Indptr.ReadInt64s()
	rows := b.featureRows.WriteInt32s()
	team.Serial(func() {
		next := slices.Clone(indptr)
		for k, column := range columns[:indptr[len(indptr)-1]] {
			rows[next[column]] = int32(k)
			next[column]++
		}
	})
}

// featuresOfLoops returns the features of the entries of loopMatrix. An added loop has the mean of the
// features of the edges into its vertex, without stored loops, and zeros if there are none. This is PyG's
// fill_value "mean", as in its attention layers.
func (e *Edges) featuresOfLoops(loops gnn.Loops) *tensor.Matrix {
	switch {
	case loops == gnn.OnlyLoops || loops == gnn.LastLoops && e.loopFeatures == nil:
		return e.loopFeatures
	case loops == gnn.LastLoops:
		return e.featuresOfLast()
	case e.Local().Features == nil:
		return nil
	}
	team := e.team
	columns := e.Local().Features.Cols
	m := team.Memory.NewElement(tensor.Features, team.Storage, e.Rows, columns)
	e.made = append(e.made, m)
	sums := make([]float64, e.Rows*columns)
	degrees := make([]int64, e.Rows)
	for _, b := range e.Blocks {
		indptr := b.In.Indptr.ReadInt64s()
		target := entriesOf(b.Targets)
		read, features := b.Features.Reader(), make([]float32, columns)
		for i := 0; i+1 < len(indptr); i++ {
			v := target(i)
			degrees[v] += indptr[i+1] - indptr[i]
			for k := indptr[i]; k < indptr[i+1]; k++ {
				read(int(k)*columns, features)
				for c, x := range features {
					sums[v*columns+c] += float64(x)
				}
			}
		}
	}
	team.Serial(func() {
		write, mean := m.Writer(), make([]float32, columns)
		for v, n := range degrees {
			for c := range mean {
				mean[c] = float32(sums[v*columns+c] * inverse(float64(n)))
			}
			write(v*columns, mean)
		}
	})
	return m
}

// featuresOfLast returns the features of each vertex's last stored loop.
func (e *Edges) featuresOfLast() *tensor.Matrix {
	all := e.loopFeatures
	m := e.team.Memory.NewElement(tensor.Features, all.Element, all.Rows, all.Cols)
	e.made = append(e.made, m)
	count := e.loopCounts()
	e.team.Serial(func() {
		read, write, row := all.Reader(), m.Writer(), make([]float32, all.Cols)
		for v, at, to := 0, 0, 0; v < e.Rows; v++ {
			if at += count(v); count(v) > 0 {
				read((at-1)*all.Cols, row)
				write(to*all.Cols, row)
				to++
			}
		}
	})
	return m
}
