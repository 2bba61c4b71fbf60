package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/comm"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/parallel/edges"
	"weft/partition"
	"weft/train/setting"
	"weft/train/task"
)

// divided is a job on k workers. owners assigns vertices to them; nil: a permutation does.
func divided(t *testing.T, g *graph.Graph, o Options, k int, owners []int32) *Job {
	t.Helper()
	o.Parallel = fmt.Sprintf("graph=%d", k)
	o.Partition, o.Threads = partition.Random, 1
	j := &Job{Graph: g, Options: o}
	if owners != nil {
		shares, err := partition.Split(g, &partition.Assignment{K: k, Parts: owners})
		require.NoError(t, err)
		j.Parts = &Parts{
			Whole: shares[0].Whole, Open: func(p int) (*partition.Share, error) { return shares[p], nil },
		}
	}
	return j
}

// onMesh is a job on a mesh with random partitions. Workers of graph=2/4 hold four partitions in turns.
func onMesh(g *graph.Graph, o Options, mesh string) *Job {
	mesh, partitions, turns := strings.Cut(mesh, "/")
	if o.Parallel, o.Threads = mesh, 1; turns {
		o.Partitions = setting.Partitions(partitions[0] - '0')
	}
	if turns || strings.Contains(mesh, "graph=") {
		o.Partition = partition.Random
	}
	return &Job{Graph: g, Options: o}
}

// away is the largest relative difference of two curves.
func away(a, b []float64) (d float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		d = math.Max(d, math.Abs(a[i]-b[i])/math.Abs(a[i]))
	}
	return d
}

// haloOf returns one of the choices of what travels; rows where edges are dropped, which those of partial
// sums are not.
func haloOf(o *Options, i int) edges.Halo {
	if o.DropEdge > 0 {
		return edges.HaloRows
	}
	return edges.Halo(i)
}

func mustRun(t *testing.T, j *Job) *Result {
	t.Helper()
	r, err := j.Run(context.Background())
	require.NoError(t, err)
	return r
}

// TestClassWeights: balanced weights are n/(C·n_c) of the training vertices: a file with these has the same
// bits. Label smoothing takes no memory.
func TestClassWeights(t *testing.T) {
	g, o := tangled(t), Defaults()
	o.Model, o.LR, o.Epochs, o.Threads = "gcn", .001, 3, 1
	counts := make([]float64, g.Types[0].Labels.Classes)
	for _, v := range g.Types[0].Splits[0].Train {
		counts[g.Types[0].Labels.Class[v]]++
	}
	var text strings.Builder
	for _, n := range counts {
		fmt.Fprintln(&text, float64(len(g.Types[0].Splits[0].Train))/(float64(len(counts))*n))
	}
	file := filepath.Join(t.TempDir(), "weights.txt")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o666))
	o.ClassWeights = task.Balanced
	balanced := mustRun(t, &Job{Graph: g, Options: o})
	o.LabelSmoothing = .1
	smoothed := mustRun(t, &Job{Graph: g, Options: o})
	assert.Equal(t, smoothed.PeakTensorBytes[0], balanced.PeakTensorBytes[0], "tensors")
	o.ClassWeights = file
	assert.Equal(t, smoothed.Losses, mustRun(t, &Job{Graph: g, Options: o}).Losses,
		"balanced weights from a file have other losses")
}

// TestValidationOfWeightZero: the class of all validation vertices is none of the training vertices', and
// weighs 0. There is no validation loss, which is refused as what selects. The metric selects, and patience
// ends the run.
func TestValidationOfWeightZero(t *testing.T) {
	g, o := tangle(t, 300, 900), networks()["gcn"]
	var train, val []int64
	for v, class := range g.Types[0].Labels.Class {
		if class == 2 {
			val = append(val, int64(v))
		} else {
			train = append(train, int64(v))
		}
	}
	g.Types[0].Splits = []graph.Split{{Train: train, Val: val}}
	o.ClassWeights, o.Epochs, o.Patience = task.Balanced, 50, 3
	r, _ := planAndRun(t, &Job{Graph: g, Options: o})
	if math.IsNaN(r.Val) || !math.IsNaN(r.ValLoss) {
		t.Errorf("accuracy %v and loss %v of validation, want a number and NaN", r.Val, r.ValLoss)
	}
	assert.Equal(t, EndedPatience, r.Ended, "epochs, the best is %d", r.BestEpoch)
	assert.Equal(t, r.Epochs, r.BestEpoch+3, "epochs, the best is %d", r.BestEpoch)
	if many := mustRun(t, onMesh(g, o, "graph=2")); many.Val != r.Val || many.BestEpoch != r.BestEpoch {
		t.Errorf("2 workers: validation %v in epoch %d, want %v in %d", many.Val, many.BestEpoch,
			r.Val, r.BestEpoch)
	}
	o.Select = setting.SelectLoss
	const want = "--select loss: there is no validation loss, as the classes of all validation vertices " +
		"weigh 0; take --select metric, or other class weights (--class-weights)"
	_, err := onMesh(g, o, "graph=2").Run(t.Context())
	assert.EqualRefusal(t, err, want, "selection by the loss")
}

// TestEdgeColumns: all workers together aggregate all edges but self loops, forward and backward, for the
// columns of each layer but the first: its aggregation is cached.
func TestEdgeColumns(t *testing.T) {
	g := tangled(t)
	edges := int64(0)
	e := g.Relations[0].Edges()
	for k, u := range e.Source {
		if u != e.Target[k] {
			edges++
		}
	}
	o := apply(networks()["gcn"], "residual false")
	want := 2 * edges * int64(o.Hidden+g.Types[0].Labels.Classes)
	for _, j := range []*Job{{Graph: g, Options: o}, divided(t, g, o, 3, nil), onMesh(g, o, "tensor=3")} {
		r, sum := mustRun(t, j), int64(0)
		for _, n := range r.EdgeColumns {
			sum += n
		}
		assert.Len(t, r.EdgeColumns, r.Workers, "%q", j.Options.Parallel)
		assert.Equal(t, want, sum, "%q", j.Options.Parallel)
	}
}

// TestDegrees: PNA's files hold the means of the in-degrees d and of log(d+1), self loops and duplicate edges
// included, along the direction of the model, on any mesh.
func TestDegrees(t *testing.T) {
	g := tangled(t)
	e := g.Relations[0].Edges()
	for direction, ends := range map[string][]int32{"in": e.Target, "out": e.Source} {
		degrees, n := make([]float64, g.Vertices()), float64(g.Vertices())
		for _, v := range ends {
			degrees[v]++
		}
		mean, meanLog := 0., 0.
		for _, d := range degrees {
			mean, meanLog = mean+d/n, meanLog+math.Log(d+1)/n
		}
		o := networks()["pna"]
		o.Direction, o.Layers, o.Epochs, o.DropEdge = direction, 1, 1, .5
		for _, j := range []*Job{
			{Graph: g, Options: o},
			divided(t, g, o, 3, nil),
			onMesh(g, o, "graph=2,tensor=2"),
		} {
			weights := mustRun(t, j).Weights
			for name, want := range map[string]float64{"avg_deg_lin": mean, "avg_deg_log": meanLog} {
				if got := weights["convs.0.aggr_module."+name].Float32; len(got) != 1 ||
					math.Abs(float64(got[0])-want) > 1e-6*want {
					t.Errorf("%s, %q: %s is %v, want %v", direction, j.Options.Parallel, name, got, want)
				}
			}
		}
	}
}

// ringed is a ring of vertices, with edges in both directions between vertices at most so far apart.
func ringed(t *testing.T, vertices, reach int32) *graph.Graph {
	t.Helper()
	var e graph.Edges
	for v := range vertices {
		for d := int32(1); d <= reach; d++ {
			e.Source, e.Target = append(e.Source, (v+d)%vertices, v), append(e.Target, v, (v+d)%vertices)
		}
	}
	relation, err := graph.NewRelation(int(vertices), e)
	require.NoError(t, err)
	g := &graph.Graph{
		Types: []graph.VertexType{{
			Frame: graph.Frame{
				Count:    len(relation.Indptr) - 1,
				Features: graph.Features{Columns: 1, Dense: make([]float32, vertices)},
				Labels:   graph.Labels{Classes: 1, Class: make([]int64, vertices)},
			},
		}},
		Relations: []graph.Relation{relation},
	}
	require.NoError(t, g.MakeSplits("random:60/20/20", 1, 1))
	return g
}

// TestGraphGoesDown: the graph's structure is divided too. If few edges join partitions, a worker holds its
// share and a small halo.
func TestGraphGoesDown(t *testing.T) {
	g := ringed(t, 160000, 4)
	for _, model := range []string{"sage", "gcn", "gat"} {
		o := Defaults()
		o.Model = model
		single, err := (&Job{Graph: g, Options: o}).Plan(context.Background())
		require.NoError(t, err)
		const k = 16
		j := divided(t, g, o, k, nil)
		j.Options.Partition = partition.Range
		many, err := j.Plan(context.Background())
		require.NoError(t, err)
		if share, most := float64(single.GraphBytes[0])/k, float64(
			slices.Max(many.GraphBytes)); most > 1.4*share {
			t.Errorf("%s: a worker of %d holds %.0f bytes of the graph, its share is %.0f",
				model, k, most, share)
		}
	}
}

// TestPredictOnWorkers: a run's weights give one worker's logits and embeddings on any number of workers.
func TestPredictOnWorkers(t *testing.T) {
	g := tangled(t)
	o := networks()["gat"]
	run := mustRun(t, &Job{Graph: g, Options: o})
	want, err := (&Job{Graph: g, Options: o}).Predict(context.Background(), run.Weights, WithEmbeddings)
	require.NoError(t, err)
	for _, j := range []*Job{
		divided(t, g, o, 5, nil), onMesh(g, o, "tensor=5"),
		onMesh(g, o, "graph=2,tensor=2"), inTurns(Job{Graph: g, Options: o}, "tensor=2"),
	} {
		got, err := j.Predict(context.Background(), run.Weights, WithEmbeddings)
		require.NoError(t, err)
		require.Equal(t, want.EmbeddingColumns, got.EmbeddingColumns)
		require.Len(t, got.Embeddings, len(want.Embeddings))
		require.Len(t, got.Logits, len(want.Logits))
		for what, values := range map[string][2][]float32{
			"logit":     {got.Logits, want.Logits},
			"embedding": {got.Embeddings, want.Embeddings},
		} {
			for i, x := range values[1] {
				assert.Near(t, float64(values[0][i]), float64(x), 1e-4, "%s: %s %d", j.Options.Parallel, what,
					i)
			}
		}
	}
}

// TestOneProcess: one process under a launcher is one worker.
func TestOneProcess(t *testing.T) {
	g := tangled(t)
	o := networks()["gcn"]
	want := mustRun(t, &Job{Graph: g, Options: o})
	for _, mesh := range []string{"", "graph=1"} {
		o.Parallel = mesh
		c := comm.New(comm.InProcess(1)[0], 0)
		got := mustRun(t, &Job{Graph: g, Options: o, Comm: c})
		p, err := (&Job{Graph: g, Options: o, Comm: c}).Predict(context.Background(),
			got.Weights, WithEmbeddings)
		require.NoError(t, err)
		if !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Logits, want.Logits) ||
			!slices.Equal(p.Logits, want.Logits) || got.Workers != 1 {
			t.Errorf("with the mesh %q another result than without a launcher", mesh)
		}
	}
}

// TestFailingWorker: if one worker fails, the run ends with its error.
func TestFailingWorker(t *testing.T) {
	g := tangled(t)
	j := divided(t, g, networks()["sage"], 3, nil)
	parts, err := j.MakeParts(t.Context())
	require.NoError(t, err)
	j.Parts = &Parts{Whole: parts.Whole, Open: func(p int) (*partition.Share, error) {
		if p == 1 {
			return nil, fmt.Errorf("share 1 is gone")
		}
		return parts.Open(p)
	}}
	_, err = j.Run(context.Background())
	assert.EqualError(t, err, "share 1 is gone")
}

// failing is a transport whose receives of a kind fail from the nth on.
type failing struct {
	comm.Transport
	kind comm.Kind
	left int
}

func (f *failing) Receive(data []byte, from, tag int) comm.Request {
	if comm.KindOf(tag) == f.kind {
		if f.left--; f.left < 0 {
			return failed{}
		}
	}
	return f.Transport.Receive(data, from, tag)
}

type failed struct{}

func (failed) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
func (failed) Err() error { return errors.New("the cable is out") }

// TestFailureInAPass: if a message fails in a forward pass, a backward pass or an evaluation, each worker's
// run ends with an error that says where. Afterwards nothing uses the workers' memory.
func TestFailureInAPass(t *testing.T) {
	const k = 3
	g := tangled(t)
	for name, c := range map[string]struct {
		kind   comm.Kind
		n      int
		want   string
		sliced string // the model on the tensor axis; "": gat on the graph axis
	}{
		"scores, forward": {comm.ToSlices, 3, "rank 1: receive of rows for slices, peer rank ", "gat"},
		"a chunk":         {comm.ToSlices, 0, "rank 1: receive of rows for slices, peer rank ", "gcn"},
		"rows":            {comm.ToRows, 4, "rank 1: receive of slices for rows, peer rank ", "gcn"},
		"forward": {comm.Halo, 2, "rank 1: receive of halo rows, peer rank 2, epoch 1, layer " +
			"convs.0: the cable is out", ""},
		"backward": {comm.HaloGradient, 5, "rank 1: receive of halo gradients, peer rank 2, epoch " +
			"1, layer convs.1: the cable is out", ""},
		"weights": {comm.Gradient, 3, "rank 1: receive in a sum of weight gradients", ""},
		"epoch": {comm.Statistics, 0, "rank 1: receive in an all-gather of statistics, peer " +
			"rank 0, epoch 1: the cable", ""},
		"metrics": {comm.Statistics, 9, "rank 1: receive in a sum of statistics, peer rank 0, " +
			"epoch 1: the cable", ""},
	} {
		shared := divided(t, g, networks()["gat"], k, nil)
		if c.sliced != "" {
			shared = onMesh(g, networks()[c.sliced], "tensor=3")
			shared.Options.AggregationChunks = 4
		} else {
			var err error
			shared.Parts, err = shared.MakeParts(t.Context())
			require.NoError(t, err)
		}
		ends, errs := comm.InProcess(k), make([]error, k)
		var all sync.WaitGroup
		for rank := range k {
			end := ends[rank]
			if rank == 1 {
				end = &failing{end, c.kind, c.n}
			}
			rankJob := *shared
			rankJob.Comm = comm.New(end, 0)
			all.Go(func() { _, errs[rank] = rankJob.Run(context.Background()) })
		}
		all.Wait()
		var where *comm.Error
		if !errors.As(errs[1], &where) || !strings.HasPrefix(errs[1].Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, errs[1], c.want)
		}
		for _, rank := range []int{0, 2} {
			assert.ErrorIs(t, errs[rank], comm.ErrAborted, "%s: worker %d ended", name, rank)
		}
	}
}

// TestPartsOfAnotherMesh: parts, or a Comm, of another mesh are refused before any work.
func TestPartsOfAnotherMesh(t *testing.T) {
	g, o := tangled(t), networks()["gcn"]
	parts, err := divided(t, g, o, 3, nil).MakeParts(t.Context())
	require.NoError(t, err)
	divided2 := divided(t, g, o, 2, nil)
	divided2.Parts = parts
	connected := divided(t, g, o, 3, nil)
	connected.Comm = comm.New(comm.InProcess(2)[0], 0)
	for want, j := range map[string]*Job{
		"a job on a mesh of 2 partitions, whose parts are 3: the numbers must be equal":  divided2,
		"a job on a mesh of 3 workers, whose Comm connects 2: the numbers must be equal": connected,
	} {
		_, planned := j.Plan(context.Background())
		_, ran := j.Run(context.Background())
		_, predicted := j.Predict(context.Background(), nil, Logits)
		for _, err := range []error{planned, ran, predicted} {
			assert.EqualRefusal(t, err, want)
		}
	}
}

// TestPanicOfAWorker: if one worker panics, the run returns an error of one line.
func TestPanicOfAWorker(t *testing.T) {
	j := divided(t, tangled(t), networks()["sage"], 3, nil)
	j.OnEpoch = func(e Epoch) {
		if e.Epoch == 2 {
			panic("a fault")
		}
	}
	_, err := j.Run(context.Background())
	assert.EqualError(t, err, "internal error on worker 0: a fault")
}

// TestInterruptedWorkers: a signal to one worker ends the run after the same epoch on all of them, with
// results.
func TestInterruptedWorkers(t *testing.T) {
	g, o := tangled(t), networks()["sage"]
	o.Epochs = 50
	for _, j := range []*Job{divided(t, g, o, 3, nil), onMesh(g, o, "tensor=3")} {
		ctx, cancel := context.WithCancel(context.Background())
		j.OnEpoch = func(e Epoch) {
			if e.Epoch == 3 {
				cancel()
			}
		}
		r, err := j.Run(ctx)
		require.NoError(t, err)
		if !r.Interrupted() || r.Epochs < 3 || r.Epochs > 5 || len(r.Logits) == 0 {
			t.Errorf("%s: interrupted %v after %d epochs, with %d logits", j.Options.Parallel,
				r.Interrupted(), r.Epochs, len(r.Logits))
		}
	}
}

// TestWeightsFirst: the weights are written before the predictions. If they cannot be, there are no
// predictions.
func TestWeightsFirst(t *testing.T) {
	g, o := tangled(t), networks()["sage"]
	full := errors.New("the disk is full")
	for _, j := range []*Job{{Graph: g, Options: o}, divided(t, g, o, 3, nil)} {
		var steps []string
		var failing string
		step := func(name string) error {
			steps = append(steps, name)
			if name == failing {
				return full
			}
			return nil
		}
		j.OnWeights = func(w nn.State) error {
			if len(w) == 0 {
				t.Error("no weights")
			}
			return step("weights")
		}
		j.OnLogits = func(Rows) error { return step("logits") }
		for _, c := range []struct {
			failing string
			want    []string
		}{{"weights", []string{"weights"}}, {"logits", []string{"weights", "logits"}}} {
			steps, failing = nil, c.failing
			_, err := j.Run(context.Background())
			assert.ErrorIs(t, err, full, "%s fail", c.failing)
			assert.Equal(t, c.want, steps, "%s fail", c.failing)
		}
	}
}
