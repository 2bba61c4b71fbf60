package graph

// Summary is what there is to say about a graph in numbers.
type Summary struct {
	Provenance string `json:"provenance"`
	Vertices   int    `json:"vertices"`
	Edges      int64  `json:"edges"` // stored directed edges, with self loops and duplicates

	InDegree       Degrees `json:"in_degree"`
	OutDegree      Degrees `json:"out_degree"`
	Isolated       int     `json:"isolated_vertices"` // neither in- nor out-edges
	SelfLoops      int64   `json:"self_loops"`
	DuplicateEdges int64   `json:"duplicate_edges"` // edges beyond the first between the same two vertices
	// Symmetric says that reversing every edge gives the same edges, each as often as before. Weights are not
	// looked at.
	Symmetric          bool `json:"symmetric"`
	Weighted           bool `json:"weighted"`
	EdgeFeatureColumns int  `json:"edge_features"`

	FeatureColumns int     `json:"features"`
	SparseFeatures bool    `json:"sparse_features"`
	FeatureDensity float64 `json:"feature_density"` // share of the V × columns values that are not zero

	Classes     int      `json:"classes"`
	MultiLabel  bool     `json:"multi_label"`
	ClassNames  []string `json:"class_names,omitempty"`
	ClassCounts []int    `json:"class_counts"` // vertices that carry each class
	Unlabelled  int      `json:"unlabelled_vertices"`

	Metric string       `json:"metric"`
	Splits []SplitSizes `json:"splits"`
}

// Degrees summarises the degrees of all vertices; all zero for a graph without vertices.
type Degrees struct {
	Min  int64   `json:"min"`
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
}

// SplitSizes are the numbers of vertices in a split.
type SplitSizes struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	Test  int `json:"test"`
}

// Summarize counts. It takes time in proportion to the arrays and 16 bytes per vertex. The graph must pass
// Check.
func (g *Graph) Summarize() Summary {
	s := Summary{
		Provenance: g.Provenance, Metric: g.Metric, Vertices: g.Vertices(), Edges: g.Edges(),
		Weighted: g.Relation.Weights != nil, EdgeFeatureColumns: g.Relation.EdgeColumns,
		FeatureColumns: g.Features.Columns, SparseFeatures: g.Features.Sparse(), FeatureDensity: g.Features.density(g.Vertices()),
		Classes: g.Labels.Classes, MultiLabel: g.Labels.MultiLabel(), ClassNames: g.Labels.Names,
		Splits: []SplitSizes{},
	}
	g.Relation.summarize(&s)
	s.ClassCounts, s.Unlabelled = g.Labels.count(s.Vertices)
	for _, split := range g.Splits {
		s.Splits = append(s.Splits, SplitSizes{len(split.Train), len(split.Val), len(split.Test)})
	}
	return s
}

func (r *Relation) summarize(s *Summary) {
	out := make([]int64, s.Vertices)
	// next[u] is the first of u's in-edges that no reversed edge has been matched with. As v ascends below,
	// the reverses of the edges u→v ask for u's in-neighbours in ascending order, which is the order they are
	// stored in.
	next := append([]int64{}, r.Indptr[:s.Vertices]...)
	s.Symmetric = true
	s.DuplicateEdges = r.duplicates()
	for v := range s.Vertices {
		row := r.Sources[r.Indptr[v]:r.Indptr[v+1]]
		for _, u := range row {
			out[u]++
			if int(u) == v {
				s.SelfLoops++
			}
			if at := next[u]; at < r.Indptr[u+1] && int(r.Sources[at]) == v {
				next[u]++
			} else {
				s.Symmetric = false
			}
		}
	}
	in := func(v int) int64 { return r.Indptr[v+1] - r.Indptr[v] }
	s.InDegree = degrees(s.Vertices, in)
	s.OutDegree = degrees(s.Vertices, func(v int) int64 { return out[v] })
	for v := range s.Vertices {
		if out[v] == 0 && in(v) == 0 {
			s.Isolated++
		}
	}
}

func degrees(vertices int, of func(v int) int64) Degrees {
	if vertices == 0 {
		return Degrees{}
	}
	d, sum := Degrees{Min: of(0)}, int64(0)
	for v := range vertices {
		degree := of(v)
		d.Min, d.Max = min(d.Min, degree), max(d.Max, degree)
		sum += degree
	}
	d.Mean = float64(sum) / float64(vertices)
	return d
}

// density is the share of values that are not zero, 0 where there are none.
func (f *Features) density(vertices int) float64 {
	values := f.Dense
	if f.Sparse() {
		values = f.Data
	}
	filled := 0
	for _, x := range values {
		if x != 0 {
			filled++
		}
	}
	if filled == 0 {
		return 0
	}
	return float64(filled) / (float64(vertices) * float64(f.Columns))
}

// count returns how many vertices carry each class, and how many carry no label.
func (l *Labels) count(vertices int) (counts []int, unlabelled int) {
	counts = make([]int, l.Classes)
	for v := range vertices {
		if !l.labelled(int64(v)) {
			unlabelled++
		} else if l.Class != nil {
			counts[l.Class[v]]++
		} else {
			for c, x := range l.Multi[v*l.Classes : (v+1)*l.Classes] {
				counts[c] += int(x)
			}
		}
	}
	return counts, unlabelled
}
