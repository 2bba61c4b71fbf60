package paralleltest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph/generate"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/train"
)

// TestPlanOfStages: the plan of a model in two stages says the same of all its modules as the plan of one
// worker. With several chunks embeddings are aggregated first and features transformed first, whatever is
// cheaper.
func TestPlanOfStages(t *testing.T) {
	g := Tangled(t)
	o := with(train.Defaults(), "model=gcn layers=3 threads=1 input-dropout=.1") // nothing is cached
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
		got := said(&train.Job{Graph: g, Options: o, Mesh: Grid(2, 1, 1)})
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
		set    string
	}{
		{"gcnii", 2, 1, ""},
		{"gcnii", 3, 1, "recompute=none"},
		{"gat", 2, 1, "stale-gradients=keep"},
		{"sage", 3, 1, "recompute=none norm=layer"},
		{"gcn", 3, 1, "dropout=.3 input-dropout=.2"},
		{"gcn", 2, 2, ""},
	} {
		o := with(train.Defaults(),
			"layers=4 hidden=48 threads=1 chunks=4 epochs=16 eval-every=8 model="+c.model+" "+c.set)
		job := &train.Job{
			Graph: g, Options: o,
			Mesh: Grid(c.stages, 1, c.slices),
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
	for i, set := range []string{
		"", "recompute=none history-start=warm", "stale-gradients=keep history-period=2",
	} {
		for k, m := range []mesh.Mesh{Grid(2, 1, 1), Grid(2, 2, 1), Grid(2, 1, 3)} {
			model := []string{"gcnii", "gat", ""}[(i+k)%3] // two of them with each set and on each mesh
			if model == "" {
				continue
			}
			t.Run(fmt.Sprint(Name(m), " ", model, " ", set), func(t *testing.T) {
				o := small(model, "layers=4 chunk-order=fixed "+set)
				o.Chunks = axis.Chunks(5 * m.Partitions)
				job := &train.Job{Graph: g, Options: o, Mesh: m}
				if m.Partitions > 1 {
					job.Parts = inTurn(t, g, m.Partitions)
				}
				asPlanned(t, job)
			})
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
			o := with(train.Defaults(), "layers=3 hidden=10 threads=1 input-dropout=.1 parallel="+mesh)
			o.AggregationOrder = choice
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
