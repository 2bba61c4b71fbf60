package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"weft/kernel"
	"weft/tensor"
)

// rated is work that does so much of something in each run: bytes, floating-point operations, exponentials.
type rated struct {
	run    func()
	amount float64
}

// rates are how much a second each work does: medians of samples taken in turn for about the budget.
func (b *bench) rates(budget time.Duration, works ...rated) []float64 {
	runs := make([]work, len(works))
	for i, w := range works {
		runs[i] = work{w.run}
	}
	rates := make([]float64, len(works))
	for i, samples := range b.rounds(budget, runs...) {
		rates[i] = works[i].amount / median(samples[0])
	}
	return rates
}

// fromAllOver is a gather of as many rows of 512 bytes as a matrix has that no cache holds, drawn from all
// over it. The same rows are drawn each time.
func (b *bench) fromAllOver(a *arrays) gather {
	const width = 128
	n := b.large / 4 / width
	x, indices, whole := a.matrix(n, width), a.element(tensor.Int32, 1, n), a.element(tensor.Int64, 1, 2)
	draw := rand.New(rand.NewPCG(1, 1))
	for i := range indices.Int32s() {
		indices.Int32s()[i] = draw.Int32N(int32(n))
	}
	copy(whole.Int64s(), []int64{0, int64(n)}) // one destination
	return gather{indptr: whole, indices: indices, matrices: []*tensor.Matrix{x}}
}

// gathering gathers, at the distance of prefetch that is best for this bench's threads. Only rows count.
func (b *bench) gathering(g gather) rated {
	t := b.tuned(g)
	return rated{func() { b.probes.gather(t) }, float64(g.rowBytes())}
}

// reading reads x from front to back.
func (b *bench) reading(x *tensor.Matrix) rated {
	return rated{func() { b.probes.read(x) }, float64(4 * x.Len())}
}

// multiplying makes one dense product of p's shape, or a smaller one, of these matrices' first rows and
// columns.
func (b *bench) multiplying(p product, z, x, w *tensor.Matrix) rated {
	z, x, w = z.Prefix(p.rows, p.out), x.Prefix(p.rows, p.in), w.Prefix(p.in, p.out)
	return rated{func() { b.team.MatMul(z, x, w, kernel.Straight, kernel.Replace) }, p.flops()}
}

// measured is a rate of the machine, and the work that it is measured by.
type measured struct {
	rate *float64
	work rated
}

// machine measures the rates that a report starts with.
func (b *bench) machine() Machine {
	m := Machine{
		CPU: b.CPU, Cores: runtime.NumCPU(), Threads: b.Threads, SIMD: kernel.SIMD(),
		BFloat16Products: kernel.BFloat16Products(),
	}
	a := &arrays{team: b.team}
	defer a.release()
	all := b.measuredOf(&m, a)
	works := make([]rated, len(all))
	for i, r := range all {
		works[i] = r.work
	}
	for i, rate := range b.rates(time.Second, works...) {
		*all[i].rate = rate
	}
	return m
}

// measuredOf lists the rates of m.
func (b *bench) measuredOf(m *Machine, a *arrays) []measured {
	g := b.fromAllOver(a)
	x := g.matrices[0]
	y := a.matrix(x.Rows, x.Cols)
	bytes := float64(4 * y.Len())
	exps, scores := 1<<24, 1<<26
	if b.Quick {
		exps, scores = 1<<18, 1<<18
	}
	return []measured{
		{&m.Gather, b.gathering(g)},
		{&m.Read, b.reading(x)},
		{&m.Write, rated{func() { b.probes.write(y, 1) }, bytes}},
		{&m.Update, rated{func() { b.probes.update(y, 1) }, bytes}},
		{&m.Flops, *b.bestSquare()},
		{&m.BFloat16Flops, b.ofBFloat16s(a)},
		{&m.Exp, b.probes.exp(exps)},
		{&m.Score, b.probes.score(scores)},
	}
}

// Rate is how much a second one thread gets, and how much all of them get together. Both are medians of
// samples taken in turn.
type Rate struct{ One, All float64 }

// PerThread is how much of what one thread gets each of so many threads gets: 1 where they do not hinder each
// other.
func (r Rate) PerThread(threads int) float64 { return r.All / r.One / float64(threads) }

// ratesBudget is about how long one of the measurements below takes, after it made its data.
const ratesBudget = 600 * time.Millisecond

// oneAndAll calls measure with a bench of one thread and one of all, unless their data takes more than half
// of the available bytes. Memory that the system refuses is an error too.
func oneAndAll(threads int, available int64, bytes func(all *bench) int,
	measure func(one, all *bench, a *arrays),
) (err error) {
	one, all := newBench(Options{Threads: 1}), newBench(Options{Threads: threads})
	defer one.close()
	defer all.close()
	if needs := bytes(all); int64(needs) > available/2 {
		return fmt.Errorf("%d MB are more than half of the %d MB available", needs>>20, available>>20)
	}
	defer func() {
		if p := recover(); p != nil {
			short, ok := p.(tensor.OutOfMemory)
			if !ok {
				panic(p)
			}
			err = short
		}
	}()
	measure(one, all, &arrays{team: all.team})
	return nil
}

// MemoryRates measures how many bytes a second so many threads read, from front to back and in rows of 512
// bytes drawn from all over a matrix that no cache holds. It is an error if that matrix would take more than
// half of the available bytes, or if the system refuses them.
func MemoryRates(threads int, available int64) (stream, rows Rate, err error) {
	bytes := func(all *bench) int { return all.large }
	err = oneAndAll(threads, available, bytes, func(one, all *bench, a *arrays) {
		g := all.fromAllOver(a)
		x := g.matrices[0]
		r := all.rates(ratesBudget, one.reading(x), all.reading(x), one.gathering(g), all.gathering(g))
		stream, rows = Rate{r[0], r[1]}, Rate{r[2], r[3]}
	})
	return stream, rows, err
}

// ArithmeticRate measures the floating-point operations a second of a large dense product. It is an error if
// its matrices would take more than half of the available bytes, or if the system refuses them.
func ArithmeticRate(threads int, available int64) (flops Rate, err error) {
	const n = 2048 // larger squares reach a few percent more and take seconds
	few, many := product{kernel.ProductRows, n, n}, product{kernel.ProductRows * threads, n, n}
	bytes := func(*bench) int { return 4 * (2*many.rows*n + n*n) }
	err = oneAndAll(threads, available, bytes, func(one, all *bench, a *arrays) {
		z, x, w := a.matrix(many.rows, n), a.matrix(many.rows, n), a.matrix(n, n)
		r := all.rates(ratesBudget, one.multiplying(few, z, x, w), all.multiplying(many, z, x, w))
		flops = Rate{r[0], r[1]}
	})
	return flops, err
}
