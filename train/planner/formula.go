package planner

import (
	"maps"
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/parallel/mesh"
	"weft/parallel/tp"
	"weft/train/plan"
	"weft/train/setting"
)

// Machine is what the workers run on.
type Machine struct {
	Cores   int // cores that the workers of a machine share
	Threads int // of each worker
	Sharers int // how many workers a machine has
	Links       // zero rates: all workers are on one machine; Card may have rates of its own
	// Card is the kind of card on which the workers compute, and Cards is how many a machine has; 0: one for
	// each worker. nil: workers compute on cores.
	Card  *CardSpec
	Cards int
	// Far are the links between workers on different machines, if they differ from Links; else zero.
	Far        Links
	HostMemory float64 // bytes of the memory of a machine with cards; 0: unknown
}

// Times say where the time of an epoch goes, in seconds. All but Epoch are means over the workers. Their sum
// is Epoch.
type Times struct {
	Epoch     float64
	Compute   float64 // kernels
	Copies    float64 // copies between a card and the host's memory that go on after the kernels beside them
	Link      float64 // waiting for messages that kernels do not hide
	Imbalance float64 // waiting for the worker with most to compute, as far as that has more than the mean
	Bubble    float64 // the rest of the waiting for others, in a pipeline
	Wait      float64 // the rest of the waiting for others, elsewhere
}

// LimitedBy names the largest of the times.
func (t *Times) LimitedBy() string {
	parts := []float64{t.Compute, 0, t.Link, t.Imbalance, t.Bubble, t.Wait}
	if t.Copies > 0 { // the copies take longer than the kernels
		parts[0], parts[1] = 0, t.Compute+t.Copies
	}
	names := []string{"compute", "copies", "link", "imbalance", "bubble", "wait"}
	return names[slices.Index(parts, slices.Max(parts))]
}

// load is what a worker does in a training pass.
type load struct {
	kernels float64 // seconds, if all threads have a core
	copies  float64 // seconds of copies after the kernels beside them
	overlap float64 // seconds of aggregations that go on while vertex rows move; part of kernels
	rounds  int     // rounds of these rows: an aggregation waits for the rows of its round
	sent    [comm.Kinds]comm.Traffic
}

// loadOf is the load of a worker with these counts.
//
// Partitions of a graph receive the rows of the other partitions one after the other, and aggregate one
// partition's rows while the next are on their way. Slices aggregate a linear sum in chunks. A stage of a
// pipeline does nothing in the meantime.
func loadOf(c *plan.Counts, r *setting.Resolved, rates *Rates) load {
	l := load{sent: c.Traffic, rounds: 1}
	var aggregations, sums, rows, calls float64
	// in order, so that plans have the same sums
	for _, k := range slices.SortedFunc(maps.Keys(c.Kernels), plan.Kernel.Compare) {
		its := c.Kernels[k]
		seconds := rates.Seconds(k, its)
		l.kernels += seconds
		if k.Name == "spmm" {
			sums, rows, calls = sums+seconds, rows+its.Work/float64(k.Widths[0]), calls+float64(its.Number)
		}
		if k.Name == "spmm" || strings.HasPrefix(k.Name, "max") || strings.HasPrefix(k.Name, "attend") {
			aggregations += seconds
		}
	}
	grid := r.Mesh
	switch {
	case grid.Stages > 1:
	case grid.Partitions > 1 && (r.Prefetch > 0 || r.KeepHalo):
		l.overlap = aggregations * float64(c.Remote) / float64(max(1, c.Edges))
		l.rounds = grid.Partitions - 1
	case grid.Slices > 1 && grid.Partitions == 1:
		all := float64(c.Rows) + float64(c.Edges)
		l.rounds = int(math.Round(all * calls / max(1, rows)))
		if l.rounds > 1 {
			l.overlap = sums
		}
	}
	return l
}

// formula has the numbers from which the time of an epoch follows.
type formula struct {
	Machine
	*setting.Resolved
	loads  []load
	chunks int                  // of each partition, in a pipeline
	far    *[comm.Kinds]float64 // what shares returned; nil: not called yet
}

// stage is the most that a worker of a stage has to do of each kind, in seconds.
type stage struct {
	kernels  float64 // with the handling of messages to other stages at the same time
	exposed  float64 // messages that kernels do not hide
	boundary float64 // messages to other stages
	ends     float64 // sums of gradients after the last chunk
}

// times returns the time of an epoch. On one stage it is the time of the worker with most kernels, with the
// messages that they do not hide. Kernels take longer if the workers of a machine want more cores than it
// has.
func (f *formula) times() (t Times) {
	stages := make([]stage, f.Mesh.Stages)
	mean := 0.0
	most := 0.0
	for rank := range f.loads {
		l := &f.loads[rank]
		s := &stages[f.Mesh.Coords(rank).Stage]
		exposed := f.exposed(l)
		busy := l.kernels + l.copies + f.handled(l, comm.Stage)
		s.kernels, s.exposed = max(s.kernels, busy), max(s.exposed, exposed)
		s.boundary = max(s.boundary, f.moves(l, comm.Stage))
		if len(stages) > 1 {
			s.ends = max(s.ends, f.moves(l, comm.Gradient))
		}
		mean += busy / float64(len(f.loads))
		t.Copies += l.copies * f.crowd(len(f.loads)) / float64(len(f.loads))
		t.Link += exposed / float64(len(f.loads))
		most = max(most, busy)
	}
	if len(stages) == 1 {
		t.Compute = mean * f.crowd(len(f.loads))
		t.Epoch = max(t.Compute, most*f.crowd(1)) + stages[0].exposed
	} else {
		f.pipeline(&t, stages, mean)
	}
	t.Link = min(t.Link, t.Epoch-t.Compute) // a stage may wait for messages while a slower stage computes
	rest := t.Epoch - t.Compute - t.Link
	t.Imbalance = min(rest, most-mean)
	t.Compute -= t.Copies
	if len(stages) > 1 {
		t.Bubble = rest - t.Imbalance
	} else {
		t.Wait = rest - t.Imbalance
	}
	return t
}

// pipeline sets the times of a pipeline of K chunks. In each direction the first chunk passes all stages and
// boundaries. Then the others come, one in each step of the slowest of these:
//
//	(Σ t + (K−1)·max t) / K
//
// Forward and backward as many bytes move, and backward there is twice as much to compute. While a stage
// waits for the rows of other partitions or slices, these share its link with its messages to other stages.
// The first chunk has the cores of a machine for itself. Later chunks share them, as many as the mean stage
// wants.
func (f *formula) pipeline(t *Times, stages []stage, mean float64) {
	k, boundaries, ends := float64(max(1, f.chunks)), 0.0, 0.0
	for _, s := range stages {
		boundaries, ends = boundaries+s.boundary, max(ends, s.ends)
	}
	alone, all := f.crowd(len(f.loads)/len(stages)), f.crowd(len(f.loads))
	const ways = 2
	for _, part := range []float64{1. / 3, 2. / 3} {
		fill, slowest, busiest := boundaries/ways, 0.0, 0.0
		link := boundaries / ways / float64(len(stages)-1)
		for _, s := range stages {
			kernels, exposed := max(alone*s.kernels, all*min(s.kernels, mean))*part, s.exposed/ways
			fill += alone*s.kernels*part + exposed
			busy, shared := kernels+exposed, 0.0
			if exposed > 0 {
				shared = link * exposed / busy
			}
			slowest, busiest = max(slowest, busy+shared, exposed+link), max(busiest, busy)
		}
		t.Epoch += (fill + (k-1)*slowest) / k
		t.Link += (boundaries/ways + (k-1)*(slowest-busiest)) / k
	}
	t.Epoch, t.Link = t.Epoch+ends, t.Link+ends
	t.Compute = mean * (alone + (k-1)*all) / k
}

// crowd is how many times longer kernels take while so many of all workers are at work.
func (f *formula) crowd(workers int) float64 {
	if f.Card != nil {
		return float64(f.OnOne(workers))
	}
	return max(1, float64(min(workers, f.Sharers)*f.Threads)/float64(f.Cores))
}

// OnOne is how many of the workers are on one card.
func (m *Machine) OnOne(workers int) int {
	if m.Cards == 0 {
		return 1
	}
	return (min(workers, max(1, m.Sharers)) + m.Cards - 1) / m.Cards
}

// exposed is how long a worker waits for messages, without those to other stages. Gradients of weights are
// summed in parts, beside the backward pass, and in a pipeline at its end. If kernels hide messages, their
// cores also handle these.
func (f *formula) exposed(l *load) float64 {
	crowd := f.crowd(len(f.loads))
	unhidden := func(work float64, rounds int, kinds ...comm.Kind) float64 {
		messages := f.moves(l, kinds...)
		if messages == 0 {
			return 0
		}
		seconds := wait(messages, crowd*work, rounds)
		return seconds + crowd*f.handled(l, kinds...)*(messages-seconds)/messages
	}
	seconds := f.moves(l, comm.Links, comm.Statistics) +
		unhidden(l.overlap, l.rounds, comm.Halo, comm.HaloGradient, comm.ToSlices, comm.ToRows)
	if f.Mesh.Stages == 1 {
		const backward = 2. / 3
		parts := int(l.sent[comm.Gradient].Messages) / max(1, 2*f.atOnce(comm.Gradient))
		seconds += unhidden(backward*l.kernels, parts, comm.Gradient)
	}
	return seconds
}

// handled is how much longer a worker's kernels take while the machine handles messages of some kinds: those
// that the worker sends, and as many that come. It is 0 if the machine has cores to spare for that.
func (f *formula) handled(l *load, kinds ...comm.Kind) (seconds float64) {
	if f.Card != nil {
		return 0
	}
	left := float64(f.Cores-f.Sharers*f.Threads) / float64(f.Sharers)
	for _, kind := range kinds {
		const ends = 2
		seconds += ends * f.Handling * float64(l.sent[kind].Bytes)
	}
	return seconds * min(1, max(0, 1-left)) / float64(f.Threads)
}

// wait is how long work that goes on beside messages waits for them. Both are divided into rounds, and the
// work of a round needs its messages.
func wait(messages, work float64, rounds int) float64 {
	return max(messages, work) + min(messages, work)/float64(max(1, rounds)) - work
}

// moves is how long the messages of some kinds move that a worker sends. As many come. A message between
// cards is copied to the host's memory and from there to the other card, unless links send from cards.
func (f *formula) moves(l *load, kinds ...comm.Kind) (seconds float64) {
	for _, kind := range kinds {
		far := 0.0
		if f.Far != (Links{}) {
			far = f.shares()[kind]
		}
		seconds += (1 - far) * f.over(&f.Links, &l.sent[kind], kind)
		if far > 0 {
			seconds += far * f.over(&f.Far, &l.sent[kind], kind)
		}
	}
	return seconds
}

// over is how long messages of a kind move over links l.
func (f *formula) over(l *Links, sent *comm.Traffic, kind comm.Kind) float64 {
	rate := min(l.Sends, l.Receives)
	if l.Handling > 0 { // one thread of each worker handles the messages that it sends and that come
		rate = min(rate, 1/(2*l.Handling*max(1, float64(f.Sharers)/float64(f.Cores))))
	}
	perByte, latency := 0.0, l.Latency
	if rate > 0 {
		perByte = 1 / rate
	}
	if c := f.Card; c != nil && (rate == 0 || !f.DeviceMessages) {
		perByte, latency = perByte+1/c.ToHost+1/c.ToDevice, latency+2*c.Launch
	}
	return float64(sent.Bytes)*perByte + latency*float64(sent.Messages)/float64(max(1, f.atOnce(kind)))
}

// shares are, by kind, the shares of all workers' messages that go to other machines. Each machine has
// Sharers workers. A worker sends as many messages to each worker of its group.
func (f *formula) shares() *[comm.Kinds]float64 {
	if f.far != nil {
		return f.far
	}
	grid := f.Mesh
	grid.Partitions = f.Workers / (grid.Stages * grid.Slices) // a worker has one place, if it holds several
	places := make([]mesh.Coords, grid.Workers())
	for rank := range places {
		places[rank] = grid.Coords(rank)
	}
	var far, all [comm.Kinds]int
	for rank, at := range places {
		for before, to := range places[:rank] { // the other worker sends as many back
			for kind := range comm.Kinds {
				if !sends(kind, at, to) {
					continue
				}
				all[kind]++
				if rank/f.Sharers != before/f.Sharers {
					far[kind]++
				}
			}
		}
	}
	f.far = new([comm.Kinds]float64)
	for kind := range f.far {
		f.far[kind] = float64(far[kind]) / float64(max(1, all[kind]))
	}
	return f.far
}

// sends reports whether a worker sends messages of a kind to another one.
func sends(kind comm.Kind, at, to mesh.Coords) bool {
	stage, partition, slice := at.Stage == to.Stage, at.Partition == to.Partition, at.Slice == to.Slice
	switch kind {
	case comm.Halo, comm.HaloGradient:
		return stage && slice
	case comm.ToSlices, comm.ToRows:
		return stage && partition
	case comm.Stage:
		return partition && slice && (at.Stage-to.Stage == 1 || to.Stage-at.Stage == 1)
	case comm.Gradient:
		return stage
	}
	return true
}

// atOnce is to how many workers a worker sends messages of a kind at the same time.
func (f *formula) atOnce(kind comm.Kind) int {
	grid := f.Mesh
	switch kind {
	case comm.Halo, comm.HaloGradient:
		if grid.Stages > 1 {
			return grid.Partitions - 1
		}
		return min(grid.Partitions-1, f.Prefetch+1, 2)
	case comm.ToSlices, comm.ToRows:
		return min(grid.Slices-1, tp.AtOnce(f.Card != nil))
	case comm.Stage:
		return 1
	case comm.Gradient:
		return grid.Partitions*grid.Slices - 1
	}
	return grid.Workers() - 1
}
