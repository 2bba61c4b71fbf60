package train

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/partition"
	"weft/train/task"
)

// TestJobRefuses: a job made by a program is checked as the command's jobs are.
func TestJobRefuses(t *testing.T) {
	g := tangled(t)
	broken := *g.Copy()
	broken.Types[0].Labels.Class = slices.Clone(g.Types[0].Labels.Class)
	broken.Types[0].Labels.Class[3] = 99
	for name, j := range map[string]Job{
		"eval-every": {Graph: g, Options: func() Options { o := Defaults(); o.EvalEvery = -1; return o }()},
		"norm":       {Graph: g, Options: func() Options { o := Defaults(); o.Norm = "bach"; return o }()},
		"graph":      {Options: Defaults()},
		"class 99":   {Graph: &broken, Options: Defaults()},
		"the graph has 0 vertex types and 1 relations": {
			Graph: &graph.Graph{Relations: g.Relations}, Options: Defaults(),
		},
		"split 7": {Graph: g, Options: func() Options { o := Defaults(); o.Split.Number = 7; return o }()},
	} {
		t.Run(name, func(t *testing.T) {
			_, runErr := j.Run(context.Background())
			_, planErr := j.Plan(context.Background())
			for _, err := range []error{runErr, planErr} {
				assert.Refused(t, err, name)
			}
		})
	}
}

// TestCancelledBeforeTheFirstEpoch: neither a plan nor a run does any work, on one worker or more. Both
// return the cause.
func TestCancelledBeforeTheFirstEpoch(t *testing.T) {
	g, o := tangled(t), networks()["sage"]
	why := errors.New("a signal")
	for _, j := range []*Job{{Graph: g, Options: o}, divided(t, g, o, 3, nil)} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		j.OnEpoch = func(Epoch) { t.Error("an epoch was run") }
		_, err := j.Plan(ctx)
		assert.ErrorIs(t, err, why, "%q: planned", j.Options.Parallel)
		if r, err := j.Run(ctx); r != nil || !errors.Is(err, why) {
			t.Errorf("%q: ran with %v", j.Options.Parallel, err)
		}
	}
}

// TestIdentityBlock: a block may return its input. Attention over features without gradients leaks no memory.
func TestIdentityBlock(t *testing.T) {
	g := tangled(t)
	o := apply(Defaults(), "epochs 3")
	var live []int64
	j := Job{Graph: g, Options: o, OnEpoch: func(e Epoch) {
		live = append(live, e.LiveBytes)
	}, Model: func(features, classes int) []gnn.BlockSpec {
		same := gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) { return x, nil })
		attend := func(e gnn.Env) gnn.Block {
			a, b := e.Params.Attention("a", 1, features), e.Params.Attention("b", 1, features)
			w := e.Params.Weight("w", features, classes, nn.Glorot(features, classes))
			p := e.Propagators("first", gnn.Along{Relation: e.Only()})
			return gnn.NewLayer(gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
				t := x.Tape()
				z := p.Attend(gnn.Attention{
					Source: x, Target: x, ASource: a.On(t), ATarget: b.On(t),
					Heads: 1, Slope: 0.2, Loops: gnn.OneLoop,
				}, gnn.Once)
				return autograd.Linear(z, w.On(t)), nil
			}), gnn.TypeLayer{})
		}
		return []gnn.BlockSpec{
			{In: features, Out: features, Build: func(gnn.Env) gnn.Block {
				return gnn.NewLayer(same, gnn.TypeLayer{})
			}},
			{In: features, Out: classes, Build: attend},
		}
	}}
	r, err := j.Run(context.Background())
	require.NoError(t, err)
	assert.Equal(t, slices.Max(live), slices.Min(live), "live bytes after each epoch: %d", live)
	if r.Losses[2] >= r.Losses[0] {
		t.Errorf("losses %v do not fall", r.Losses)
	}
}

// TestPatienceBelowEvalEvery: patience may run out before the first evaluation.
func TestPatienceBelowEvalEvery(t *testing.T) {
	o := apply(networks()["gcn"], "epochs 9, eval-every 5, patience 2")
	r, err := (&Job{Graph: tangled(t), Options: o}).Run(context.Background())
	if err != nil || r.Epochs != 2 || r.BestEpoch != 2 || r.Ended != EndedPatience {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestPlanSaysThatTheLastEpochCounts: without validation vertices the last epoch is the best.
func TestPlanSaysThatTheLastEpochCounts(t *testing.T) {
	g := tangled(t)
	g.Types[0].Splits[0].Test, g.Types[0].Splits[0].Val = append(g.Types[0].Splits[0].Test,
		g.Types[0].Splits[0].Val...), []int64{}
	slices.Sort(g.Types[0].Splits[0].Test)
	for _, choice := range []string{"metric", "loss"} {
		o := networks()["gcn"]
		o.Epochs, o.Patience, o.Select = 4, 1, choice
		job := &Job{Graph: g, Options: o}
		plan, err := job.Plan(context.Background())
		if err != nil || plan.Workers[0].Validates {
			t.Fatalf("%v, want a plan in which nothing validates", err)
		}
		r, err := job.Run(context.Background())
		if err != nil || r.Epochs != 4 || r.BestEpoch != 4 {
			t.Fatalf("%s: %d epochs, best %d, %v", choice, r.Epochs, r.BestEpoch, err)
		}
	}
}

// TestMain fails where a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// TestSplitSetting: a rule divides the vertices as graph.MakeSplits does with that seed, of the job's graph
// alone, and of a graph that has no split.
func TestSplitSetting(t *testing.T) {
	g := tangled(t)
	stored := *g.Copy()
	require.NoError(t, stored.MakeSplits("random:40/30/30", 1, 7))
	bare := *g.Copy()
	bare.Types[0].Splits = nil
	for _, engine := range []string{"", "graph=2"} {
		o := apply(networks()["gcn"], "epochs 3")
		o.Parallel = engine
		want := run(t, &stored, o).Losses
		o.Split, o.SplitSeed = task.Split{Rule: "random:40/30/30"}, 7
		assert.Equal(t, want, run(t, &bare, o).Losses, "%s", engine)
		assert.Equal(t, want, run(t, g, o).Losses, "%s, in the place of a split", engine)
		o.SplitSeed = 8
		if other := run(t, g, o).Losses; slices.Equal(other, want) {
			t.Errorf("%s: another seed gives the same losses", engine)
		}
	}
	assert.Equal(t, 0, len(bare.Types[0].Splits), "splits of the caller's graph")
}

// TestRunTwice: whatever its caller changes after a run, in the options or in the graph, a job gives the
// losses and partitions of a new one.
func TestRunTwice(t *testing.T) {
	changes := []struct {
		name   string
		change func(j *Job)
	}{
		{"nothing", func(*Job) {}},
		{"edges", func(j *Job) { j.Graph.Relations[0] = tangle(t, 300, 50).Relations[0] }},
		{"labels", func(j *Job) { j.Graph.Types[0].Labels.Class[j.Graph.Types[0].Splits[0].Train[0]] ^= 1 }},
		{"seed of splits", func(j *Job) { j.Options.SplitSeed++ }},
		{"sizes of a split", func(j *Job) { j.Options.Split.Rule = "random:20/40/40" }},
		{"the graph's split", func(j *Job) { j.Options.Split = task.Split{} }},
		{
			"its lists",
			func(j *Job) { j.Graph.Types[0].Splits[0].Train = j.Graph.Types[0].Splits[0].Train[1:] },
		},
		{"method of partitions", func(j *Job) { j.Options.Partition = partition.Range }},
		{"balance of partitions", func(j *Job) { j.Options.Balance = partition.ByEdges }},
		{"seed", func(j *Job) { j.Options.Seed++ }},
		{"number of partitions", func(j *Job) { j.Options.Parallel = "graph=3" }},
		{"another graph", func(j *Job) { j.Graph = tangle(t, 200, 100) }},
	}
	for _, engine := range []string{"tensor=1", "graph=2", "pipeline=2"} {
		o := apply(networks()["gcn"], "split random:40/30/30, split-seed 7, threads 1")
		o.Parallel = engine
		type outcome struct {
			losses []float64
			counts partition.Statistics
		}
		runOnce := func(j *Job) outcome {
			r := mustRun(t, j)
			r.Whole.Statistics.Seconds = 0
			return outcome{r.Losses, r.Whole.Statistics}
		}
		j := &Job{Graph: tangle(t, 300, 500), Options: o}
		before := runOnce(j)
		for i, c := range changes {
			if strings.HasSuffix(c.name, "partitions") && engine != "graph=2" {
				continue
			}
			c.change(j)
			_, err := j.Plan(t.Context())
			require.NoError(t, err)
			got := runOnce(j)
			assert.Equal(t, runOnce(&Job{Graph: j.Graph, Options: j.Options}), got, "%s: %s", engine, c.name)
			if same := reflect.DeepEqual(before, got); same != (i == 0) {
				t.Errorf("%s: the same outcome as before: %v", c.name, same)
			}
			before = got
		}
		assert.Equal(t, (*Parts)(nil), j.Parts, "%s: parts", engine)
	}
}

// TestMistakeInShapes: a mistake in the shapes of a caller's own model or loss is refused on every mesh, by a
// plan and by a run, with the layer's path and both shapes.
func TestMistakeInShapes(t *testing.T) {
	g := tangle(t, 300, 100) // of 13 features and 5 classes
	// two layers with a weight each, of so many rows and columns
	model := func(in0, out0, in1, out1 int) func(features, classes int) []gnn.BlockSpec {
		layer := func(path string, in, out int) gnn.BlockSpec {
			return gnn.BlockSpec{In: in, Out: out, Cost: gnn.Cost{Edge: 1}, Build: func(e gnn.Env) gnn.Block {
				w := e.Params.Weight(path+".lin.weight", in, out, nn.Glorot(in, out))
				return gnn.NewLayer(gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
					return autograd.Linear(x, w.On(x.Tape())), nil
				}), gnn.TypeLayer{})
			}}
		}
		return func(_, _ int) []gnn.BlockSpec {
			return []gnn.BlockSpec{layer("first", in0, out0), layer("head.last", in1, out1)}
		}
	}
	wrongLoss := func(output *autograd.Var, _ nn.Labels) *autograd.Var {
		return autograd.Multiply(output, autograd.Filled(output, 1, func([]float32) {}))
	}
	for _, c := range []struct {
		model func(features, classes int) []gnn.BlockSpec
		loss  nn.LossFunc
		want  string // the second is a pipeline's, whose stages send what blocks say
	}{
		{
			model(14, 8, 8, 5), nil,
			`^layer 0 \(first.lin\): a product of \d+×13 and 14×8: the second needs 13 rows$`,
		},
		{
			model(13, 8, 7, 5), nil,
			`^layer 1 \(head.last.lin\): a product of \d+×8 and 7×5: the second needs 8 rows$|` +
				`^layer 1 of the model takes 7 columns, and layer 0 gives 8$`,
		},
		{model(13, 8, 8, 4), nil, `^the model gives \d+×4, and the labels need 5 columns$`},
		{
			model(13, 8, 8, 5), wrongLoss,
			`^the job's own loss: an operation takes matrices of one shape, and gets (\d+)×5 and (\d+)×1$`,
		},
	} {
		for _, mesh := range []string{"", "graph=2", "tensor=2", "pipeline=2", "graph=2/4"} {
			o := apply(Defaults(), "epochs 1")
			j := onMesh(g, o, mesh)
			j.Model, j.Loss = c.model, c.loss
			_, planned := j.Plan(t.Context())
			_, ran := j.Run(t.Context())
			for _, err := range []error{planned, ran} {
				if !Refused(err) || !regexp.MustCompile(c.want).MatchString(err.Error()) {
					t.Errorf("%s: %v, want %s", mesh, err, c.want)
				}
			}
		}
	}
}
