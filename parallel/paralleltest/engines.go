package paralleltest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train"
	"weft/train/engine"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// Case is a way of dividing the work over the workers of a mesh.
type Case struct {
	Mesh mesh.Mesh
	// Engine makes a worker's engine; nil: the one that belongs to the mesh.
	Engine func(engine.Config) (engine.Engine, error)
	// Models are those that it can compute; nil: all that are known by name.
	Models []string
	// Tolerance bounds how far losses, metrics, logits and weights are from one worker's, as a part of the
	// largest; 0: they have the same bits.
	Tolerance float64
	// Stage, unless nil, is what the training pass of an epoch has to send between stages.
	Stage func(model string, vertices, hidden int) worker.Traffic
	// Layout, unless nil, is what it has to send between slices, where that is known.
	Layout func(o *train.Options, vertices, classes int) (t worker.Traffic, known bool)
}

// Engines holds a way of dividing the work to what one worker computes, for each model, on a directed graph
// with isolated vertices, self loops and duplicate edges, with widths that no number of workers divides: the
// training curve, the metrics, the logits of all vertices in their order and the weights are those of one
// worker; no tensor outlives its epoch; and a plan names the bytes of the run.
func Engines(t *testing.T, c Case) {
	models := c.Models
	if models == nil {
		models = gnn.Names()
	}
	for _, model := range models {
		kind, _ := gnn.KindOf(model)
		for _, v := range variants {
			if !v.fits(kind) {
				continue
			}
			t.Run(model+" "+v.name, func(t *testing.T) {
				g := Tangled(t)
				if v.change != nil {
					v.change(g)
				}
				o := train.Defaults()
				o.Layers, o.Hidden, o.Dropout, o.Epochs, o.Seed, o.Threads = 3, 10, .3, 4, 3, 1
				o.Model = model
				o.Optimizer, o.LR, o.Heads = "sgd", .05, 2 // Adam makes single roundings grow
				if v.set != nil {
					v.set(&o)
				}
				if o.Decoupled && c.Mesh.Stages > 1 {
					t.Skip("one block aggregates, which is not divided")
				}
				divided := o
				if v.halo != nil && c.Engine == nil && c.Mesh.Partitions > 1 && c.Mesh.Stages == 1 {
					v.halo(&divided)
				}
				if c.Mesh.Stages > 1 { // a chunk for each partition is exact
					divided.Chunks = setting.Chunks(c.Mesh.Partitions)
				}
				c.check(t, g, model, o, divided)
			})
		}
	}
}

// variant is a graph and settings that reach other code.
type variant struct {
	name   string
	uses   string             // a setting that a model must use
	blocks bool               // it must have a form with residual blocks
	ways   int                // along the edges that it aggregates, 0: one
	change func(*graph.Graph) // nil: nothing
	set    func(*train.Options)
	halo   func(*train.Options) // how rows travel where the graph axis's own engine runs
}

// fits reports whether a model has the settings.
func (v *variant) fits(kind gnn.ModelKind) bool {
	return (v.uses == "" || kind.Uses(v.uses)) && (!v.blocks || kind.ResidualBlocks()) && (v.ways < 2 || !kind.OneWay)
}

// variants are graphs and settings that reach other code.
var variants = []variant{
	{name: "plain"},
	{name: "sparse features, clipped", change: Sparsely, set: func(o *train.Options) { o.InputDropout, o.Clip = .2, .5 }},
	{name: "several labels, some missing", change: func(g *graph.Graph) {
		severally(g)
		for k := 0; k < len(g.Labels.Multi); k += 7 {
			g.Labels.Multi[k] = float32(math.NaN())
		}
	}},
	{name: "several labels, deep prefetch", change: severally, halo: func(o *train.Options) { o.Prefetch = 3 }},
	{
		name: "batch norm, residual, halo kept",
		set:  func(o *train.Options) { o.Norm, o.Residual = "batch", true }, halo: func(o *train.Options) { o.KeepHalo = true },
	},
	{name: "both directions, layer norm", uses: "direction", ways: 2, set: func(o *train.Options) { o.Direction, o.Norm = "both", "layer" }},
	{name: "decoupled", uses: "decoupled", set: func(o *train.Options) {
		o.Teleport, o.Direction = .1, "out"
		decoupled(o)
	}},
	{name: "decoupled, no teleport", uses: "decoupled", set: decoupled},
	{name: "decoupled, gradient stopped", uses: "attention-gradient", set: func(o *train.Options) {
		o.Decoupled, o.AttentionGradient, o.AttentionDropout, o.Heads = true, "stop", .4, 1
	}, halo: func(o *train.Options) { o.KeepHalo = true }},
	{name: "residual blocks", blocks: true, set: func(o *train.Options) { o.Blocks = "residual" }},
	{name: "residual blocks, both directions, batch norm", blocks: true, ways: 2, set: func(o *train.Options) {
		o.Blocks, o.Direction, o.Norm = "residual", "both", "batch"
	}},
	{name: "separate weights", uses: "shared-weights", set: func(o *train.Options) { o.SharedWeights, o.Direction = false, "out" }},
	{name: "attention dropout", uses: "attention-dropout", set: func(o *train.Options) { o.AttentionDropout = .4 }},
	{
		name: "transform dropout, no prefetch", uses: "transform-dropout",
		set: func(o *train.Options) { o.TransformDropout = .3 }, halo: func(o *train.Options) { o.Prefetch = 0 },
	},
}

// decoupled makes the model decoupled.
func decoupled(o *train.Options) {
	o.Decoupled, o.Norm, o.Heads = true, "batch", 1
	if o.Model == "gin" { // whose sums grow in each round, and roundings with them
		o.LR = 1e-6
	}
}

// check runs one model on one worker and divided, each with its options.
func (c *Case) check(t *testing.T, g *graph.Graph, model string, o, divided train.Options) {
	alone, _ := run(t, &train.Job{Graph: g, Options: o})
	got, plan := run(t, c.job(t, g, divided))
	c.near(t, "losses", got.Losses, alone.Losses)
	c.near(t, "metrics", []float64{got.Train, got.Val, got.Test, got.ValLoss}, []float64{alone.Train, alone.Val, alone.Test, alone.ValLoss})
	c.near(t, "logits", doubles(got.Logits), doubles(alone.Logits))
	if names, want := slices.Sorted(maps.Keys(got.Weights)), slices.Sorted(maps.Keys(alone.Weights)); !slices.Equal(names, want) {
		t.Errorf("weights %v, want %v", names, want)
	}
	for name, w := range alone.Weights {
		c.near(t, name, doubles(got.Weights[name].Float32), doubles(w.Float32))
	}
	if !slices.Equal(plan.PeakTensorBytes, got.PeakTensorBytes) || !slices.Equal(plan.GraphBytes, got.GraphBytes) {
		t.Errorf("took %d bytes and %d for the graph, planned %d and %d", got.PeakTensorBytes, got.GraphBytes, plan.PeakTensorBytes, plan.GraphBytes)
	}
	planned, sent := worker.SumOf(plan.Sent), got.Communication
	if planned.Halo != sent.Halo || planned.Layout != sent.Layout || planned.Stage != sent.Stage {
		t.Errorf("sent %+v, planned %+v", sent, planned)
	}
	shorter := divided
	shorter.Epochs = 2
	if r, _ := run(t, c.job(t, g, shorter)); !slices.Equal(r.LiveBytes, got.LiveBytes) {
		t.Errorf("%d bytes live after %d epochs, %d after %d", got.LiveBytes, o.Epochs, r.LiveBytes, shorter.Epochs)
	}
	if c.Stage != nil {
		if want := c.Stage(model, g.Vertices(), o.Hidden); sent.Stage != want {
			t.Errorf("sent %+v between stages, the formula says %+v", sent.Stage, want)
		}
	}
	if c.Layout != nil {
		if want, known := c.Layout(&o, g.Vertices(), g.Labels.Classes); known && sent.Layout != want {
			t.Errorf("sent %+v between slices, the formula says %+v", sent.Layout, want)
		}
	}
	again := predict(t, c.job(t, g, divided), got.Weights)
	if !slices.Equal(again.Logits, got.Logits) {
		t.Error("the weights, loaded again, give other logits")
	}
	c.near(t, "embeddings", doubles(again.Embeddings), doubles(predict(t, &train.Job{Graph: g, Options: o}, got.Weights).Embeddings))
}

// job is the case's.
func (c *Case) job(t *testing.T, g *graph.Graph, o train.Options) *train.Job {
	t.Helper()
	return &train.Job{Graph: g, Options: o, Mesh: c.Mesh, Engine: c.Engine, Parts: parts(t, g, c.Mesh.Partitions)}
}

// run trains, and holds each epoch's live bytes to the second one's.
func run(t *testing.T, j *train.Job) (*train.Result, plan.Plan) {
	t.Helper()
	plan, err := j.Plan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	live := int64(0)
	j.OnEpoch = func(e train.Epoch) {
		if e.Epoch == 2 {
			live = e.LiveBytes
		}
		if e.Epoch > 2 && e.LiveBytes != live {
			t.Errorf("%d bytes live after epoch %d, %d after epoch 2", e.LiveBytes, e.Epoch, live)
		}
	}
	r, err := j.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r, plan
}

func predict(t *testing.T, j *train.Job, weights nn.State) *train.Prediction {
	t.Helper()
	p, err := j.Predict(context.Background(), weights, train.WithEmbeddings)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// parts divides the graph at random into k partitions, of which the last is empty where there are three or
// more.
func parts(t *testing.T, g *graph.Graph, k int) *train.Parts {
	t.Helper()
	if k == 1 {
		return nil
	}
	filled, r := k, rand.New(rand.NewPCG(1, uint64(k)))
	if k > 2 {
		filled--
	}
	a := partition.Assignment{K: k, Of: make([]int32, g.Vertices())}
	for v := range a.Of {
		a.Of[v] = int32(r.IntN(filled))
	}
	shares, err := partition.Split(g, &a)
	if err != nil {
		t.Fatal(err)
	}
	return &train.Parts{Whole: shares[0].Whole, Open: func(p int) (*partition.Share, error) { return shares[p], nil }}
}

// near compares with one worker's values.
func (c *Case) near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	near(t, what, got, want, c.Tolerance)
}

// near fails where two results differ by more than a part of the largest number.
func near(t testing.TB, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	largest := 0.0
	for _, x := range want {
		largest = math.Max(largest, math.Abs(x))
	}
	for i, x := range got {
		if d := math.Abs(x - want[i]); !(d <= tolerance*largest) {
			t.Errorf("%s: number %d is %v, want %v", what, i, x, want[i])
			return
		}
	}
}

func doubles(x []float32) []float64 {
	d := make([]float64, len(x))
	for i, v := range x {
		d[i] = float64(v)
	}
	return d
}

// Tangled is a directed graph of 151 vertices, of which every seventh has no edge, with self loops and
// duplicate edges, 13 features and 5 classes.
func Tangled(t testing.TB) *graph.Graph {
	t.Helper()
	const vertices, edges, features, classes = 151, 900, 13, 5
	r := rand.New(rand.NewPCG(5, 7))
	connected := func() int32 {
		for {
			if v := r.Int32N(vertices); v%7 != 0 {
				return v
			}
		}
	}
	var e graph.Edges
	for range edges {
		u, v := connected(), connected()
		if r.IntN(20) == 0 {
			u = v
		}
		for range 1 + r.IntN(10)/9 {
			e.Source, e.Target = append(e.Source, u), append(e.Target, v)
		}
	}
	relation, err := graph.NewRelation(vertices, e)
	if err != nil {
		t.Fatal(err)
	}
	g := &graph.Graph{Relations: []graph.Relation{relation}, Features: graph.Features{Columns: features}, Labels: graph.Labels{Classes: classes}, Splits: make([]graph.Split, 1)}
	for v := range int64(vertices) {
		class := int64(r.IntN(classes))
		g.Labels.Class = append(g.Labels.Class, class)
		for c := range features {
			x := float32(r.NormFloat64())
			if c%classes == int(class) {
				x++
			}
			g.Features.Dense = append(g.Features.Dense, x)
		}
		s := &g.Splits[0]
		part := []*[]int64{&s.Train, &s.Train, &s.Val, &s.Test}[v%4]
		*part = append(*part, v)
	}
	return g
}

// Sparsely keeps the features that are above zero, in compressed rows.
func Sparsely(g *graph.Graph) {
	s := graph.Features{Columns: g.Features.Columns, Indptr: []int64{0}}
	for at, x := range g.Features.Dense {
		if x > 0 {
			s.Indices, s.Data = append(s.Indices, int32(at%s.Columns)), append(s.Data, x)
		}
		if at%s.Columns == s.Columns-1 {
			s.Indptr = append(s.Indptr, int64(len(s.Data)))
		}
	}
	g.Features = s
}

// severally gives each vertex its class and, to every other one, the next class too.
func severally(g *graph.Graph) {
	l := &g.Labels
	l.Multi = make([]float32, len(l.Class)*l.Classes)
	for v, class := range l.Class {
		l.Multi[v*l.Classes+int(class)] = 1
		if v%2 == 0 {
			l.Multi[v*l.Classes+(int(class)+1)%l.Classes] = 1
		}
	}
	l.Class = nil
}

// Name names a mesh in tests.
func Name(m mesh.Mesh) string { return fmt.Sprintf("%d×%d×%d", m.Stages, m.Partitions, m.Slices) }
