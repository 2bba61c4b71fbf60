package train

import (
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/train/setting"
)

// TestRecompute: recomputation changes no bit, no message and no aggregation, and the plan has the bytes of
// the run: on one worker, for link prediction, and for several types of vertices and edges.
// train/paralleltest compares all models on meshes.
func TestRecompute(t *testing.T) {
	untyped, types := tangle(t, 600, 100), severalTypes(t)
	compare := func(name string, job func(o Options) *Job, o Options) {
		t.Run(name, func(t *testing.T) {
			o.Recompute = setting.RecomputeNone
			want, _ := planAndRun(t, job(o))
			o.Recompute = setting.RecomputeBlocks
			got, _ := planAndRun(t, job(o))
			assert.Equal(t, want.Losses, got.Losses)
			assert.Equal(t, want.Logits, got.Logits)
			assert.Equal(t, want.Val, got.Val)
			for name, w := range want.Weights {
				assert.Equal(t, w.Float32, got.Weights[name].Float32, "other values of %s", name)
				assert.Equal(t, w.Int64, got.Weights[name].Int64, "other values of %s", name)
			}
			assert.Equal(t, want.Communication, got.Communication)
			assert.Equal(t, want.EdgeColumns, got.EdgeColumns)
		})
	}
	on := func(g *graph.Graph) func(Options) *Job {
		return func(o Options) *Job { return &Job{Graph: g, Options: o} }
	}
	among := func(g *graph.Graph) func(Options) *Job {
		return func(o Options) *Job { return divided(t, g, o, 3, nil) }
	}
	for _, name := range []string{"gat-edges", "gcnii", "pna", "cat", "jump-max", "appnp", "both-gat"} {
		compare(name, on(untyped), networks()[name])
	}
	compare("links", among(untyped), linked("model sage, norm batch, decoder distmult, dropout .3"))
	compare("links by attention", among(untyped), linked("model gat, metric roc-auc"))
	compare("links of types", among(types), linked("model rgcn, decoder distmult, norm layer"))
	messages := func(job func(Options) *Job) func(Options) *Job {
		return func(o Options) *Job {
			j := job(o)
			j.Model = messagesOf
			return j
		}
	}
	o := apply(Defaults(), "epochs 3")
	compare("messages", messages(on(untyped)), o)
	compare("messages, divided", messages(among(untyped)), o)
	for _, model := range []string{"sage", "gat", "rgcn"} {
		o := Defaults()
		o.Model, o.Layers, o.Hidden, o.Epochs, o.Norm = model, 3, 8, 3, "batch"
		compare("types, "+model, on(types), o)
		compare("types, divided, "+model, among(types), o)
	}
}

// messagesOf is a model of two layers whose messages are a function of both transformed ends of an edge.
func messagesOf(features, classes int) []gnn.BlockSpec {
	layer := func(path string, in, out int, act kernel.Activation) gnn.BlockSpec {
		return gnn.BlockSpec{In: in, Out: out, Build: func(e gnn.Env) gnn.Block {
			w, p := e.Params.Weight(path, in, out, nn.Glorot(in, out)),
				e.Propagators(path, gnn.Along{Relation: e.Only()})
			conv := gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
				h := autograd.Linear(x, w.On(x.Tape()))
				return p.Message(gnn.Message{
					Source: h, Target: h, Columns: out, Reduce: gnn.KindMean,
					Function: func(e gnn.Edges) *autograd.Var {
						return autograd.Activate(autograd.Add(e.Target, e.Source), kernel.Tanh)
					},
				}), nil
			})
			return gnn.NewLayer(conv, gnn.TypeLayer{Activation: act, Dropout: nn.Dropout{Path: path, P: .3}})
		}}
	}
	return []gnn.BlockSpec{
		layer("first", features, 8, kernel.ReLU),
		layer("last", 8, classes, kernel.Identity),
	}
}

// TestRecomputeKeeps: the matrices of vertices × hidden columns that a layer more keeps for the backward
// pass, counted by hand. Without recomputation those are the layer's input and what norm, attention,
// activation or a second product read. With it a layer keeps the first value that depends on its aggregation.
// On the tensor axis attention keeps its rows and its result in slices, too.
func TestRecomputeKeeps(t *testing.T) {
	const vertices, hidden = 20_000, 32
	g, err := generate.Graph(generate.Options{
		Kind: generate.Uniform, Vertices: vertices, Degree: 2, Directed: true, Features: 8, Classes: 3,
	})
	require.NoError(t, err)
	for _, c := range []struct {
		model, norm  string
		none, blocks float64
		meshes       []string
	}{
		{"sage", "batch", 2, 1, []string{"", "graph=2", "tensor=2", "graph=2,tensor=2"}},
		{"gcn", "layer", 2, 1, []string{"", "graph=2", "tensor=2"}},
		{"gat", "none", 3, 1, []string{"", "graph=2"}},
		{"gat", "none", 4, 3, []string{"tensor=2"}},
		{"gin", "batch", 4, 2, []string{"", "graph=2", "tensor=2"}},
		{"gcnii", "", 2, 1, []string{"", "graph=2", "tensor=2"}},
		{"resgcn", "layer", 2, 1, []string{"", "graph=2", "tensor=2"}},
		{"mlp", "batch", 2, 1, []string{""}},
	} {
		for _, mesh := range c.meshes {
			for recompute, want := range map[string]float64{
				setting.RecomputeNone:   c.none,
				setting.RecomputeBlocks: c.blocks,
			} {
				peak := func(layers int) (bytes int64) {
					o := Defaults()
					o.Model, o.Layers, o.Hidden, o.Recompute, o.Threads = c.model, layers,
						hidden, recompute, 1
					if c.norm != "" {
						o.Norm = c.norm
					}
					p, err := onMesh(g, o, mesh).Plan(t.Context())
					require.NoError(t, err)
					for _, worker := range p.PeakTensorBytes {
						bytes += worker
					}
					return bytes
				}
				const few, many, matrix = 6, 10, 4 * vertices * hidden
				got := float64(peak(many)-peak(few)) / (many - few) / matrix
				// with weights, their optimizer's state, a norm's moments of each row, and scores
				assert.Near(t, want, got, .3, "%s on %q, recompute %s", c.model, mesh, recompute)
			}
		}
	}
}

// TestRecomputeWhereNeeded: auto recomputes where the plan without it exceeds the memory limit, and only
// there.
func TestRecomputeWhereNeeded(t *testing.T) {
	g := tangled(t)
	o := apply(networks()["resgcn"], "layers 8")
	need := func(recompute string) setting.Bytes {
		o := o
		o.Recompute = recompute
		p := planOf(t, g, o)
		return setting.Bytes(p.PeakTensorBytes[0] + p.GraphBytes[0])
	}
	none, blocks := need(setting.RecomputeNone), need(setting.RecomputeBlocks)
	if auto := need(setting.RecomputeAuto); blocks >= none || auto != none {
		t.Fatalf("%d bytes, %d with recomputation, %d by choice without a limit", none, blocks, auto)
	}
	want := run(t, g, o)
	for limit, recomputes := range map[setting.Bytes]bool{none: false, none - 1: true, blocks: true} {
		o.MemoryLimit = limit
		if p := planOf(t, g, o); p.Recompute != recomputes {
			t.Errorf("with a limit of %d bytes: %v", limit, p.Recompute)
		}
		got, took := planAndRun(t, &Job{Graph: g, Options: o})
		if setting.Bytes(took) > limit || !slices.Equal(got.Losses, want.Losses) {
			t.Errorf("with a limit of %d bytes the run takes %d, losses %v, want %v", limit, took,
				got.Losses, want.Losses)
		}
	}
	for limit, recompute := range map[setting.Bytes]string{
		blocks - 1: setting.RecomputeAuto,
		none - 1:   setting.RecomputeNone,
	} {
		o.MemoryLimit, o.Recompute = limit, recompute
		_, err := (&Job{Graph: g, Options: o}).Run(t.Context())
		assert.Refused(t, err, "would need", "recompute %s with a limit of %d bytes", recompute, limit)
	}
}

// TestRecomputeWhereItHelps: of few wide layers along both directions, values that are computed again need
// more memory. A limit that no plan keeps takes and names the least, and advises nothing that needs more.
func TestRecomputeWhereItHelps(t *testing.T) {
	g, o := tangle(t, 400, 500), networks()["both"]
	o.Layers, o.Hidden = 2, 48
	needs := func(recompute string) (tensors, all int64) {
		o.Recompute = recompute
		p, err := onMesh(g, o, "").Plan(t.Context())
		require.NoError(t, err)
		return p.PeakTensorBytes[0], p.PeakTensorBytes[0] + p.GraphBytes[0]
	}
	kept, all := needs(setting.RecomputeNone)
	if again, _ := needs(setting.RecomputeBlocks); kept != 548864 || again != 606208 {
		t.Fatalf("%d bytes, and %d with values that are computed again", kept, again)
	}
	o.Recompute, o.MemoryLimit = setting.RecomputeAuto, 1000
	p, err := onMesh(g, o, "").Plan(t.Context())
	if err != nil || p.Recompute || p.PeakTensorBytes[0] > kept {
		t.Errorf("%d bytes, recomputed: %v, %v", p.PeakTensorBytes[0], p.Recompute, err)
	}
	if err := p.CheckLimit(o.MemoryLimit); err == nil ||
		!strings.HasSuffix(err.Error(), "; raise the limit to 783 kB, or try --partitions auto --offload DIR, "+
			"by which partitions take turns and rest on disk, a smaller model or more workers") {
		t.Errorf("%v", err)
	}
	o.MemoryLimit = setting.Bytes(all)
	assert.NoError(t, p.CheckLimit(o.MemoryLimit), "a limit of %d bytes is refused", all)
}
