package train

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	one, types := tangle(t, 300, 200), severalTypes(t)
	bare := *types.Copy()
	bare.Types[1].Features = graph.Features{}
	shopped, _, _, _ := shop(t, 2)
	for _, c := range []struct {
		words string
		g     *graph.Graph
	}{
		{"model gcn, norm batch", one},
		{"model sage, direction both, dropout .3", one},
		{"model gat, heads 2, norm layer", one},
		{"model gin, norm batch", one},
		{"model transformer, heads 2, use-edge-features", one},
		{"model pna, norm layer", one},
		{"model gcnii, layers 6", one},
		{"model appnp", one},
		{"model sage, decoupled", one},
		{"model gcn, node-embedding 16", one},
		{"model rgcn, bases 2", &bare},
		{"model rgcn, bases 2, decoupled", types},
		{"model sage, norm layer", types},
		{"model gcn, task link, negatives 3", one},
		{"model sage, task link, negatives 9, metric hits@10, eval-negatives 20", one},
		{"model rgcn, bases 2, task link, decoder distmult, negatives 3", types},
		{"model sage, task link, link-relation user,buys,item;item,has,tag, eval-negatives 20", shopped},
		{"model gat, task link, metric roc-auc, out-features 200, negatives 9", one},
	} {
		for mesh := range strings.SplitSeq("|graph=2|graph=3|tensor=2|tensor=3|graph=2,tensor=2|pipeline=2|"+
			"graph=2,pipeline=2|pipeline=2,tensor=2|graph=1/4|graph=2/4|tensor=2/2|graph=1/4 rests|"+
			"graph=2/4 rests|tensor=2/2 rests|tensor=2/4 rests|tensor=3/2 rests|graph=2,tensor=2/4 rests", "|") {
			for _, words := range []string{"halo rows", "halo cover", "precision bf16"} {
				o := given(Defaults(), "layers 3, hidden 12, epochs 3, lr .001, "+c.words+", "+words)
				on, rests := strings.CutSuffix(mesh, " rests")
				if strings.Contains(mesh, "pipeline") {
					o.Chunks, o.ChunkOrder = 4, axis.Fixed
					if o.Norm == "batch" {
						o.Chunks = 1
					}
				}
				all = append(all, plannedRun{c.words + ", " + words + " on " + mesh, c.g, o, on, rests})
			}
		}
	}
	return all
}

// TestPlansOfRuns: what a run sends, takes and moves is what its plan says, to the byte. Messages of several
// workers that hold partitions in turns come at any time: memory is then a bound, and so is what moves. With
// -plans it compares all that are possible: minutes.
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
	bound := turns && r.Workers > 1 && (strings.Contains(c.mesh, "graph=") || c.Task == "link")
	sent, planned := r.Communication, worker.SumOf(p.Sent)
	if turns { // a plan does not sum these
		sent.Gradient, sent.Statistics = worker.Traffic{}, worker.Traffic{}
	}
	assert.Equal(t, planned, sent, "sent")
	assert.Equal(t, p.EdgeColumns, r.EdgeColumns, "aggregated")
	took, takes := slices.Clone(r.PeakTensorBytes), slices.Clone(p.PeakTensorBytes)
	if bound {
		for k, graphs := range r.GraphBytes {
			if took[k]+graphs > takes[k]+p.GraphBytes[k] {
				t.Errorf("worker %d took %d and %d bytes, planned %d and %d", k, took[k], graphs, takes[k],
					p.GraphBytes[k])
			}
		}
		return
	}
	assert.Equal(t, fmt.Sprint(takes, p.GraphBytes), fmt.Sprint(took, r.GraphBytes), "tensors, graph")
	assert.Equal(t, p.Disk(), r.Disk, "moved")
}
