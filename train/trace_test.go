package train

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/trace"
	"weft/internal/trace/tracetest"
	"weft/train/setting"
)

// written writes a trace as a file, and checks it.
func written(t *testing.T, traced *trace.Trace) *tracetest.File {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, traced.Write(&file))
	f, err := tracetest.Read(file.Bytes())
	require.NoError(t, err)
	return f
}

// TestTrace: on any mesh the trace has all kernels, and the messages that the last epoch counted. It changes
// no results.
func TestTrace(t *testing.T) {
	g := tangle(t, 700, 1000)
	for _, c := range []struct {
		mesh       string
		partitions int
	}{
		{"", 0},
		{"graph=3", 0},
		{"tensor=2", 0},
		{"graph=2,tensor=2", 0},
		{"pipeline=2", 0},
		{"graph=2,pipeline=2", 0},
		{"graph=2", 3},
		{"graph=2,tensor=2", 3},
	} {
		for _, model := range []string{"gat", "gcn"} {
			mesh := c.mesh
			t.Run(fmt.Sprintf("%s %d %s", mesh, c.partitions, model), func(t *testing.T) {
				o := Defaults()
				o.Model, o.Hidden, o.Heads, o.Epochs, o.Norm, o.Partitions = model, 12, 1, 2,
					"layer", setting.Partitions(c.partitions)
				want := mustRun(t, onMesh(g, o, mesh))
				j := onMesh(g, o, mesh)
				j.Trace = true
				got := mustRun(t, j)
				if want.Trace != nil || !slices.Equal(want.Losses, got.Losses) {
					t.Errorf("a trace without being asked: %v; losses %v, and %v with it", want.Trace != nil,
						want.Losses, got.Losses)
				}
				checkTrace(t, got)
			})
		}
	}
}

// checkTrace compares a run's trace with the run's counts.
func checkTrace(t *testing.T, r *Result) *tracetest.File {
	t.Helper()
	f := written(t, r.Trace)
	ranks, workers := len(f.Workers), 0
	holders := make([]int, ranks) // the worker of each rank
	for rank, name := range f.Workers {
		_, err := fmt.Sscanf(name, "worker %d", &holders[rank])
		assert.NoError(t, err, "%q", name)
		workers = max(workers, holders[rank]+1)
	}
	require.Equal(t, r.Epochs, f.About.Epoch)
	require.Equal(t, r.Workers, workers)
	sent, kernels := make([]int64, workers), make([]int, ranks)
	phases := make([]map[string][]int, ranks) // the chunks of each phase
	for rank := range phases {
		phases[rank] = map[string][]int{}
	}
	byKind := map[string]int64{}
	for _, s := range f.Spans {
		switch s.Category {
		case "send":
			if peer := s.Args.Peer; s.Args.Kind != comm.Setup.String() &&
				holders[*peer] != holders[s.Worker] {
				sent[holders[s.Worker]] += s.Args.Bytes
				byKind[s.Args.Kind] += s.Args.Bytes
			}
		case "compute":
			kernels[s.Worker]++
		case "phase":
			name, _, _ := strings.Cut(s.Name, ",")
			chunks := phases[s.Worker]
			chunks[name] = append(chunks[name], -1)
			if s.Args.Chunk != nil {
				chunks[name][len(chunks[name])-1] = *s.Args.Chunk
			}
		}
		if moves := s.Category == "send" || s.Category == "receive"; s.Args.Kind == "stage" &&
			moves != (s.Args.Chunk != nil) {
			t.Errorf("%+v, of chunk %v", s, s.Args.Chunk)
		}
		if s.Args.Kind == "halo" && s.Args.Module == "" {
			t.Errorf("%+v: of no layer", s)
		}
	}
	assert.Equal(t, r.SentBytes, sent, "workers send")
	c := r.Communication
	for _, counted := range []struct {
		bytes int64
		kinds []comm.Kind
	}{
		{c.Halo.Bytes, []comm.Kind{comm.Halo, comm.HaloGradient}},
		{c.Layout.Bytes, []comm.Kind{comm.ToSlices, comm.ToRows}},
		{c.Stage.Bytes, []comm.Kind{comm.Stage}},
		{c.Gradient.Bytes, []comm.Kind{comm.Gradient}},
		{c.Statistics.Bytes, []comm.Kind{comm.Statistics}},
	} {
		bytes := int64(0)
		for _, k := range counted.kinds {
			bytes += byKind[k.String()]
		}
		assert.Equal(t, counted.bytes, bytes, "bytes of %v", counted.kinds)
	}
	for rank, chunks := range phases {
		back := slices.Clone(chunks["backward"])
		slices.Reverse(back)
		if kernels[rank] == 0 || len(back) == 0 || !slices.Equal(back, chunks["forward"]) ||
			len(chunks["training pass"]) != 1 || len(chunks["optimizer step"]) != 1 {
			t.Errorf("%s: %d kernels in %v", f.Workers[rank], kernels[rank], chunks)
		}
	}
	return f
}

// TestTraceOfProcesses: worker 0's job decides whether there is a trace, and gets the trace and the profile
// of all. Clocks may differ.
func TestTraceOfProcesses(t *testing.T) {
	g := tangled(t)
	results := make([]*Result, 3)
	var all sync.WaitGroup
	for rank, end := range comm.InProcess(len(results)) {
		o := apply(Defaults(), "model gcn, epochs 2")
		j := onMesh(g, o, "tensor=3")
		j.Comm, j.Trace = comm.New(end, time.Minute), rank == 0
		all.Go(func() {
			var err error
			if results[rank], err = j.Run(context.Background()); err == nil {
				err = j.Comm.Close()
			}
			assert.NoError(t, err)
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	f := checkTrace(t, results[0])
	assert.Equal(t, []string{"worker 0: slice 0", "worker 1: slice 1", "worker 2: slice 2"}, f.Workers,
		"workers")
	if u := f.About.ClockUncertainty; u[0] != 0 || u[1] <= 0 || u[2] <= 0 {
		t.Errorf("clocks may be off by %v", u)
	}
	if results[1].Trace != nil || results[2].Trace != nil || results[1].Profile != nil {
		t.Error("another worker has the trace or the profile too")
	}
	o := apply(Defaults(), "model gcn, epochs 2")
	checkProfile(t, onMesh(g, o, "tensor=3"), results[0])
}
