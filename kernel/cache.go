package kernel

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"weft/tensor"
)

// What a byte costs depends on the cache that it comes from, and caches do not tell: a virtual computer names
// one that it shares with a hundred others. So it is measured, for each number of threads, when the first
// matrices are aggregated that could be cut (cut.go). Workers of one process measure in turn, and for all of
// them.

// memoryCosts are a team's times to read memory, in seconds.
type memoryCosts struct {
	// gathered is that of a byte in rows of sliceColumns[w] columns from all over a region of 2^k bytes; 0
	// where it is not known.
	gathered [len(sliceColumns)][largestRegion + 1]float64
	streamed [largestRegion + 1]float64 // of a byte, from front to back of a region
	times    [largestRegion + 1]int     // how often a region was measured
}

// sliceColumns are the columns that a slice may have.
var sliceColumns = [...]int{32, 64, 128}

const (
	smallestRegion = 20 // log2 of bytes
	largestRegion  = 28
	measurements   = 3 // of each region, at different sums: others use the computer too, and the least cost counts
)

var measured = struct {
	sync.Mutex
	costs map[int]*memoryCosts // by threads
}{costs: map[int]*memoryCosts{}}

// costsOf are the costs of memory like that of x, whose first bytes are gathered for it where regions of such
// sizes are not well known: of powers of two bytes, up to as many as x has or a little fewer.
func (t *Team) costsOf(x *tensor.Matrix) memoryCosts {
	if t.costs != nil {
		return *t.costs
	}
	measured.Lock()
	defer measured.Unlock()
	c := measured.costs[t.threads]
	if c == nil {
		c = &memoryCosts{}
		measured.costs[t.threads] = c
	}
	if region := min(log2(4*x.Len()), largestRegion); c.times[region] < measurements {
		c.measure(t, x, region)
	}
	return *c
}

// log2 is the logarithm of n, rounded down.
func log2(n int) int { return bits.Len(uint(n)) - 1 }

// measure measures the regions of x up to one.
func (c *memoryCosts) measure(t *Team, x *tensor.Matrix, largest int) {
	p := newCacheProbe(t, x)
	defer p.close()
	for region := smallestRegion; region <= largest; region++ {
		if c.times[region] == measurements {
			continue
		}
		c.times[region]++
		p.read(region) // a cache that can hold it does now
		for w, columns := range sliceColumns {
			lower(&c.gathered[w][region], p.gather(region, columns))
		}
		lower(&c.streamed[region], p.read(region))
	}
	for w := range sliceColumns { // a smaller region is not slower
		for region := largest; region > 0; region-- {
			lower(&c.gathered[w][region-1], c.gathered[w][region])
		}
	}
}

// lower sets a cost to another that is less, or that is known first.
func lower(cost *float64, other float64) {
	if *cost == 0 || other < *cost {
		*cost = other
	}
}

// cacheProbe gathers by sums that are not cut, of one row for each thread.
type cacheProbe struct {
	t       *Team // with memory of its own: what is measured is no part of the work
	x       *tensor.Matrix
	indptr  *tensor.Matrix // Int64, 1 × threads+1
	indices *tensor.Matrix // Int32, probeRepeats × the rows of all threads and what is prefetched behind them
	z       *tensor.Matrix // threads × columns
}

const (
	probeRows    = 1 << 13
	probeSpare   = 1 << 10
	probeRepeats = 5
)

func newCacheProbe(t *Team, x *tensor.Matrix) *cacheProbe {
	memory := tensor.NewMeter()
	p := &cacheProbe{
		t: NewTeam(t.threads, memory), x: x, z: memory.New(tensor.Buffers, t.threads, sliceColumns[len(sliceColumns)-1]),
		indptr:  memory.NewElement(tensor.Buffers, tensor.Int64, 1, t.threads+1),
		indices: memory.NewElement(tensor.Buffers, tensor.Int32, probeRepeats, t.threads*probeRows+probeSpare),
	}
	p.t.cut.from = math.MaxInt
	for k := range p.indptr.Int64s() {
		p.indptr.Int64s()[k] = int64(k) * probeRows
	}
	return p
}

func (p *cacheProbe) close() { p.t.Memory.Close() }

// draw sets the indices to rows of so many columns from all over a region: others for each repeat, thread and
// number of columns.
func (p *cacheProbe) draw(region, columns int) {
	rows, indices := 1<<region/4/columns, p.indices.Int32s()
	for k := range indices { // the high bits of Knuth's multiplicative hash, twice
		h := uint32(k+columns*len(indices)) * 2654435769
		h = (h ^ h>>15) * 2654435769
		indices[k] = int32(uint64(h) * uint64(rows) >> 32)
	}
}

// gather is the seconds of a byte in rows of so many columns from all over a region.
func (p *cacheProbe) gather(region, columns int) float64 {
	p.draw(region, columns)
	x, z := p.x.Prefix(1<<region/4/columns, columns), p.z.Prefix(p.t.threads, columns)
	best := 0.0
	for repeat := range probeRepeats {
		a := &CSR{Rows: z.Rows, Cols: x.Rows, Indptr: p.indptr, Indices: p.indices.RowRange(repeat, repeat+1)}
		start := time.Now()
		p.t.SpMM(z, a, x, Scales{}, Replace)
		lower(&best, time.Since(start).Seconds())
	}
	return best / float64(4*columns*probeRows*p.t.threads)
}

// read is the seconds of a byte of a region that is read from front to back.
func (p *cacheProbe) read(region int) float64 {
	x := p.x.Prefix(1<<region/4, 1)
	start := time.Now()
	p.t.SumSquares(x)
	return time.Since(start).Seconds() / float64(4*x.Len())
}

// stream is the seconds of a byte, from front to back of so many bytes.
func (c *memoryCosts) stream(bytes int) float64 { return c.streamed[min(log2(bytes), largestRegion)] }

// gather is the seconds of a byte in rows of so many columns from all over so many bytes.
func (c *memoryCosts) gather(bytes, columns int) float64 {
	w := 0
	for w+1 < len(sliceColumns) && sliceColumns[w+1] <= columns {
		w++
	}
	region := min(bits.Len(uint(max(1, bytes)-1)), largestRegion)
	for c.gathered[w][region] == 0 {
		region-- // the largest that was measured
	}
	return c.gathered[w][region]
}

// again is the seconds of a byte in rows that were gathered before, when so many bytes of others have been
// gathered since: of all gathers from all over so many bytes half are from the half that came last.
func (c *memoryCosts) again(bytes, columns int) float64 {
	return 2*c.gather(bytes, columns) - c.gather(bytes/2, columns)
}
