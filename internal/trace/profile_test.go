package trace_test

import (
	"maps"
	"testing"
	"time"

	"weft/internal/assert"
	"weft/internal/trace"
)

// TestProfile: each moment counts once. A kernel comes before a message, a message before a wait, and a wait
// beside the main work does not count. Nothing counts before Begin and after EndPass.
func TestProfile(t *testing.T) {
	now := time.Duration(0)
	p := trace.NewProfile(func() time.Duration { return now }, 1)
	r := trace.New(trace.Clock, 0, p)
	work := r.Work()
	pass := func(d time.Duration) { now += d }
	early := r.Kernel("early", trace.Shape{}, 0)
	pass(1000)
	if !p.Begin(7) || p.Begin(7) {
		t.Error("one rank alone begins an epoch")
	}
	early.End()
	pass(1)
	work.Layer(0, trace.Forward)
	work.At("convs.0")
	pass(2) // forward
	k := r.Kernel("k", trace.Shape{}, 0)
	send := work.Begin(trace.Send, "send", trace.Args{})
	wait := work.Begin(trace.Receive, "receive", trace.Args{})
	pass(4) // forward: the kernel runs
	k.End()
	pass(8) // communication
	send.End()
	pass(16) // wait
	track := work.Beside()
	k = r.Kernel("k", trace.Shape{}, 0)
	work.Layer(1, trace.Backward) // the kernel is one of layer 0
	pass(32)
	k.End()
	pass(64) // wait, in layer 1
	wait.End()
	hidden := track.Begin(trace.Receive, "receive", trace.Args{})
	pass(128) // backward
	hidden.End()
	track.Leave()
	work.Layer(trace.NoLayer, trace.Other)
	pass(256)
	p.EndPass(7)
	pass(512)
	if !p.End(7) {
		t.Error("the epoch has not ended")
	}
	r.Kernel("late", trace.Shape{}, 0).End()
	epoch, whole, times, _ := p.Epoch()
	want := map[int]trace.Times{
		trace.NoLayer: {Other: 1 + 256},
		0:             {Forward: 2 + 4 + 32, Communication: 8, Wait: 16},
		1:             {Backward: 128, Wait: 64},
	}
	got, sum := map[int]trace.Times{}, time.Duration(0)
	for layer, spent := range times {
		got[layer] = *spent
		sum += spent.Sum()
	}
	if !maps.Equal(got, want) || epoch != 7 || whole != 511 || sum != whole {
		t.Errorf("epoch %d of %d: %v, want %v", epoch, whole, got, want)
	}
	assert.Equal(t, "convs.0", p.Path(0))
	assert.Equal(t, "", p.Path(1))
}

// TestProfileOfRanks: while one of the ranks that a worker holds waits, the other one works. An epoch ends
// with its last rank, and the next begins with its first.
func TestProfileOfRanks(t *testing.T) {
	now := time.Duration(0)
	p := trace.NewProfile(func() time.Duration { return now }, 2)
	a, b := trace.New(trace.Clock, 0, p), trace.New(trace.Clock, 0, p)
	p.Begin(1)
	a.Work().Layer(0, trace.Forward)
	now += 1
	waits := a.Work().Begin(trace.Wait, "wait", trace.Args{})
	p.Begin(1)
	b.Work().Layer(0, trace.Forward)
	now += 2
	theirs := b.Work().Begin(trace.Wait, "wait", trace.Args{})
	now += 4
	waits.End()
	now += 8
	p.EndPass(1)
	now += 16
	theirs.End()
	p.EndPass(1)
	if p.End(1) || !p.End(1) {
		t.Error("the epoch does not end with its last rank")
	}
	_, whole, times, _ := p.Epoch()
	if want := (trace.Times{Forward: 1 + 2 + 8 + 16, Wait: 4}); *times[0] != want || whole != 31 {
		t.Errorf("%+v of %d, want %+v", *times[0], whole, want)
	}
	p.Begin(2)
	p.EndPass(1) // of a rank that is late
	if epoch, _, times, _ := p.Epoch(); epoch != 2 || len(times) > 0 {
		t.Errorf("epoch %d: %v", epoch, times)
	}
}

// TestProfileMemory: many samples become some hundreds, each the most of those from its time to the next
// one's.
func TestProfileMemory(t *testing.T) {
	now := time.Duration(0)
	p := trace.NewProfile(func() time.Duration { return now }, 1)
	p.Memory([]int64{1}, 1)
	p.Begin(1)
	const all, peak = 10_000, 7_654
	bytes := func(k int64) int64 {
		if k == peak {
			return 5000
		}
		return k * 7919 % 1000
	}
	kinds := make([]int64, 1) // the caller's, who changes it
	for k := range int64(all) {
		now++
		kinds[0] = bytes(k)
		p.Memory(kinds, kinds[0])
	}
	_, _, _, samples := p.Epoch()
	if n := len(samples); n > 512 || n < 200 || samples[0].Time != 1 {
		t.Fatalf("%d samples from %d on", n, samples[0].Time)
	}
	for i, s := range samples {
		next := time.Duration(all + 1)
		if i+1 < len(samples) {
			next = samples[i+1].Time
		}
		most := int64(0)
		for k := s.Time - 1; k < next-1; k++ {
			most = max(most, bytes(int64(k)))
		}
		if s.Kinds[0] != most || s.Counted != most || next <= s.Time {
			t.Errorf("%+v to %d, want %d bytes", s, next, most)
		}
	}
}
