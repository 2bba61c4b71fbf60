// Package machine measures the best rates of this machine, and keeps the measurements. Package bench compares
// kernels with these rates. Packages plan and planner turn counts of work into times by them.
package machine

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"weft/kernel"
	"weft/tensor"
)

// Rates are the rates that so many threads reach at the same time: for each rate, the highest of several
// samples. They count the time that threads have a core, so that other work on the machine matters little.
type Rates struct {
	Threads int `json:"threads"`

	// Bytes per second, of memory that no cache holds:
	Read   float64 `json:"read_bytes_per_second"`   // reading in order
	Write  float64 `json:"write_bytes_per_second"`  // in order
	Gather float64 `json:"gather_bytes_per_second"` // rows of 512 bytes, from all over it
	Lines  float64 `json:"line_bytes_per_second"`   // cache lines, of 64 bytes, from all over it

	// Floating-point operations per second of the fastest of some dense products, of Float32 and of BFloat16
	// matrices.
	Flops         float64 `json:"flops"`
	BFloat16Flops float64 `json:"bfloat16_flops"`
}

// Beyond is a number of bytes that is assumed to fit no cache. Some computers have a larger last-level cache,
// but it serves many cores.
const Beyond = 256 << 20

const (
	lineBytes = 64
	rowBytes  = 512
	words     = lineBytes / 4 // words of a line
	rowWords  = rowBytes / 4
	samples   = 5
)

// Measure measures the rates of so many threads over size bytes of memory: Beyond, or fewer to save time. The
// second operands of products have at most half as many bytes. It is an error if size is more than half of
// the available bytes, or if the system refuses the memory.
func Measure(threads, size int, available int64) (r Rates, err error) {
	if int64(size) > available/2 {
		return r, fmt.Errorf("%d MB are more than half of the %d MB available", size>>20, available>>20)
	}
	defer func() {
		if p := recover(); p != nil {
			short, is := p.(tensor.OutOfMemory)
			if !is {
				panic(p)
			}
			err = short
		}
	}()
	meter := tensor.NewMeter()
	defer meter.Close()
	p := newProbes(threads, size, meter)
	defer p.release()
	all := float64(size)
	r.Threads = threads
	r.Write = p.rate(all, p.write) // measured first: pages that nobody has written are all the same zero page
	r.Read = p.rate(all, p.read)
	r.Gather = p.rate(all, p.gather)
	r.Lines = p.rate(all/rowBytes*lineBytes, p.lines)
	r.Flops = p.multiply(tensor.Float32, size/2)
	r.BFloat16Flops = p.multiply(tensor.BFloat16, size/2)
	return r, nil
}

// probes do one thing each, as fast as the machine can. They touch one word of each cache line, because whole
// lines move between memory and a core. Except for products, they share no code with the kernels.
type probes struct {
	threads int
	memory  *tensor.Meter
	matrix  *tensor.Matrix
	words   []int32
	rows    []int32 // as many random rows as the matrix has
	sums    []int32 // by thread: the sum of what it has read
}

func newProbes(threads, size int, memory *tensor.Meter) *probes {
	m := memory.NewElement(tensor.Buffers, tensor.Int32, size/rowBytes, rowWords)
	p := &probes{
		threads: threads, memory: memory, matrix: m, words: m.Int32s(), rows: make([]int32, m.Rows),
		sums: make([]int32, threads),
	}
	draw := rand.New(rand.NewPCG(1, 1))
	for i := range p.rows {
		p.rows[i] = draw.Int32N(int32(m.Rows))
	}
	return p
}

func (p *probes) release() { p.matrix.Release() }

// rate calls work on all threads at the same time, several times. Each call does a thread's part of an
// amount. It returns the best amount per second.
func (p *probes) rate(amount float64, work func(thread int)) (best float64) {
	each := make([]float64, p.threads)
	for range samples {
		var all sync.WaitGroup
		for thread := range p.threads {
			all.Go(func() {
				took := max(Timed(func() { work(thread) }), time.Nanosecond)
				each[thread] = amount / float64(p.threads) / took.Seconds()
			})
		}
		all.Wait()
		sum := 0.0
		for _, rate := range each {
			sum += rate
		}
		best = max(best, sum)
	}
	return best
}

// part returns the part of a slice that a thread works on.
func part[T any](p *probes, all []T, thread int) []T {
	return all[len(all)*thread/p.threads : len(all)*(thread+1)/p.threads]
}

func (p *probes) read(thread int) {
	sum := int32(0)
	chunk := part(p, p.words, thread)
	for ; len(chunk) >= 4*words; chunk = chunk[4*words:] {
		sum += chunk[0] + chunk[words] + chunk[2*words] + chunk[3*words]
	}
	p.sums[thread] += sum
}

// write clears a few pages at a time. The lines of more pages would go past the caches, as in few kernels.
func (p *probes) write(thread int) {
	const some = 4 * tensor.PageSize
	for chunk := part(p, p.words, thread); len(chunk) > 0; chunk = chunk[min(len(chunk), some):] {
		clear(chunk[:min(len(chunk), some)])
	}
}

func (p *probes) gather(thread int) {
	sum := int32(0)
	for _, row := range part(p, p.rows, thread) {
		x := p.words[int(row)*rowWords:][:rowWords]
		sum += x[0] + x[words] + x[2*words] + x[3*words] + x[4*words] + x[5*words] + x[6*words] +
			x[7*words]
	}
	p.sums[thread] += sum
}

func (p *probes) lines(thread int) {
	sum := int32(0)
	for k, row := range part(p, p.rows, thread) {
		sum += p.words[int(row)*rowWords+k%(rowWords/words)*words]
	}
	p.sums[thread] += sum
}

// multiply returns the rate of the fastest of some products of matrices of that element type. Their second
// operands have at most so many bytes, and at least 256 rows: with AMX, few columns are faster than many.
func (p *probes) multiply(e tensor.Element, most int) (best float64) {
	for n := 256; n == 256 || n <= 1024 && 4*n*n <= most; n *= 2 {
		const rows, times = 4 * kernel.ProductRows, 4
		type product struct {
			team    *kernel.Team
			z, x, w *tensor.Matrix
		}
		products := make([]product, p.threads)
		for i := range products {
			products[i] = product{
				kernel.NewTeam(1, p.memory), p.memory.NewElement(tensor.Buffers, e, rows, n),
				p.memory.NewElement(tensor.Buffers, e, rows, n), p.memory.New(tensor.Buffers, n, n),
			}
			products[i].team.Fill(products[i].x, 1)
			products[i].team.Fill(products[i].w, 1)
		}
		best = max(best, p.rate(float64(p.threads*times*rows)*float64(2*n*n), func(thread int) {
			for range times {
				m := products[thread]
				m.team.MatMul(m.z, m.x, m.w, kernel.Straight, kernel.Replace)
			}
		}))
		for _, m := range products {
			m.z.Release()
			m.x.Release()
			m.w.Release()
		}
	}
	return best
}

// Row returns the seconds that gathering a row of so many bytes takes. Its first cache line counts at the
// rate of single lines, and the others at the rate of Gather.
func (r *Rates) Row(size float64) float64 {
	first, all := lineBytes/r.Lines, rowBytes/r.Gather
	return first + max(0, size-lineBytes)*(all-first)/(rowBytes-lineBytes)
}

// CopyRate returns the rate at which a thread copies memory, in bytes per second.
func CopyRate() float64 {
	const size = 32 << 20
	from := bytes.Repeat([]byte{1}, size)
	to := make([]byte, size)
	least := time.Duration(math.MaxInt64)
	for range samples {
		least = min(least, Timed(func() { copy(to, from) }))
	}
	return size / least.Seconds()
}
