package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"weft/kernel"
	"weft/tensor"
)

// Rate is how much a second one thread gets, and how much all of them get together. Both are medians of samples taken in turn.
type Rate struct{ One, All float64 }

// PerThread is how much of what one thread gets each of so many threads gets: 1 where they do not hinder each other.
func (r Rate) PerThread(threads int) float64 { return r.All / r.One / float64(threads) }

// ratesBudget is about how long one of the measurements below takes, after it made its data.
const ratesBudget = 600 * time.Millisecond

// MemoryRates measures how many bytes a second so many threads read, from front to back and in rows of 512 bytes drawn from all
// over a matrix that no cache holds. It is an error if that matrix would take more than half of the available bytes, or if the
// system refuses them.
func MemoryRates(threads int, available int64) (stream, rows Rate, err error) {
	defer refused(&err)
	all, one := newBench(Options{Threads: threads}), newBench(Options{Threads: 1})
	defer all.close()
	defer one.close()
	if err := fits(all.large, available); err != nil {
		return stream, rows, err
	}
	const width = 128
	n := all.large / 4 / width
	a := &arrays{team: all.team}
	defer a.release()
	x, indices := a.matrix(n, width), a.element(tensor.Int32, 1, n)
	draw := rand.New(rand.NewPCG(1, 1)) // the same rows each time
	for i := range indices.Int32s() {
		indices.Int32s()[i] = draw.Int32N(int32(n))
	}
	whole := a.element(tensor.Int64, 1, 2) // one destination
	copy(whole.Int64s(), []int64{0, int64(n)})
	g := gather{whole, indices, []*tensor.Matrix{x}}
	alone, together := one.tuned(g), all.tuned(g)
	t := all.alternate(ratesBudget, func() { one.probes.read(x) }, func() { all.probes.read(x) },
		func() { one.probes.gather(alone) }, func() { all.probes.gather(together) })
	streamed, gathered := float64(4*x.Len()), float64(g.rowBytes())
	return Rate{streamed / t[0], streamed / t[1]}, Rate{gathered / t[2], gathered / t[3]}, nil
}

// ArithmeticRate measures the floating-point operations a second of a large dense product. It is an error if its matrices would
// take more than half of the available bytes, or if the system refuses them.
func ArithmeticRate(threads int, available int64) (flops Rate, err error) {
	const n = 2048 // larger squares reach a few percent more and take seconds
	defer refused(&err)
	all, one := kernel.NewTeam(threads, tensor.NewMeter()), kernel.NewTeam(1, tensor.NewMeter())
	defer all.Memory.Close()
	defer one.Memory.Close()
	few, many := kernel.ProductRows, kernel.ProductRows*all.Threads()
	if err := fits(4*(2*many*n+n*n), available); err != nil {
		return flops, err
	}
	a := &arrays{team: all}
	defer a.release()
	x, w, z := a.matrix(many, n), a.matrix(n, n), a.matrix(many, n)
	b := &bench{}
	t := b.alternate(ratesBudget, func() { one.MatMul(z.Prefix(few, n), x.Prefix(few, n), w, false, false) },
		func() { all.MatMul(z, x, w, false, false) })
	return Rate{2 * float64(few) * n * n / t[0], 2 * float64(many) * n * n / t[1]}, nil
}

// fits is an error where so many bytes are more than half of those available.
func fits(bytes int, available int64) error {
	if int64(bytes) > available/2 {
		return fmt.Errorf("%d MB are more than half of the %d MB available", bytes>>20, available>>20)
	}
	return nil
}

// refused turns memory that the system refused into an error.
func refused(err *error) {
	if p := recover(); p != nil {
		short, ok := p.(tensor.OutOfMemory)
		if !ok {
			panic(p)
		}
		*err = short
	}
}
