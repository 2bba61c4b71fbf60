package train

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/partition"
	"weft/tensor"
	"weft/train/metric"
	"weft/train/setting"
)

// inTurns is a job on four random partitions that the workers of a mesh hold.
func inTurns(j Job, mesh string) *Job {
	o := &j.Options
	o.Parallel, o.Partitions, o.Partition, o.Threads = mesh, 4, partition.Random, 1
	return &j
}

// sameResults compares what two runs learned, to the bit.
func sameResults(t *testing.T, got, want *Result) {
	t.Helper()
	if !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Logits, want.Logits) || got.Test != want.Test {
		t.Errorf("%d workers: losses %v and a test metric of %v, want %v and %v", got.Workers, got.Losses, got.Test, want.Losses, want.Test)
	}
	if !reflect.DeepEqual(got.Links, want.Links) {
		t.Errorf("%d workers: %+v, want %+v", got.Workers, got.Links, want.Links)
	}
}

// TestLinksInTurns: link prediction on partitions that take turns has the bits of as many workers. It keeps a
// limit beyond which matrices rest on disk. With one worker it takes and moves what the plan says. With
// several it moves no more.
func TestLinksInTurns(t *testing.T) {
	g, types := tangle(t, 1100, 1000), severalTypes(t)
	bought, _, _, _ := shop(t, 30)
	for name, c := range map[string]struct {
		g *graph.Graph
		Options
	}{
		"dot":      {g, linked(func(o *Options) { o.OutFeatures = 0 })},
		"distmult": {types, linked(func(o *Options) { o.Model, o.Decoder = "rgcn", "distmult" })},
		"between": {bought, linked(func(o *Options) {
			o.Model, o.LinkRelation, o.EvalNegatives = "sage", "user,buys,item;item,has,tag", 20
		})},
		"among": {g, linked(func(o *Options) { o.EvalNegatives, o.Metric, o.Model = 50, "hits@10", "sage" })},
		"area":  {g, linked(func(o *Options) { o.Metric, o.Model, o.Precision = metric.ROCAUC, "gat", "bf16" })},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.Options
			o.Epochs, o.Negatives = 3, 9 // several windows
			want := mustRun(t, inTurns(Job{Graph: c.g, Options: o}, "graph=4"))
			one, inMemory := planAndRun(t, inTurns(Job{Graph: c.g, Options: o}, "graph=1"))
			sameResults(t, one, want)
			if one.Communication.Links.Bytes != 0 {
				t.Errorf("one worker sent %+v", one.Communication.Links)
			}
			two := inTurns(Job{Graph: c.g, Options: o}, "graph=2")
			plan, err := two.Plan(t.Context())
			require.NoError(t, err)
			got := mustRun(t, two)
			sameResults(t, got, want)
			for i, took := range got.PeakTensorBytes {
				if took > plan.PeakTensorBytes[i] {
					t.Errorf("worker %d of 2 took %d bytes, planned %d", i, took, plan.PeakTensorBytes[i])
				}
			}
			o.Offload = t.TempDir()
			for workers := 1; workers <= 2; workers++ {
				o.MemoryLimit = 0
				least, err := inTurns(Job{Graph: c.g, Options: o}, fmt.Sprintf("graph=%d", workers)).Plan(t.Context())
				require.NoError(t, err)
				for _, limit := range []int64{least.Limit, least.Limit + (inMemory-least.Limit)/3}[workers-1:] {
					o.MemoryLimit = setting.Bytes(limit)
					job := inTurns(Job{Graph: c.g, Options: o}, fmt.Sprintf("graph=%d", workers))
					plan, err := job.Plan(t.Context())
					require.NoError(t, err)
					got := mustRun(t, job)
					sameResults(t, got, want)
					for i, tensors := range got.PeakTensorBytes {
						if took := tensors + got.GraphBytes[i]; took > limit {
							t.Errorf("worker %d of %d took %d bytes of %d", i, workers, took, limit)
						}
					}
					moved, most := got.Disk, plan.Disk()
					if workers == 1 && (moved != most || moved.Read == 0) || moved.Written > most.Written || moved.Read > most.Read || moved.Written == 0 {
						t.Errorf("%d workers: moved %+v, planned %+v", workers, moved, most)
					}
				}
			}
		})
	}
}

// TestTablesRest: learned embeddings and the optimizer's state rest on disk, too: that saves more than they
// take together. The bits are those of four workers, also of a run that continues from a checkpoint, and
// memory and bytes are those of the plan.
func TestTablesRest(t *testing.T) {
	g := *tangled(t)
	g.Features = graph.Features{}
	for _, name := range []string{"sage", "rgcn", "rgcn of bases", "links"} {
		t.Run(name, func(t *testing.T) {
			o := Defaults()
			o.Model, o.NodeEmbedding, o.Hidden, o.Epochs, o.Seed, o.Threads = "sage", 64, 16, 3, 5, 1
			switch name {
			case "rgcn":
				o.Model, o.NodeEmbedding, o.Clip, o.Optimizer = "rgcn", 0, .5, "adamw"
			case "rgcn of bases":
				o.Model, o.NodeEmbedding, o.Hidden, o.Bases = "rgcn", 0, 64, 3
			case "links":
				o = linked(func(o *Options) { o.Epochs, o.Model, o.NodeEmbedding, o.Precision = 3, "sage", 64, "bf16" })
			}
			o.Select = "loss" // each epoch is the best so far: as in a plan, its weights are saved
			want := mustRun(t, inTurns(Job{Graph: &g, Options: o}, "graph=4"))
			o.Offload = t.TempDir()
			bounds, err := inTurns(Job{Graph: &g, Options: o, PlanRange: true}, "graph=1").Plan(t.Context())
			require.NoError(t, err)
			tables := int64(4 * 4 * 64 * g.Vertices()) // values, gradients, two moments
			if o.NodeEmbedding > 0 && bounds.All-bounds.Least < tables*6/5 {
				t.Errorf("a run needs %d bytes at least, and %d without a limit; its tables take %d", bounds.Least, bounds.All, tables)
			}
			for _, limit := range []int64{bounds.Least, (2*bounds.Least + bounds.All) / 3} {
				o.MemoryLimit = setting.Bytes(limit)
				job := inTurns(Job{Graph: &g, Options: o}, "graph=1")
				plan, err := job.Plan(t.Context())
				require.NoError(t, err)
				got := mustRun(t, job)
				sameResults(t, got, want)
				if !reflect.DeepEqual(got.Weights, want.Weights) {
					t.Error("other weights")
				}
				if took := got.PeakTensorBytes[0] + got.GraphBytes[0]; took > limit {
					t.Errorf("took %d bytes of %d", took, limit)
				}
				if got.Disk != plan.Disk() || got.Disk.Read == 0 || got.Disk.Written == 0 {
					t.Errorf("moved %+v, planned %+v", got.Disk, plan.Disk())
				}
			}
			o.MemoryLimit = 0
			folder := t.TempDir()
			first := inTurns(Job{Graph: &g, Options: o}, "graph=1")
			follow(first, folder, nil)
			if r, err := first.Run(stopAfter(first, 2)); err != nil || r.Epochs != 2 {
				t.Fatalf("%v after %d epochs", err, r.Epochs)
			}
			second := inTurns(Job{Graph: &g, Options: o}, "graph=2")
			follow(second, folder, openLast(t, folder))
			got := mustRun(t, second)
			sameResults(t, got, want)
			if !reflect.DeepEqual(got.Weights, want.Weights) {
				t.Error("other weights of a run that continued")
			}
		})
	}
}

// TestEdgesRest: what is made of all edges of a partition, as their degrees, brings these back from the disk.
// It is in the plan also where the rows of the partition are few columns beside the edges.
func TestEdgesRest(t *testing.T) {
	g, err := generate.Graph(generate.Options{Kind: generate.Uniform, Vertices: 12_000, Degree: 8, Features: 8, Classes: 5, Seed: 3, Directed: true})
	require.NoError(t, err)
	for name, change := range map[string]func(*Options){
		"sgc": func(o *Options) { o.Model = "sgc" }, "sage, decoupled": func(o *Options) { o.Model, o.Decoupled, o.Hidden = "sage", true, 8 },
	} {
		o := Defaults()
		o.Epochs, o.Select, o.Offload = 3, "loss", t.TempDir()
		change(&o)
		job := inTurns(Job{Graph: g, Options: o}, "graph=1")
		plan, err := job.Plan(t.Context())
		require.NoError(t, err)
		got := mustRun(t, job)
		if took := got.PeakTensorBytes[0] + got.GraphBytes[0]; took != plan.Limit {
			t.Errorf("%s: took %d bytes, the least of the plan is %d", name, took, plan.Limit)
		}
		if got.Disk != plan.Disk() {
			t.Errorf("%s: moved %+v, planned %+v", name, got.Disk, plan.Disk())
		}
	}
}

// TestCoverRests: with partial sums the edges are read in the first aggregation, which may be that of
// features that a layer keeps. These rest as they are when it ends.
func TestCoverRests(t *testing.T) {
	g, err := generate.Graph(generate.Options{Kind: generate.Uniform, Vertices: 4000, Degree: 6, Features: 32, Classes: 5, Seed: 3, Directed: true})
	require.NoError(t, err)
	for workers, model := range []string{1: "sage", 2: "gin"} {
		if model == "" {
			continue
		}
		o := Defaults()
		o.Model, o.Halo, o.Epochs, o.Select, o.LR = model, edges.HaloCover, 3, "loss", 1e-4
		mesh := fmt.Sprintf("graph=%d", workers)
		want := mustRun(t, inTurns(Job{Graph: g, Options: o}, mesh))
		o.Offload = t.TempDir()
		job := inTurns(Job{Graph: g, Options: o}, mesh)
		plan, err := job.Plan(t.Context())
		require.NoError(t, err)
		got := mustRun(t, job)
		sameResults(t, got, want)
		if got.Disk != plan.Disk() || got.Disk.Read == 0 {
			t.Errorf("%s: moved %+v, planned %+v", model, got.Disk, plan.Disk())
		}
	}
}

// TestScheduleRests: where --wire-schedule sends fewer columns in early epochs, their messages are too small
// to rest in others. The limit that suffices for the last epoch, which is planned, is kept in all.
func TestScheduleRests(t *testing.T) {
	g, err := generate.Graph(generate.Options{Kind: generate.RMAT, Scale: 13, EdgeFactor: 12, Features: 32, Classes: 16, Seed: 3})
	require.NoError(t, err)
	for workers := 1; workers <= 2; workers++ {
		o := Defaults()
		o.Epochs, o.Select, o.Threads, o.WireSchedule = 3, "loss", 1, axis.WireSchedule{Slope: 1.5, From: 4}
		six := func(workers int) *Job {
			job := inTurns(Job{Graph: g, Options: o}, fmt.Sprintf("graph=%d", workers))
			job.Options.Partitions = 6
			return job
		}
		want := mustRun(t, six(workers))
		o.Offload = t.TempDir()
		job := six(workers)
		plan, err := job.Plan(t.Context())
		require.NoError(t, err)
		got := mustRun(t, job)
		sameResults(t, got, want)
		for k, tensors := range got.PeakTensorBytes {
			if took := tensors + got.GraphBytes[k]; took > plan.Limit {
				t.Errorf("worker %d of %d took %d bytes of %d", k, workers, took, plan.Limit)
			}
		}
		if got.Disk != plan.Disk() || got.Disk.Read == 0 {
			t.Errorf("%d workers: moved %+v, planned %+v", workers, got.Disk, plan.Disk())
		}
	}
}

// TestOffloadOnSeveralWorkers: messages between workers come at any time. The least limit is kept all the
// same, what is written and read is what the plan says, and the bits are those of as many workers as
// partitions. With more memory, all messages stay there.
func TestOffloadOnSeveralWorkers(t *testing.T) {
	g := tangle(t, 700, 1000)
	all := networks()
	for i, name := range []string{"sage", "both-gat", "gcn"} {
		workers := 2 + i%2
		t.Run(fmt.Sprint(name, workers), func(t *testing.T) {
			o := all[name]
			o.Hidden, o.KeepHalo, o.Prefetch, o.Seed = 3*o.Hidden, i == 2, 1+2*i, uint64(workers)
			o.Epochs, o.Select = 3, "loss" // each epoch is the best so far: as in a plan, its weights are saved
			seven := func(workers int) *Job {
				job := inTurns(Job{Graph: g, Options: o}, fmt.Sprintf("graph=%d", workers))
				job.Options.Partitions = 7
				return job
			}
			want := mustRun(t, seven(7))
			o.Offload = t.TempDir()
			bounds := seven(workers)
			bounds.PlanRange = true
			needs, err := bounds.Plan(t.Context())
			require.NoError(t, err)
			for _, limit := range []int64{needs.Least, (needs.Least + 3*needs.All) / 4} {
				job := seven(workers)
				job.Options.MemoryLimit = setting.Bytes(limit)
				plan, err := job.Plan(t.Context())
				require.NoError(t, err)
				got := mustRun(t, job)
				sameResults(t, got, want)
				rests := false
				for k, tensors := range got.PeakTensorBytes {
					if took := tensors + got.GraphBytes[k]; took > limit || took != plan.PeakTensorBytes[k]+plan.GraphBytes[k] {
						t.Errorf("worker %d took %d bytes of %d, planned %d", k, took, limit, plan.PeakTensorBytes[k]+plan.GraphBytes[k])
					}
					rests = rests || plan.Workers[k].Room.Rests
				}
				if rests != (limit == needs.Least) {
					t.Errorf("with a limit of %d of %d bytes messages rest: %v", limit, needs.All, rests)
				}
				if got.Disk != plan.Disk() || got.Disk.Read == 0 || got.Disk.Written == 0 {
					t.Errorf("moved %+v, planned %+v", got.Disk, plan.Disk())
				}
			}
		})
	}
}

// TestTurns: partitions that take turns give the bits of as many workers, and what one worker's partitions
// tell each other is not sent. With one worker the plan is what the run takes.
func TestTurns(t *testing.T) {
	g := tangle(t, 700, 1000)
	all := networks()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			o := all[name]
			o.Epochs, o.KeepHalo, o.Halo = 2, i%3 == 1, haloOf(&o, i/2%3)
			if i%3 == 2 {
				o.Precision = "bf16"
			}
			apart := mustRun(t, inTurns(Job{Graph: g, Options: o}, "graph=4"))
			one, _ := planAndRun(t, inTurns(Job{Graph: g, Options: o}, "graph=1"))
			several := one
			if i%2 == 0 {
				several = mustRun(t, inTurns(Job{Graph: g, Options: o}, fmt.Sprintf("graph=%d", 2+i%4/2)))
			}
			for _, r := range []*Result{several, one} {
				sameResults(t, r, apart)
				if len(r.SentBytes) != r.Workers || len(r.PeakTensorBytes) != r.Workers {
					t.Errorf("%d workers: peaks %v and sent bytes %v", r.Workers, r.PeakTensorBytes, r.SentBytes)
				}
			}
			all, fewer := apart.Communication.Halo.Bytes, several.Communication.Halo.Bytes
			if sent := one.Communication.Halo.Bytes; sent != 0 || fewer > all || i%2 == 0 && all > 0 && (fewer == 0 || fewer == all) {
				t.Errorf("halo bytes: %d on four workers, %d on %d, %d on one", all, fewer, several.Workers, sent)
			}
		})
	}
}

// TestSlicesInTurns: slices of partitions that take turns give the bits of as many workers. What the
// partitions of a worker tell each other is not sent, and all-to-alls are. If no halo rows travel between
// workers the plan is what the run takes. TestTurns has every model, and this test every second one.
func TestSlicesInTurns(t *testing.T) {
	g, many := tangle(t, 700, 1000), tangle(t, 4400, 0)
	all := networks()
	const changed = ", changed"
	change := func(name string, f func(o *Options)) {
		o := all[name]
		f(&o)
		all[name+changed] = o
	}
	change("gcn", func(o *Options) { o.Decoupled, o.Norm, o.Residual, o.Teleport = true, "none", false, .1 })
	change("gat", func(o *Options) { o.Heads, o.OutputHeads = 1, 1 })   // heads of several slices
	change("gatv2", func(o *Options) { o.Heads, o.OutputHeads = 1, 1 }) // slices without columns
	const wide = "gcnii" + changed
	change("gcnii", func(o *Options) { o.Hidden, o.Layers = 256, 2 }) // several messages to each of two workers
	for i, name := range slices.Sorted(maps.Keys(all)) {
		n := 2 + i%2
		switch _, changed := strings.CutSuffix(name, changed); {
		case name == wide:
			n = 2
		case !changed && (i%4 == 1 || i%4 == 2):
			continue
		}
		t.Run(fmt.Sprintf("%s on %d", name, n), func(t *testing.T) {
			o, g := all[name], g
			if name == wide {
				g = many
			}
			o.Epochs, o.KeepHalo = 2, i%3 == 1
			if i%3 == 2 {
				o.Precision = "bf16"
			}
			apart := mustRun(t, inTurns(Job{Graph: g, Options: o}, fmt.Sprintf("graph=4,tensor=%d", n)))
			one, _ := planAndRun(t, inTurns(Job{Graph: g, Options: o}, fmt.Sprintf("tensor=%d", n)))
			two := one
			if i%2 == 0 {
				two = mustRun(t, inTurns(Job{Graph: g, Options: o}, "graph=2,tensor=2"))
			}
			for _, r := range []*Result{one, two} {
				sameResults(t, r, apart)
				if got, want := r.Communication.Layout, apart.Communication.Layout; got != want {
					t.Errorf("%d workers: all-to-alls %+v, and of %d workers %+v", r.Workers, got, apart.Workers, want)
				}
			}
			all, some := apart.Communication.Halo.Bytes, two.Communication.Halo.Bytes
			if sent := one.Communication.Halo.Bytes; sent != 0 || i%2 == 0 && all > 0 && (some == 0 || some >= all) {
				t.Errorf("halo bytes: %d of %d workers, %d of %d, %d of %d", all, apart.Workers, some, two.Workers, sent, one.Workers)
			}
		})
	}
}

// TestTypesInTurns: slices of partitions of several vertex types, one with a learned embedding, have the bits
// of as many workers in turns, also where matrices rest on disk. Slices may have no columns.
func TestTypesInTurns(t *testing.T) {
	g := severalTypes(t)
	g.Others[0].Features = graph.Features{}
	for name, change := range map[string]func(*Options){
		"rgcn":  func(o *Options) { o.Bases = 2 },
		"gatv2": func(o *Options) { o.NodeEmbedding, o.Heads, o.OutputHeads = 6, 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o := Defaults()
			o.Model, o.Hidden, o.Epochs, o.LR, o.Threads = name, 10, 3, 1e-4, 1
			o.Select = "loss" // each epoch is the best so far: as in a plan, its weights are saved
			change(&o)
			apart := mustRun(t, inTurns(Job{Graph: g, Options: o}, "graph=4,tensor=2"))
			one, _ := planAndRun(t, inTurns(Job{Graph: g, Options: o}, "tensor=2"))
			sameResults(t, one, apart)
			if one.Communication.Layout != apart.Communication.Layout {
				t.Errorf("all-to-alls %+v, and of %d workers %+v", one.Communication.Layout, apart.Workers, apart.Communication.Layout)
			}
			o.Offload = t.TempDir()
			job := inTurns(Job{Graph: g, Options: o}, "tensor=2")
			plan, err := job.Plan(t.Context())
			require.NoError(t, err)
			rests := mustRun(t, job)
			sameResults(t, rests, apart)
			if rests.Disk != plan.Disk() || rests.Disk.Read == 0 {
				t.Errorf("moved %+v, planned %+v", rests.Disk, plan.Disk())
			}
		})
	}
}

// TestBytesInTurns: chunked total bytes equal unchunked ones (NeutronTP, section 4.2.2: a source that an
// earlier chunk has is not sent again). A decoupled model of C classes sends 4·V·C·(T−1)/T numbers between
// slices in an epoch. Between workers travel, for each round and its backward pass, the C columns of the
// sources that a partition reads of those of other workers.
func TestBytesInTurns(t *testing.T) {
	const rounds, float = 3, 4
	g := tangled(t)
	o := Defaults()
	o.Model, o.Decoupled, o.Layers, o.Epochs = "gcn", true, rounds, 2
	vertices, classes := int64(g.Vertices()), int64(g.Labels.Classes)
	halo := int64(0)
	job := inTurns(Job{Graph: g, Options: o}, "graph=2,tensor=5")
	a, err := partition.Assign(t.Context(), g, job.Options.Assignment(g, 4))
	require.NoError(t, err)
	type read struct{ source, by int32 }
	seen, e := map[read]bool{}, g.Relations[0].Edges()
	for k, u := range e.Source {
		if r := (read{u, a.Of[e.Target[k]]}); a.Of[u]/2 != r.by/2 && !seen[r] { // workers hold two partitions each
			seen[r] = true
			halo += 2 * rounds * float * classes
		}
	}
	const slices = 5
	if classes%slices != 0 {
		t.Fatalf("%d classes in %d slices", classes, slices)
	}
	for mesh, halo := range map[string]int64{"tensor=5": 0, "graph=2,tensor=5": halo} {
		sent := mustRun(t, inTurns(Job{Graph: g, Options: o}, mesh)).Communication
		if want := 4 * float * vertices * classes * (slices - 1) / slices; sent.Layout.Bytes != want || sent.Halo.Bytes != halo {
			t.Errorf("%s: %d bytes in all-to-alls and %d between partitions, want %d and %d", mesh, sent.Layout.Bytes, sent.Halo.Bytes, want, halo)
		}
	}
}

// TestMovedAsPlanned: an epoch moves what the plan says, where it computes in Go (GELU), and where a matrix
// is still being written while others take its room (PNA, which has many). With the least memory, which is
// full at many times, graph and tensors share it as planned: partitions take their turns in the first epoch,
// too, in the same order.
func TestMovedAsPlanned(t *testing.T) {
	g := tangled(t)
	for name, share := range map[string]int64{"gin": 3, "pna": 3, "gcnii": 0, "both-gat": 0} {
		o := networks()[name]
		o.Epochs, o.Offload = 3, t.TempDir()
		bounds, err := inTurns(Job{Graph: g, Options: o, PlanRange: true}, "graph=1").Plan(t.Context())
		require.NoError(t, err)
		o.MemoryLimit = setting.Bytes(bounds.Least)
		if share > 0 {
			o.MemoryLimit = setting.Bytes(bounds.Least + (bounds.All-bounds.Least)/share)
		}
		job := inTurns(Job{Graph: g, Options: o}, "graph=1")
		plan, err := job.Plan(t.Context())
		require.NoError(t, err)
		got := mustRun(t, job)
		if got.Disk != plan.Disk() || got.Disk.Read == 0 {
			t.Errorf("%s: moved %+v, planned %+v", name, got.Disk, plan.Disk())
		}
		if !slices.Equal(got.PeakTensorBytes, plan.PeakTensorBytes) || !slices.Equal(got.GraphBytes, plan.GraphBytes) {
			t.Errorf("%s: %d and %d bytes, planned %d and %d", name, got.PeakTensorBytes, got.GraphBytes, plan.PeakTensorBytes, plan.GraphBytes)
		}
	}
}

// TestMovedBetweenEvaluations: where the epoch before the last is not evaluated, the last one moves no
// evaluation, as the plan says, also in link prediction.
func TestMovedBetweenEvaluations(t *testing.T) {
	g := tangled(t)
	sage := networks()["sage"]
	sage.Select = "loss"
	for name, o := range map[string]Options{"sage": sage, "links": linked(nil)} {
		var moved [2]tensor.Moved
		for i, every := range []int{1, 3} {
			o.Epochs, o.EvalEvery, o.Offload = 5, every, t.TempDir()
			job := inTurns(Job{Graph: g, Options: o}, "graph=1")
			plan, err := job.Plan(t.Context())
			require.NoError(t, err)
			if moved[i] = mustRun(t, job).Disk; moved[i] != plan.Disk() {
				t.Errorf("%s, evaluated every %d: moved %+v, planned %+v", name, every, moved[i], plan.Disk())
			}
		}
		if moved[1].Read >= moved[0].Read {
			t.Errorf("%s: %+v moved without an evaluation, and %+v with one", name, moved[1], moved[0])
		}
	}
}

// TestOffload: a run whose matrices rest on disk has the bits of one in memory. It keeps its limit, and moves
// as many bytes as the plan says.
func TestOffload(t *testing.T) {
	needs := func(tensors, graph []int64) (most int64) {
		for worker := range graph {
			most = max(most, tensors[worker]+graph[worker])
		}
		return most
	}
	g := tangle(t, 1100, 1000)
	all := networks()
	for i, c := range []string{"sage", "gat", "resgcn", "blocks", "gcn", "gatv2", "both", "both-gat", "gin", "gine", "sage cover", "gcn cover"} {
		name, halo, _ := strings.Cut(c, " ")
		mesh := "graph=1"
		if 6 <= i && i < 10 {
			mesh = "tensor=2"
		}
		t.Run(c+" "+mesh, func(t *testing.T) {
			o := all[name]
			o.Epochs, o.Hidden, o.KeepHalo, o.Halo = 3, 2*o.Hidden, i%3 == 1, haloOf(&o, (i+1)/2%2)
			if halo != "" {
				o.Halo = edges.HaloCover
			}
			if i%3 == 2 {
				o.Precision, o.Recompute = "bf16", "blocks"
			}
			want := mustRun(t, inTurns(Job{Graph: g, Options: o}, mesh))
			o.Offload = t.TempDir()
			asks := inTurns(Job{Graph: g, Options: o, PlanRange: true}, mesh)
			bounds, err := asks.Plan(t.Context())
			require.NoError(t, err)
			if inMemory := want.PeakTensorBytes[0] + want.GraphBytes[0]; bounds.All != inMemory {
				t.Errorf("nothing rests with %d bytes, and without offload it took %d", bounds.All, inMemory)
			}
			if i%6 == 0 { // how the limit is met is no matter of the model: once on each mesh
				for _, limit := range []int64{bounds.Least * 99 / 100, bounds.Least * 101 / 100} {
					tight := o
					tight.MemoryLimit = setting.Bytes(limit)
					plan, err := inTurns(Job{Graph: g, Options: tight}, mesh).Plan(t.Context())
					require.NoError(t, err)
					if needs := needs(plan.PeakTensorBytes, plan.GraphBytes); needs > max(limit, bounds.Least) {
						t.Errorf("a limit of %d bytes needs %d, and the least is %d", limit, needs, bounds.Least)
					}
				}
			}
			if i%2 == 0 { // else none: the run takes the least of the fastest settings
				o.MemoryLimit = setting.Bytes(bounds.Least + (bounds.All-bounds.Least)/4)
			}
			job := inTurns(Job{Graph: g, Options: o}, mesh)
			plan, err := job.Plan(t.Context())
			require.NoError(t, err)
			got := mustRun(t, job)
			sameResults(t, got, want)
			took, planned := needs(got.PeakTensorBytes, got.GraphBytes), needs(plan.PeakTensorBytes, plan.GraphBytes)
			if took != planned || o.MemoryLimit > 0 && took > int64(o.MemoryLimit) {
				t.Errorf("took %d bytes of %d, planned %d", took, o.MemoryLimit, planned)
			}
			if got.Disk != plan.Disk() || got.Disk.Read == 0 || got.Disk.Written == 0 {
				t.Errorf("moved %+v, planned %+v", got.Disk, plan.Disk())
			}
		})
	}
}
