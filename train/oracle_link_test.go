package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/links"
	"weft/train/metric"
	"weft/train/task"
)

// linkOracle computes losses and measures of link prediction in double precision, from the embeddings and the
// weights of a run. Its random draws are links.Draw's.
type linkOracle struct {
	draw       links.Draw
	edges      [3][]links.Edge // of each part
	known      map[links.Edge]bool
	ends       []links.Ends // by relation
	embeddings [][]float64
	weights    [][]float64 // of the decoder, by relation
}

// linksByHand is the oracle of a run on the relations of a graph, whose vertices have their embeddings at
// these ends.
func linksByHand(relations []graph.Relation, ends []links.Ends, o *Options, r *Result) *linkOracle {
	l := &linkOracle{
		draw: links.Draw{Seed: o.Seed, Shares: o.LinkSplit}, known: map[links.Edge]bool{}, ends: ends,
	}
	for relation, rel := range relations {
		all := rel.Edges()
		for i, u := range all.Source {
			e := links.Edge{
				Relation: int32(relation), Source: ends[relation].Sources.Low + u,
				Target: ends[relation].Targets.Low + all.Target[i],
			}
			if e.Source != e.Target && !l.known[e] {
				l.known[e] = true
				part := l.draw.Part(e)
				l.edges[part] = append(l.edges[part], e)
			}
		}
		weights := make([]float64, o.OutFeatures)
		for c := range weights {
			weights[c] = 1
			if o.Decoder == "distmult" {
				weights[c] = float64(r.Weights["decoder.weight"].Float32[relation*o.OutFeatures+c])
			}
		}
		l.weights = append(l.weights, weights)
	}
	for some := range slices.Chunk(r.Logits, o.OutFeatures) {
		var row []float64
		for _, x := range some {
			row = append(row, float64(x))
		}
		l.embeddings = append(l.embeddings, row)
	}
	return l
}

func (l *linkOracle) score(e links.Edge) (s float64) {
	for c, w := range l.weights[e.Relation] {
		s += l.embeddings[e.Source][c] * w * l.embeddings[e.Target][c]
	}
	return s
}

// loss is the mean binary cross-entropy of a part's edges and of the given number of negatives for each.
func (l *linkOracle) loss(part links.Part, epoch, drawn int) (mean float64) {
	n := float64(len(l.edges[part]) * (1 + drawn))
	for _, e := range l.edges[part] {
		mean += math.Log1p(math.Exp(-l.score(e))) / n
		for k := range drawn {
			mean += math.Log1p(math.Exp(l.score(l.draw.Negative(epoch, k, e, l.ends[e.Relation])))) / n
		}
	}
	return mean
}

// measures are the measures of a part. A rank is among all vertices of the type that are no other target of
// the source; equal scores count half. The ROC-AUC is how often an edge scores above a negative.
func (l *linkOracle) measures(part links.Part) map[string]float64 {
	sum, edges, drawn := map[string]float64{}, []float64{}, []float64{}
	for _, e := range l.edges[part] {
		rank, own := 1.0, l.score(e)
		edges, drawn = append(edges, own),
			append(drawn, l.score(l.draw.Negative(0, 0, e, l.ends[e.Relation])))
		for v := l.ends[e.Relation].Targets.Low; v < l.ends[e.Relation].Targets.High; v++ {
			other := links.Edge{Relation: e.Relation, Source: e.Source, Target: v}
			if l.known[other] {
				continue
			}
			if s := l.score(other); math.Abs(s-own) < 1e-7 {
				rank += .5
			} else if s > own {
				rank++
			}
		}
		sum["mrr"] += 1 / rank
		for _, k := range []float64{1, 3, 10} {
			hit := 0.
			if rank <= k {
				hit = 1
			}
			sum[fmt.Sprintf("hits@%v", k)] += hit
		}
	}
	for name := range sum {
		sum[name] /= float64(len(edges))
	}
	above := 0.0
	for _, p := range edges {
		for _, q := range drawn {
			if p > q {
				above++
			} else if p == q {
				above += .5
			}
		}
	}
	sum[metric.ROCAUC] = above / float64(len(edges)*len(drawn))
	return sum
}

// compare compares a run with the oracle.
func (l *linkOracle) compare(t *testing.T, o *Options, run *Result) {
	t.Helper()
	n, measure := run.Links, run.Metric
	if n.TrainEdges != len(l.edges[links.Train]) || n.ValEdges != len(l.edges[links.Val]) ||
		n.TestEdges != len(l.edges[links.Test]) {
		t.Errorf("%d, %d and %d edges, want %d, %d and %d", n.TrainEdges, n.ValEdges, n.TestEdges,
			len(l.edges[0]), len(l.edges[1]), len(l.edges[2]))
	}
	closeTo(t, "the loss", run.Losses[0], l.loss(links.Train, 1, o.Negatives), 1e-5)
	closeTo(t, "the validation loss", run.ValLoss, l.loss(links.Val, 0, 1), 1e-5)
	for part, got := range map[links.Part]map[string]metric.Number{links.Val: n.Val, links.Test: n.Test} {
		want := l.measures(part)
		for name, x := range got {
			closeTo(t, fmt.Sprintf("%s of part %d", name, part), float64(x), want[name], 1e-4)
		}
		if measure == metric.MRR && len(got) != len(want) {
			t.Errorf("part %d is measured by %v", part, got)
		}
	}
	val, test := float64(n.Val[measure]), float64(n.Test[measure])
	if run.Val != val || run.Test != test || !math.IsNaN(run.Train) {
		t.Errorf("the run reports %v, %v and %v, and of its edges %v and %v", run.Train, run.Val,
			run.Test, val, test)
	}
}

// shop has 70, 90 and 30 times so many items, users and tags, and relations between them, each with its
// reverse. Embeddings of all types are those of items, users and tags in turn.
func shop(t *testing.T, times int) (g *graph.Graph, items, users, tags links.Range) {
	t.Helper()
	r := rand.New(rand.NewPCG(31, 1))
	n := int32(times)
	items, users, tags = links.Range{Low: 0, High: 70 * n}, links.Range{Low: 70 * n, High: 160 * n},
		links.Range{Low: 160 * n, High: 190 * n}
	features := func(ids links.Range, columns int) (f graph.Features) {
		f.Columns = columns
		for range int(ids.High-ids.Low) * columns {
			f.Dense = append(f.Dense, float32(r.NormFloat64()))
		}
		return f
	}
	g = &graph.Graph{
		Types: []graph.VertexType{
			{Type: "item", Frame: graph.Frame{Count: 70 * times, Features: features(items, 5)}},
			{Type: "user", Frame: graph.Frame{Count: 90 * times, Features: features(users, 3)}},
			{Type: "tag", Frame: graph.Frame{Count: 30 * times, Features: features(tags, 4)}},
		},
	}
	for _, spec := range []struct {
		source, name, target string
		sources, targets     links.Range
		edges                int
	}{
		{"user", "buys", "item", users, items, 500},
		{"item", "has", "tag", items, tags, 260},
		{"item", "like", "item", items, items, 200},
	} {
		n, m := int(spec.sources.High-spec.sources.Low), int(spec.targets.High-spec.targets.Low)
		var e graph.Edges
		for range spec.edges * times { // some several times, and some vertices have none
			u := r.IntN(n - 4)
			e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32((u/2+r.IntN(9))%(m-2)))
		}
		relation, err := graph.NewBipartite(n, m, e)
		require.NoError(t, err)
		relation.Source, relation.Name, relation.Target = spec.source, spec.name, spec.target
		g.Relations = append(g.Relations, relation)
	}
	g, err := g.ReverseRelations()
	require.NoError(t, err)
	return g, items, users, tags
}

// TestLinksByHand compares the loss, the validation loss and all measures of link prediction with their
// definitions, computed from a run's embeddings. The learning rate is so small that the weights do not
// change. Of relations between two vertex types negative edges and ranks are of the target's type.
func TestLinksByHand(t *testing.T) {
	g, items, users, tags := shop(t, 1)
	relation := func(name string) graph.Relation {
		return g.Relations[slices.IndexFunc(g.Relations,
			func(r graph.Relation) bool { return r.Name == name })]
	}
	move := func(r links.Range, by int32) links.Range {
		return links.Range{Low: r.Low - by, High: r.High - by}
	}
	for _, c := range []struct {
		asked     string
		relations []graph.Relation
		ends      []links.Ends
		types     []task.LinkType
	}{
		{
			"user,buys,item",
			[]graph.Relation{relation("buys")},
			[]links.Ends{{Sources: users, Targets: items}},
			[]task.LinkType{{Type: "item", Vertices: 70}, {Type: "user", Vertices: 90}},
		},
		{
			"item,has,tag; user,buys,item; item,like,item",
			[]graph.Relation{relation("has"), relation("buys"), relation("like")},
			[]links.Ends{
				{Sources: items, Targets: tags},
				{Sources: users, Targets: items},
				{Sources: items, Targets: items},
			},
			[]task.LinkType{
				{Type: "item", Vertices: 70},
				{Type: "user", Vertices: 90},
				{Type: "tag", Vertices: 30},
			},
		},
		{
			"tag,rev_has,item",
			[]graph.Relation{relation("rev_has")},
			[]links.Ends{{Sources: move(tags, 90), Targets: items}},
			[]task.LinkType{{Type: "item", Vertices: 70}, {Type: "tag", Vertices: 30}},
		},
	} {
		for i, decoder := range task.Decoders {
			for _, measure := range []string{metric.MRR, metric.ROCAUC} {
				for _, mesh := range []string{"", []string{"graph=3", "tensor=2"}[i]} {
					t.Run(fmt.Sprintf("%s, %s, %s, %s", c.asked, decoder, measure, mesh), func(t *testing.T) {
						o := linked("model rgcn, lr 1e-30, epochs 1, dropout 0, negatives 3, out-features " +
							"6, hidden 12, seed 11")
						o.Decoder, o.Metric, o.LinkSplit = decoder, measure, task.Shares{60, 20, 20}
						o.LinkRelation = task.Relations(c.asked)
						run := mustRun(t, onMesh(g, o, mesh))
						linksByHand(c.relations, c.ends, &o, run).compare(t, &o, run)
						assert.Equal(t, c.types, run.Links.Types, "embeddings")
					})
				}
			}
		}
	}
}
