package train

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/checkpoint"
	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/partition"
)

// follow makes the job keep checkpoints in a folder, and collects its curve, without times.
func follow(j *Job, folder string, from *checkpoint.Checkpoint) (curve *[]Epoch) {
	curve = new([]Epoch)
	j.Checkpoints = &Checkpoints{Path: folder, From: from, Store: j.Graph.Checksum}
	j.OnResume = func(done []Epoch) error {
		*curve = slices.Clone(done)
		return nil
	}
	j.OnEpoch = func(e Epoch) { *curve = append(*curve, e) }
	return curve
}

// stopAfter makes the job end after an epoch as by a signal.
func stopAfter(j *Job, epoch int) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	told := j.OnEpoch
	j.OnEpoch = func(e Epoch) {
		told(e)
		if e.Epoch == epoch-1 {
			cancel(launch.ErrInterrupted)
		}
	}
	if epoch == 1 {
		resumed := j.OnResume
		j.OnResume = func(done []Epoch) error {
			cancel(launch.ErrInterrupted)
			return resumed(done)
		}
	}
	return ctx
}

func openLast(t *testing.T, folder string) *checkpoint.Checkpoint {
	t.Helper()
	c, err := OpenLast(launch.Ranks{Comm: comm.Alone()}, folder, func(err error) { t.Error(err) })
	require.NoError(t, err)
	if c == nil {
		t.Fatal("there is no checkpoint")
	}
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
	})
	return c
}

// resumes are kinds of runs, each with its mesh: every engine, task, optimizer and model with something of
// its own to keep.
func resumes() map[string]Options {
	all := map[string]Options{}
	add := func(name, mesh, words string) {
		o := Defaults()
		o.Epochs, o.Hidden, o.Dropout, o.EvalEvery, o.Parallel, o.Threads = 5, 16, .4, 2, mesh, 1
		o = apply(o, words)
		if mesh != "" && mesh[0] == 'g' {
			o.Partition = "random"
		}
		all[name+" "+cmp.Or(mesh, "alone")] = o
	}
	deep := "model gcnii, layers 4, chunks 6, history-period 2"
	add("sage", "", "norm batch, schedule cosine, clip 1")
	add("sage", "graph=3", "norm batch")
	add("plateau", "graph=2", "schedule plateau, plateau-patience 0, eval-every 1, lr .3, warmup 1")
	add("plateau once more", "", "schedule plateau, plateau-patience 0, eval-every 2, lr .3")
	add("plateau seldom", "", "schedule plateau, plateau-patience 0, eval-every 2, lr .3")
	add("gat", "graph=3", "model gat, heads 2, optimizer adamw")
	add("scheduled", "graph=3", "model gcn, halo cover, wire int8, wire-schedule varco:slope=1,from=8")
	add("gcn", "tensor=2", "model gcn, select loss")
	add("decoupled", "graph=2,tensor=2", "model gcn, decoupled, layers 3, optimizer sgd, momentum .9")
	add("turns", "tensor=2", "model gat, partitions 3, partition random")
	add("residual", "", "blocks residual, layers 3")
	add("gcnii", "pipeline=2", deep)
	add("warm", "pipeline=2", deep+", history-start warm, chunk-order fixed")
	add("keep", "pipeline=3", deep+", model gat, stale-gradients keep, recompute none")
	add("hybrid", "graph=2,pipeline=2", deep)
	add("sliced", "tensor=2,pipeline=2", deep)
	add("bfloat16", "graph=2", "precision bf16, norm batch, drop-edge .3, label-input .4")
	add("bfloat16", "graph=2,pipeline=2", deep+", precision bf16")
	add("table", "graph=2", "node-embedding 8")
	add("table", "tensor=2", "node-embedding 8")
	add("table", "pipeline=2", deep+", node-embedding 8, model sage")
	add("table", "graph=2,tensor=2,pipeline=2", deep+", node-embedding 8, clip 1")
	links := "task link, model gcn, out-features 8, decoder distmult, negatives 2"
	add("types", "pipeline=2", "model gatv2, heads 1, output-heads 1, layers 3, node-embedding 6")
	add("types", "graph=2,pipeline=2", "model rgcn, layers 3, bases 2, node-embedding 6")
	add("values", "graph=2,tensor=2", "loss huber")
	add("values", "pipeline=2", deep+", loss mse")
	add("standard", "graph=3", "normalize-features standard")
	add("edges", "graph=2", "edge-label label, model gcn, decoder-layers 3")
	add("edges by time", "graph=2", "edge-label label, model gcn, pass-messages earlier")
	add("edges", "graph=2,tensor=2", "edge-label label, optimizer sgd, momentum .9")
	add("edges", "pipeline=2", deep+", edge-label label, decoder-layers 3")
	add("links", "graph=2", links)
	add("links", "graph=2,tensor=2", links)
	return all
}

// graphFor is a graph that the options can train on.
func graphFor(t *testing.T, o *Options) *graph.Graph {
	g := tangle(t, 400, 200)
	embedded := 0
	if o.Model == "rgcn" || o.Model == "gatv2" {
		g, embedded = severalTypes(t), 1
	}
	if o.NodeEmbedding > 0 {
		g.Types[embedded].Features = graph.Features{}
	}
	if o.Loss != Defaults().Loss {
		g = withValues(g)
	}
	if o.EdgeLabel != "" {
		g = labelEdges(t, g, 0, "classes")
	}
	if o.PassMessages == "earlier" {
		g = timed(t, g, 0)
	}
	return g
}

// TestResume: a run that stops and continues in other workers equals the run that does not, to the bit: its
// losses, metrics, best epoch, weights, results and memory. It stops after an epoch without an evaluation,
// with one, after the first and before the last.
func TestResume(t *testing.T) {
	at, all := []int{3, 2, 1, 4}, resumes()
	for k, name := range slices.Sorted(maps.Keys(all)) {
		stop, o := at[k%len(at)], all[name]
		t.Run(fmt.Sprintf("%s after %d", name, stop), func(t *testing.T) {
			g, dir := graphFor(t, &o), t.TempDir()
			whole := &Job{Graph: g, Options: o}
			wantCurve := follow(whole, filepath.Join(dir, "whole"), nil)
			want := mustRun(t, whole)

			folder := filepath.Join(dir, "stopped")
			first := &Job{Graph: g, Options: o}
			follow(first, folder, nil)
			r, err := first.Run(stopAfter(first, stop))
			if err != nil || r.Epochs != stop || r.Ended != EndedSignal {
				t.Fatalf("%v, %+v", err, r)
			}

			second := &Job{Graph: g, Options: o}
			gotCurve := follow(second, folder, openLast(t, folder))
			got := mustRun(t, second)
			equalRuns(t, got, want)
			assert.EqualBy(t, *wantCurve, *gotCurve, cmpopts.IgnoreFields(Epoch{}, "Seconds"),
				cmpopts.EquateNaNs())
			p, err := second.Plan(context.Background())
			require.NoError(t, err)
			for k, bytes := range want.PeakTensorBytes {
				if planned := p.PeakTensorBytes[k]; bytes > planned ||
					bytes < planned && !strings.Contains(o.Parallel, "pipeline") {
					t.Errorf("worker %d takes %d, and %d are planned", k, bytes, planned)
				}
			}
			assert.Equal(t, want.PeakTensorBytes, got.PeakTensorBytes, "memory")
		})
	}
}

// equalRuns wants equal results, to the bit.
func equalRuns(t *testing.T, got, want *Result) {
	t.Helper()
	assert.Equal(t, want.Epochs, got.Epochs)
	assert.Equal(t, want.BestEpoch, got.BestEpoch)
	assert.Equal(t, want.Ended, got.Ended)
	for what, pair := range map[string][2]any{
		"losses": {got.Losses, want.Losses}, "weights": {got.Weights, want.Weights},
		"logits": {got.Logits, want.Logits}, "links": {got.Links, want.Links},
		"scores": {
			[]float64{got.Train, got.Val, got.Test, got.ValLoss},
			[]float64{want.Train, want.Val, want.Test, want.ValLoss},
		},
	} {
		assert.Equal(t, "", gocmp.Diff(pair[1], pair[0], cmpopts.EquateNaNs()), what)
	}
}

// stopped runs a job until an epoch, and opens its checkpoint.
func stopped(t *testing.T, g *graph.Graph, o Options,
	epoch int,
) (from *checkpoint.Checkpoint, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "checkpoints")
	j := &Job{Graph: g, Options: o}
	follow(j, folder, nil)
	_, err := j.Run(stopAfter(j, epoch))
	require.NoError(t, err)
	return openLast(t, folder), folder
}

// moveTo takes another mesh.
func moveTo(o *Options, mesh string) {
	o.Parallel = mesh
	o.ResetOtherAxes(func(string) bool { return false })
	if strings.HasPrefix(mesh, "graph=") {
		o.Partition = "random"
	}
}

// TestResumeOnAnotherMesh: a run continues on another mesh of the exact axes as the run that stays, within
// rounding; and a pipeline on another number of stages to the bit, as its chunks are the same.
func TestResumeOnAnotherMesh(t *testing.T) {
	all := resumes()
	for name, c := range map[string]struct {
		from, to string
		bits     bool
	}{
		"fewer workers":      {"sage graph=3", "graph=2", false},
		"one worker":         {"sage graph=3", "", false},
		"other axis":         {"sage graph=3", "tensor=2", false},
		"more workers":       {"sage alone", "graph=4", false},
		"table":              {"table graph=2", "graph=3", false},
		"table together":     {"table graph=2", "", false},
		"sliced table":       {"table graph=2", "tensor=3", false},
		"table of slices":    {"table tensor=2", "graph=2", false},
		"table of stages":    {"table pipeline=2", "pipeline=3", true},
		"types of stages":    {"types pipeline=2", "pipeline=3", true},
		"links":              {"links graph=2", "tensor=2", false},
		"stages":             {"gcnii pipeline=2", "pipeline=3", true},
		"stages of a hybrid": {"hybrid graph=2,pipeline=2", "graph=2,pipeline=4", true},
		"stages of slices":   {"sliced tensor=2,pipeline=2", "tensor=2,pipeline=3", true},
		"kept gradients":     {"keep pipeline=3", "pipeline=2", true},
	} {
		t.Run(name, func(t *testing.T) {
			o := all[c.from]
			o.LR, o.Dropout, o.Optimizer = .001, .2, "sgd" // Adam would amplify single roundings
			g := graphFor(t, &o)
			want := mustRun(t, &Job{Graph: g, Options: o})
			from, folder := stopped(t, g, o, 4)
			moveTo(&o, c.to)
			j := &Job{Graph: g, Options: o}
			follow(j, folder, from)
			got := mustRun(t, j)
			switch d := away(want.Losses, got.Losses); {
			case c.bits:
				equalRuns(t, got, want)
			case d > 2e-5 || got.Losses[3] != want.Losses[3]:
				t.Errorf("the losses differ by %.1e: %v, want %v", d, got.Losses, want.Losses)
			}
		})
	}
}

// TestResumeOnOtherPartitions: a run that continues on other partitions of the same mesh tells their memory,
// and not that of those before, which took more.
func TestResumeOnOtherPartitions(t *testing.T) {
	o := resumes()["sage graph=3"]
	g := tangle(t, 1500, 0)
	memory := func(method, folder string, from *checkpoint.Checkpoint) []int64 {
		o.Partition = method
		j := &Job{Graph: g, Options: o}
		follow(j, folder, from)
		j.Checkpoints.Partition = method
		return mustRun(t, j).PeakTensorBytes
	}
	from, folder := stopped(t, g, o, 4)
	random, metis := memory(partition.Random, t.TempDir(), nil), memory(partition.Metis, t.TempDir(), nil)
	assert.Equal(t, metis, memory(partition.Metis, folder, from))
	if random[0] <= metis[0] {
		t.Errorf("worker 0 takes %d bytes of random partitions, %d of METIS's", random[0], metis[0])
	}
}

// TestResumeLeavesThePipeline: a run that a pipeline began continues exactly on partitions, from its weights.
func TestResumeLeavesThePipeline(t *testing.T) {
	o := resumes()["gcnii pipeline=2"]
	g := graphFor(t, &o)
	from, folder := stopped(t, g, o, 4)
	var two [2]*Result
	for k, mesh := range []string{"", "graph=2"} {
		moved := o
		moveTo(&moved, mesh)
		j := &Job{Graph: g, Options: moved}
		follow(j, folder, from)
		two[k] = mustRun(t, j)
	}
	if d := away(two[0].Losses, two[1].Losses); d > 1e-4 || two[0].Epochs != o.Epochs {
		t.Errorf("the losses differ by %.1e after %d epochs", d, two[0].Epochs)
	}
}

// TestPlannedCheckpoint: without norms a checkpoint has the parameters, their best values and Adam's two
// moments, of four bytes each. One worker of three writes them.
func TestPlannedCheckpoint(t *testing.T) {
	o := resumes()["sage graph=3"]
	o.Norm = "none"
	j := &Job{Graph: graphFor(t, &o), Options: o, Checkpoints: &Checkpoints{}}
	p, err := j.Plan(context.Background())
	require.NoError(t, err)
	for rank, w := range p.Workers {
		if want := 4 * 4 * int64(w.Parameters); rank == 0 && w.Checkpoint != want ||
			rank > 0 && w.Checkpoint != 0 {
			t.Errorf("worker %d: %d bytes of %d parameters", rank, w.Checkpoint, w.Parameters)
		}
	}
}

// TestResumeRefuses: a history is not made up, nor taken for that of other chunks.
func TestResumeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		from   string
		change string
		want   string
	}{
		"no history":       {"gcnii pipeline=2", "chunks 4", "of other chunks"},
		"other partitions": {"hybrid graph=2,pipeline=2", "parallel graph=3,pipeline=2", "graph=6"},
		"slices":           {"gcnii pipeline=2", "parallel tensor=2,pipeline=2", "slices"},
		"no slices":        {"sliced tensor=2,pipeline=2", "parallel pipeline=4", "slices"},
		"from partitions":  {"sage graph=3", "norm none, parallel pipeline=2, partition auto", "has none"},
	} {
		t.Run(name, func(t *testing.T) {
			o := resumes()[c.from]
			g := graphFor(t, &o)
			from, folder := stopped(t, g, o, 2)
			o = apply(o, c.change)
			j := &Job{Graph: g, Options: o}
			follow(j, folder, from)
			_, err := j.Run(context.Background())
			assert.Refused(t, err, c.want)
		})
	}
}
