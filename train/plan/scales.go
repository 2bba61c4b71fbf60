package plan

import (
	"math"
	"slices"
	"strconv"

	"weft/graph/columns"
	"weft/partition"
	"weft/train/setting"
	"weft/train/worker"
)

// Scales are the columns with the smallest and the largest standard deviation, in a sample of a vertex type's
// dense features. Constant columns do not count.
type Scales struct {
	Type        string // the vertex type; empty: there is one
	Least, Most Scale
}

// Scale is the standard deviation of a column.
type Scale struct {
	Column    int
	Deviation float64
}

// apart is the ratio of two columns' deviations above which a model hardly learns from both.
const apart = 100

// differing are the scales of the first vertex type of a share whose columns differ by more than apart. It is
// nil if there is none, and if the settings or a table say how features are scaled.
func differing(w *worker.Worker, share *partition.Share) *Scales {
	if w.NormalizeFeatures != setting.AutoFeatures || w.Groups.World.Rank() > 0 {
		return nil
	}
	types := share.Whole.Types
	for kind, t := range types {
		if t.Columns != nil || t.FeatureValues > 0 {
			continue
		}
		s := scalesOf(&share.Types[kind])
		if len(types) > 1 {
			s.Type = t.Type
		}
		if s.Most.Deviation > apart*s.Least.Deviation {
			return &s
		}
	}
	return nil
}

// EdgeSize is the root mean square of a column of the features of a relation's edges.
type EdgeSize struct {
	Type   string // the relation; empty: there is one
	Column string // its name, or its number where a worker has no names
	Size   float64
	Dates  bool // it counts days since 1970
}

// largeEdges is the largest column of edge features whose root mean square is above apart, in the first
// relation that has one. It is nil if there is none, and if no layer reads the features as they are. A date
// counts days since 1970, and may hardly vary.
func largeEdges(w *worker.Worker, share *partition.Share) *EdgeSize {
	if w.OwnModel != nil || !w.UsesEdgeFeatures() || w.Groups.World.Rank() > 0 {
		return nil
	}
	relations := share.Edges.Relations
	for i := range relations {
		in := &relations[i].In
		if in.Features.Columns == 0 || len(in.Features.Dense) == 0 {
			continue
		}
		squares := make([]float64, in.Features.Columns)
		for k, x := range in.Features.Dense {
			squares[k%in.Features.Columns] += float64(x) * float64(x)
		}
		most := 0
		for k := range squares {
			if squares[k] > squares[most] {
				most = k
			}
		}
		size := math.Sqrt(squares[most] / float64(len(in.Features.Dense)/in.Features.Columns))
		if size <= apart {
			continue
		}
		edgeSize := EdgeSize{Column: strconv.Itoa(most), Size: size}
		names := in.NumberColumns.Features()
		if at := len(names) - in.Features.Columns + most; at >= most { // behind the column of weights
			edgeSize.Column = names[at]
			edgeSize.Dates = slices.ContainsFunc(in.NumberColumns, func(c columns.Column) bool {
				return c.Name == edgeSize.Column && c.Kind == columns.Date && c.Offset == 0
			})
		}
		if len(relations) > 1 {
			edgeSize.Type = relations[i].Name
		}
		return &edgeSize
	}
	return nil
}

// scalesOf are the scales of dense features, in a sample of them.
func scalesOf(v *partition.Values) (s Scales) {
	const values, rows = 1 << 20, 4096
	columns := v.Features.Columns
	step := 1 + v.Count/max(1, min(rows, values/max(1, columns)))
	each := func(f func(row []float32)) (n float64) {
		for row := 0; row < v.Count; row += step {
			f(v.Features.Row(row))
			n++
		}
		return n
	}
	sums := make([]float64, columns)
	squares := make([]float64, columns)
	constant := make([]bool, columns)
	var first []float32
	n := each(func(row []float32) {
		if first == nil {
			first = row
		}
		for k, x := range row {
			sums[k] += float64(x)
		}
	})
	for k := range constant {
		constant[k] = true
	}
	each(func(row []float32) {
		for k, x := range row {
			squares[k] += (float64(x) - sums[k]/n) * (float64(x) - sums[k]/n)
			constant[k] = constant[k] && x == first[k]
		}
	})
	for k := range squares {
		if constant[k] {
			continue
		}
		scale := Scale{k, math.Sqrt(squares[k] / n)}
		if s.Most == (Scale{}) || scale.Deviation < s.Least.Deviation {
			s.Least = scale
		}
		if scale.Deviation > s.Most.Deviation {
			s.Most = scale
		}
	}
	return s
}
