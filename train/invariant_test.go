package train

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weft/gnn"
	"weft/graph"
	"weft/graph/generate"
	"weft/graph/graphtest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// apply returns options in which words as of the command line, "model gat, heads 4, residual", set some.
func apply(o Options, words string) Options {
	if words == "" {
		return o
	}
	for word := range strings.SplitSeq(words, ", ") {
		name, text, _ := strings.Cut(word, " ")
		for _, s := range setting.All() {
			if s.Name == name {
				if err := s.Set(&o, cmp.Or(text, "true")); err != nil {
					panic(fmt.Sprintf("%s: %v", word, err))
				}
				name = ""
			}
		}
		if name != "" {
			panic(name + " is no setting")
		}
	}
	return o
}

// networks are settings that together use every operation.
func networks() map[string]Options {
	with := func(words string) Options {
		o := apply(Defaults(), "layers 3, hidden 24, epochs 2, seed 7, lr 0.01")
		return apply(o, words)
	}
	all := map[string]Options{
		"mlp":      with("model mlp, norm batch, input-dropout .2"),
		"gcn":      with("model gcn, norm layer, residual"),
		"sage":     with("model sage, norm batch"),
		"sage-max": with("model sage, aggregation max, norm batch, drop-edge .2"),
		"sage-sum": with("model sage, aggregation sum, norm layer, optimizer sgd"),
		"gat": with("model gat, heads 4, output-heads 3, attention-dropout .3, drop-edge .2, " +
			"activation elu"),
		"gatv2":       with("model gatv2, heads 3, norm graph, attention-dropout .3, transform-dropout .2"),
		"gat-edges":   with("model gat, use-edge-features, heads 4, output-heads 3, attention-dropout .3"),
		"gatv2-edges": with("model gatv2, use-edge-features, heads 3, attention-dropout .3"),
		"transformer": with("model transformer, use-edge-features, heads 3, norm layer, attention-dropout .3"),
		"gin":         with("model gin, norm batch, optimizer sgd, activation gelu"),
		"gine":        with("model gine, jk cat, norm layer, optimizer sgd"),
		"pna":         with("model pna, norm layer, optimizer sgd, drop-edge .2"),
		"gcnii":       with("model gcnii, input-dropout .2, weight-decay .0005, conv-weight-decay .01"),
		"separate":    with("model gcnii, shared-weights false, direction out"),
		"resgcn":      with("model resgcn, activation gelu"),
		"resgcn-both": with("model resgcn, norm batch, direction both, drop-edge .2"),
		"blocks":      with("model sage, blocks residual, norm batch"),
		"blocks-gat":  with("model gat, blocks residual, heads 4, attention-dropout .3"),
		"appnp":       with("model appnp, norm batch, input-dropout .2"),
		"sgc":         with("model sgc, direction out, rounds 3"),
		"out":         with("model gcn, activation gelu, drop-edge .2, direction out, clip .1"),
		"cat":         with("model gcn, jk cat, norm batch, residual"),
		"jump-max":    with("model gat, jk max, heads 4, activation elu"),
		"both":        with("model sage, direction both, drop-edge .2, norm batch, schedule cosine"),
		"both-gat": with("model gat, heads 2, norm pair, direction both, attention-dropout .5, " +
			"optimizer adamw"),
	}
	for _, model := range gnn.Names() {
		if all[model].Model == "" && model != "rgcn" { // which is for several relations
			all[model] = with("norm layer, optimizer sgd, model " + model)
		}
	}
	return all
}

// tangled is a directed graph with hubs, isolated vertices, self loops, duplicate edges, edge weights and
// edge features, larger than a tile of a reduction.
func tangled(t *testing.T) *graph.Graph { return tangle(t, 2100, 20_000) }

// tangle is such a graph of so many vertices, with so many edges into one of them.
func tangle(t *testing.T, vertices, into int32) *graph.Graph {
	t.Helper()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: int(vertices), Degree: 6, Features: 13, Classes: 5,
		Seed: 3, Directed: true,
	})
	require.NoError(t, err)
	e := g.Relations[0].Edges()
	e.Source, e.Target = slices.Clone(e.Source), slices.Clone(e.Target)
	for v := range vertices {
		switch {
		case v%2 == 0:
			e.Source, e.Target = append(e.Source, v), append(e.Target, 17) // the hub
		case v%7 == 0:
			// Two loops, and a duplicate
			e.Source, e.Target = append(e.Source, v, v, v), append(e.Target, v, v, 1)
			e.Source, e.Target = append(e.Source, v), append(e.Target, 1)
		}
	}
	for k := range into { // more edges than one sum takes at a time
		e.Source, e.Target = append(e.Source, k%(vertices-100)), append(e.Target, 5)
	}
	keep := graph.Edges{FeatureColumns: 3}
	for k, u := range e.Source {
		if v := e.Target[k]; u%50 != 3 && v%50 != 3 { // isolated
			keep.Source, keep.Target = append(keep.Source, u), append(keep.Target, v)
			keep.Weights = append(keep.Weights, .5+float32(k%7)/4)
			keep.Features = append(keep.Features, float32(k%5)/4-.5, float32(k%11)/10, float32(k%3)-1)
		}
	}
	g.Relations[0], err = graph.NewRelation(int(vertices), keep)
	require.NoError(t, err)
	return g
}

func run(t *testing.T, g *graph.Graph, o Options) *Result {
	t.Helper()
	_, err := o.Resolve()
	require.NoError(t, err)
	r, err := (&Job{Graph: g, Options: o}).Run(context.Background())
	require.NoError(t, err)
	return r
}

// TestEachNetwork: a network has the bits of one thread on two in Float32, and on three in bfloat16. Its
// prediction has the run's logits, also on a graph without labels and splits: the weights tell the number of
// classes. Without dropout, which follows the vertex ids, its losses are those on a permuted graph.
func TestEachNetwork(t *testing.T) {
	g := tangled(t)
	bare := *g.Copy()
	bare.Types[0].Labels, bare.Types[0].Splits = graph.Labels{}, nil
	newID := make([]int32, g.Vertices())
	for i, v := range rand.New(rand.NewPCG(1, 2)).Perm(len(newID)) {
		newID[i] = int32(v)
	}
	permuted := graphtest.Permuted(t, g, newID)
	for name, o := range networks() {
		t.Run(name, func(t *testing.T) {
			oneThread := map[string]*Result{}
			o.Epochs = 1 // after which the logits are those of other weights
			for threads, precision := range map[int]string{2: "f32", 3: "bf16"} {
				o.Precision, o.Threads = precision, 1
				oneThread[precision] = run(t, g, o)
				o.Threads = threads
				many := run(t, g, o)
				assert.Equal(t, oneThread[precision].Losses, many.Losses, "%d threads", threads)
				assert.Equal(t, oneThread[precision].Logits, many.Logits, "%d threads", threads)
			}
			o.Precision, o.Threads = "f32", 1
			columns := 24
			switch { // the last block aggregates logits, or the features, or reads all layers
			case o.Model == "appnp":
				columns = g.Types[0].Labels.Classes
			case o.Model == "sgc":
				columns = g.Types[0].Features.Columns
			case o.Jump == "cat":
				columns = o.Layers * o.Hidden
			}
			predicts := &Job{Graph: &bare, Options: o}
			p, err := predicts.Predict(t.Context(), oneThread["f32"].Weights, WithEmbeddings)
			require.NoError(t, err)
			assert.Equal(t, g.Types[0].Labels.Classes, p.Classes)
			assert.Equal(t, oneThread["f32"].Logits, p.Logits)
			assert.Equal(t, columns, p.EmbeddingColumns)
			assert.Len(t, p.Embeddings, columns*g.Vertices())
			o.Dropout, o.InputDropout, o.TransformDropout, o.AttentionDropout, o.DropEdge = 0, 0, 0, 0, 0
			o.LR, o.Epochs = .001, 2
			if d := away(run(t, g, o).Losses, run(t, permuted, o).Losses); d > 1e-5 {
				t.Errorf("the losses on a permuted graph differ by %.1e", d)
			}
		})
	}
}

// TestMemoryOfCutSums: where sums may be divided among threads, the plan is what a run takes, whether this
// computer divides them or not. A limit that only their scratch exceeds keeps them whole, and no other does.
// That takes less memory and gives the same bits.
func TestMemoryOfCutSums(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: 1 << 17, Degree: 6, Directed: true, Features: 8, Classes: 4,
	})
	require.NoError(t, err)
	o := Defaults()
	// The peak is in a sum, over 67 MB.
	o.Layers, o.Hidden, o.Norm, o.Residual, o.Epochs = 2, 128, "batch", true, 2
	free := &Job{Graph: g, Options: o}
	want, planned := planAndRun(t, free)
	o.MemoryLimit = setting.Bytes(planned - 1)
	limited := &Job{Graph: g, Options: o}
	got, less := planAndRun(t, limited)
	if less >= planned || !slices.Equal(got.Logits, want.Logits) {
		t.Errorf("with a limit of %d bytes the run takes %d", o.MemoryLimit, less)
	}
	o.Recompute = setting.RecomputeNone
	need := setting.Bytes(planned)
	for limit, untiled := range map[setting.Bytes]bool{0: false, 1: true, need - 1: true, need: false} {
		o.MemoryLimit = limit
		if got := planOf(t, g, o); got.Untiled != untiled {
			t.Errorf("at %d of %d bytes: %v", limit, need, got.Untiled)
		}
	}
}

// planAndRun compares a run with its plan: each worker's memory, bytes of rows sent, and aggregated edges. It
// also compares live bytes after each epoch. It returns worker 0's memory. Where several workers hold
// partitions in turns, rows for scored edges come at any time, and the plan is a bound.
func planAndRun(t *testing.T, j *Job) (r *Result, bytes int64) {
	t.Helper()
	plan, err := j.Plan(context.Background())
	require.NoError(t, err)
	var live []int64
	with := *j
	with.OnEpoch = func(e Epoch) {
		live = append(live, e.LiveBytes)
		if j.OnEpoch != nil {
			j.OnEpoch(e)
		}
	}
	r, err = with.Run(context.Background())
	require.NoError(t, err)
	turns := j.Options.Partitions > 0
	for k, planned := range plan.PeakTensorBytes {
		bound := turns && r.Workers > 1 && j.Options.Task == task.Link // whose messages come at any time
		if took := r.PeakTensorBytes[k]; took > planned || took < planned && !bound {
			t.Errorf("worker %d: planned %d bytes, took %d", k, planned, took)
		}
	}
	assert.Equal(t, r.GraphBytes, plan.GraphBytes, "planned")
	if planned, sent := worker.SumOf(plan.Sent), r.Communication; planned.Halo != sent.Halo ||
		planned.Layout != sent.Layout {
		t.Errorf("planned to send %+v, sent %+v", planned, sent)
	}
	assert.Equal(t, r.EdgeColumns, plan.EdgeColumns, "planned to aggregate")
	if r.Device != nil {
		assert.Equal(t, plan.MessageBytes(), r.Device.MessageBytes, "planned for messages")
	}
	// The first of several ranks on a worker measures before the others have kept their best weights
	if !turns && slices.Min(live) != slices.Max(live) {
		t.Errorf("live bytes after each epoch: %d", live)
	}
	return r, plan.PeakTensorBytes[0] + plan.GraphBytes[0]
}

// TestNoStepsOnRounding: where all vertices have in-neighbours, norms that centre columns cancel these
// biases. Their gradient is 0, and not a rounded sum, so that Adam leaves them as they were.
func TestNoStepsOnRounding(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 300, Degree: 20, Features: 13, Classes: 5, Seed: 9,
	})
	require.NoError(t, err)
	for _, model := range []string{
		"model resgcn, norm batch", "model resgcn, norm pair, direction both",
		"model transformer, heads 2, norm batch", "model sage, blocks residual, norm batch, dropout 0",
		"model pna, norm pair",
	} {
		for _, mesh := range []string{"", "graph=2", "tensor=2"} {
			job := onMesh(g, apply(Defaults(), "layers 3, hidden 8, epochs 3, seed 7, "+model), mesh)
			after := mustRun(t, job).Weights
			job.Options.Epochs, job.Options.Optimizer, job.Options.LR = 1, "sgd", 1e-30
			steps, before := 0, mustRun(t, job).Weights
			for name, cancelled := range map[string]bool{
				"node_encoder.bias": true, "convs.0.lin_value.bias": true, "convs.1.lin_value.bias": true,
				"layers.0.conv.lin_l.bias": true, "layers.2.conv.lin.bias": true, "encoder.bias": false,
				"feed_forwards.1.lins.1.bias": true, "convs.1.post_nns.0.0.bias": true, "lin.bias": false,
				"convs.2.lin_value.bias": false, "convs.2.lin.bias": false, "decoder.bias": false,
			} {
				if b, there := before[name]; there {
					steps++
					if same := slices.Equal(b.Float32, after[name].Float32); same != cancelled {
						t.Errorf("%s, %q: %s stays: %v", model, mesh, name, same)
					}
				}
			}
			if steps < 2 {
				t.Errorf("%s: only %d of the biases are there", model, steps)
			}
		}
	}
}
