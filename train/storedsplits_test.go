package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/task"
)

// benchmarked is a directed graph of two relations, each with a split of edges of its own, as a benchmark
// gives it. Lists have edges several times. Some edges are in two parts, and there are self loops.
func benchmarked(t *testing.T, form graph.NegativeForm) *graph.Graph {
	t.Helper()
	g := tangled(t)
	g.Types[0].Type = "a"
	second := g.Relations[0]
	for i, name := range []string{"x", "y"} {
		r := second
		r.Source, r.Name, r.Target = "a", name, "a"
		random := rand.New(rand.NewPCG(4, uint64(i)))
		ids := func(n int) (list []int32) {
			for range n {
				list = append(list, int32(random.IntN(g.Types[0].Count)))
			}
			return list
		}
		s := &graph.EdgeSplit{Negatives: form}
		for part, n := range []int{150, 31 + i, 47} {
			s.Edges[part] = ids(2 * n)
			if part == 0 {
				continue
			}
			// edges of two parts, the last twice in this one
			s.Edges[part] = append(s.Edges[part], s.Edges[0][:6]...)
			s.Edges[part] = append(s.Edges[part], s.Edges[0][4:6]...)
			switch form {
			case graph.SharedNegatives:
				s.Negative[part] = ids(2 * (60 + i))
			case graph.TargetNegatives:
				s.Negative[part] = ids(5 * s.Count(part))
			}
		}
		r.EdgeSplit = s
		g.Relations = append(g.Relations[:i], r)
	}
	require.NoError(t, g.Check())
	return g
}

// asOGB compares the metrics of a run beside a stored split with those of OGB's formulas. first is the row of
// the first vertex of each type.
func asOGB(t *testing.T, g *graph.Graph, r *Result, o *Options, first map[string]int32) {
	t.Helper()
	for part, got := range map[int]map[string]metric.Number{1: r.Links.Val, 2: r.Links.Test} {
		want := byDefinition(g, r.Logits, o.OutFeatures, r.Weights["decoder.weight"].Float32, part, first)
		assert.Len(t, got, len(want), "part %d, want %v", part, want)
		for name, x := range want {
			assert.Near(t, x, float64(got[name]), 1e-9, "part %d: %s", part, name)
		}
	}
}

// byDefinition are the metrics of a part by the formulas of OGB's evaluator (ogb/linkproppred/evaluate.py),
// in double precision, from the embeddings of all vertices.
func byDefinition(g *graph.Graph, h []float32, columns int, weights []float32, part int,
	first map[string]int32,
) map[string]float64 {
	var relations []*graph.Relation
	for i := range g.Relations {
		if g.Relations[i].EdgeSplit != nil {
			relations = append(relations, &g.Relations[i])
		}
	}
	score := func(relation int, u, v int32) (s float64) {
		source, _, target := relations[relation].Ends()
		u, v = u+first[source], v+first[target]
		for c := range columns {
			w := 1.
			if weights != nil {
				w = float64(weights[relation*columns+c])
			}
			s += float64(h[int(u)*columns+c]) * w * float64(h[int(v)*columns+c])
		}
		return s
	}
	want := map[string]float64{}
	var positive, negative []float64
	for i, r := range relations {
		s := r.EdgeSplit
		for k := range s.Count(part) {
			u, v := s.Edges[part][2*k], s.Edges[part][2*k+1]
			p := score(i, u, v)
			positive = append(positive, p)
			if s.Negatives != graph.TargetNegatives {
				continue
			}
			optimistic, pessimistic := 0., 0.
			for _, other := range s.Negative[part][5*k : 5*k+5] {
				if n := score(i, u, other); n > p && other != v {
					optimistic++
					pessimistic++
				} else if other == v || n == p {
					pessimistic++
				}
			}
			rank := (optimistic+pessimistic)/2 + 1
			want["mrr"] += 1 / rank
			for _, at := range []float64{1, 3, 10} {
				if rank <= at {
					want[fmt.Sprint("hits@", at)]++
				}
			}
		}
		if s.Negatives == graph.SharedNegatives {
			for k := range s.Given(part) {
				negative = append(negative, score(i, s.Negative[part][2*k], s.Negative[part][2*k+1]))
			}
		}
	}
	slices.Sort(negative)
	if len(negative) > 0 {
		for _, k := range []int{10, 20, 50, 100} {
			for _, p := range positive {
				if p > negative[len(negative)-k] {
					want[fmt.Sprint("hits@", k)]++
				}
			}
		}
		for _, p := range positive {
			for _, n := range negative {
				if p > n {
					want["roc-auc"] += 1 / float64(len(negative))
				} else if p == n {
					want["roc-auc"] += .5 / float64(len(negative))
				}
			}
		}
	}
	for name := range want {
		want[name] /= float64(len(positive))
	}
	return want
}

// splitShop is the shop with stored splits of two relations between several types.
func splitShop(t *testing.T, form graph.NegativeForm) *graph.Graph {
	t.Helper()
	g, _, _, _ := shop(t, 1)
	for i, counts := range map[int][2]int{0: {90, 70}, 1: {70, 30}} {
		random := rand.New(rand.NewPCG(5, uint64(i)))
		id := func(end int) int32 { return int32(random.IntN(counts[end])) }
		s := &graph.EdgeSplit{Negatives: form}
		for part, n := range []int{120, 40, 60} {
			for range n {
				s.Edges[part] = append(s.Edges[part], id(0), id(1))
			}
			for range n * 5 * min(part, 1) {
				if form == graph.SharedNegatives {
					s.Negative[part] = append(s.Negative[part], id(0))
				}
				s.Negative[part] = append(s.Negative[part], id(1))
			}
		}
		g.Relations[i].EdgeSplit = s
	}
	require.NoError(t, g.Check())
	return g
}

// addTypes adds a type of so many vertices, and a relation to it.
func addTypes(t *testing.T, g *graph.Graph, vertices int, split *graph.EdgeSplit) {
	t.Helper()
	other, err := graph.NewBipartite(g.Types[0].Count, vertices,
		graph.Edges{Source: []int32{1, 2, 3}, Target: make([]int32, 3)})
	require.NoError(t, err)
	other.Source, other.Name, other.Target, other.EdgeSplit = "a", "z", "b", split
	g.Relations = append(g.Relations, other)
	g.Types = append(g.Types, graph.VertexType{
		Type: "b",
		Frame: graph.Frame{
			Count: vertices, Features: graph.Features{Columns: 1, Dense: make([]float32, vertices)},
		},
	})
}

// TestMeasureLinks: embeddings that a run gave are measured as the run measured them, by the metrics that it
// left out too.
func TestMeasureLinks(t *testing.T) {
	bought, _, _, _ := shop(t, 1)
	for name, c := range map[string]struct {
		g *graph.Graph
		Options
	}{
		"drawn":   {tangled(t), linked("decoder distmult, eval-negatives 50")},
		"area":    {tangled(t), linked("metric roc-auc")},
		"shared":  {benchmarked(t, graph.SharedNegatives), linked("model rgcn")},
		"targets": {benchmarked(t, graph.TargetNegatives), linked("model rgcn, decoder distmult")},
		"between": {withKnows(t, bought), linked("model rgcn, link-relation user,buys,item;item,has,tag, " +
			"eval-negatives 20")},
	} {
		t.Run(name, func(t *testing.T) {
			for _, job := range []*Job{
				{Graph: c.g, Options: c.Options},
				divided(t, c.g, c.Options, 3, nil),
				onMesh(c.g, c.Options, "graph=2,tensor=2"),
			} {
				r := mustRun(t, job)
				alone := &Job{Graph: c.g, Options: c.Options}
				got, err := alone.MeasureLinks(t.Context(), r.Logits, r.Weights)
				require.NoError(t, err)
				assert.Equal(t, r.Links.TrainEdges, got.TrainEdges, "%+v, want %+v", got, r.Links)
				assert.Equal(t, r.Links.ValEdges, got.ValEdges, "%+v, want %+v", got, r.Links)
				assert.Equal(t, r.Links.TestEdges, got.TestEdges, "%+v, want %+v", got, r.Links)
				if n := len(metric.LinkNamesOf(givenOf(c.g))); len(got.Val) != n || len(got.Test) != n {
					t.Errorf("%v, want %d metrics", got, n)
				}
				for _, part := range [][2]map[string]metric.Number{
					{got.Val, r.Links.Val},
					{got.Test, r.Links.Test},
				} {
					for k, want := range part[1] {
						if d := math.Abs(float64(part[0][k] - want)); !(d < 1e-12) {
							t.Errorf("%d workers: %s is %v, want %v", r.Workers, k, part[0][k], want)
						}
					}
				}
				_, err = alone.MeasureLinks(t.Context(), r.Logits[1:], r.Weights)
				assert.Refused(t, err, "", "other vertices")
			}
		})
	}
}

// givenOf is the form of the negative edges of a graph's first relation.
func givenOf(g *graph.Graph) graph.NegativeForm {
	if s := g.Relations[0].EdgeSplit; s != nil {
		return s.Negatives
	}
	return graph.NoNegatives
}

// TestGivenSplitRefuses: what a stored split does not define, and what it makes useless, is refused by name.
func TestGivenSplitRefuses(t *testing.T) {
	for want, c := range map[string]struct {
		form   graph.NegativeForm
		change func(g *graph.Graph, o *Options)
	}{
		"metric mrr: ": {graph.SharedNegatives, func(_ *graph.Graph, o *Options) { o.Metric = metric.MRR }},
		"metric hits@50: ": {
			graph.TargetNegatives, func(_ *graph.Graph, o *Options) { o.Metric = "hits@50" },
		},
		"metric hits@20: ": {graph.NoNegatives, func(_ *graph.Graph, o *Options) { o.Metric = "hits@20" }},
		"eval-negatives 7: ": {
			graph.SharedNegatives, func(_ *graph.Graph, o *Options) { o.EvalNegatives = 7 },
		},
		"link-split 80/10/10": {
			graph.NoNegatives, func(_ *graph.Graph, o *Options) { o.LinkSplit = task.Shares{80, 10, 10} },
		},
		"link-relation a,z,a: the graph has no such relation; did you mean a,x,a?": {
			graph.NoNegatives, func(_ *graph.Graph, o *Options) { o.LinkRelation = "a,z,a" },
		},
		"link-relation a,z,b: the graph's split of edges does not divide it; take a,x,a": {
			graph.NoNegatives,
			func(g *graph.Graph, o *Options) {
				addTypes(t, g, 3, nil)
				o.LinkRelation = "a,z,b"
			},
		},
		"the edges of a,z,b have one target": {graph.NoNegatives, func(g *graph.Graph, _ *Options) {
			addTypes(t, g, 1, &graph.EdgeSplit{Edges: [3][]int32{{1, 0}}})
		}},
	} {
		g, o := benchmarked(t, c.form), linked("model rgcn")
		c.change(g, &o)
		_, err := (&Job{Graph: g, Options: o}).Run(context.Background())
		assert.Refused(t, err, want)
	}
}
