package planner

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/mesh"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// TestTimes: the time of an epoch by hand, at 10 bytes a second.
func TestTimes(t *testing.T) {
	usual := Machine{Cores: 1, Threads: 1, Sharers: 1, Links: Links{Sends: 10, Receives: 10}}
	slow, shared, handling, handled := usual, usual, usual, usual
	slow.Latency, shared.Sharers, handling.Handling, handled.Handling = .5, 2, .2, .01
	free := handled
	free.Cores = 2
	onCard, onCards := usual, shared
	onCard.Card, onCards.Card, onCards.Cards = &slowCard, &slowCard, 1
	sends := func(kernels float64, kind comm.Kind, bytes, messages int64) (l load) {
		l.kernels, l.rounds = kernels, 1
		l.sent[kind] = comm.Traffic{Bytes: bytes, Messages: messages}
		return l
	}
	computes := func(kernels float64) load { return load{kernels: kernels} }
	overlapped := func(seconds float64, rounds int, l load) load {
		l.overlap, l.rounds = seconds, rounds
		return l
	}
	twice := func(l load) []load { return []load{l, l} }
	grid := func(stages, partitions, slices int) mesh.Mesh {
		return mesh.Mesh{Stages: stages, Partitions: partitions, Slices: slices}
	}
	for name, c := range map[string]struct {
		mesh    mesh.Mesh
		machine Machine
		loads   []load
		chunks  int
		want    Times
	}{
		// Of 20 bytes a card copies 10 a second to the host, 20 from there, and 10 pass the link, after two
		// launches; two workers are on a card.
		"messages of cards": {
			grid(1, 2, 1), onCards, twice(sends(4, comm.Halo, 20, 1)), 0,
			Times{Epoch: 8 + 6, Compute: 8, Link: 2 + 1 + 2 + 1},
		},
		// Kernels go on for 4 of 6 s of copies.
		"copies": {
			mesh.One, onCard, []load{{kernels: 4, copies: 2}}, 0, Times{Epoch: 6, Compute: 4, Copies: 2},
		},
		"kernels": {mesh.One, usual, []load{computes(3)}, 0, Times{Epoch: 3, Compute: 3}},
		// The mean is 3 s, and the other worker has one more.
		"imbalance": {
			grid(1, 2, 1), usual,
			[]load{computes(4), computes(2)},
			0,
			Times{Epoch: 4, Compute: 3, Imbalance: 1},
		},
		// 20 bytes take 2 s. Of 10 and 20 bytes a worker waits for 1.5 s in the mean.
		"messages": {
			grid(1, 2, 1), usual, twice(sends(4, comm.Halo, 20, 1)), 0,
			Times{Epoch: 6, Compute: 4, Link: 2},
		},
		"unequal messages": {
			grid(1, 2, 1), usual,
			[]load{sends(4, comm.Halo, 10, 1), sends(4, comm.Halo, 20, 1)},
			0,
			Times{Epoch: 6, Compute: 4, Link: 1.5, Wait: .5},
		},
		// Beside 3 s of aggregations in two rounds 2 s are hidden, but for the first round's.
		"hidden": {
			grid(1, 2, 1), usual, twice(overlapped(3, 2, sends(4, comm.Halo, 20, 2))), 0,
			Times{Epoch: 5, Compute: 4, Link: 1},
		},
		// Beside 1 s of them 1 s is hidden, but for the last round's half.
		"partly hidden": {
			grid(1, 2, 1), usual, twice(overlapped(1, 2, sends(4, comm.Halo, 20, 2))), 0,
			Times{Epoch: 5.5, Compute: 4, Link: 1.5},
		},
		// Two of 6 messages are on their way at a time.
		"latency": {
			grid(1, 4, 1), slow, slices.Repeat(twice(sends(1, comm.Halo, 0, 6)), 2), 0,
			Times{Epoch: 2.5, Compute: 1, Link: 1.5},
		},
		"latency between slices": {
			grid(1, 1, 4), slow, slices.Repeat(twice(sends(1, comm.ToRows, 0, 6)), 2), 0,
			Times{Epoch: 2, Compute: 1, Link: 1},
		},
		// Two workers of a machine have half a core each.
		"a core for two": {
			grid(1, 2, 1), shared, []load{computes(1), computes(2)}, 0, Times{Epoch: 3, Compute: 3},
		},
		// A thread handles 5 bytes a second, and so sends 2.5 while as many come.
		"handling": {
			grid(1, 2, 1), handling, twice(sends(1, comm.Statistics, 20, 1)), 0,
			Times{Epoch: 9, Compute: 1, Link: 8},
		},
		// 2·20 bytes take a core .4 s, and kernels half of that, as they hide half of the messages: unless
		// there is a core that they leave.
		"handled beside kernels": {
			grid(1, 2, 1), handled, twice(overlapped(3, 2, sends(4, comm.Halo, 20, 2))), 0,
			Times{Epoch: 5.2, Compute: 4, Link: 1.2},
		},
		"handled elsewhere": {
			grid(1, 2, 1), free, twice(overlapped(3, 2, sends(4, comm.Halo, 20, 2))), 0,
			Times{Epoch: 5, Compute: 4, Link: 1},
		},
		// Gradients are summed in two parts beside 4 s of the backward pass: the last part comes after it.
		"gradients": {
			grid(1, 2, 1), usual, twice(sends(6, comm.Gradient, 20, 4)), 0,
			Times{Epoch: 7, Compute: 6, Link: 1},
		},
		// Two chunks pass two stages: each is idle for one of three times, as (stages−1)/(chunks+stages−1).
		"a bubble": {grid(2, 1, 1), usual, twice(computes(3)), 2, Times{Epoch: 4.5, Compute: 3, Bubble: 1.5}},
		// With one chunk a stage works at a time.
		"one chunk": {grid(2, 1, 1), usual, twice(computes(3)), 1, Times{Epoch: 6, Compute: 3, Bubble: 3}},
		// Forward, a chunk takes .5 s on a stage and 1 s between them; backward it takes 1 s everywhere:
		// .5+1+.5 and 1 for the second, 1+1+1 and 1.
		"a boundary": {
			grid(2, 1, 1), usual, twice(sends(3, comm.Stage, 20, 2)), 2,
			Times{Epoch: 7, Compute: 3, Link: 2.5, Bubble: 1.5},
		},
		// The same with .4 s more on each stage, which 2·20 bytes take.
		"a boundary that is handled": {
			grid(2, 1, 1), handled, twice(sends(3, comm.Stage, 20, 2)), 2,
			Times{Epoch: 2*3.4/3 + 4 + 3.8/3, Compute: 3.4, Link: 2.5 - .2/3, Bubble: 1.7},
		},
		// Where the stages share a core, the first chunk has it for itself on each, and the second has half.
		"stages of a machine": {
			grid(2, 1, 1), shared, twice(computes(3)), 2, Times{Epoch: 6, Compute: 4.5, Bubble: 1.5},
		},
		// Of 5 and 1 s the longer stage takes cores that the shorter one leaves: 6 s together.
		"unequal stages of a machine": {
			grid(2, 1, 1), shared,
			[]load{computes(5), computes(1)},
			2,
			Times{Epoch: 6, Compute: 4.5, Imbalance: 1.5},
		},
		// Gradients of replicas are summed after the last chunk.
		"replicas": {
			grid(2, 2, 1), usual, slices.Repeat(twice(sends(3, comm.Gradient, 20, 2)), 2), 2,
			Times{Epoch: 6.5, Compute: 3, Link: 2, Bubble: 1.5},
		},
	} {
		r := &setting.Resolved{Meshes: setting.Meshes{Mesh: c.mesh}}
		r.Prefetch = 1
		f := formula{Machine: c.machine, Resolved: r, loads: c.loads, chunks: c.chunks}
		got := f.times()
		for i, d := range []float64{
			got.Epoch - c.want.Epoch, got.Compute - c.want.Compute, got.Link - c.want.Link,
			got.Imbalance - c.want.Imbalance, got.Bubble - c.want.Bubble, got.Wait - c.want.Wait,
			got.Copies - c.want.Copies,
		} {
			if math.Abs(d) > 1e-9 {
				t.Errorf("%s: %+v, want %+v: number %d", name, got, c.want, i)
				break
			}
		}
	}
	for want, times := range map[string]Times{
		"compute": {Compute: 3, Link: 2}, "link": {Compute: 1, Link: 2}, "imbalance": {Imbalance: 1},
		"bubble": {Compute: 1, Bubble: 1.1}, "wait": {Wait: 3, Compute: 2, Link: 2},
	} {
		assert.Equal(t, want, times.LimitedBy(), "%+v is limited by", times)
	}
}

// TestHandled: messages of 20 bytes that come and go take .4 s of one thread, as far as no core is left for
// them.
func TestHandled(t *testing.T) {
	var l load
	l.sent[comm.Stage] = comm.Traffic{Bytes: 20}
	for cores, want := range map[int]float64{2: .4, 3: .2, 4: 0, 5: 0} {
		f := formula{Machine: Machine{Cores: cores, Threads: 1, Sharers: 2, Links: Links{Handling: .01}}}
		assert.Near(t, want, f.handled(&l, comm.Stage), 1e-12, "%d cores for two workers", cores)
	}
}

// TestLoads: what of a worker's kernels goes on while rows move, by hand: of 100 edges 40 are remote.
func TestLoads(t *testing.T) {
	name := func(name string) plan.Kernel { return plan.Kernel{Name: name, Widths: [2]int{2, 1}} }
	counts := &plan.Counts{
		// four calls of sums over 10 rows and 100 edges, of 2 columns each, which are a quarter of the rows
		Kernels: plan.Kernels{
			name("spmm"): {Number: 4, Work: 2 * 110}, name("attend"): {Number: 1, Work: 2 * 110},
			name("product"): {Number: 1, Work: 1000},
		},
		Rows: 10, Edges: 100, Remote: 40,
	}
	rates := &Rates{Kernels: map[plan.Kernel]float64{
		name("spmm"): .01, name("attend"): .02,
		name("product"): .001,
	}}
	const all = 2.2 + 4.4 + 1
	for _, c := range []struct {
		parallel string
		change   func(*setting.Options)
		overlap  float64
		rounds   int
	}{
		{"graph=4", func(*setting.Options) {}, .4 * (2.2 + 4.4), 3},
		{"graph=2,tensor=2", func(*setting.Options) {}, .4 * (2.2 + 4.4), 1},
		{"graph=4", func(o *setting.Options) { o.Prefetch = 0 }, 0, 1},
		{"tensor=2", func(*setting.Options) {}, 2.2, 4},
		{"pipeline=2", func(*setting.Options) {}, 0, 1},
	} {
		o := train.Defaults()
		o.Parallel = c.parallel
		c.change(&o)
		r, err := o.Resolve()
		require.NoError(t, err, c.parallel)
		l := loadOf(counts, r, rates)
		if math.Abs(l.kernels-all) > 1e-9 || math.Abs(l.overlap-c.overlap) > 1e-9 || l.rounds != c.rounds {
			t.Errorf("%s: %+v, want an overlap of %v in %d rounds", c.parallel, l, c.overlap, c.rounds)
		}
	}
}

// TestTimesAddUp: whatever the workers do, the parts of an epoch are not negative and add up to it, and it is
// no shorter than the kernels of a worker.
func TestTimesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few, seconds := rapid.IntRange(1, 3), rapid.SampledFrom([]float64{0, .5, 1, 3, 20})
		m := mesh.Mesh{Stages: few.Draw(t, "stages"), Partitions: few.Draw(t, "partitions")}
		m.Slices = few.Draw(t, "slices")
		f := formula{Resolved: &setting.Resolved{Meshes: setting.Meshes{Mesh: m}}}
		f.chunks = rapid.IntRange(0, 40).Draw(t, "chunks")
		f.Cores, f.Threads = few.Draw(t, "cores"), few.Draw(t, "threads")
		f.Sharers = rapid.IntRange(1, m.Workers()).Draw(t, "sharers")
		f.Links = Links{Sends: 10, Receives: 7, Latency: seconds.Draw(t, "latency")}
		f.Handling, f.Prefetch = seconds.Draw(t, "handling"), rapid.IntRange(0, 2).Draw(t, "prefetch")
		most := 0.
		for range m.Workers() {
			l := load{kernels: seconds.Draw(t, "kernels"), rounds: few.Draw(t, "rounds")}
			l.overlap = rapid.Float64Range(0, 1).Draw(t, "beside") * l.kernels
			for kind := comm.Halo; kind < comm.Kinds; kind++ {
				l.sent[kind].Bytes = rapid.Int64Range(0, 30).Draw(t, "bytes")
				l.sent[kind].Messages = rapid.Int64Range(0, 3).Draw(t, "messages")
			}
			f.loads, most = append(f.loads, l), max(most, l.kernels)
		}
		got := f.times()
		parts, sum := []float64{got.Compute, got.Link, got.Imbalance, got.Bubble, got.Wait}, 0.
		for _, part := range parts {
			sum += part
		}
		if off := 1e-9 * (1 + got.Epoch); !(slices.Min(parts) >= -off) || !(math.Abs(sum-got.Epoch) <= off) ||
			!(got.Epoch >= most-off) {
			t.Fatalf("%+v: together %v; a worker computes %v", got, sum, most)
		}
	})
}
