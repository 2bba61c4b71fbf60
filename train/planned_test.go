package train

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/comm"
	"weft/device/devicetest"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/parallel/axis"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

func planOf(t *testing.T, g *graph.Graph, o Options) plan.Plan {
	t.Helper()
	p, err := (&Job{Graph: g, Options: o}).Plan(context.Background())
	require.NoError(t, err)
	return p
}

// TestPlannedNumbers: the values of a GCN of two layers and of its predictions are counted by hand, and what
// is said of the features and the edges is what they are.
func TestPlannedNumbers(t *testing.T) {
	g := tangled(t)
	o := apply(Defaults(), "model gcn, layers 2, hidden 5, norm none, threads 1")
	p := planOf(t, g, o)
	w, classes := p.Workers[0], g.Types[0].Labels.Classes
	parameters := g.Types[0].Features.Columns*o.Hidden + o.Hidden + o.Hidden*classes + classes
	assert.Equal(t, w.Parameters, parameters)
	assert.Equal(t, w.Predictions, g.Vertices()*classes)
	assert.Equal(t, 4*int64(parameters+g.Vertices()*classes), p.ResultBytes)
	sum := int64(0)
	for _, bytes := range w.Kinds {
		sum += bytes
	}
	assert.Len(t, w.Kinds, int(tensor.Graph-tensor.Features))
	assert.Equal(t, w.Tensors, sum)
	if len(w.Costs) != o.Layers || w.RowSums != (plan.RowSums{}) || w.OneClass || !w.Validates {
		t.Errorf("%+v", w)
	}
	o.NormalizeFeatures = "row"
	if p := planOf(t, g, o); p.Workers[0].RowSums == (plan.RowSums{}) {
		t.Error("nothing is known of the features' sums")
	}
	for model, ignores := range map[string]bool{"gcn": false, "gat": true} {
		o.Model = model
		for _, weighted := range []bool{false, true} {
			h := *g.Copy()
			h.Relations = []graph.Relation{g.Relations[0]}
			h.Relations[0].Weights = nil
			if weighted {
				h.Relations[0].Weights = make([]float32, len(g.Relations[0].Sources))
			}
			if got := planOf(t, &h, o).Workers[0].UnusedWeights; got != (ignores && weighted) {
				t.Errorf("%s, weights %v: unused %v", model, weighted, got)
			}
			assert.Equal(t, h.Relations[0].Features.Columns, planOf(t, &h, o).Workers[0].UnusedEdgeFeatures,
				"%s is said to use edge features", model)
			h.Relations[0].Features.Columns, h.Relations[0].Features.Dense = 0, nil
			if planOf(t, &h, o).Workers[0].UnusedEdgeFeatures > 0 {
				t.Errorf("%s is said to ignore edge features where there are none", model)
			}
		}
	}
}

// TestPlannedMessages: on each mesh a plan has the messages of a run, of each kind, and its memory, to the
// byte, and of link prediction what workers fetch of each other.
func TestPlannedMessages(t *testing.T) {
	g := tangle(t, 700, 1000) // TestPlanOfWorkers has more rows than a message
	// Several windows of edges
	const windows = "task link, epochs 3, out-features 200, hidden 8, negatives 9"
	for _, c := range []struct{ words, meshes string }{
		{"model gcn, norm batch", ",graph=4,tensor=3,pipeline=3"},
		{"model gat, heads 2, norm layer", "graph=2,graph=2+tensor=2,graph=2+pipeline=2"},
		{"model sage, direction both, dropout .3", ",graph=2,tensor=3"},
		{"model gcnii, layers 6", "graph=4,pipeline=3,graph=2+pipeline=2"},
		{"model gcn, label-input .4", ",graph=2,graph=2+tensor=2"},
		{"model gcn, " + windows, ",graph=3,graph=2+tensor=2"},
		{"model gcn, decoder distmult, " + windows, "graph=4,tensor=3"},
	} {
		for mesh := range strings.SplitSeq(c.meshes, ",") {
			mesh = strings.ReplaceAll(mesh, "+", ",")
			o := apply(Defaults(), "layers 3, hidden 12, epochs 3, "+c.words)
			if strings.Contains(mesh, "pipeline") {
				o.Chunks, o.ChunkOrder = 4, axis.Fixed
				if o.Norm == "batch" {
					o.Chunks = 1
				}
			}
			j, what := onMesh(g, o, mesh), c.words+" on "+mesh
			if mesh == "graph=3" { // nothing on worker 1
				j = divided(t, g, o, 3, slices.Collect(func(yield func(int32) bool) {
					for v := range int32(g.Vertices()) {
						yield(2 * (v % 2))
					}
				}))
			}
			p, err := j.PlanWith(t.Context(), plan.Asks{Counts: true})
			require.NoError(t, err, what)
			r := mustRun(t, j)
			assert.Equal(t, r.Communication, worker.SumOf(p.Sent), "%s: planned", what)
			assert.Equal(t, r.PeakTensorBytes, p.PeakTensorBytes, "%s: planned", what)
			for rank, w := range p.Workers {
				assert.Equal(t, r.SentBytes[rank], p.Sent[rank].Bytes(), "%s: worker %d", what, rank)
				sent := w.Counts.Traffic
				if w.Counts.Steps() == 0 || worker.Traffic(sent[comm.Stage]) != w.Sent.Stage ||
					sent[comm.Halo].Bytes+sent[comm.HaloGradient].Bytes != w.Sent.Halo.Bytes {
					t.Errorf("%s: worker %d counts %v of %+v", what, rank, sent, w.Sent)
				}
			}
		}
	}
}

// kernelsOf returns the kernel calls of a training pass of all workers, as planned and as two runs differ.
func kernelsOf(t *testing.T, g *graph.Graph, o Options) (planned, ran plan.Kernels) {
	t.Helper()
	planned, ran = plan.Kernels{}, plan.Kernels{}
	for epochs, sign := range map[int]int{3: -1, 4: 1} {
		var mu sync.Mutex
		o.Epochs = epochs
		mustRun(t, &Job{Graph: g, Options: o, Watch: func(c kernel.Call, run func()) {
			mu.Lock()
			single := plan.Kernels{}
			k, work := single.Add(c)
			ran[k] = plan.Calls{
				Number: ran[k].Number + sign*single[k].Number, Work: ran[k].Work + float64(sign)*work,
				Bytes: ran[k].Bytes + float64(sign)*single[k].Bytes,
			}
			mu.Unlock()
			run()
		}})
	}
	maps.DeleteFunc(ran, func(_ plan.Kernel, c plan.Calls) bool { return c.Number == 0 })
	p, err := (&Job{Graph: g, Options: o}).PlanWith(t.Context(), plan.Asks{Counts: true})
	require.NoError(t, err)
	for _, w := range p.Workers {
		for k, c := range w.Counts.Kernels {
			planned[k] = planned[k].Plus(c)
		}
	}
	return planned, ran
}

// TestPlannedKernels: a plan counts the kernel calls of a training pass, by name and widths, and their work
// and bytes. On several workers it takes rows to be equally long. Here two runs differ by one such pass.
func TestPlannedKernels(t *testing.T) {
	g := tangle(t, 700, 1000)
	for name, words := range map[string]string{
		"gcn": "model gcn, norm batch, clip 1", "gat": "model gat, heads 2, norm layer, attention-dropout .3",
		"max": "model sage, aggregation max, direction both",
	} {
		for _, mesh := range []string{"", "graph=3", "tensor=2"} {
			o := apply(Defaults(), "layers 3, hidden 12, threads 1, eval-every 100, "+words)
			o.Parallel = mesh
			got, want := kernelsOf(t, g, o)
			for k, c := range want {
				assert.Equal(t, c.Number, got[k].Number, "%s %s: calls of %v", name, mesh, k)
				assert.Near(t, 1, got[k].Work/c.Work, .05, "%s %s: work of %v", name, mesh, k)
				assert.Near(t, c.Bytes, got[k].Bytes, .05*c.Bytes, "%s %s: bytes of %v", name, mesh, k)
			}
			assert.Len(t, got, len(want), "%s %s", name, mesh)
		}
	}
}

// TestPlannedBatches: of a message function, which takes a few thousand edges at a time, a plan counts the
// kernel calls of all, their work and bytes.
func TestPlannedBatches(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: 400, Degree: 60, Features: 13, Classes: 5, Seed: 3, Directed: true,
	})
	require.NoError(t, err)
	e := g.Relations[0].Edges()
	e.FeatureColumns, e.Features = 3, make([]float32, 3*len(e.Source))
	g.Relations[0], err = graph.NewRelation(400, e)
	require.NoError(t, err)
	for _, mesh := range []string{"", "graph=2", "tensor=2"} {
		o := apply(Defaults(), "model gine, layers 3, hidden 12, threads 1, eval-every 100")
		o.Parallel = mesh
		got, want := kernelsOf(t, g, o)
		for k, c := range want {
			assert.Equal(t, c.Number, got[k].Number, "%s: calls of %v", mesh, k)
			assert.Near(t, 1, got[k].Work/c.Work, .05, "%s: work of %v", mesh, k)
			assert.Near(t, c.Bytes, got[k].Bytes, .05*c.Bytes, "%s: bytes of %v", mesh, k)
		}
		assert.Len(t, got, len(want), mesh)
	}
}

// TestPlannedLaunches: a plan has exactly the launches of a run on a card, whose messages have other sizes.
// With aggregation chunks it has about as many, as it does not know in which of them a row is sent.
func TestPlannedLaunches(t *testing.T) {
	devicetest.Library(t)
	g := tangle(t, 60, 90)
	for words, apart := range map[string]float64{
		"parallel tensor=2, model sage": 0, "parallel tensor=2, model gcn, aggregation-chunks 3": .2,
	} {
		o := apply(Defaults(), "layers 2, hidden 4, threads 1, eval-every 100, device cuda, "+words)
		planned, ran := kernelsOf(t, g, o)
		for k, c := range ran {
			ratio := float64(planned[k].Number) / float64(c.Number)
			assert.Near(t, 1, ratio, apart, "%s: launches of %v", words, k)
		}
		assert.Len(t, planned, len(ran), words)
	}
}

// TestPlannedChunks: chunks hold the vertices among them, so that the largest is at least as large as their
// mean and the smallest at most.
func TestPlannedChunks(t *testing.T) {
	g := tangled(t)
	o := apply(Defaults(), "model gcnii, layers 6, hidden 8, threads 1, parallel pipeline=3, chunks 5")
	c := planOf(t, g, o).Workers[0].Chunks
	if c.Least < 1 || c.Least*5 > g.Vertices() || c.Most*5 < g.Vertices() {
		t.Errorf("chunks of %d to %d of %d vertices", c.Least, c.Most, g.Vertices())
	}
}

// TestUnusedRelations: a plan names the relations along which no layer aggregates: here of papers and venues,
// where nothing that is read of a paper depends on a venue.
func TestUnusedRelations(t *testing.T) {
	relation := func(source, name, target string, e graph.Edges) graph.Relation {
		r, err := graph.NewRelation(3, e)
		require.NoError(t, err)
		r.Source, r.Name, r.Target = source, name, target
		return r
	}
	ring := graph.Edges{Source: []int32{0, 1, 2}, Target: []int32{1, 2, 0}}
	features := graph.Features{Columns: 2, Dense: make([]float32, 6)}
	g := &graph.Graph{
		Types: []graph.VertexType{
			{
				Type: "paper",
				Frame: graph.Frame{
					Count: 3, Features: features, Labels: graph.Labels{Classes: 2, Class: []int64{0, 1, 0}},
					Splits: []graph.Split{{Train: []int64{0, 1}, Val: []int64{2}, Test: []int64{}}},
				},
			},
			{Type: "venue", Frame: graph.Frame{Count: 3, Features: features}},
		},
		Relations: []graph.Relation{
			relation("paper", "cites", "paper", ring),
			relation("paper", "in", "venue", ring),
		},
	}
	for _, decoupled := range []bool{false, true} {
		o := Defaults()
		if o.Decoupled = decoupled; decoupled {
			o.Model, o.Bases = "rgcn", 1
		}
		assert.Equal(t, []string{"paper__in__venue"}, planOf(t, g, o).Workers[0].UnusedRelations,
			"decoupled %v", decoupled)
		changed := *g.Copy()
		changed.Relations = append(slices.Clone(g.Relations), relation("venue", "has", "paper", ring))
		if got := planOf(t, &changed, o).Workers[0].UnusedRelations; got != nil {
			t.Errorf("decoupled %v, with the reverse: %q, want none", decoupled, got)
		}
	}
}

// TestLimitToTheByte: a worker may take exactly the limit, for tensors and graph together, and no byte more.
func TestLimitToTheByte(t *testing.T) {
	p := plan.Plan{PeakTensorBytes: []int64{600, 500}, GraphBytes: []int64{100, 300}}
	for limit, refused := range map[setting.Bytes]bool{
		0: false, 800: false, 900: false, 799: true, 700: true,
		600: true, 1: true,
	} {
		err := p.CheckLimit(limit)
		if (err != nil) != refused || err != nil && !refusal.Is(err) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	// The worker that needs most is named, whichever others exceed the limit too.
	err := p.CheckLimit(600)
	assert.ErrorContains(t, err, "worker 1 would need 800 B (tensors 500 B, graph 300 B)")
}

// TestRunKeepsToTheLimit: a run that takes exactly the limit is accepted and takes no more. One byte less
// refuses it. The graph counts: it has at least four bytes an edge.
func TestRunKeepsToTheLimit(t *testing.T) {
	g := tangled(t)
	for _, mesh := range []string{"", "graph=3"} {
		o := networks()["gcn"]
		o.Epochs, o.Recompute = 1, setting.RecomputeNone // auto would need less
		planned, err := onMesh(g, o, mesh).Plan(context.Background())
		require.NoError(t, err)
		need, graphs := int64(0), int64(0)
		for i, tensors := range planned.PeakTensorBytes {
			need, graphs = max(need, tensors+planned.GraphBytes[i]), graphs+planned.GraphBytes[i]
		}
		if edges := int64(len(g.Relations[0].Sources)); graphs < 4*edges {
			t.Errorf("%s: a graph of %d edges is %d bytes", mesh, edges, graphs)
		}
		o.MemoryLimit = setting.Bytes(need)
		r := mustRun(t, onMesh(g, o, mesh))
		for i, tensors := range r.PeakTensorBytes {
			if took := tensors + r.GraphBytes[i]; took > need {
				t.Errorf("%s: worker %d took %d bytes of %d", mesh, i, took, need)
			}
		}
		assert.Equal(t, planned.GraphBytes, r.GraphBytes, "%s: graphs", mesh)
		o.MemoryLimit--
		_, err = onMesh(g, o, mesh).Run(context.Background())
		assert.Refused(t, err, "", "%s: a byte less than %d", mesh, need)
	}
}

// cancelling ends a plan in its first epoch.
type cancelling struct {
	engine.Engine
	end      context.CancelCauseFunc
	finished *int
}

var errEnded = errors.New("ended")

func (c cancelling) Forward(call engine.Call) engine.Pass {
	c.end(errEnded)
	pass := c.Engine.Forward(call)
	*c.finished++
	return pass
}

// TestPlanEndsWithinAnEpoch: the messages of a plan fail once it is cancelled, so that an epoch of many
// slices does not go on for minutes.
func TestPlanEndsWithinAnEpoch(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	finished := 0
	j := onMesh(tangled(t), apply(Defaults(), "model gcn, hidden 8"), "tensor=4")
	j.Engine = func(c engine.Config) (engine.Engine, error) {
		e, err := engine.New(c)
		return cancelling{e, end, &finished}, err
	}
	_, err := j.Plan(ctx)
	assert.ErrorIs(t, err, errEnded, "planned")
	assert.Equal(t, 0, finished, "epochs to their end")
}
