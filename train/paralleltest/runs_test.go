package paralleltest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/train"
	"weft/train/engine"
	"weft/train/setting"
	"weft/train/worker"
)

// Case is a mesh, and what is expected of it.
type Case struct {
	Mesh mesh.Mesh
	// Engine makes a worker's engine. nil: engine.New.
	Engine func(engine.Config) (engine.Engine, error)
	// Models are the models that it can compute. nil: all.
	Models []string
	// Tolerance bounds the difference of losses, metrics, logits and weights from one worker's, relative to
	// the largest. 0: the same bits.
	Tolerance float64
	// Stage, unless nil, is what a training pass must send between stages.
	Stage func(model string, vertices, hidden int) worker.Traffic
	// Layout, unless nil, is what a training pass must send between slices, if that is known.
	Layout func(o *train.Options, vertices, classes int) (t worker.Traffic, known bool)

	otherwise bool    // has also a run that recomputes what this one keeps, or keeps what it recomputes
	least     float64 // smaller numbers than this may be off as this one is: what is 0 but for rounding
}

// Engines compares runs on meshes with one worker's run, for each model and variant: the training curve, the
// metrics, the logits of all vertices in order, and the weights. No tensor may outlive its epoch, and a plan
// must have the bytes of the run. Recomputation must change neither a bit nor a message. The graph is
// directed, with isolated vertices, self loops and duplicate edges. No number of workers divides the widths.
//
// The plain form of a model runs on two meshes, in turn. Each variant runs on one of them, in turn, every
// second one also with recomputation. The suites share the models of a variant: each has it for one model at
// least, and each model in one suite at least.
func Engines(t *testing.T, suite int, cases ...Case) {
	models := cases[0].Models
	if models == nil {
		models = gnn.Names()
	}
	turn := 0
	for i, model := range models {
		for _, v := range dealt(models, model, suite) {
			if cases[0].Mesh.Stages > 1 && v.oneBlock(model) {
				continue
			}
			here, both := []Case{cases[i%len(cases)], cases[(i+1)%len(cases)]}, true
			if v.name != unchanged {
				here, both = cases[turn%len(cases):][:1], turn/len(cases)%2 == 0
				turn++
			}
			t.Run(model+" "+v.name, func(t *testing.T) { v.check(t, v.options(model), here, both) })
		}
	}
}

// check compares a model in the cases with one worker, and in the first, if asked, with a run that recomputes
// otherwise.
func (v *variant) check(t *testing.T, o train.Options, cases []Case, otherwise bool) {
	g := v.graph(t)
	alone := run(t, &train.Job{Graph: g, Options: o})
	for i, c := range cases {
		c.otherwise = otherwise && i == 0
		t.Run(Name(c.Mesh), func(t *testing.T) {
			divided := o
			if c.Engine == nil && c.Mesh.Partitions > 1 && c.Mesh.Stages == 1 {
				divided = with(o, v.halo)
			}
			c.check(t, g, alone, o, divided)
		})
	}
}

// variant is a graph and settings that cover other code.
type variant struct {
	name       string
	uses       string             // settings that a model must use
	blocks     bool               // it must have a form with residual blocks
	directions int                // directions that the model must aggregate along, 0: one
	change     func(*graph.Graph) // nil: nothing
	set        string             // settings by name
	halo       string             // and those of how rows travel, where the graph axis's own engine runs
}

// suites is how many suites share the models of a variant. The last of them is of stages.
const suites = 3

// dealt are the variants of one of a suite's models: plain, and those others that have their turn. Every
// third of the models that can have a variant has it, or every second of those that stages cannot divide. Of
// fewer each has it in more than one suite.
func dealt(models []string, model string, suite int) []*variant {
	return slices.DeleteFunc(variantsOf(model), func(v *variant) bool {
		share := suites
		if v.oneBlock(model) {
			share--
		}
		alike := slices.DeleteFunc(slices.Clone(models), func(m string) bool {
			return !slices.Contains(variantsOf(m), v) || v.oneBlock(m) != v.oneBlock(model)
		})
		return v.name != unchanged && (slices.Index(alike, model)+suite)%min(share, len(alike)) > 0
	})
}

// TestDealt: each model has each of its variants in one suite at least.
func TestDealt(t *testing.T) {
	for _, model := range gnn.Names() {
		for _, v := range variantsOf(model) {
			n := 0
			for suite := range suites {
				if slices.Contains(dealt(gnn.Names(), model, suite), v) &&
					(suite < suites-1 || !v.oneBlock(model)) {
					n++
				}
			}
			if n == 0 {
				t.Errorf("no suite has %s, %s", model, v.name)
			}
		}
	}
}

// variantsOf are the variants whose settings a model has.
func variantsOf(model string) (list []*variant) {
	kind, _ := gnn.KindOf(model)
	unused := func(setting string) bool { return !kind.Uses(setting) }
	for i := range variants {
		v := &variants[i]
		if !slices.ContainsFunc(strings.Fields(v.uses), unused) && (!v.blocks || kind.ResidualBlocks()) &&
			(v.directions < 2 || !kind.OneDirection && !kind.EdgeFeatures) {
			list = append(list, v)
		}
	}
	return list
}

// graph is Tangled, changed by the variant.
func (v *variant) graph(t *testing.T) *graph.Graph {
	g := Tangled(t)
	if v.change != nil {
		v.change(g)
	}
	return g
}

// oneBlock reports whether one block of the model aggregates, so that stages cannot divide it.
func (v *variant) oneBlock(model string) bool {
	kind, _ := gnn.KindOf(model)
	return strings.Contains(v.set, "decoupled=true") || kind.Uses("rounds") && !kind.Uses("decoupled")
}

// options are those of a model on one worker.
func (v *variant) options(model string) train.Options {
	o := small(model, v.set)
	if o.Decoupled && model == "gin" { // its sums, and so their roundings, grow in each round
		o.LR = 1e-6
	}
	return o
}

// small are the options of a model of three narrow layers, with more settings by name, such as "norm=pair".
func small(model, settings string) train.Options {
	// Adam amplifies single roundings
	return with(train.Defaults(), "model="+model+" layers=3 hidden=10 heads=2 dropout=.3 epochs=3 seed=3 "+
		"threads=1 optimizer=sgd lr=.05 "+settings)
}

// with are options with other settings, by name.
func with(o train.Options, settings string) train.Options {
	all := setting.All()
	for _, pair := range strings.Fields(settings) {
		name, text, _ := strings.Cut(pair, "=")
		k := slices.IndexFunc(all, func(s setting.Setting) bool { return s.Name == name })
		if k < 0 {
			panic("there is no setting " + name)
		}
		exchange.Must(all[k].Set(&o, text))
	}
	return o
}

// unchanged names the variant that changes nothing.
const unchanged = "plain"

// variants are graphs and settings that cover other code.
var variants = []variant{
	{name: unchanged},
	{name: "bfloat16", set: inBFloat16},
	{name: "bfloat16, sparse features, batch norm", change: sparsely, set: inBFloat16 +
		"norm=batch residual=true"},
	{
		name: "sparse features, clipped, pair norm", change: sparsely,
		set: "input-dropout=.2 clip=.5 norm=pair",
	},
	{name: "several labels, some missing", change: func(g *graph.Graph) {
		severally(g)
		for k := 0; k < len(g.Types[0].Labels.Multi); k += 7 {
			g.Types[0].Labels.Multi[k] = float32(math.NaN())
		}
	}},
	{
		name: "several labels, deep prefetch, graph norm", change: severally, set: "norm=graph",
		halo: "prefetch=3",
	},
	{name: "batch norm, residual, halo kept", set: "norm=batch residual=true", halo: "keep-halo=true"},
	{
		name: "both directions, layer norm", uses: "direction", directions: 2,
		set: "direction=both norm=layer", halo: "halo=cover",
	},
	{name: "decoupled", uses: "decoupled", set: decoupled + "teleport=.1 direction=out"},
	{name: "decoupled, no teleport", uses: "decoupled", set: decoupled, halo: "halo=cover"},
	{
		name: "decoupled, attention dropout", uses: "decoupled attention-dropout",
		set: "decoupled=true attention-dropout=.4 heads=1", halo: "keep-halo=true",
	},
	{name: "residual blocks", blocks: true, set: "blocks=residual", halo: "halo=cover"},
	{
		name: "residual blocks, both directions, batch norm", blocks: true, directions: 2,
		set: "blocks=residual direction=both norm=batch",
	},
	{name: "separate weights", uses: "shared-weights", set: "shared-weights=false direction=out"},
	{name: "attention dropout", uses: "attention-dropout", set: "attention-dropout=.4"},
	{
		name: "transform dropout, no prefetch", uses: "transform-dropout", set: "transform-dropout=.3",
		halo: "prefetch=0",
	},
	{name: "edge features", uses: "use-edge-features", set: "use-edge-features=true"},
	{
		name: "edge features, bfloat16, attention dropout", uses: "use-edge-features",
		set: inBFloat16 + "use-edge-features=true attention-dropout=.4", halo: "keep-halo=true",
	},
	{
		name: "edge features in residual blocks", uses: "use-edge-features", blocks: true,
		set: "use-edge-features=true blocks=residual attention-dropout=.3",
	},
}

const (
	bfloat16   = "bf16"
	inBFloat16 = "precision=" + bfloat16 + " "
	decoupled  = "decoupled=true norm=batch heads=1 "
)

// check runs a divided model, and compares it with one worker's run with the options o.
func (c *Case) check(t *testing.T, g *graph.Graph, alone *train.Result, o, divided train.Options) {
	if c.Mesh.Stages > 1 { // one chunk for each partition is exact
		divided.Chunks = axis.Chunks(c.Mesh.Partitions)
	}
	got := asPlanned(t, c.job(t, g, divided))
	switch {
	case o.Precision == bfloat16:
		c = c.inBFloat16(t, g, divided, got)
	// while it subtracts the whole mean, the gradient of a bias before it is 0 but for rounding
	case o.Norm == "graph":
		c.least = 1e-3
	}
	c.near(t, "losses", got.Losses, alone.Losses)
	c.near(t, "metrics", []float64{got.Train, got.Val, got.Test, got.ValLoss},
		[]float64{alone.Train, alone.Val, alone.Test, alone.ValLoss})
	c.near(t, "logits", doubles(got.Logits), doubles(alone.Logits))
	if names, want := slices.Sorted(maps.Keys(got.Weights)), slices.Sorted(
		maps.Keys(alone.Weights)); !slices.Equal(names, want) {
		t.Errorf("weights %v, want %v", names, want)
	}
	for name, w := range alone.Weights {
		c.near(t, name, doubles(got.Weights[name].Float32), doubles(w.Float32))
	}
	if c.otherwise {
		c.otherwiseRecomputed(t, g, divided, got)
	}
	sent := got.Communication
	if c.Stage != nil {
		if want := c.Stage(o.Model, g.Vertices(), o.Hidden); sent.Stage != want {
			t.Errorf("sent %+v between stages, the formula says %+v", sent.Stage, want)
		}
	}
	if c.Layout != nil {
		if want, known := c.Layout(&o, g.Vertices(),
			g.Types[0].Labels.Classes); known && sent.Layout != want {
			t.Errorf("sent %+v between slices, the formula says %+v", sent.Layout, want)
		}
	}
	again := predict(t, c.job(t, g, divided), got.Weights)
	if !slices.Equal(again.Logits, got.Logits) {
		t.Error("the weights, loaded again, give other logits")
	}
	c.near(t, "embeddings", doubles(again.Embeddings),
		doubles(predict(t, &train.Job{Graph: g, Options: o}, got.Weights).Embeddings))
}

// inBFloat16 is the case for values that are off by 2⁻⁸ of themselves whenever they are stored. Other sums
// than one worker's, rounded to double or single precision, are seldom rounded to another bfloat16, and so
// only few values differ from one worker's. It compares what was sent with a plan in Float32: "bytes on the
// wire exactly half", but for scores of attention, which stay Float32.
func (c *Case) inBFloat16(t *testing.T, g *graph.Graph, o train.Options, got *train.Result) *Case {
	t.Helper()
	o.Precision = "f32"
	plan, err := c.job(t, g, o).Plan(context.Background())
	require.NoError(t, err)
	whole, half := worker.SumOf(plan.Sent), got.Communication
	for _, k := range []struct {
		what        string
		whole, half worker.Traffic
	}{
		{"halo", whole.Halo, half.Halo},
		{"layout", whole.Layout, half.Layout},
		{"stage", whole.Stage, half.Stage},
	} {
		exactly := k.whole.Bytes == 2*k.half.Bytes
		if scores := o.Model == "gat" && 2*k.half.Bytes > k.whole.Bytes &&
			k.half.Bytes < k.whole.Bytes; !exactly && !scores {
			t.Errorf("%s: %d bytes were sent, where %d are in Float32", k.what, k.half.Bytes, k.whole.Bytes)
		}
	}
	return &Case{Mesh: c.Mesh, Engine: c.Engine, Tolerance: max(c.Tolerance, 1./32), least: o.LR}
}

// asPlanned trains, and compares the run's memory and bytes with its plan.
func asPlanned(t *testing.T, j *train.Job) *train.Result {
	t.Helper()
	p, err := j.Plan(context.Background())
	require.NoError(t, err)
	r := run(t, j)
	if !slices.Equal(p.PeakTensorBytes, r.PeakTensorBytes) || !slices.Equal(p.GraphBytes, r.GraphBytes) {
		t.Errorf("took %d bytes and %d for the graph, planned %d and %d", r.PeakTensorBytes, r.GraphBytes,
			p.PeakTensorBytes, p.GraphBytes)
	}
	planned, sent := worker.SumOf(p.Sent), r.Communication
	if planned.Halo != sent.Halo || planned.Layout != sent.Layout || planned.Stage != sent.Stage {
		t.Errorf("sent %+v, planned %+v", sent, planned)
	}
	return r
}

// otherwiseRecomputed runs with recomputation where the run that gave want had none, or without where it had.
// The bits must be the same. With one stage nothing else may be sent or aggregated.
func (c *Case) otherwiseRecomputed(t *testing.T, g *graph.Graph, o train.Options, want *train.Result) {
	t.Helper()
	o.Recompute = setting.RecomputeBlocks
	if c.Mesh.Stages > 1 {
		o.Recompute = setting.RecomputeNone
	}
	got := asPlanned(t, c.job(t, g, o))
	sameBits(t, "recompute "+o.Recompute, got, want)
	if c.Mesh.Stages > 1 {
		return
	}
	if got.Communication != want.Communication || !slices.Equal(got.EdgeColumns, want.EdgeColumns) {
		t.Errorf("recompute %s: sent %+v and aggregated %d, want %+v and %d", o.Recompute,
			got.Communication, got.EdgeColumns, want.Communication, want.EdgeColumns)
	}
}

// sameBits fails unless two runs have the same losses, logits and weights.
func sameBits(t *testing.T, what string, got, want *train.Result) {
	t.Helper()
	if !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Logits, want.Logits) {
		t.Errorf("%s: losses %v, want %v, or other logits", what, got.Losses, want.Losses)
	}
	for name, w := range want.Weights {
		if !slices.Equal(got.Weights[name].Float32, w.Float32) {
			t.Errorf("%s: other values of %s", what, name)
		}
	}
}

// job is the job of a case.
func (c *Case) job(t *testing.T, g *graph.Graph, o train.Options) *train.Job {
	t.Helper()
	return &train.Job{
		Graph: g, Options: o, Mesh: c.Mesh, Engine: c.Engine,
		Parts: parts(t, g, c.Mesh.Partitions),
	}
}

// run trains, and compares each epoch's live bytes with the second epoch's. Workers that hold several
// partitions may also have messages of one that is ahead: theirs are compared with nothing.
func run(t *testing.T, j *train.Job) *train.Result {
	t.Helper()
	live := int64(0)
	j.OnEpoch = func(e train.Epoch) {
		if e.Epoch == 2 {
			live = e.LiveBytes
		}
		if ahead := j.Options.Partitions > 0 && j.Options.Parallel != "graph=1"; e.Epoch > 2 &&
			e.LiveBytes != live && !ahead {
			t.Errorf("%d bytes live after epoch %d, %d after epoch 2", e.LiveBytes, e.Epoch, live)
		}
	}
	r, err := j.Run(context.Background())
	require.NoError(t, err)
	return r
}

func predict(t *testing.T, j *train.Job, weights nn.State) *train.Prediction {
	t.Helper()
	p, err := j.Predict(context.Background(), weights, train.WithEmbeddings)
	require.NoError(t, err)
	return p
}

// parts divides the graph at random into k partitions. Of three or more the last is empty.
func parts(t *testing.T, g *graph.Graph, k int) *train.Parts {
	t.Helper()
	if k == 1 {
		return nil
	}
	filled, r, owners := k, rand.New(rand.NewPCG(1, uint64(k))), make([]int32, g.Vertices())
	if k > 2 {
		filled--
	}
	for v := range owners {
		owners[v] = int32(r.IntN(filled))
	}
	return partsOf(t, g, k, owners)
}

// inTurn divides the graph's vertices among k partitions in turn.
func inTurn(t *testing.T, g *graph.Graph, k int) *train.Parts {
	t.Helper()
	return partsOf(t, g, k, Dividings(g.Vertices(), k)["in turn"])
}

// partsOf divides the graph into k partitions; owners is the partition of each vertex.
func partsOf(t *testing.T, g *graph.Graph, k int, owners []int32) *train.Parts {
	t.Helper()
	shares, err := partition.Split(g, &partition.Assignment{K: k, Parts: owners})
	require.NoError(t, err)
	return &train.Parts{
		Whole: shares[0].Whole,
		Open:  func(p int) (*partition.Share, error) { return shares[p], nil },
	}
}

// near compares with one worker's values.
func (c *Case) near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	tolerance, largest := c.Tolerance, 0.
	for _, x := range want {
		largest = max(largest, math.Abs(x))
	}
	if largest > 0 {
		tolerance *= max(1, c.least/largest)
	}
	near(t, what, got, want, tolerance)
}

// sparsely makes the features sparse, and keeps those above zero.
func sparsely(g *graph.Graph) {
	s := graph.Features{Columns: g.Types[0].Features.Columns, Indptr: []int64{0}}
	for at, x := range g.Types[0].Features.Dense {
		if x > 0 {
			s.Indices, s.Data = append(s.Indices, int32(at%s.Columns)), append(s.Data, x)
		}
		if at%s.Columns == s.Columns-1 {
			s.Indptr = append(s.Indptr, int64(len(s.Data)))
		}
	}
	g.Types[0].Features = s
}

// severally gives each vertex several labels: its class, and for every other vertex the next class.
func severally(g *graph.Graph) {
	l := &g.Types[0].Labels
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
