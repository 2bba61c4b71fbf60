package partition

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/graph"
	"weft/graph/graphtest"
	"weft/internal/require"
)

// kind says which optional parts a graph for tests has.
type kind struct {
	weights, edgeFeatures, sparse, multi bool
	splits                               int
}

// kinds have every optional part in some form.
var kinds = map[string]kind{
	"bare":   {},
	"dense":  {weights: true, edgeFeatures: true, splits: 1},
	"sparse": {sparse: true, multi: true, splits: 3},
	"plain":  {splits: 2},
}

// made is a directed graph with self loops, duplicate edges and isolated vertices.
func made(t testing.TB, vertices, edges int, k kind, seed uint64) *graph.Graph {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var e graph.Edges
	linked := max(vertices*4/5, 1) // the others are isolated
	for i := range edges {
		u, v := r.IntN(linked), r.IntN(linked)
		if i%7 == 0 {
			v = u
		}
		for range 1 + i%5/4 {
			e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32(v))
		}
	}
	if k.weights {
		for range e.Source {
			e.Weights = append(e.Weights, r.Float32())
		}
	}
	if k.edgeFeatures {
		e.FeatureColumns = 2
		for range 2 * len(e.Source) {
			e.Features = append(e.Features, r.Float32())
		}
	}
	relation, err := graph.NewRelation(vertices, e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types:     []graph.VertexType{{Frame: graph.Frame{Count: len(relation.Indptr) - 1}}},
		Relations: []graph.Relation{relation},
		Metric:    "macro-f1", Provenance: "made for a test",
	}
	g.Types[0].Features = features(r, vertices, k.sparse)
	g.Types[0].Labels = labels(r, vertices, k.multi)
	for range k.splits {
		var s graph.Split
		for v := range vertices {
			part := s.Parts()[r.IntN(3)]
			if v%4 != 3 { // these have no label
				*part = append(*part, int64(v))
			}
		}
		g.Types[0].Splits = append(g.Types[0].Splits, s)
	}
	require.NoError(t, g.Check())
	return g
}

func features(r *rand.Rand, vertices int, sparse bool) graph.Features {
	f := graph.Features{Columns: 5}
	if !sparse {
		f.Dense = make([]float32, 5*vertices)
		for k := range f.Dense {
			f.Dense[k] = r.Float32()
		}
		return f
	}
	f.Indptr = []int64{0}
	for range vertices {
		for c := range int32(5) {
			if r.IntN(3) == 0 {
				f.Indices, f.Data = append(f.Indices, c), append(f.Data, r.Float32())
			}
		}
		f.Indptr = append(f.Indptr, int64(len(f.Indices)))
	}
	return f
}

// labels leave every fourth vertex without one.
func labels(r *rand.Rand, vertices int, multi bool) graph.Labels {
	l := graph.Labels{Classes: 3, Names: []string{"a", "b", "c"}}
	for v := range vertices {
		switch {
		case multi && v%4 == 3:
			nan := float32(math.NaN())
			l.Multi = append(l.Multi, nan, nan, nan)
		case multi:
			l.Multi = append(l.Multi, float32(r.IntN(2)), float32(r.IntN(2)), float32(r.IntN(2)))
		case v%4 == 3:
			l.Class = append(l.Class, -1)
		default:
			l.Class = append(l.Class, int64(r.IntN(3)))
		}
	}
	return l
}

// joined combines the shares into the graph again.
func joined(t *testing.T, shares []*Share) *graph.Graph {
	t.Helper()
	var ids []int32 // by position
	for _, s := range shares {
		ids = append(ids, s.Types[0].IDs...)
	}
	stacked := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count: len(ids), Features: graph.Features{Columns: shares[0].Whole.Types[0].FeatureColumns},
				Labels: graph.Labels{
					Classes: shares[0].Whole.Classes, Names: shares[0].Types[0].Labels.Names,
				},
				Splits: make([]graph.Split, len(shares[0].Whole.Splits)),
			},
		}},
		Relations: []graph.Relation{
			{
				Indptr: []int64{0},
				Frame: graph.Frame{
					Features: graph.Features{Columns: shares[0].Edges.Relations[0].In.Features.Columns},
				},
			},
		},
		Metric:     shares[0].Whole.Metric,
		Provenance: shares[0].Whole.Provenance,
	}
	if shares[0].Types[0].Features.Sparse() {
		stacked.Types[0].Features.Indptr = []int64{0}
	}
	for _, s := range shares {
		stack(stacked, s)
	}
	for k := range stacked.Types[0].Splits {
		for _, part := range stacked.Types[0].Splits[k].Parts() {
			slices.Sort(*part)
		}
	}
	return graphtest.Permuted(t, stacked, ids)
}

func stack(g *graph.Graph, s *Share) {
	in, from := &s.Edges.Relations[0].In, &s.Types[0]
	g.Relations[0].Indptr = appendIndptr(g.Relations[0].Indptr, in.Indptr)
	g.Relations[0].Sources = append(g.Relations[0].Sources, in.Sources...)
	g.Relations[0].Weights = append(g.Relations[0].Weights, in.Weights...)
	g.Relations[0].Features.Dense = append(g.Relations[0].Features.Dense, in.Features.Dense...)
	g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, from.Features.Dense...)
	if g.Types[0].Features.Sparse() {
		g.Types[0].Features.Indptr = appendIndptr(g.Types[0].Features.Indptr, from.Features.Indptr)
		g.Types[0].Features.Indices = append(g.Types[0].Features.Indices, from.Features.Indices...)
		g.Types[0].Features.Data = append(g.Types[0].Features.Data, from.Features.Data...)
	}
	g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, from.Labels.Class...)
	g.Types[0].Labels.Multi = append(g.Types[0].Labels.Multi, from.Labels.Multi...)
	for k := range g.Types[0].Splits {
		all := g.Types[0].Splits[k].Parts()
		for i, part := range from.Splits[k].Parts() {
			for _, row := range *part {
				*all[i] = append(*all[i], int64(s.Edges.Types[0].Starts[s.Edges.P])+row)
			}
		}
	}
}

func appendIndptr(all, more []int64) []int64 {
	end := all[len(all)-1]
	for _, at := range more[1:] {
		all = append(all, end+at)
	}
	return all
}
