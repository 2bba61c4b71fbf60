package bench

import (
	"fmt"

	"weft/kernel"
	"weft/tensor"
)

// wholeCalls is the least number of rows, n or more, that is as many whole calls of a product for each of the
// threads. A product of another height does not show what the machine can do.
func wholeCalls(n, threads int) int {
	wave := kernel.ProductRows * threads
	return (n + wave - 1) / wave * wave
}

// bestSquare is the square product with the highest rate, the most that a product can have, found once in a
// run. It has more rows than columns, so that each thread has the same work.
func (b *bench) bestSquare() *rated {
	if b.square != nil {
		return b.square
	}
	sizes := []int{1536, 2048, 3072}
	if b.Quick {
		sizes = []int{256}
	}
	last := sizes[len(sizes)-1]
	rows := wholeCalls(last, b.Threads)
	a := &arrays{team: b.team} // kept until the end
	z, x, w := a.matrix(rows, last), a.matrix(rows, last), a.matrix(last, last)
	best := 0.0
	for _, n := range sizes {
		s := b.multiplying(product{wholeCalls(n, b.Threads), n, n}, z, x, w)
		if rate := b.rates(0, s)[0]; rate > best {
			b.square, best = &s, rate
		}
	}
	return b.square
}

// ofBFloat16s is the product of BFloat16 matrices with the highest rate, of many rows: where AMX multiplies,
// few columns are faster than many.
func (b *bench) ofBFloat16s(a *arrays) (fastest rated) {
	sizes := []int{256, 512, 1024, 2048}
	if b.Quick {
		sizes = sizes[:1]
	}
	last := sizes[len(sizes)-1]
	rows := wholeCalls(4*last, b.Threads)
	z, x := a.element(tensor.BFloat16, rows, last), a.element(tensor.BFloat16, rows, last)
	w := a.matrix(last, last)
	b.team.Fill(x, 1)
	best := 0.0
	for _, n := range sizes {
		s := b.multiplying(product{rows, n, n}, z, x, w)
		if rate := b.rates(0, s)[0]; rate > best {
			fastest, best = s, rate
		}
	}
	return fastest
}

// small is the size under which a dimension makes a product wait for its operands.
const small = 256

// product is a dense layer's shape: the input is rows × in, the weight in × out, the output rows × out. Each
// of its three products takes 2·rows·in·out operations, reads two of these matrices (or gradients in their
// place) and writes the third.
type product struct{ rows, in, out int }

func (p product) String() string { return fmt.Sprintf("%d×%d×%d", p.rows, p.in, p.out) }

func (p product) flops() float64 { return 2 * float64(p.rows) * float64(p.in) * float64(p.out) }

// job is a product's job: what it reads and writes is in the bound only where it is not bound by compute
// alone.
func (p product) job(run func(), written *tensor.Matrix, read ...*tensor.Matrix) *job {
	return &job{
		run: run, flops: p.flops(), square: true, compute: min(p.rows, p.in, p.out) >= small,
		read: read, written: 4 * written.Len(),
	}
}

// layer is the job of z = x·w, which may be written past the caches.
func (p product) layer(run func(), z, x, w *tensor.Matrix) *job {
	j := p.job(run, z, x, w)
	j.past = kernel.WritesPastCaches(z.Rows, x.Cols, z.Cols)
	return j
}

var products = []product{
	{65536, 256, 256},
	{65536, 512, 512},
	{16384, 1024, 1024},
	{65536, 500, 16},
	{65536, 16, 500},
	{65536, 100, 256},
	{262144, 128, 128},
}

// productKernels are the three products of a dense layer.
var productKernels = []struct {
	name  string
	build func(team *kernel.Team, p product, a *arrays) *job
}{
	{"product", func(team *kernel.Team, p product, a *arrays) *job {
		x, w, z := a.matrix(p.rows, p.in), a.matrix(p.in, p.out), a.matrix(p.rows, p.out)
		return p.layer(func() { team.MatMul(z, x, w, kernel.Straight, kernel.Replace) }, z, x, w)
	}},
	{"product input gradient", func(team *kernel.Team, p product, a *arrays) *job {
		g, w, dx := a.matrix(p.rows, p.out), a.matrix(p.in, p.out), a.matrix(p.rows, p.in)
		return p.layer(func() { team.MatMul(dx, g, w, kernel.Transposed, kernel.Replace) }, dx, g, w)
	}},
	{"product weight gradient", func(team *kernel.Team, p product, a *arrays) *job {
		x, g, dw := a.matrix(p.rows, p.in), a.matrix(p.rows, p.out), a.matrix(p.in, p.out)
		return p.job(func() { team.MatMulT(dw, x, g, kernel.Replace) }, dw, x, g)
	}},
}
