package paralleltest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/train"
	"weft/train/setting"
	"weft/train/worker"
)

// TestPlanOfStages: the plan of a model in two stages says the same of all its modules as the plan of one
// worker. With several chunks embeddings are aggregated first and features transformed first, whatever is
// cheaper.
func TestPlanOfStages(t *testing.T) {
	g := Tangled(t)
	o := train.Defaults()
	o.Model, o.Layers, o.Threads, o.InputDropout = "gcn", 3, 1, .1 // nothing is cached
	said := func(j *train.Job) (lines []string) {
		plan, err := j.Plan(context.Background())
		require.NoError(t, err)
		parameters := 0
		for _, w := range plan.Workers {
			parameters += w.Parameters
			for _, s := range w.Layers {
				lines = append(lines, s.Name+": "+s.What)
			}
		}
		return append(lines, fmt.Sprint(parameters, " parameters"))
	}
	want := said(&train.Job{Graph: g, Options: o})
	for chunks, want := range map[axis.Chunks][]string{
		1: want,
		5: {
			"convs.0: transform 13 columns to 64, then aggregate",
			"convs.1: aggregate 64 columns, then transform to 64",
			"convs.2: aggregate 64 columns, then transform to 5", want[o.Layers],
		},
	} {
		o.Chunks = chunks
		got := said(&train.Job{Graph: g, Options: o, Mesh: mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1}})
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 1+o.Layers {
			t.Errorf("%d chunks: want %q: %s", chunks, want, diff)
		}
	}
}

// TestPlanOfAnyOrder: no order of chunks of unequal size takes more memory than planned, nor much less.
func TestPlanOfAnyOrder(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.RMAT, Scale: 8, EdgeFactor: 12, Features: 16,
		Classes: 4, Seed: 1,
	})
	require.NoError(t, err)
	for _, c := range []struct {
		model  string
		stages int
		slices int
		set    func(o *train.Options)
	}{
		{"gcnii", 2, 1, func(*train.Options) {}},
		{"gcnii", 3, 1, func(o *train.Options) { o.Recompute = setting.RecomputeNone }},
		{"gat", 2, 1, func(o *train.Options) { o.StaleGradients = axis.Keep }},
		{"sage", 3, 1, func(o *train.Options) { o.Recompute, o.Norm = setting.RecomputeNone, "layer" }},
		{"gcn", 3, 1, func(o *train.Options) { o.Dropout, o.InputDropout = .3, .2 }},
		{"gcn", 2, 2, func(*train.Options) {}},
	} {
		o := train.Defaults()
		o.Model, o.Layers, o.Hidden, o.Threads, o.Chunks, o.Epochs, o.EvalEvery = c.model, 4, 48, 1, 4, 40, 20
		c.set(&o)
		job := &train.Job{
			Graph: g, Options: o,
			Mesh: mesh.Mesh{Stages: c.stages, Partitions: 1, Slices: c.slices},
		}
		plan, err := job.Plan(context.Background())
		require.NoError(t, err)
		r, err := job.Run(context.Background())
		require.NoError(t, err)
		for stage, planned := range plan.PeakTensorBytes {
			if took := r.PeakTensorBytes[stage]; took > planned || float64(took) < .85*float64(planned) {
				t.Errorf("%s, stage %d: took %d bytes, planned %d", c.model, stage, took, planned)
			}
		}
		if diff := cmp.Diff(r.GraphBytes, plan.GraphBytes); diff != "" {
			t.Errorf("%s: planned graph: %s", c.model, diff)
		}
	}
}

// TestPlanOfChunks: the plan of a pipeline has the bytes of its run, for every treatment of chunks' values
// and gradients, if the order is fixed.
func TestPlanOfChunks(t *testing.T) {
	g := Tangled(t)
	for _, model := range []string{"gcnii", "gat"} {
		for _, set := range []func(o *train.Options){
			func(*train.Options) {},
			func(o *train.Options) { o.Recompute, o.HistoryStart = setting.RecomputeNone, axis.Warm },
			func(o *train.Options) { o.StaleGradients, o.HistoryPeriod = axis.Keep, 2 },
		} {
			for _, m := range []mesh.Mesh{
				{Stages: 2, Partitions: 1, Slices: 1},
				{Stages: 2, Partitions: 2, Slices: 1},
				{Stages: 2, Partitions: 1, Slices: 3},
			} {
				o := train.Defaults()
				o.Model, o.Layers, o.Hidden, o.Dropout, o.Threads, o.Epochs, o.ChunkOrder = model, 4, 10,
					.3, 1, 3, axis.Fixed
				o.Chunks = axis.Chunks(5 * m.Partitions)
				set(&o)
				job := &train.Job{Graph: g, Options: o, Mesh: m}
				if m.Partitions > 1 {
					job.Parts = inTurn(t, g, m.Partitions)
				}
				plan, err := job.Plan(context.Background())
				require.NoError(t, err)
				r, err := job.Run(context.Background())
				require.NoError(t, err)
				what := fmt.Sprintf("%s on %s, recompute %s, %s, from %s", model, Name(job.Mesh), o.Recompute,
					o.StaleGradients, o.HistoryStart)
				if diff := cmp.Diff(r.PeakTensorBytes, plan.PeakTensorBytes); diff != "" {
					t.Errorf("%s: planned tensors: %s", what, diff)
				}
				if diff := cmp.Diff(r.GraphBytes, plan.GraphBytes); diff != "" {
					t.Errorf("%s: planned graph: %s", what, diff)
				}
				if planned, sent := worker.SumOf(plan.Sent), r.Communication; planned.Halo != sent.Halo ||
					planned.Layout != sent.Layout || planned.Stage != sent.Stage {
					t.Errorf("%s: sent %+v, planned %+v", what, sent, planned)
				}
			}
		}
	}
}

// TestPriceOfOrders: the bytes that the plan gives for the other order of work are the bytes planned with
// that order.
func TestPriceOfOrders(t *testing.T) {
	g := Tangled(t)
	for _, mesh := range []string{"tensor=3", "graph=2,tensor=2"} {
		// by order of work and module: the bytes of this order and of the other
		price := map[order.Choice]map[string][2]string{}
		for _, choice := range []order.Choice{order.TransformFirst, order.AggregateFirst} {
			o := train.Defaults()
			o.Layers, o.Hidden, o.Threads, o.Parallel, o.AggregationOrder, o.InputDropout = 3, 10,
				1, mesh, choice, .1
			job := &train.Job{Graph: g, Options: o}
			if strings.HasPrefix(mesh, "graph=2") {
				job.Parts = inTurn(t, g, 2)
			}
			plan, err := job.Plan(context.Background())
			require.NoError(t, err)
			price[choice] = map[string][2]string{}
			for _, s := range plan.Workers[0].Layers {
				if m := regexp.MustCompile(`^.* \(.*: ([^:)]*)\)$`).FindStringSubmatch(s.What); m != nil {
					bytes := int64(0)
					for _, w := range plan.Workers {
						bytes += w.LayoutBytes[s.Name]
					}
					price[choice][s.Name] = [2]string{order.Moved(bytes), m[1]}
				}
			}
		}
		taken, other := price[order.TransformFirst], price[order.AggregateFirst]
		if len(taken) != 3 || len(other) != 3 {
			t.Fatalf("%s: %v", mesh, price)
		}
		for site, p := range taken {
			if q := other[site]; p[0] != q[1] || p[1] != q[0] {
				t.Errorf("%s, %s: %q and %q", mesh, site, p, q)
			}
		}
	}
}

// inTurn divides the graph's vertices among k partitions in turn.
func inTurn(t *testing.T, g *graph.Graph, k int) *train.Parts {
	t.Helper()
	shares, err := partition.Split(g, &partition.Assignment{K: k, Of: Dividings(g.Vertices(), k)["in turn"]})
	require.NoError(t, err)
	return &train.Parts{
		Whole: shares[0].Whole,
		Open:  func(p int) (*partition.Share, error) { return shares[p], nil },
	}
}
