package train

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
	"weft/train/setting"
)

// TestProfile: on any mesh the times of each worker add up to the training pass and to no more than the
// epoch, all layers have some, the memory over the epoch reaches the peak of the run and of its plan, and the
// bytes between workers are those that were counted and planned.
func TestProfile(t *testing.T) {
	g := tangle(t, 700, 1000)
	for i, c := range []struct {
		mesh       string
		partitions int
		offload    bool
	}{
		{"", 0, false},
		{"graph=3", 0, false},
		{"tensor=2", 0, false},
		{"graph=2,tensor=2", 0, false},
		{"pipeline=2", 0, false},
		{"graph=2,pipeline=2", 0, false},
		{"graph=1", 3, false},
		{"graph=2", 5, false},
		{"graph=2", 5, true},
	} {
		for k, model := range []string{"gat", "gcn", "mlp"} {
			if i%3 == k && c.mesh != "" {
				continue
			}
			t.Run(fmt.Sprintf("%s %d %v %s", c.mesh, c.partitions, c.offload, model), func(t *testing.T) {
				o := Defaults()
				o.Model, o.Layers, o.Hidden, o.Epochs, o.Norm, o.Partitions = model, 3, 12, 4,
					"layer", setting.Partitions(c.partitions)
				if c.offload {
					o.Offload = t.TempDir()
				}
				j := onMesh(g, o, c.mesh)
				checkProfile(t, j, mustRun(t, j))
			})
		}
	}
}

// checkProfile compares the profile of a run with its totals and its plan.
func checkProfile(t *testing.T, j *Job, r *Result) {
	t.Helper()
	p := r.Profile
	if p == nil {
		t.Fatal("the run has no profile")
	}
	if want := min(3, r.Epochs); p.Epoch != want || !p.Memory.Evaluated || len(p.Workers) != r.Workers {
		t.Errorf("a profile of epoch %d and %d workers, want %d and %d", p.Epoch,
			len(p.Workers), want, r.Workers)
	}
	sum := func(values []float64) (all float64) {
		for _, x := range values {
			all += x
		}
		return all
	}
	worked := make([]float64, len(p.Layers))
	for k, w := range p.Workers {
		all := sum(w.Forward) + sum(w.Backward) + sum(w.Communication) + sum(w.Wait) + w.Other.Compute +
			w.Other.Communication + w.Other.Wait
		parts := 4*len(w.Forward) + 3
		// Each part is rounded down to a microsecond
		if all > w.Seconds+1e-9 || all < w.Seconds-float64(parts+1)*1e-6 {
			t.Errorf("worker %d: the parts add up to %v s of %v s", k, all, w.Seconds)
		}
		if j.Options.Partitions == 0 && k == 0 && w.Seconds > r.EpochSeconds[p.Epoch-1] {
			t.Errorf("worker %d: a pass of %v s in an epoch of %v s", k, w.Seconds, r.EpochSeconds[p.Epoch-1])
		}
		for i := range p.Layers {
			worked[i] += w.Forward[i] + w.Backward[i]
		}
	}
	if i := slices.Index(worked, 0); i >= 0 {
		t.Errorf("nobody worked on layer %s of %q", p.Layers[i], p.Layers)
	}
	m := &p.Memory
	plan, err := j.Plan(t.Context())
	require.NoError(t, err)
	most := slices.Max(r.PeakTensorBytes)
	// Where matrices rest, the peak is of the sum with the graph's structure.
	if got := m.Peak(); r.PeakTensorBytes[m.Worker] != most ||
		j.Options.Offload == "" && (got != most || got > plan.PeakTensorBytes[m.Worker]) {
		t.Errorf("the memory of worker %d over the epoch reaches %d, the peaks of the workers are %d, and "+
			"planned are %d", m.Worker, got, r.PeakTensorBytes, plan.PeakTensorBytes)
	}
	for k, kinds := range m.Peaks {
		all := int64(0)
		for kind, bytes := range kinds {
			if tensor.Kind(kind) != tensor.Graph {
				all += bytes
			}
		}
		assert.Equal(t, r.PeakTensorBytes[k], all, "worker %d: the kinds at the peak add up to", k)
	}
	if !slices.IsSorted(m.Seconds) || math.Signbit(m.Seconds[0]) {
		t.Errorf("the memory is of the moments %v", m.Seconds)
	}
	for k, row := range r.SentTo {
		sent := int64(0)
		for to, bytes := range row {
			sent += bytes
			if to == k && bytes != 0 {
				t.Errorf("worker %d sent itself %d bytes", k, bytes)
			}
		}
		if sent != r.SentBytes[k] || j.Options.Partitions == 0 && sent != plan.Sent[k].Bytes() {
			t.Errorf("worker %d: sent %d bytes to others, %d were counted, and %d planned", k, sent,
				r.SentBytes[k], plan.Sent[k].Bytes())
		}
	}
}
