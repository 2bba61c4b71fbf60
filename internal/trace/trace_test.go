package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/fulldisk"
	"weft/internal/require"
	"weft/internal/trace"
	"weft/internal/trace/tracetest"
)

// still is a clock that does not move: a Recorder adds nanoseconds to it.
func still() time.Duration { return 0 }

// message is the properties of a message, the same at both ends.
func message(peer, bytes int) trace.Args {
	return trace.Args{
		Module: "convs.0", Kind: "halo", Peer: trace.At(peer), Bytes: int64(bytes), Tag: 9,
		Message: trace.At(0),
	}
}

// epoch is a worker's epoch: a phase with a kernel and a message in it, and another of each beside it.
func epoch(r *trace.Recorder, rank int) trace.Worker {
	r.Start(7)
	work := r.Work()
	whole := work.Begin(trace.Phase, "forward", trace.Args{})
	work.At("convs.0")
	work.Chunk(trace.At(0))
	first := r.Kernel("spmm", trace.Shape{3, 4}, 0)
	aside := work.Beside()
	second := r.Kernel("gather", trace.Shape{5, 6, 7}, 0)
	sent := aside.Begin(trace.Send, "send of halo rows", message(1-rank, 24))
	first.End()
	sent.End()
	second.End()
	aside.Leave()
	came := work.Begin(trace.Receive, "receive of halo rows", message(1-rank, 24))
	came.End()
	work.Begin(trace.Phase, "backward", trace.Args{}).End()
	whole.End()
	r.Stop()
	w := trace.Worker{Name: fmt.Sprintf("worker %d", rank)}
	w.Events, w.Lost = r.Events()
	return w
}

// TestWrite writes the file of two workers whose clocks differ.
func TestWrite(t *testing.T) {
	all := &trace.Trace{Epoch: 7, About: map[string]string{"dataset": "g"}, Workers: make([]trace.Worker, 2)}
	for rank := range all.Workers {
		text, err := json.Marshal(epoch(trace.New(still, 100, nil), rank)) // as workers send it
		if err == nil {
			err = json.Unmarshal(text, &all.Workers[rank])
		}
		require.NoError(t, err)
	}
	all.Workers[1].Offset, all.Workers[1].Uncertainty = -3, 1500
	var file bytes.Buffer
	require.NoError(t, all.Write(&file))
	got, err := tracetest.Read(file.Bytes())
	require.NoError(t, err, file.String())
	assert.Equal(t, []string{"worker 0", "worker 1"}, got.Workers)
	want := tracetest.About{Epoch: 7, Dataset: "g", ClockUncertainty: []float64{0, 1.5}, Lost: []int{0, 0}}
	assert.Equal(t, want, got.About)
	zero, one := 0, 1
	spans := []tracetest.Span{
		{
			Track: "work", Category: "phase", Name: "forward", Begin: 3, End: 14,
			Args: tracetest.Args{Epoch: 7},
		},
		{
			Track: "kernels", Category: "compute", Name: "spmm", Begin: 4, End: 7,
			Args: tracetest.Args{Epoch: 7, Module: "convs.0", Chunk: &zero, Shape: []int{3, 4, 0}},
		},
		{
			Track: "kernels (2)", Category: "compute", Name: "gather", Begin: 5, End: 9,
			Args: tracetest.Args{Epoch: 7, Module: "convs.0", Chunk: &zero, Shape: []int{5, 6, 7}},
		},
		{
			Track: "beside", Category: "send", Name: "send of halo rows", Begin: 6, End: 8,
			Args: tracetest.Args{
				Epoch: 7, Module: "convs.0", Kind: "halo", Peer: &one, Bytes: 24, Chunk: &zero,
			},
		},
		{
			Track: "work", Category: "receive", Name: "receive of halo rows", Begin: 10, End: 11,
			Args: tracetest.Args{
				Epoch: 7, Module: "convs.0", Kind: "halo", Peer: &one, Bytes: 24, Chunk: &zero,
			},
		},
		{
			Track: "work", Category: "phase", Name: "backward, chunk 0", Begin: 12, End: 13,
			Args: tracetest.Args{Epoch: 7, Chunk: &zero},
		},
	}
	for _, s := range spans { // worker 1's are 3 ns earlier
		s.Worker, s.Begin, s.End = 1, s.Begin-3, s.End-3
		if s.Args.Peer != nil {
			s.Args.Peer = &zero
		}
		spans = append(spans, s)
	}
	assert.Equal(t, spans, got.Spans)
}

// TestEpochs: an epoch forgets the one before. Open spans end with it, inner ones first. A span that ends
// late or twice changes nothing.
func TestEpochs(t *testing.T) {
	r := trace.New(still, 100, nil)
	r.Work().Begin(trace.Phase, "before the first", trace.Args{}).End()
	epoch(r, 0)
	r.Start(8)
	outer := r.Work().Begin(trace.Phase, "outer", trace.Args{})
	done := r.Work().Begin(trace.Phase, "done", trace.Args{})
	done.End()
	done.End()
	r.Work().Begin(trace.Phase, "inner", trace.Args{})
	r.Stop()
	events, _ := r.Events()
	before := fmt.Sprint(events)
	outer.End()
	r.Work().Begin(trace.Phase, "between two", trace.Args{}).End()
	after, _ := r.Events()
	if got := fmt.Sprint(after); len(after) != 3 || got != before {
		t.Errorf("after the epoch %s, in it %s", got, before)
	}
	if done, inner, outer := after[1].End-after[1].Start, after[2].End, after[0].End; done != 1 ||
		inner >= outer {
		t.Errorf("took %d; the inner ends at %d and the outer at %d", done, inner, outer)
	}
	r.Start(9)
	outer.End()
	if events, _ := r.Events(); len(events) > 0 {
		t.Errorf("%d spans of another epoch", len(events))
	}
}

// TestMost: the first spans of an epoch are kept, and the others are counted.
func TestMost(t *testing.T) {
	r := trace.New(still, 3, nil)
	for e := 1; e <= 2; e++ {
		r.Start(e)
		whole := r.Work().Begin(trace.Phase, "whole", trace.Args{})
		for range 10 {
			r.Kernel("spmm", trace.Shape{1}, 0).End()
		}
		whole.End()
		r.Stop()
		events, lost := r.Events()
		if len(events) != 3 || lost != 8 || events[0].End <= events[2].End {
			t.Errorf("epoch %d: %d lost, and %+v", e, lost, events)
		}
	}
}

// TestConcurrent: the tracks of concurrent goroutines, and of their kernels, nest.
func TestConcurrent(t *testing.T) {
	r := trace.New(trace.Clock, 1<<12, nil)
	r.Start(1)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				aside := r.Work().Beside()
				outer := aside.Begin(trace.Wait, "outer", trace.Args{})
				kernel := r.Kernel("spmm", trace.Shape{1}, 0)
				aside.Begin(trace.Wait, "inner", trace.Args{}).End()
				kernel.End()
				outer.End()
				aside.Leave()
			}
		})
	}
	all.Wait()
	r.Stop()
	w := trace.Worker{Name: "worker 0"}
	w.Events, w.Lost = r.Events()
	var file bytes.Buffer
	require.NoError(t, (&trace.Trace{Epoch: 1, Workers: []trace.Worker{w}}).Write(&file))
	got, err := tracetest.Read(file.Bytes())
	require.NoError(t, err)
	assert.Len(t, got.Spans, 4*20*3)
}

// TestNothing: if nothing is recorded, spans take no memory.
func TestNothing(t *testing.T) {
	var r *trace.Recorder
	n := testing.AllocsPerRun(100, func() {
		r.Start(1)
		track := r.Work()
		track.At("convs.0")
		track.Chunk(trace.At(1))
		aside := track.Beside()
		aside.Begin(trace.Send, "send", message(1, 2)).End()
		aside.Leave()
		r.Stop()
	})
	assert.Equal(t, 0, n, "allocations")
}

func TestLastByteOfATrace(t *testing.T) {
	fulldisk.LastByte(t, func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "trace.json"))
		if err != nil {
			return err
		}
		all := &trace.Trace{Epoch: 7, Workers: []trace.Worker{epoch(trace.New(still, 100, nil), 0)}}
		return errors.Join(all.Write(f), f.Close())
	})
}
