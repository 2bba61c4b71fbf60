package train

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
)

// feature is something that a run may have: a graph and options, and the meshes that must give what one
// worker gives. A mesh such as graph=2/4 has four partitions that two workers hold in turns.
type feature struct {
	g *graph.Graph
	Options
	meshes []string
	parts  []int32 // each vertex's partition; nil: partitions are random
	// Unless nil, on is what is set on the mesh alone, and job what else a job has. right asserts what one
	// worker gives by definition, and also more of a run on a mesh.
	on    func(o *Options, mesh string)
	job   func(j *Job)
	right func(t *testing.T, single *Result)
	also  func(t *testing.T, mesh string, many *Result)
	bounds
}

// bounds are how far the results of several workers may be from those of one.
type bounds struct {
	losses float64 // relative; 0: 1e-5
	scores float64 // of metrics
	logits float64 // of logits and embeddings; 0: they are not compared
}

// alike compares what two runs learned, within bounds.
func alike(t *testing.T, what string, got, want *Result, b bounds) {
	t.Helper()
	if b.losses == 0 {
		b.losses = 1e-5
	}
	if d := away(want.Losses, got.Losses); !(d <= b.losses) {
		t.Errorf("%s: the losses differ by %.1e: %v, want %v", what, d, got.Losses, want.Losses)
	}
	near := func(name string, x, y float64) {
		if math.IsNaN(x) != math.IsNaN(y) || math.Abs(x-y) > b.scores {
			t.Errorf("%s: %s %v, want %v", what, name, x, y)
		}
	}
	assert.Equal(t, want.Metric, got.Metric, "%s: the metric", what)
	near("validation", got.Val, want.Val)
	near("test", got.Test, want.Test)
	assert.Len(t, got.Weights, len(want.Weights), what)
	if k, l := got.Links, want.Links; l != nil {
		counts, wanted := [3]int{k.TrainEdges, k.ValEdges, k.TestEdges},
			[3]int{l.TrainEdges, l.ValEdges, l.TestEdges}
		if counts != wanted || !slices.Equal(k.Types, l.Types) || len(k.Test) != len(l.Test) {
			t.Errorf("%s: %+v, want %+v", what, k, l)
		}
		for name, x := range l.Test {
			near(name, float64(k.Test[name]), float64(x))
		}
	}
	require.Len(t, got.Logits, len(want.Logits), what)
	for i, z := range want.Logits {
		if d := math.Abs(float64(z - got.Logits[i])); b.logits > 0 &&
			d > b.logits*max(1, math.Abs(float64(z))) {
			t.Fatalf("%s: logit %d is %v, want %v", what, i, got.Logits[i], z)
		}
	}
}

// TestMeshes: "the training curve is the same regardless of the number of machines", for every feature, with
// dropout. So are metrics, and predictions in the graph's order. Memory, messages and aggregated edges are
// those of the plan, to the byte. Partitions that take turns on one worker have the bits of as many workers.
// The suites of train/paralleltest compare more meshes with one worker, on a smaller graph. The learning
// rate is .001 mostly: at .01 Adam amplifies single roundings.
func TestMeshes(t *testing.T) {
	for name, f := range features(t) {
		t.Run(name, func(t *testing.T) {
			job := func(mesh string) *Job {
				j := onMesh(f.g, f.Options, mesh)
				if k := 1 + int(slices.Max(append(f.parts, -1))); mesh == fmt.Sprint("graph=", k) {
					j = divided(t, f.g, f.Options, k, f.parts)
				}
				if strings.HasPrefix(mesh, "pipeline") {
					j.Options.Chunks = 1 // with several chunks the embeddings of others are stale
				}
				if f.on != nil {
					f.on(&j.Options, mesh)
				}
				if f.job != nil {
					f.job(j)
				}
				return j
			}
			alone := &Job{Graph: f.g, Options: f.Options}
			if f.job != nil {
				f.job(alone)
			}
			single, _ := planAndRun(t, alone)
			if f.right != nil {
				f.right(t, single)
			}
			for _, mesh := range f.meshes {
				many, _ := planAndRun(t, job(mesh))
				alike(t, mesh, many, single, f.bounds)
				silent := many.Links != nil && many.Workers > 1 && many.Communication.Links.Bytes == 0
				if silent || len(many.SentBytes) != many.Workers {
					t.Errorf("%s: workers sent %d bytes, %+v", mesh, many.SentBytes, many.Communication)
				}
				if f.also != nil {
					f.also(t, mesh, many)
				}
				if workers, partitions, turns := strings.Cut(mesh, "/"); turns && workers == "graph=1" {
					sameResults(t, many, mustRun(t, job(fmt.Sprintf("graph=%s/%s", partitions, partitions))))
				}
			}
		})
	}
}

// features are all that a run may have.
func features(t *testing.T) map[string]feature {
	all := map[string]feature{}
	networkFeatures(t, all)
	labelFeatures(t, all)
	linkFeatures(t, all)
	return all
}

// networkFeatures are every second of the networks, on partitions, with rows, covers and halos that are kept
// in turn, or on one of two meshes with slices. The suites of train/paralleltest have all of them.
func networkFeatures(t *testing.T, all map[string]feature) {
	g := tangle(t, 1100, 3000)
	models := networks()
	for _, model := range gnn.Decouplable() {
		for _, teleport := range []float64{0, .1} {
			o := Defaults()
			o.Model, o.Layers, o.Hidden, o.Epochs, o.Decoupled, o.Teleport = model, 3, 24, 2, true, teleport
			models[fmt.Sprintf("decoupled %s, teleport %v", model, teleport)] = o
		}
	}
	for i, name := range slices.Sorted(maps.Keys(models)) {
		if i%2 == 1 {
			continue
		}
		i /= 2
		o := models[name]
		o.LR, o.Epochs = .001, 2 // the second has the gradients of all weights in its loss
		f := feature{
			g: g, Options: o, meshes: []string{"graph=3", []string{"tensor=3", "graph=2,tensor=2"}[i%2]},
			bounds: bounds{scores: .005, logits: .005},
		}
		if o.Decoupled {
			f.meshes = f.meshes[1:]
		}
		if o.Model == "gin" {
			// Sums over a hub's 1500 in-neighbours round differently, and batch norm divides by their spread
			f.losses = 5e-5
		}
		f.on = func(o *Options, mesh string) {
			switch {
			case mesh == "graph=3":
				o.KeepHalo, o.Halo = i%2 == 1, haloOf(o, i%3)
			case mesh == "tensor=3" && o.Aggregation != "max":
				o.AggregationChunks = 5
			}
		}
		all[name] = f
	}
}

// labelFeatures are kinds of features and labels of vertices, and of losses.
func labelFeatures(t *testing.T, all map[string]feature) {
	g := tangle(t, 1100, 3000)
	with := func(g *graph.Graph, words string, meshes ...string) feature {
		o := apply(Defaults(), "model gcn, lr .001, epochs 3, threads 1")
		o = apply(o, words)
		return feature{g: g, Options: o, meshes: meshes, bounds: bounds{scores: .005}}
	}
	all["label smoothing"] = with(g, "label-smoothing .2", "graph=3")
	all["balanced, smoothed"] = with(g, "class-weights balanced, label-smoothing .1", "graph=3")
	all["focal, balanced"] = with(g, "class-weights balanced, loss focal", "graph=2,tensor=2", "tensor=2")
	small := tangle(t, 700, 3000)
	all["a loss of one's own"] = feature{
		g: small, Options: ownOptions("sage", "graph=1"), meshes: []string{"graph=2", "graph=4", "tensor=2"},
		job: func(j *Job) { j.Loss, j.Options.Norm = weighted, "layer" }, bounds: bounds{scores: .02},
		right: func(t *testing.T, single *Result) { weightedByHand(t, small, single) },
		also:  func(t *testing.T, _ string, many *Result) { weightedByHand(t, small, many) },
	}

	values := with(
		withValues(g), "model sage, loss huber", "graph=3",
		"graph=2,tensor=2", "tensor=2", "graph=1/4",
	)
	values.scores = .1 // of years
	values.right = func(t *testing.T, single *Result) {
		assert.Equal(t, metric.RMSE, single.Metric, "the metric")
	}
	all["values"] = values
	staged := with(withValues(g), "model gcnii, layers 4", "pipeline=2")
	staged.scores = .1
	staged.also = func(t *testing.T, _ string, many *Result) {
		assert.Equal(t, 2, len(many.Weights["target.mean"].Float32), "means")
	}
	all["values on stages"] = staged
	bare := *small.Copy()
	bare.Types[0].Features = graph.Features{}
	stages := []string{"pipeline=2", "graph=2,pipeline=2", "pipeline=3,tensor=2"}
	all["types on stages"] = with(severalTypes(t), "model sage, layers 3, clip 1", stages...)
	all["relations on stages"] = with(severalTypes(t), "model rgcn, bases 2, layers 3, norm layer", stages...)
	all["table on stages"] = with(&bare, "model sage, node-embedding 8, clip 1", "pipeline=2")
	standard := with(
		g, "model sage, normalize-features standard", "graph=3",
		"graph=2,tensor=2", "pipeline=2", "graph=1/4",
	)
	standard.also = func(t *testing.T, mesh string, many *Result) {
		assert.Equal(t, g.Types[0].Features.Columns, len(many.Weights["features.mean"].Float32), "%s: means",
			mesh)
	}
	all["standard features"] = standard

	for name, g := range labelled(t) {
		f := with(g, "layers 3, hidden 64, epochs 3, label-input .5, dropout .1", "graph=2,tensor=2", "graph=1/4")
		f.scores = .02
		all["label input, "+name] = f
	}
	oddFeatures(g, all)
}

// oddFeatures have empty partitions, a worker without training vertices, a worker with all of them, sparse
// features with dropout, and several labels for each vertex.
func oddFeatures(g *graph.Graph, all map[string]feature) {
	sparse, several := *g.Copy(), *g.Copy()
	sparse.Types[0].Features = graph.Features{Columns: 40, Indptr: []int64{0}}
	several.Types[0].Labels, several.Metric = graph.Labels{Classes: 3}, "roc-auc"
	for v := range g.Vertices() {
		for c := int32(v % 7); c < 40; c += 1 + int32(v)*c%12 {
			sparse.Types[0].Features.Indices = append(sparse.Types[0].Features.Indices, c)
			sparse.Types[0].Features.Data = append(sparse.Types[0].Features.Data, float32((v+int(c))%10)/10)
		}
		sparse.Types[0].Features.Indptr = append(sparse.Types[0].Features.Indptr,
			int64(len(sparse.Types[0].Features.Indices)))
		for c := range 3 {
			several.Types[0].Labels.Multi = append(several.Types[0].Labels.Multi,
				float32((int(g.Types[0].Labels.Class[v])>>c)&1))
		}
	}
	trains := make([]int32, g.Vertices()) // all training vertices on worker 2, nothing on worker 1
	for v := range trains {
		trains[v] = 3 * int32(v%2)
	}
	for _, v := range g.Types[0].Splits[0].Train {
		trains[v] = 2
	}
	for name, g := range map[string]*graph.Graph{"dense": g, "sparse": &sparse, "several labels": &several} {
		for _, model := range []string{"gcn", "sage", "gat"} {
			o := Defaults()
			o.Model, o.Norm, o.InputDropout, o.LR, o.Epochs = model, "batch", .3, .001, 6
			all[fmt.Sprintf("odd partitions, %s, %s", name, model)] = feature{
				g: g, Options: o, meshes: []string{"graph=4"}, parts: trains, bounds: bounds{scores: .005},
			}
		}
	}
}

// linkFeatures are what link prediction may have: decoders, measures, stored splits, and relations between
// types. One graph is directed, with isolated vertices, parallel edges and an empty partition.
func linkFeatures(t *testing.T, all map[string]feature) {
	g := tangle(t, 1100, 3000)
	split := func(g *graph.Graph) []int32 { // nothing on worker 1
		parts := make([]int32, g.Vertices())
		for v := range parts {
			parts[v] = 2 * int32(v%2)
		}
		return parts
	}
	checkLinks := func(t *testing.T, single *Result) {
		n := single.Links
		if min(n.TrainEdges, n.ValEdges, n.TestEdges) == 0 || single.Val != float64(n.Val[single.Metric]) {
			t.Errorf("%+v, validation %v", n, single.Val)
		}
		ranked := len(n.Test) == len(metric.LinkNamesOf(graph.NoNegatives))
		if ranked != (single.Metric != metric.ROCAUC) {
			t.Errorf("measured by %s: %v", single.Metric, single.Links.Test)
		}
	}
	add := func(
		name string, g *graph.Graph, parts []int32, b bounds, words string, meshes ...string,
	) {
		all["links, "+name] = feature{
			g: g, Options: linked(words), meshes: meshes, parts: parts, right: checkLinks, bounds: b,
		}
	}
	near := bounds{scores: .002, logits: 1e-4}
	add("dot", g, split(g), near, "", "graph=3", "tensor=3")
	add(
		"distmult", g, nil, near,
		"model sage, decoder distmult, norm batch, clip .1", "graph=4",
		"graph=2,tensor=2",
	)
	add("among", g, split(g), near, "eval-negatives 50, metric hits@10, direction out", "graph=3", "tensor=2")
	add("area", g, nil, near, "metric roc-auc, dropout .3", "graph=4", "graph=2,tensor=2/3")
	add("area by attention", g, nil, near, "metric roc-auc, model gat", "graph=3", "tensor=3")

	types := severalTypes(t)
	add("of types", types, nil, near, "model rgcn, decoder distmult", "graph=3")
	bought, _, _, _ := shop(t, 1)
	bought = withKnows(t, bought)
	for name, c := range map[string]struct {
		parts  []int32
		change string
	}{
		"first at one end": {nil, "model sage, link-relation user,buys,item, decoder distmult, dropout .2"},
		"several": {split(bought), "model rgcn, link-relation user,buys,item;item,has,tag, " +
			"eval-negatives 20"},
		"first at no end": {nil, "model gat, link-relation user,knows,tag, layers 3, metric roc-auc"},
	} {
		// Roundings decide about one edge of some 60
		add(
			name, bought, c.parts, bounds{scores: .03, logits: 1e-4}, c.change, "graph=3", "graph=2,tensor=2",
			"graph=1/3",
		)
	}

	addBenchmark := func(
		name string, g *graph.Graph, words string,
		right func(t *testing.T, o *Options, single *Result), meshes ...string,
	) {
		f := feature{
			g: g, Options: linked(words), meshes: meshes, bounds: bounds{scores: .011},
		} // an edge of 102
		f.right = func(t *testing.T, single *Result) { right(t, &f.Options, single) }
		all["links, given, "+name] = f
	}
	for form, change := range map[graph.NegativeForm]string{
		graph.SharedNegatives: "model rgcn",
		graph.TargetNegatives: "model rgcn, decoder distmult",
		graph.NoNegatives:     "model rgcn, eval-negatives 40",
	} {
		g := benchmarked(t, form)
		addBenchmark(string(form), g, change, func(t *testing.T, o *Options, single *Result) {
			if l := single.Links; l.TrainEdges != 300 || l.ValEdges != 71 || l.TestEdges != 102 {
				t.Errorf("%+v", l)
			}
			if form != graph.NoNegatives {
				asOGB(t, g, single, o, nil)
			}
		}, "graph=4", "graph=2,tensor=2", "graph=2/4")
		if form == graph.NoNegatives {
			continue
		}
		both := splitShop(t, form)
		alone := *both
		alone.Relations = slices.Clone(both.Relations)
		alone.Relations[1].EdgeSplit = nil
		// By relation, whose splits are learned
		for relation, learned := range map[string]*graph.Graph{"": both, "user,buys,item": &alone} {
			first := map[string]int32{"user": 70, "tag": 160}
			change := "model sage, decoder distmult, epochs 3"
			if relation != "" {
				change += ", link-relation " + relation
			}
			right := func(t *testing.T, o *Options, single *Result) { asOGB(t, learned, single, o, first) }
			name := fmt.Sprintf("%s between types %s", form, relation)
			addBenchmark(name, both, change, right, "graph=3", "graph=2,tensor=2")
		}
	}
}
