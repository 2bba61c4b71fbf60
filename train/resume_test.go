package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
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
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/partition"
	"weft/train/setting"
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
		o = given(o, words)
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
			o = given(o, c.change)
			j := &Job{Graph: g, Options: o}
			follow(j, folder, from)
			_, err := j.Run(context.Background())
			assert.Refused(t, err, c.want)
		})
	}
}

// TestCheckpointsAreKept: the last two stay of those after every other epoch, or after the next where the
// disk is slow. A damaged one is passed over, which is said. The run that continues from the one before
// equals the run that never stopped.
func TestCheckpointsAreKept(t *testing.T) {
	o := resumes()["sage graph=3"]
	o.CheckpointEvery = setting.Interval{Epochs: 2}
	o.Epochs = 8
	g, folder := graphFor(t, &o), filepath.Join(t.TempDir(), "checkpoints")
	j := &Job{Graph: g, Options: o}
	follow(j, folder, nil)
	var saved []int
	j.Checkpoints.OnSaved = func(s Saved) {
		if s.Err != nil || s.Bytes == 0 {
			t.Errorf("%+v", s)
		}
		saved = append(saved, s.Epoch)
	}
	want := mustRun(t, j)
	kept, err := checkpoint.Epochs(folder)
	onDisk := int64(0)
	for rank := range 3 {
		info, err := os.Stat(filepath.Join(folder, "epoch-000000008",
			fmt.Sprintf("worker-%d.safetensors", rank)))
		require.NoError(t, err)
		onDisk += info.Size()
	}
	if c := want.Checkpoints; c.Written != len(saved) || c.Bytes != onDisk {
		t.Errorf("%d checkpoints, the last of %d bytes: reported %+v", len(saved), onDisk, c)
	}
	if n := len(saved); err != nil || n < 2 || saved[0] != 2 || saved[n-1] != 8 ||
		!slices.Equal(kept, []int{8, saved[n-2]}) {
		t.Fatalf("saved %d, kept %d, %v", saved, kept, err)
	}
	for name, damage := range map[string]func(path string) error{
		"cut":     func(path string) error { return os.Truncate(path, 100) },
		"removed": os.Remove,
		"flipped": func(path string) error {
			text, err := os.ReadFile(path)
			text[len(text)-1] ^= 1
			return errors.Join(err, os.WriteFile(path, text, 0o666))
		},
	} {
		for _, file := range []string{"worker-1.safetensors", "manifest.json"} {
			t.Run(name+" "+file, func(t *testing.T) {
				copied := filepath.Join(t.TempDir(), "checkpoints")
				require.NoError(t, os.CopyFS(copied, os.DirFS(folder)))
				require.NoError(t, damage(filepath.Join(copied, "epoch-000000008", file)))
				var passed []error
				from, err := OpenLast(launch.Ranks{Comm: comm.Alone()}, copied,
					func(err error) { passed = append(passed, err) })
				if err != nil || from == nil || from.Epoch != kept[1] || len(passed) != 1 {
					t.Fatalf("%v, %v, %v", from, err, passed)
				}
				defer from.Close()
				again := &Job{Graph: g, Options: o}
				follow(again, copied, from)
				equalRuns(t, mustRun(t, again), want)
			})
		}
	}
}

// TestAllCheckpointsAreDamaged: a run without a whole checkpoint begins again, whatever is damaged.
func TestAllCheckpointsAreDamaged(t *testing.T) {
	for _, file := range []string{"worker-0.safetensors", "manifest.json"} {
		t.Run(file, func(t *testing.T) {
			o := resumes()["sage graph=3"]
			g := graphFor(t, &o)
			from, folder := stopped(t, g, o, 2)
			require.NoError(t, from.Close())
			epochs, err := checkpoint.Epochs(folder)
			require.NoError(t, err)
			for _, epoch := range epochs {
				require.NoError(t,
					os.Truncate(filepath.Join(folder, fmt.Sprintf("epoch-%09d", epoch), file), 10))
			}
			passed := 0
			from, err = OpenLast(launch.Ranks{Comm: comm.Alone()}, folder, func(error) { passed++ })
			if err != nil || from != nil || passed != len(epochs) {
				t.Errorf("%v, %v, %d of %d passed over", from, err, passed, len(epochs))
			}
		})
	}
}

// TestUnreadableCheckpoints: what the system does not let a run read is not damaged: the run fails, as it
// would else begin again and remove its checkpoints.
func TestUnreadableCheckpoints(t *testing.T) {
	for name, replaced := range map[string]string{
		"folder": "", "checkpoint": "epoch-000000002/manifest.json",
		"file": "epoch-000000002/worker-0.safetensors",
	} {
		t.Run(name, func(t *testing.T) {
			o := resumes()["sage alone"]
			g := graphFor(t, &o)
			_, folder := stopped(t, g, o, 2)
			path := filepath.Join(folder, replaced)
			require.NoError(t, cmp.Or(os.RemoveAll(path), os.Symlink(path, path))) // a link to itself
			from, err := OpenLast(launch.Ranks{Comm: comm.Alone()}, folder,
				func(err error) { t.Errorf("passed over: %v", err) })
			if from != nil || err == nil || refusal.Is(err) && name != "folder" ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%v, %v", from, err)
			}
		})
	}
}

// TestMissingFile: a file that is nowhere is damage in whichever rank's part it is: all pass over the
// checkpoint.
func TestMissingFile(t *testing.T) {
	o := resumes()["sage graph=3"]
	g := graphFor(t, &o)
	c, folder := stopped(t, g, o, 2)
	file := filepath.Join(c.Path, "worker-1.safetensors")
	require.NoError(t, os.Remove(file))
	var passed []error
	err := launch.Workers(2, 0, func(of *comm.Comm) error {
		from, err := OpenLast(launch.Ranks{Comm: of}, folder,
			func(err error) { passed = append(passed, err) })
		if from != nil {
			t.Errorf("opened %s", from.Path)
		}
		return err
	})
	if err != nil || len(passed) != 1 || !refusal.IsDamaged(passed[0]) ||
		!strings.Contains(passed[0].Error(), file) {
		t.Errorf("error %v, passed over: %v", err, passed)
	}
}

// TestCheckpointsOfOneMachine: what rank 1 does not find is on another machine, not damaged. A file of which
// rank 1 finds a byte changed is damaged, in the words of the rank that compares it.
func TestCheckpointsOfOneMachine(t *testing.T) {
	o := resumes()["sage graph=3"]
	g := graphFor(t, &o)
	c, folder := stopped(t, g, o, 2)
	file := filepath.Join(c.Path, "worker-1.safetensors")
	for _, shared := range []bool{false, true} {
		err := launch.Workers(2, 0, func(of *comm.Comm) error {
			r, mine := launch.Ranks{Comm: of}, folder
			if r.Rank() == 1 && !shared {
				mine = t.TempDir()
			}
			from, err := OpenLast(r, mine, func(err error) {
				if !shared || !strings.Contains(err.Error(), "rank 1: "+file+": damaged: ") {
					t.Errorf("passed over: %v", err)
				}
			})
			if from != nil {
				t.Errorf("shared %v: opened %s", shared, from.Path)
			}
			return err
		})
		if shared != (err == nil) ||
			!shared && (refusal.Is(err) || !strings.Contains(err.Error(), "rank 1: ") ||
				!strings.Contains(err.Error(), "shared file system")) {
			t.Errorf("shared %v: %v", shared, err)
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text[8] ^= 1 // in the header
		require.NoError(t, os.WriteFile(file, text, 0o666))
	}
}

// TestCheckpointsFail: a run whose checkpoints cannot be written says why and goes on. The disk must have as
// many bytes as the plan says for the files of all workers, besides those of the results.
func TestCheckpointsFail(t *testing.T) {
	o := resumes()["sage graph=3"]
	o.CheckpointEvery = setting.Interval{Epochs: 1}
	g := graphFor(t, &o)
	want := mustRun(t, &Job{Graph: g, Options: o})
	const spare = 1 << 60
	for name, c := range map[string]struct {
		spare int64
		store func() (string, error)
		want  string
	}{
		"full":  {spare, g.Checksum, ""},
		"fails": {0, func() (string, error) { return "", errors.New("a fault") }, "worker 0: a fault"},
		"panic": {0, func() (string, error) { panic("a fault") }, "worker 0: internal error: a fault"},
	} {
		t.Run(name, func(t *testing.T) {
			j, folder := &Job{Graph: g, Options: o}, filepath.Join(t.TempDir(), "checkpoints")
			follow(j, folder, nil)
			p, err := j.Plan(context.Background())
			require.NoError(t, err)
			if c.spare > 0 {
				for _, w := range p.Workers {
					c.spare += w.Checkpoint
				}
				c.want = fmt.Sprintf("a checkpoint and the results take %.1f MB", float64(c.spare)/1e6)
				j.Checkpoints.Spare = spare
			}
			j.Checkpoints.Store = c.store
			failed := 0
			j.Checkpoints.OnSaved = func(s Saved) {
				if failed++; s.Err == nil || !strings.Contains(s.Err.Error(), c.want) {
					t.Errorf("%+v, want %q", s, c.want)
				}
			}
			equalRuns(t, mustRun(t, j), want)
			if left, err := os.ReadDir(folder); err != nil || len(left) != 0 || failed == 0 {
				t.Errorf("left %v, %v, after %d checkpoints", left, err, failed)
			}
		})
	}
}
