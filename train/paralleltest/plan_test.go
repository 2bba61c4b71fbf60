package paralleltest

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/autograd"
	"weft/gnn"
	"weft/graph/generate"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
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
	describe := func(j *train.Job) (lines []string) {
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
	want := describe(&train.Job{Graph: g, Options: o})
	for chunks, want := range map[axis.Chunks][]string{
		1: want,
		5: {
			"convs.0: transform 13 columns to 64, then aggregate",
			"convs.1: aggregate 64 columns, then transform to 64",
			"convs.2: aggregate 64 columns, then transform to 5", want[o.Layers],
		},
	} {
		o.Chunks = chunks
		got := describe(&train.Job{Graph: g, Options: o, Mesh: Grid(2, 1, 1)})
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

// TestMessagesOfRows: on any mesh a model of message functions of complete rows has one worker's losses and,
// on any threads, the same bits. It takes and sends the bytes of its plan, which explains it.
func TestMessagesOfRows(t *testing.T) {
	g := Tangled(t)
	o := small("gcn", "")
	oneWorker := run(t, &train.Job{Graph: g, Options: o, Model: mixing})
	for _, settings := range []string{
		"", "parallel=graph=3", "parallel=tensor=3", "parallel=tensor=3 aggregation-chunks=3 recompute=blocks",
		"parallel=graph=2,tensor=2 keep-halo=true", "parallel=tensor=2,pipeline=2 chunks=1 recompute=none",
		"parallel=tensor=2 partitions=3 offload=" + t.TempDir(),
	} {
		t.Run(settings, func(t *testing.T) {
			j := &train.Job{Graph: g, Options: with(o, settings), Model: mixing}
			r := asPlanned(t, j)
			near(t, "losses", r.Losses, oneWorker.Losses, 2e-5)
			if got, want := sumOf(r.EdgeColumns), sumOf(oneWorker.EdgeColumns); got != want {
				t.Errorf("%d edges × columns, want %d", got, want)
			}
			j.Options.Threads = 3
			sameBits(t, "three threads", run(t, j), r)
			if !strings.Contains(settings, "tensor") {
				return
			}
			plan, err := j.Plan(context.Background())
			require.NoError(t, err)
			const want = "messages of 10 columns, computed for this worker's rows from complete rows"
			if got := plan.Workers[0].Layers[0].What; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if settings != "parallel=tensor=3" {
				return
			}
			sent := map[string]int64{} // by each worker to two others, and the gradients of what needs them
			for _, w := range plan.Workers {
				for path, bytes := range w.LayoutBytes {
					sent[path] += bytes
				}
			}
			rows := int64(2 * 4 * g.Vertices())
			if sent["first"] != rows*13 || sent["second"] != rows*(10+10) {
				t.Errorf("bytes of complete rows: %v", sent)
			}
		})
	}
}

func sumOf(list []int64) (sum int64) {
	for _, n := range list {
		sum += n
	}
	return sum
}

// mixing is a model of two layers of messages of complete rows. The first reads features of edges and of
// added loops. The second has a maximum, along reversed edges, which have no features.
func mixing(features, classes int) []gnn.BlockSpec {
	layer := func(path string, in, out int, reversed bool, m gnn.Message) gnn.BlockSpec {
		return gnn.BlockSpec{In: in, Out: out, EdgeFeatures: true, Build: func(e gnn.Env) gnn.Block {
			w := e.Params.Weight(path+".w", in, out, nn.Glorot(in, out))
			edge := e.Params.Weight(path+".edge", edgeColumns, out, nn.Glorot(edgeColumns, out))
			// A block may use its Propagator while it is built.
			message := e.Propagators(path, gnn.Along{Relation: e.Only(), Reversed: reversed}).Message
			return gnn.NewLayer(gnn.ConvolutionFunc(func(x *autograd.Var) (*autograd.Var, *nn.Param) {
				m := m
				m.Source, m.Target = autograd.Dense(x), autograd.Linear(x, w.On(x.Tape()))
				m.Columns, m.Parameters = out, []*nn.Param{w, edge}
				m.Function = func(e gnn.Edges) *autograd.Var {
					z := autograd.AddLinear(e.Target, e.Source, w.On(e.Tape))
					if !reversed {
						z = autograd.AddLinear(z, e.Features, edge.On(e.Tape))
					}
					return autograd.Activate(z, kernel.Tanh)
				}
				return message(m), nil
			}), gnn.TypeLayer{})
		}}
	}
	return []gnn.BlockSpec{
		layer("first", features, 10, false, gnn.Message{Reduce: gnn.KindMean, Loops: gnn.AddedLoops}),
		layer("second", 10, classes, true, gnn.Message{Reduce: gnn.KindMax}),
	}
}
