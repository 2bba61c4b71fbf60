package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/task"
)

// benchmarked is a directed graph of two relations, each with a split of edges of its own, as a benchmark
// gives it. Lists have edges several times. Some edges are in two parts, and there are self loops.
func benchmarked(t *testing.T, form graph.NegativeForm) *graph.Graph {
	t.Helper()
	g := tangled(t)
	g.Type, g.Count = "a", g.Own()
	second := g.Relations[0]
	for i, name := range []string{"x", "y"} {
		r := second
		r.Source, r.Name, r.Target = "a", name, "a"
		random := rand.New(rand.NewPCG(4, uint64(i)))
		ids := func(n int) (list []int32) {
			for range n {
				list = append(list, int32(random.IntN(g.Count)))
			}
			return list
		}
		s := &graph.EdgeSplit{Negatives: form}
		for part, n := range []int{150, 31 + i, 47} {
			s.Edges[part] = ids(2 * n)
			if part == 0 {
				continue
			}
			s.Edges[part] = append(s.Edges[part], s.Edges[0][:6]...) // edges of two parts, the last twice in this one
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

// byDefinition are the metrics of a part by the formulas of OGB's evaluator (ogb/linkproppred/evaluate.py),
// in double precision, from the embeddings of all vertices. first is the row of the first vertex of each
// type.
func byDefinition(g *graph.Graph, h []float32, columns int, weights []float32, part int, first map[string]int32) map[string]float64 {
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

// TestGivenSplit: beside a stored split, all edges of the graph carry messages, the split's edges train and
// are measured, and the metrics are those of OGB's formulas, on any number of workers, whose memory and
// messages are planned to the byte.
func TestGivenSplit(t *testing.T) {
	for form, o := range map[graph.NegativeForm]Options{
		graph.SharedNegatives: linked(func(o *Options) { o.Model = "rgcn" }),
		graph.TargetNegatives: linked(func(o *Options) { o.Model, o.Decoder = "rgcn", "distmult" }),
		graph.NoNegatives:     linked(func(o *Options) { o.Model, o.EvalNegatives = "rgcn", 40 }),
	} {
		t.Run("negatives "+string(form), func(t *testing.T) {
			g := benchmarked(t, form)
			one := mustRun(t, &Job{Graph: g, Options: o})
			if l := one.Links; l.TrainEdges != 300 || l.ValEdges != 71 || l.TestEdges != 102 {
				t.Errorf("%+v", l)
			}
			for part, got := range []map[string]metric.Number{1: one.Links.Val, 2: one.Links.Test} {
				var weights []float32
				if w, there := one.Weights["decoder.weight"]; there {
					weights = w.Float32
				}
				if part == 0 || form == graph.NoNegatives {
					continue
				}
				want := byDefinition(g, one.Logits, o.OutFeatures, weights, part, nil)
				if len(got) != len(want) {
					t.Errorf("part %d: %v, want %v", part, got, want)
				}
				for name, x := range want {
					if math.Abs(float64(got[name])-x) > 1e-9 {
						t.Errorf("part %d: %s is %v, want %v", part, name, got[name], x)
					}
				}
			}
			sliced := onMesh(g, o, "graph=2,tensor=2")
			turns := onMesh(g, o, "graph=2")
			turns.Options.Partitions = 4
			for name, job := range map[string]*Job{
				"graph=2": divided(t, g, o, 2, nil), "graph=4": divided(t, g, o, 4, nil), "tensor=2": onMesh(g, o, "tensor=2"), "graph=2,tensor=2": sliced, "turns": turns,
			} {
				many := mustRun(t, job)
				if d := away(one.Losses, many.Losses); d > 1e-5 {
					t.Errorf("%s: the losses differ by %.1e", name, d)
				}
				for k, want := range one.Links.Test {
					if got := many.Links.Test[k]; math.Abs(float64(got-want)) > .011 { // an edge of 102, where roundings decide
						t.Errorf("%s: %s is %v, want %v", name, k, got, want)
					}
				}
				if name != "turns" {
					planAndRun(t, job)
				}
			}
			planAndRun(t, &Job{Graph: g, Options: o})
		})
	}
}

// TestGivenSplitBetweenTypes: stored splits of relations between several types are measured by OGB's
// formulas, on any number of workers, all of them or those that are asked for.
func TestGivenSplitBetweenTypes(t *testing.T) {
	for _, form := range []graph.NegativeForm{graph.SharedNegatives, graph.TargetNegatives} {
		g, _, _, _ := shop(t, 1)
		g.Relations = slices.Clone(g.Relations)
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
		all := linked(func(o *Options) { o.Model, o.Decoder, o.Epochs = "sage", "distmult", 3 })
		buys := all
		buys.LinkRelation = "user,buys,item"
		alone := *g
		alone.Relations = slices.Clone(g.Relations)
		alone.Relations[1].EdgeSplit = nil
		for _, c := range []struct {
			o     Options
			of    *graph.Graph // whose splits are learned
			first map[string]int32
		}{{all, g, map[string]int32{"user": 70, "tag": 160}}, {buys, &alone, map[string]int32{"user": 70}}} {
			one := mustRun(t, &Job{Graph: g, Options: c.o})
			for part, got := range map[int]map[string]metric.Number{1: one.Links.Val, 2: one.Links.Test} {
				want := byDefinition(c.of, one.Logits, c.o.OutFeatures, one.Weights["decoder.weight"].Float32, part, c.first)
				if len(got) != len(want) {
					t.Errorf("%s: part %d: %v, want %v", form, part, got, want)
				}
				for name, x := range want {
					if math.Abs(float64(got[name])-x) > 1e-9 {
						t.Errorf("%s: part %d: %s is %v, want %v", form, part, name, got[name], x)
					}
				}
			}
			for _, mesh := range []string{"graph=2", "graph=3", "tensor=2", "graph=2,tensor=2"} {
				many, _ := planAndRun(t, onMesh(g, c.o, mesh))
				if d := away(one.Losses, many.Losses); d > 1e-5 || many.Links.TrainEdges != one.Links.TrainEdges {
					t.Errorf("%s: the losses differ by %.1e, %+v, want %+v", mesh, d, many.Links, one.Links)
				}
			}
		}
	}
}

// addTypes adds a type of so many vertices, and a relation to it.
func addTypes(t *testing.T, g *graph.Graph, vertices int, split *graph.EdgeSplit) {
	t.Helper()
	other, err := graph.NewBipartite(g.Count, vertices, graph.Edges{Source: []int32{1, 2, 3}, Target: make([]int32, 3)})
	require.NoError(t, err)
	other.Source, other.Name, other.Target, other.EdgeSplit = "a", "z", "b", split
	g.Relations = append(g.Relations, other)
	g.Others = []graph.VertexType{{Type: "b", Count: vertices, Features: graph.Features{Columns: 1, Dense: make([]float32, vertices)}}}
}

// TestMeasureLinks: embeddings that a run gave are measured as the run measured them, by the metrics that it
// left out too.
func TestMeasureLinks(t *testing.T) {
	for name, c := range map[string]struct {
		g *graph.Graph
		Options
	}{
		"drawn":   {tangled(t), linked(func(o *Options) { o.Decoder, o.EvalNegatives = "distmult", 50 })},
		"area":    {tangled(t), linked(func(o *Options) { o.Metric = metric.ROCAUC })},
		"shared":  {benchmarked(t, graph.SharedNegatives), linked(func(o *Options) { o.Model = "rgcn" })},
		"targets": {benchmarked(t, graph.TargetNegatives), linked(func(o *Options) { o.Model, o.Decoder = "rgcn", "distmult" })},
	} {
		t.Run(name, func(t *testing.T) {
			for _, job := range []*Job{{Graph: c.g, Options: c.Options}, divided(t, c.g, c.Options, 3, nil), onMesh(c.g, c.Options, "graph=2,tensor=2")} {
				r := mustRun(t, job)
				alone := &Job{Graph: c.g, Options: c.Options}
				got, err := alone.MeasureLinks(t.Context(), r.Logits, r.Weights)
				require.NoError(t, err)
				if got.TrainEdges != r.Links.TrainEdges || got.ValEdges != r.Links.ValEdges || got.TestEdges != r.Links.TestEdges {
					t.Errorf("%+v, want %+v", got, r.Links)
				}
				if n := len(metric.LinkNamesOf(givenOf(c.g))); len(got.Val) != n || len(got.Test) != n {
					t.Errorf("%v, want %d metrics", got, n)
				}
				for _, part := range [][2]map[string]metric.Number{{got.Val, r.Links.Val}, {got.Test, r.Links.Test}} {
					for k, want := range part[1] {
						if d := math.Abs(float64(part[0][k] - want)); !(d < 1e-12) {
							t.Errorf("%d workers: %s is %v, want %v", r.Workers, k, part[0][k], want)
						}
					}
				}
				if _, err := alone.MeasureLinks(t.Context(), r.Logits[1:], r.Weights); !refusal.Is(err) {
					t.Errorf("other vertices: %v", err)
				}
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
		"metric mrr: ":        {graph.SharedNegatives, func(_ *graph.Graph, o *Options) { o.Metric = metric.MRR }},
		"metric hits@50: ":    {graph.TargetNegatives, func(_ *graph.Graph, o *Options) { o.Metric = "hits@50" }},
		"metric hits@20: ":    {graph.NoNegatives, func(_ *graph.Graph, o *Options) { o.Metric = "hits@20" }},
		"eval-negatives 7: ":  {graph.SharedNegatives, func(_ *graph.Graph, o *Options) { o.EvalNegatives = 7 }},
		"link-split 80/10/10": {graph.NoNegatives, func(_ *graph.Graph, o *Options) { o.LinkSplit = task.Shares{80, 10, 10} }},
		"link-relation a,z,a: the graph has no such relation; did you mean a,x,a?": {graph.NoNegatives, func(_ *graph.Graph, o *Options) {
			o.LinkRelation = "a,z,a"
		}},
		"link-relation a,z,b: the graph's split of edges does not divide it; take a,x,a": {graph.NoNegatives, func(g *graph.Graph, o *Options) {
			addTypes(t, g, 3, nil)
			o.LinkRelation = "a,z,b"
		}},
		"the edges of a,z,b have one target": {graph.NoNegatives, func(g *graph.Graph, _ *Options) {
			addTypes(t, g, 1, &graph.EdgeSplit{Edges: [3][]int32{{1, 0}}})
		}},
	} {
		g, o := benchmarked(t, c.form), linked(func(o *Options) { o.Model = "rgcn" })
		c.change(g, &o)
		_, err := (&Job{Graph: g, Options: o}).Run(context.Background())
		if !refusal.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a refusal of %s", err, want)
		}
	}
}
