package train

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weft/graph"
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
	vertices   int
	embeddings [][]float64
	weights    [][]float64 // of the decoder, by relation
}

func linksByHand(g *graph.Graph, o *Options, r *Result) *linkOracle {
	l := &linkOracle{draw: links.Draw{Seed: o.Seed, Shares: o.LinkSplit}, known: map[links.Edge]bool{}, vertices: g.Vertices()}
	for relation, one := range g.Relations {
		all := one.Edges()
		for i, u := range all.Source {
			e := links.Edge{Relation: int32(relation), Source: u, Target: all.Target[i]}
			if u != e.Target && !l.known[e] {
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
	for v := range l.vertices {
		var row []float64
		for _, x := range r.Logits[v*o.OutFeatures:][:o.OutFeatures] {
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
		mean -= math.Log(1/(1+math.Exp(-l.score(e)))) / n
		for k := range drawn {
			mean -= math.Log(1-1/(1+math.Exp(-l.score(l.draw.Negative(epoch, k, e, l.vertices))))) / n
		}
	}
	return mean
}

// measures are the measures of a part. A rank is among all vertices that are no other target of the source;
// equal scores count half. The ROC-AUC is how often an edge scores above a negative.
func (l *linkOracle) measures(part links.Part) map[string]float64 {
	sum, edges, drawn := map[string]float64{}, []float64{}, []float64{}
	for _, e := range l.edges[part] {
		rank, own := 1.0, l.score(e)
		edges, drawn = append(edges, own), append(drawn, l.score(l.draw.Negative(0, 0, e, l.vertices)))
		for v := range l.vertices {
			other := links.Edge{Relation: e.Relation, Source: e.Source, Target: int32(v)}
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

// TestLinksByHand compares the loss, the validation loss and all measures of link prediction with their
// definitions, computed from a run's embeddings. The learning rate is so small that the weights do not
// change.
func TestLinksByHand(t *testing.T) {
	const vertices = 120
	r := rand.New(rand.NewPCG(29, 1))
	g := &graph.Graph{Type: "v", Count: vertices, Features: graph.Features{Columns: 4}}
	for range vertices * 4 {
		g.Features.Dense = append(g.Features.Dense, float32(r.NormFloat64()))
	}
	for _, name := range []string{"a", "b"} {
		var e graph.Edges
		for range 260 {
			u := r.IntN(vertices - 5)
			e.Source, e.Target = append(e.Source, int32(u)), append(e.Target, int32((u+r.IntN(9))%vertices))
		}
		relation, err := graph.NewRelation(vertices, e)
		if err != nil {
			t.Fatal(err)
		}
		relation.Source, relation.Name, relation.Target = "v", name, "v"
		g.Relations = append(g.Relations, relation)
	}
	for _, decoder := range task.Decoders {
		for _, measure := range []string{metric.MRR, metric.ROCAUC} {
			for _, mesh := range []string{"", "graph=3"} {
				t.Run(fmt.Sprintf("%s, %s, %s", decoder, measure, mesh), func(t *testing.T) {
					o := linked(func(o *Options) {
						o.Model, o.Decoder, o.Metric, o.LinkSplit = "rgcn", decoder, measure, task.Shares{60, 20, 20}
						o.LR, o.Epochs, o.Dropout, o.Negatives, o.OutFeatures, o.Hidden, o.Seed = 1e-30, 1, 0, 3, 6, 12, 11
					})
					run := mustRun(t, onMesh(g, o, mesh))
					l := linksByHand(g, &o, run)
					n := run.Links
					if n.TrainEdges != len(l.edges[links.Train]) || n.ValEdges != len(l.edges[links.Val]) || n.TestEdges != len(l.edges[links.Test]) {
						t.Errorf("%d, %d and %d edges, want %d, %d and %d", n.TrainEdges, n.ValEdges, n.TestEdges, len(l.edges[0]), len(l.edges[1]), len(l.edges[2]))
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
						t.Errorf("the run reports %v, %v and %v, and of its edges %v and %v", run.Train, run.Val, run.Test, val, test)
					}
				})
			}
		}
	}
}
