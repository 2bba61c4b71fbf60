package train

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"weft/partition"
	"weft/train/setting"
)

// inTurns is a job on four random partitions that workers hold.
func inTurns(j Job, workers int) *Job {
	o := &j.Options
	o.Parallel, o.Partitions, o.Partition, o.Threads = fmt.Sprintf("graph=%d", workers), 4, partition.Random, 1
	return &j
}

// TestTurns: partitions that take turns give the bits of as many workers, and what one worker's partitions
// tell each other is not sent. With one worker the plan is what the run takes.
func TestTurns(t *testing.T) {
	g := tangled(t)
	all := networks()
	for i, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			o := all[name]
			o.Epochs, o.KeepHalo = 2, i%3 == 1
			if i%3 == 2 {
				o.Precision = "bf16"
			}
			apart := mustRun(t, inTurns(Job{Graph: g, Options: o}, 4))
			one, _ := planAndRun(t, inTurns(Job{Graph: g, Options: o}, 1))
			several := one
			if i%2 == 0 {
				several = mustRun(t, inTurns(Job{Graph: g, Options: o}, 2+i%4/2))
			}
			for _, r := range []*Result{several, one} {
				if !slices.Equal(r.Losses, apart.Losses) || !slices.Equal(r.Logits, apart.Logits) || r.Test != apart.Test {
					t.Errorf("%d workers: losses %v, and of four workers %v", r.Workers, r.Losses, apart.Losses)
				}
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

// TestOffload: a run whose matrices rest on disk has the bits of one in memory. It keeps its limit, and moves
// as many bytes as the plan says.
func TestOffload(t *testing.T) {
	g := tangled(t)
	all := networks()
	for i, name := range []string{"sage", "gat", "resgcn", "blocks", "gcn", "gatv2"} {
		t.Run(name, func(t *testing.T) {
			o := all[name]
			o.Epochs, o.Hidden, o.KeepHalo = 3, 2*o.Hidden, i%3 == 1
			if i%3 == 2 {
				o.Precision, o.Recompute = "bf16", "blocks"
			}
			want := mustRun(t, inTurns(Job{Graph: g, Options: o}, 1))
			o.Offload = t.TempDir()
			asks := inTurns(Job{Graph: g, Options: o, PlanRange: true}, 1)
			bounds, err := asks.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if inMemory := want.PeakTensorBytes[0] + want.GraphBytes[0]; bounds.All != inMemory {
				t.Errorf("nothing rests with %d bytes, and without offload it took %d", bounds.All, inMemory)
			}
			limit := bounds.Least
			if i%2 == 0 { // else none: the run takes the least
				limit += (bounds.All - bounds.Least) / 4
				o.MemoryLimit = setting.Bytes(limit)
			}
			job := inTurns(Job{Graph: g, Options: o}, 1)
			plan, err := job.Plan(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := mustRun(t, job)
			if !slices.Equal(got.Losses, want.Losses) || !slices.Equal(got.Logits, want.Logits) {
				t.Errorf("losses %v, in memory %v", got.Losses, want.Losses)
			}
			if took := got.PeakTensorBytes[0] + got.GraphBytes[0]; took > limit || limit == bounds.Least && took != limit {
				t.Errorf("took %d bytes of %d", took, limit)
			}
			if got.Disk != plan.Disk() || got.Disk.Read == 0 || got.Disk.Written == 0 {
				t.Errorf("moved %+v, planned %+v", got.Disk, plan.Disk())
			}
		})
	}
}
