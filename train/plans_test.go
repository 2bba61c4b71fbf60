package train

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/device/devicetest"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

var everyPlan = flag.Bool("plans", false, "compare all settings of TestPlansOfRuns with runs, and not every 127th")

// plannedRun is a graph and settings. With rests matrices may rest on disk, and a limit lets some.
type plannedRun struct {
	name string
	g    *graph.Graph
	Options
	mesh  string
	rests bool
}

// plannedRuns are models and tasks on meshes, with each kind of halo and in bfloat16.
func plannedRuns(t *testing.T) (all []plannedRun) {
	t.Helper()
	untyped, types := tangle(t, 300, 200), severalTypes(t)
	bare := *types.Copy()
	bare.Types[1].Features = graph.Features{}
	shopped, _, _, _ := shop(t, 2)
	for _, c := range []struct {
		words string
		g     *graph.Graph
	}{
		{"model gcn, norm batch", untyped},
		{"model sage, direction both, dropout .3", untyped},
		{"model gat, heads 2, norm layer", untyped},
		{"model gin, norm batch", untyped},
		{"model transformer, heads 2, use-edge-features", untyped},
		{"model pna, norm layer", untyped},
		{"model gcnii, layers 6", untyped},
		{"model appnp", untyped},
		{"model sage, decoupled", untyped},
		{"model gcn, node-embedding 16", untyped},
		{"model rgcn, bases 2", &bare},
		{"model rgcn, bases 2, decoupled", types},
		{"model sage, norm layer", types},
		{"model gcn, edge-label label", labelEdges(t, untyped, 0, "several")},
		{"model gcn, task link, negatives 3", untyped},
		{"model sage, task link, negatives 9, metric hits@10, eval-negatives 20", untyped},
		{"model rgcn, bases 2, task link, decoder distmult, negatives 3", types},
		{"model sage, task link, link-relation user,buys,item;item,has,tag, eval-negatives 20", shopped},
		{"model gat, task link, metric roc-auc, out-features 200, negatives 9", untyped},
	} {
		for mesh := range strings.SplitSeq("|graph=2|graph=3|tensor=2|tensor=3|graph=2,tensor=2|pipeline=2|"+
			"graph=2,pipeline=2|pipeline=2,tensor=2|graph=1/4|graph=2/4|tensor=2/2|graph=1/4 rests|"+
			"graph=2/4 rests|tensor=2/2 rests|tensor=2/4 rests|tensor=3/2 rests|graph=2,tensor=2/4 rests", "|") {
			for _, words := range []string{"halo rows", "halo cover", "precision bf16"} {
				o := apply(Defaults(), "layers 3, hidden 12, epochs 3, lr .001, "+c.words+", "+words)
				on, rests := strings.CutSuffix(mesh, " rests")
				if strings.Contains(mesh, "pipeline") {
					o.Chunks, o.ChunkOrder = 4, axis.Fixed
					if o.Norm == "batch" {
						o.Chunks = 1
					}
					if len(c.g.Types) > 1 {
						o.Chunks = 0
					}
				}
				all = append(all, plannedRun{c.words + ", " + words + " on " + mesh, c.g, o, on, rests})
			}
		}
	}
	return all
}

// TestPlansOfRuns: what a run sends, takes and moves is what its plan says, to the byte. Rows for scored
// edges come at any time to workers that hold partitions in turns: memory is then a bound, and so is what
// moves. With -plans it compares all that are possible: minutes.
func TestPlansOfRuns(t *testing.T) {
	compared, all := 0, plannedRuns(t)
	step := 127 // no divisor of the numbers of meshes and of words
	if *everyPlan {
		step = 1
	}
	for i := 0; i < len(all); i += step {
		if c := &all[i]; c.possible(t) {
			compared++
			t.Run(c.name, c.compare)
		}
	}
	if compared < len(all)/step/2 {
		t.Errorf("%d of %d settings are possible", compared, len(all)/step)
	}
}

// possible reports whether nothing refuses the settings.
func (c *plannedRun) possible(t *testing.T) bool {
	t.Helper()
	j := onMesh(c.g, c.Options, c.mesh)
	r, err := j.Options.Resolve()
	return err == nil && r.CheckGraph(c.g) == nil
}

func (c *plannedRun) compare(t *testing.T) {
	o := c.Options
	if c.rests {
		o.Offload = t.TempDir()
		asks := onMesh(c.g, o, c.mesh)
		between, err := asks.PlanWith(t.Context(), plan.Asks{Range: true})
		require.NoError(t, err)
		o.MemoryLimit = setting.Bytes(between.Least + (between.All-between.Least)/4)
	}
	j := onMesh(c.g, o, c.mesh)
	p, err := j.PlanWith(t.Context(), plan.Asks{Counts: true})
	require.NoError(t, err)
	r, err := j.RunPlanned(t.Context(), &p)
	require.NoError(t, err)
	turns := j.Options.Partitions > 0
	bound := turns && r.Workers > 1 && c.Task == "link"
	sent, planned := r.Communication, worker.SumOf(p.Sent)
	if turns { // a plan does not sum these
		sent.Gradient, sent.Statistics = worker.Traffic{}, worker.Traffic{}
	}
	assert.Equal(t, planned, sent, "sent")
	assert.Equal(t, p.EdgeColumns, r.EdgeColumns, "aggregated")
	took, takes := slices.Clone(r.PeakTensorBytes), slices.Clone(p.PeakTensorBytes)
	if bound || c.rests && r.Workers > 1 { // which of them fill the limit first is chance, as all begin
		for k, graphs := range r.GraphBytes {
			took, takes := took[k]+graphs, takes[k]+p.GraphBytes[k]
			if took > takes || took < takes && !bound {
				t.Errorf("worker %d took %d bytes, planned %d", k, took, takes)
			}
		}
	} else {
		assert.Equal(t, fmt.Sprint(takes, p.GraphBytes), fmt.Sprint(took, r.GraphBytes), "tensors, graph")
	}
	if bound {
		return
	}
	assert.Equal(t, p.Disk(), r.Disk, "moved")
}

// TestPlansOfCheckpoints: where matrices rest, a checkpoint before the last epoch has what it writes come to
// memory, and others leave. That is planned to the byte.
func TestPlansOfCheckpoints(t *testing.T) {
	devicetest.Library(t)
	g := ofManyRows(t)
	for _, offload := range []string{"", setting.RAM} {
		for mesh, words := range map[string]string{
			"tensor=2/2": "model rgcn, bases 2, checkpoint-every 1",
			"graph=1/4":  "model sage, node-embedding 8, checkpoint-every 2",
		} {
			t.Run(mesh+offload, func(t *testing.T) {
				o := apply(Defaults(), "layers 2, hidden 16, epochs 3, "+words)
				if o.Offload = t.TempDir(); offload != "" {
					o.Offload, o.Device = offload, setting.AllCards
				}
				j := onMesh(g, o, mesh)
				j.Checkpoints = &Checkpoints{Path: filepath.Join(t.TempDir(), "checkpoints")}
				between, err := j.PlanWith(t.Context(), plan.Asks{Range: true})
				require.NoError(t, err)
				limit := between.Least + (between.All-between.Least)/8
				if offload != "" {
					limit *= int64(len(between.Workers))
				}
				j.Options.MemoryLimit = setting.Bytes(limit)
				p, err := j.Plan(t.Context())
				require.NoError(t, err)
				r, err := j.RunPlanned(t.Context(), &p)
				require.NoError(t, err)
				moved := r.Disk
				if offload != "" {
					moved = r.Device.RAM
					assert.Equal(t, p.DiskBytes(), r.Device.RAMBytes, "that rest")
				}
				assert.Equal(t, p.Disk(), moved, "moved")
				assert.Equal(t, p.PeakTensorBytes, r.PeakTensorBytes, "tensors")
				never := onMesh(g, j.Options, mesh)
				without, err := never.Plan(t.Context())
				require.NoError(t, err)
				if without.Disk() == p.Disk() {
					t.Error("the checkpoint moves nothing")
				}
			})
		}
	}
}

// ofManyRows is a graph of two types, of which one has embeddings alone, of more rows than the other.
func ofManyRows(t *testing.T) *graph.Graph {
	t.Helper()
	g := tangle(t, 1100, 1000)
	var e graph.Edges
	for k := range int32(4000) {
		e.Source, e.Target = append(e.Source, k%2000), append(e.Target, (k*k+7*k/90)%1000)
	}
	into, err := graph.NewBipartite(2000, g.Types[0].Count, e)
	require.NoError(t, err)
	g.Types[0].Type = "a"
	g.Relations[0].Source, g.Relations[0].Name, g.Relations[0].Target = "a", "x", "a"
	into.Source, into.Name, into.Target = "b", "y", "a"
	g.Relations = append(g.Relations, into)
	g.Types = append(g.Types, graph.VertexType{Type: "b", Frame: graph.Frame{Count: 2000}})
	g, err = g.ReverseRelations()
	require.NoError(t, err)
	return g
}
