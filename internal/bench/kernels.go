package bench

import (
	"context"
	"time"

	"weft/kernel"
	"weft/tensor"
)

// Kernel is what one kernel reached on one shape.
type Kernel struct {
	Name    string  `json:"name"`
	Shape   string  `json:"shape"`
	Threads int     `json:"threads"`
	Seconds float64 `json:"seconds"` // the median
	GFLOPS  float64 `json:"gflops"`
	// GBytesPerSec: of what it has to read and write, gathered rows each time they are read
	GBytesPerSec float64 `json:"gbytes_per_second"`
	Bound        string  `json:"bound"`    // compute or memory
	Fraction     float64 `json:"fraction"` // of the bound
}

// Report is what Kernels found.
type Report struct {
	Machine Machine  `json:"machine"`
	Kernels []Kernel `json:"kernels"`
}

// job is one kernel on one shape, ready to run: what the kernel does, and what the bound counts.
type job struct {
	run     func()
	flops   float64
	gathers []gather
	read    []*tensor.Matrix // from front to back
	written int              // bytes
	past    bool             // they are written past the caches
	updated int              // bytes that are read and written in place
	exps    int              // exponentials
	scores  int              // terms a·LeakyReLU(x + y) of GATv2's scores
	square  bool             // the flops count in the bound, at the rate of the square product
	compute bool             // and nothing else does
}

// gather reads row indices[k] of each matrix, for each k, destination by destination: i has indices indptr[i]
// … indptr[i+1]−1.
type gather struct {
	indptr   *tensor.Matrix
	indices  *tensor.Matrix
	matrices []*tensor.Matrix
	lines    bool // the bound counts the indices, and a word of each cache line that a row touches
	ahead    int  // the distance of the probe's prefetch, in indices; 0: it has none
}

// along is the gather of the rows at the other ends of e's edges.
func along(e *kernel.CSR, matrices ...*tensor.Matrix) gather {
	return gather{indptr: e.Indptr, indices: e.Indices, matrices: matrices}
}

func (g gather) rowBytes() int {
	n := 0
	for _, m := range g.matrices {
		n += 4 * m.Cols
	}
	return n * g.indices.Len()
}

func (g gather) indexBytes() int { return 8*g.indptr.Len() + 4*g.indices.Len() }

// distances are what the gather probe tries; 0 leaves it to the processor to run ahead.
var distances = []int{0, 1, 2, 4, 8, 16, 32, 64}

// tuned is a gather with the distance at which the probe is fastest on the first part of the indices.
func (b *bench) tuned(g gather) gather {
	const enough = 256 << 20 // bytes
	n := g.indices.Len()
	part := g
	if bytes := g.rowBytes(); bytes > enough {
		n = max(1, int(float64(n)*enough/float64(bytes)))
		part.indices = g.indices.Prefix(n, 1)
	}
	probe, fastest := work{func() { b.probes.gather(part) }}, 0.0
	for round := range 3 {
		for _, part.ahead = range distances {
			if t := probe.timed(1)[0]; round > 0 && (fastest == 0 || t < fastest) {
				g.ahead, fastest = part.ahead, t
			}
		}
	}
	return g
}

// What a case takes of a run's time where that suffices; each takes a few rounds at least, and what its data
// takes.
const (
	caseBudget = 1500 * time.Millisecond
	runBudget  = 7 * time.Minute
)

// pass is a probe that runs beside a kernel. The bound counts a share of its time: the job's amount ÷ the
// probe's.
type pass struct {
	run   func()
	share float64
}

// passes are the probes whose times make the job's bound.
func (b *bench) passes(j *job) (passes []pass, release func()) {
	add := func(share float64, run func()) { passes = append(passes, pass{run, share}) }
	var scratch []*tensor.Matrix
	words := func(bytes int) *tensor.Matrix {
		m := b.team.Memory.New(tensor.Buffers, (bytes+3)/4, 1)
		scratch = append(scratch, m)
		return m
	}
	if j.square {
		s := b.bestSquare()
		add(j.flops/s.amount, s.run)
	}
	if j.compute {
		return passes, func() {}
	}
	for _, g := range j.gathers {
		t := b.tuned(g)
		rows, indices := float64(g.rowBytes()), float64(g.indexBytes())
		if g.lines {
			indices = 0 // nothing else of the bound counts them
		}
		add(rows/(rows+indices), func() { b.probes.gather(t) })
	}
	if len(j.read) > 0 {
		add(1, func() { b.probes.read(j.read...) })
	}
	if j.written > 0 {
		to := words(j.written)
		write := b.probes.write
		if j.past {
			write = b.probes.past
		}
		add(1, func() { write(to, 1) })
	}
	if j.updated > 0 {
		to := words(j.updated)
		add(1, func() { b.probes.update(to, 1) })
	}
	if j.exps > 0 {
		e := b.probes.exp(j.exps)
		add(float64(j.exps)/e.amount, e.run)
	}
	if j.scores > 0 {
		s := b.probes.score(j.scores)
		add(float64(j.scores)/s.amount, s.run)
	}
	return passes, func() {
		for _, m := range scratch {
			m.Release()
		}
	}
}

// bytes is what the kernel calls of the job move.
func (b *bench) bytes(j *job) (all kernel.Bytes) {
	b.team.Watch = func(c kernel.Call, run func()) {
		all = all.Plus(c.Bytes)
		run()
	}
	j.run()
	b.team.Watch = nil
	return all
}

// measure takes about the budget.
func (b *bench) measure(name, shape string, j *job, budget time.Duration) Kernel {
	passes, release := b.passes(j)
	defer release()
	var probes work
	for _, p := range passes {
		probes = append(probes, p.run)
	}
	samples := b.rounds(budget, work{j.run}, probes)
	seconds, bytes := median(samples[0][0]), b.bytes(j)
	k := Kernel{
		Name: name, Shape: shape, Threads: b.Threads, Seconds: seconds, GFLOPS: j.flops / seconds / 1e9,
		GBytesPerSec: float64(bytes.Streamed+bytes.Gathered) / seconds / 1e9, Bound: "memory",
		Fraction: fraction(samples[0][0], passes, samples[1]),
	}
	if j.compute {
		k.Bound = "compute"
	}
	return k
}

// fraction is the median over the rounds of bound ÷ time: in one round the machine is equally busy with other
// things. probes are the seconds of each pass.
func fraction(kernel []float64, passes []pass, probes [][]float64) float64 {
	fractions := make([]float64, len(kernel))
	for r, seconds := range kernel {
		for i, p := range passes {
			fractions[r] += p.share * probes[i][r] / seconds
		}
	}
	return median(fractions)
}

// Kernels measures every kernel that the options want and tells each result as it is known, after the
// machine. When ctx ends it stops after the kernel under way and returns the context's error.
func Kernels(ctx context.Context, o Options, machine func(Machine), result func(Kernel)) (Report, error) {
	b := newBench(o)
	defer b.close()
	var cases []testCase
	all := b.cases()
	for _, c := range all {
		if b.wants(c.name, c.shape) {
			cases = append(cases, c)
		}
	}
	if len(cases) == 0 {
		return Report{}, b.nothing(all[0].name + " " + all[0].shape)
	}
	start := time.Now()
	r := Report{Machine: b.machine()}
	machine(r.Machine)
	for i, c := range cases {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		a := &arrays{team: b.team}
		share := (runBudget - time.Since(start)) / time.Duration(len(cases)-i)
		k := b.measure(c.name, c.shape, c.build(a), min(caseBudget, share))
		a.release()
		r.Kernels = append(r.Kernels, k)
		result(k)
	}
	return r, nil
}
