package graph

import (
	"path/filepath"
)

// Summary describes a graph in numbers.
type Summary struct {
	Provenance string `json:"provenance"`
	Vertices   int    `json:"vertices"` // vertices of all types, as for all numbers here that name no type
	// Edges are the stored directed edges of all relations, with self loops and duplicates.
	Edges int64 `json:"edges"`
	// Graphs is how many graphs are stored as one; 0: one.
	Graphs int `json:"graphs,omitempty"`
	// Types and Relations describe a graph with several. Features, classes, splits and unlabelled vertices
	// are then those of the first type.
	Types     []TypeSummary     `json:"types,omitempty"`
	Relations []RelationSummary `json:"relations,omitempty"`

	InDegree       Degrees `json:"in_degree"`
	OutDegree      Degrees `json:"out_degree"`
	Isolated       int     `json:"isolated_vertices"` // without in- and out-edges
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
	// ValueColumns is the number of values to predict for each vertex, where labels are values.
	ValueColumns int `json:"value_columns,omitempty"`
	Unlabelled   int `json:"unlabelled_vertices"`

	// Arrays are the names of arrays that no model reads. In a graph of several types a name includes its
	// folder.
	Arrays []string     `json:"arrays,omitempty"`
	Metric string       `json:"metric"`
	Splits []SplitSizes `json:"splits"`
	// EdgeSplits are the edge splits of the relations that have some.
	EdgeSplits []EdgeSplitSummary `json:"edge_splits,omitempty"`
	// Frames describe the labelled edges of each relation that has some.
	Frames []FrameSummary `json:"edge_labels,omitempty"`
}

// FrameSummary is the labels of the edges of a relation.
type FrameSummary struct {
	Relation     string       `json:"relation"` // SOURCE__NAME__TARGET
	Column       string       `json:"column"`
	Classes      int          `json:"classes"`
	MultiLabel   bool         `json:"multi_label,omitempty"`
	ClassNames   []string     `json:"class_names,omitempty"`
	ValueColumns int          `json:"value_columns,omitempty"` // of values to predict
	Labelled     int          `json:"labelled_edges"`
	Splits       []SplitSizes `json:"splits"`
}

// EdgeSplitSummary is the edge split of a relation.
type EdgeSplitSummary struct {
	Relation string `json:"relation"` // SOURCE__NAME__TARGET
	SplitSizes
	Negatives NegativeForm `json:"negatives,omitempty"`
	// of all edges together, or of each edge: see NegativeForm
	ValNegatives  int `json:"val_negatives,omitempty"`
	TestNegatives int `json:"test_negatives,omitempty"`
}

// TypeSummary is one vertex type of several.
type TypeSummary struct {
	Type           string `json:"type"`
	Vertices       int    `json:"vertices"`
	FeatureColumns int    `json:"features"`
	SparseFeatures bool   `json:"sparse_features"`
	Named          bool   `json:"named"` // its vertices have names
}

// RelationSummary is one relation of several.
type RelationSummary struct {
	Source             string  `json:"source"`
	Name               string  `json:"name"`
	Target             string  `json:"target"`
	Edges              int64   `json:"edges"`
	InDegree           Degrees `json:"in_degree"`  // of the vertices of the target's type
	OutDegree          Degrees `json:"out_degree"` // of the vertices of the source's type
	SelfLoops          int64   `json:"self_loops"`
	DuplicateEdges     int64   `json:"duplicate_edges"`
	Weighted           bool    `json:"weighted"`
	EdgeFeatureColumns int     `json:"edge_features"`
}

// Degrees summarises the degrees of all vertices; all zero for a graph without vertices.
type Degrees struct {
	Min  int64   `json:"min"`
	Mean float64 `json:"mean"`
	Max  int64   `json:"max"`
}

// SplitSizes are the numbers of vertices, or of edges, in a split.
type SplitSizes struct {
	Train int `json:"train"`
	Val   int `json:"val"`
	Test  int `json:"test"`
}

func (s SplitSizes) sizes() [3]int { return [3]int{s.Train, s.Val, s.Test} }

// SizesOf returns the sizes of splits.
func SizesOf(splits []Split) (all []SplitSizes) {
	for _, s := range splits {
		all = append(all, SplitSizes{len(s.Train), len(s.Val), len(s.Test)})
	}
	return all
}

// Summarize counts. It takes time in proportion to the arrays and 48 bytes per vertex. The graph must pass
// Check. A mapped file that is cut meanwhile is an error, as for Guard.
func (g *Graph) Summarize(progress Progress) (s Summary, err error) {
	err = g.Guard(func() error {
		s, err = g.summarize(progress)
		return err
	})
	return s, err
}

func (g *Graph) summarize(progress Progress) (Summary, error) {
	s := Summary{
		Provenance: g.Provenance, Metric: g.Metric, Vertices: g.Vertices(), Edges: g.Edges(),
		Graphs: g.Graphs, Symmetric: true,
		FeatureColumns: g.Types[0].Features.Columns, SparseFeatures: g.Types[0].Features.Sparse(),
		FeatureDensity: g.Types[0].Features.density(g.Types[0].Count),
		Classes:        g.Types[0].Labels.Classes, MultiLabel: g.Types[0].Labels.MultiLabel(),
		ClassNames:   g.Types[0].Labels.Names,
		ValueColumns: g.Types[0].Labels.Columns,
		Splits:       []SplitSizes{},
	}
	in, out := make([]int64, s.Vertices), make([]int64, s.Vertices)
	types := g.Types
	first := g.FirstIDs()
	told := int64(0)
	for i := range g.Relations {
		r := &g.Relations[i]
		from, to, _ := g.Joins(r) // a graph that passes Check has them
		summary := RelationSummary{
			Edges: int64(len(r.Sources)), Weighted: r.Weights != nil,
			EdgeFeatureColumns: r.Features.Columns,
		}
		summary.Source, summary.Name, summary.Target = r.Ends()
		counted := func(edges int64) { progress.Report("counting edges", told+edges, s.Edges) }
		c, err := g.count(r, from == to, types[from].Count, counted)
		if err != nil {
			return s, err
		}
		told += summary.Edges
		if split := r.EdgeSplit; split != nil {
			s.EdgeSplits = append(s.EdgeSplits, EdgeSplitSummary{
				r.FullName(),
				SplitSizes{split.Count(0), split.Count(1), split.Count(2)},
				split.Negatives,
				split.Given(1), split.Given(2),
			})
		}
		if l := &r.Frame; l.HasLabels() {
			s.Frames = append(s.Frames, FrameSummary{
				r.FullName(), l.Labels.Column, l.Labels.Classes, l.Labels.MultiLabel(), l.Labels.Names,
				l.Labels.Columns, l.CountLabelled(), SizesOf(l.Splits),
			})
		}
		summary.SelfLoops, summary.DuplicateEdges = c.loops, c.duplicates
		s.Symmetric = s.Symmetric && c.symmetric
		s.SelfLoops += summary.SelfLoops
		s.DuplicateEdges += summary.DuplicateEdges
		s.Weighted = s.Weighted || summary.Weighted
		s.EdgeFeatureColumns = max(s.EdgeFeatureColumns, summary.EdgeFeatureColumns)
		if g.Typed() {
			summary.InDegree = degrees(r.rows(), func(v int) int64 { return r.Indptr[v+1] - r.Indptr[v] })
			summary.OutDegree = degrees(types[from].Count, func(u int) int64 { return c.outDegree[u] })
			s.Relations = append(s.Relations, summary)
		}
		for v := range r.rows() {
			in[first[to]+v] += r.Indptr[v+1] - r.Indptr[v]
		}
		for u, n := range c.outDegree {
			out[first[from]+u] += n
		}
	}
	s.InDegree = degrees(s.Vertices, func(v int) int64 { return in[v] })
	s.OutDegree = degrees(s.Vertices, func(v int) int64 { return out[v] })
	for v := range s.Vertices {
		if out[v] == 0 && in[v] == 0 {
			s.Isolated++
		}
	}
	for _, t := range types {
		for _, a := range t.Arrays {
			s.Arrays = append(s.Arrays, filepath.Join(g.layout().vertices(t.Name()), a.Name))
		}
	}
	if g.Typed() {
		for _, t := range types {
			s.Types = append(s.Types,
				TypeSummary{t.Name(), t.Count, t.Features.Columns, t.Features.Sparse(), t.Names != nil})
		}
	}
	s.ClassCounts, s.Unlabelled = g.Types[0].Labels.count(g.Types[0].Count)
	s.Splits = append(s.Splits, SizesOf(g.Types[0].Splits)...)
	return s, nil
}

func degrees(vertices int, count func(v int) int64) Degrees {
	if vertices == 0 {
		return Degrees{}
	}
	d := Degrees{Min: count(0)}
	sum := int64(0)
	for v := range vertices {
		degree := count(v)
		d.Min, d.Max = min(d.Min, degree), max(d.Max, degree)
		sum += degree
	}
	d.Mean = float64(sum) / float64(vertices)
	return d
}

// density returns the fraction of values that are not zero, 0 where there are none.
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
		if !l.Labelled(int64(v)) {
			unlabelled++
		} else if l.Class != nil {
			counts[l.Class[v]]++
		} else if l.MultiLabel() {
			for c, x := range l.Multi[v*l.Classes : (v+1)*l.Classes] {
				if x == 1 {
					counts[c]++
				}
			}
		}
	}
	return counts, unlabelled
}
