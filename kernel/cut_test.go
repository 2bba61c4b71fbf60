package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weft/tensor"
)

// scattered is a matrix whose entries lie all over: rows of 0 … 2·degree of them, some equal, and with a hub
// one that is taken apart.
func scattered(team *Team, r *rand.Rand, rows, cols, degree int, hub bool) *CSR {
	indptr, indices := []int64{0}, []int32(nil)
	for row := range rows {
		n := r.IntN(2*degree + 1)
		if row%7 == 3 {
			n = 0
		}
		if hub && row == rows/2 {
			n = hubEntries + 5
		}
		from := len(indices)
		for range n {
			indices = append(indices, r.Int32N(int32(cols)))
		}
		slices.Sort(indices[from:])
		indptr = append(indptr, int64(len(indices)))
	}
	a := &CSR{
		Rows: rows, Cols: cols, Indptr: team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, rows+1),
		Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(indices)),
	}
	copy(a.Indptr.Int64s(), indptr)
	copy(a.Indices.Int32s(), indices)
	a.FindHubs()
	return a
}

func randomMatrix(team *Team, r *rand.Rand, rows, cols int) *tensor.Matrix {
	m := team.Memory.New(tensor.Activations, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = float32(r.NormFloat64())
	}
	return m
}

// withCache is a team on a computer whose cache of so many bytes, a power of two, is forty times as fast as
// its memory, which is read from front to back at twice the rate.
func withCache(threads, bytes int, memory *tensor.Meter) *Team {
	t := NewTeam(threads, memory)
	t.cut = cutLimits{from: 1, least: 1 << 10, most: 1 << 20}
	t.costs = &memoryCosts{}
	for region := range t.costs.streamed {
		t.costs.streamed[region] = 5e-11
	}
	for w := range sliceColumns {
		for region := range t.costs.gathered[w] {
			t.costs.gathered[w][region] = 1e-10
			if 1<<region <= bytes {
				t.costs.gathered[w][region] = 2.5e-12
			}
		}
	}
	return t
}

// TestPiecesHaveTheSameBits aggregates over matrices that are cut, into slices and blocks that do not divide:
// the result has the bits of one that is not cut, on one thread and three.
func TestPiecesHaveTheSameBits(t *testing.T) {
	const rows, cols, cache = 1500, 2000, 64 << 10
	memory := tensor.NewMeter()
	defer memory.Close()
	r := rand.New(rand.NewPCG(5, 5))
	whole := withCache(2, 0, memory)
	for _, test := range []struct {
		name                  string
		columns               int
		square, hub, weighted bool
		accumulate            bool
		blocks                bool
	}{
		{"plain", 100, false, false, false, false, true},
		{"of scales and own rows", 131, true, false, false, false, true},
		{"with a hub", 100, true, true, false, false, true},
		{"weighted", 300, false, false, true, false, true},
		{"added", 500, true, true, true, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, share := rows, cache
			if test.square {
				n = cols
			}
			if !test.blocks {
				share = 256 << 10 // holds a slice
			}
			a := scattered(whole, r, n, cols, 150, test.hub)
			x := randomMatrix(whole, r, cols, test.columns)
			var s Scales
			if test.square {
				s = Scales{Row: randomMatrix(whole, r, n, 1), Col: randomMatrix(whole, r, cols, 1), Self: randomMatrix(whole, r, n, 1)}
			}
			if test.weighted {
				a.Values = randomMatrix(whole, r, 1, a.Entries())
			}
			start := randomMatrix(whole, r, n, test.columns)
			sum := func(team *Team) []float32 {
				z := team.Memory.New(tensor.Activations, n, test.columns)
				copy(z.Floats(), start.Floats())
				team.SpMM(z, a, x, s, Output(test.accumulate))
				return z.Floats()
			}
			want := sum(whole)
			for _, threads := range []int{1, 3} {
				team := withCache(threads, share, memory)
				p := team.pieces(a, x, test.accumulate)
				if p == nil || (p.sources < cols) != test.blocks {
					t.Fatalf("the matrix is not cut as the test means: %+v", p)
				}
				p.release()
				if !slices.Equal(sum(team), want) {
					t.Errorf("%d threads: a matrix that is cut gives other bits", threads)
				}
			}
		})
	}
}

// TestPlanTakesPieces: a plan takes as much as a run, whether that cuts the matrix, and into pieces of
// whatever size, or not. Where no cut is possible, or is not wanted, neither takes anything for it.
func TestPlanTakesPieces(t *testing.T) {
	peak := func(n, columns, degree, cache int, plan, uncut bool) int {
		memory := tensor.NewMeter()
		defer memory.Close()
		team := withCache(1, cache, memory)
		a := scattered(team, rand.New(rand.NewPCG(6, 6)), n, n, degree, false)
		x, z := memory.New(tensor.Activations, n, columns), memory.New(tensor.Activations, n, columns)
		team.plan, team.Uncut = plan, uncut
		team.SpMM(z, a, x, Scales{}, Replace)
		return int(memory.Peak())
	}
	for _, test := range []struct {
		n, columns, degree int
		cut                bool
	}{{2000, 100, 2, false}, {2000, 100, 150, true}, {1024, 256, 300, true}} {
		whole, plan := peak(test.n, test.columns, test.degree, 0, true, true), peak(test.n, test.columns, test.degree, 0, true, false)
		if (plan > whole) != test.cut {
			t.Errorf("%+v: the peak of a plan is %d, %d without a cut", test, plan, whole)
		}
		for _, cache := range []int{0, 8 << 10, 64 << 10, 512 << 10} {
			if run := peak(test.n, test.columns, test.degree, cache, false, false); run != plan {
				t.Errorf("%+v with a cache of %d bytes: the peak is %d of a run, %d of a plan", test, cache, run, plan)
			}
			if run := peak(test.n, test.columns, test.degree, cache, false, true); run != whole {
				t.Errorf("%+v with a cache of %d bytes: the peak is %d of a run without a cut, %d of its plan", test, cache, run, whole)
			}
		}
	}
}

// TestWhatPays: gathers from all over a matrix that no cache holds are cut; few of them, gathers that come
// back soon, and small matrices are not.
func TestWhatPays(t *testing.T) {
	const n, columns, cache = 4096, 64, 64 << 10
	memory := tensor.NewMeter()
	defer memory.Close()
	r := rand.New(rand.NewPCG(7, 7))
	x := memory.New(tensor.Activations, n, columns)
	near := func(degree int) *CSR { // neighbours are a few rows away
		a := scattered(withCache(1, 0, memory), r, n, n, degree, false)
		for row := range n {
			index := a.Indices.Int32s()[a.Indptr.Int64s()[row]:a.Indptr.Int64s()[row+1]]
			for k := range index {
				index[k] = int32(min(n-1, row+k/4))
			}
		}
		return a
	}
	for _, test := range []struct {
		name  string
		a     *CSR
		cache int
		want  bool
	}{
		{"many edges all over", scattered(withCache(1, 0, memory), r, n, n, 300, false), cache, true},
		{"few edges", scattered(withCache(1, 0, memory), r, n, n, 2, false), cache, false},
		{"neighbours nearby", near(300), cache, false},
		{"a cache that holds all", scattered(withCache(1, 0, memory), r, n, n, 300, false), 1 << 20, false},
		{"no cache", scattered(withCache(1, 0, memory), r, n, n, 300, false), 0, false},
	} {
		p := withCache(1, test.cache, memory).pieces(test.a, x, false)
		if (p != nil) != test.want {
			t.Errorf("%s: cut %v", test.name, !test.want)
		}
		if p != nil {
			p.release()
		}
	}
}

// TestMissing: of uniform gathers a cache of a quarter of the rows misses between a half and three quarters,
// as it is reckoned between a quarter and a half; of those from few rows it misses none.
func TestMissing(t *testing.T) {
	const n = 1 << 12
	r := rand.New(rand.NewPCG(8, 8))
	uniform, few := make([]int32, 40*n), make([]int32, 40*n)
	for i := range uniform {
		uniform[i], few[i] = r.Int32N(n), r.Int32N(n/16)
	}
	seen := measureReuse(uniform, n)
	if m := seen.missing(n / 4); m < .55 || m > .75 {
		t.Errorf("uniform gathers miss %.2f", m)
	}
	seen = measureReuse(few, n)
	if m := seen.missing(n / 4); m != 0 {
		t.Errorf("gathers from few rows miss %.2f", m)
	}
	if m := seen.missing(0); m != 1 {
		t.Errorf("without a cache %.2f are missed", m)
	}
}

// TestCosts: what is measured on a matrix is known for all sizes up to its own, is not measured for ever, and
// takes none of the work's memory.
func TestCosts(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	team := NewTeam(2, memory)
	x := memory.New(tensor.Activations, 1<<16, 100)
	team.Fill(x, 1)
	before := memory.Peak()
	for range measurements {
		team.costsOf(x)
	}
	c := team.costsOf(x)
	if again := team.costsOf(x); again != c || memory.Peak() != before {
		t.Error("it is measured again, or in the work's memory")
	}
	if region := log2(4 * x.Len()); c.times[region] != measurements || c.stream(4*x.Len()) <= 0 {
		t.Errorf("measured %d times, %g seconds a byte", c.times[region], c.stream(4*x.Len()))
	}
	for w, columns := range sliceColumns {
		if c.gathered[w][0] <= 0 || c.gather(1, columns) > c.gather(1<<largestRegion, columns) {
			t.Errorf("slices of %d: %v", columns, c.gathered[w])
		}
	}
}

// TestProbe: it gathers from all over a region and not beyond, and what it gathers in rows of one width it
// did not read in rows of another.
func TestProbe(t *testing.T) {
	const region = 23
	memory := tensor.NewMeter()
	defer memory.Close()
	x := memory.New(tensor.Activations, 1<<region/4, 1)
	p := newCacheProbe(NewTeam(3, memory), x)
	defer p.close()
	const lines = 1 << region / 512
	seen := make([]int, lines) // how many widths read these 512 bytes
	for _, columns := range sliceColumns {
		p.draw(region, columns)
		here := make([]bool, lines)
		for _, row := range p.indices.Int32s() {
			at := int(row) * 4 * columns
			if at < 0 || at+4*columns > 1<<region {
				t.Fatalf("row %d of %d columns is beyond the region", row, columns)
			}
			here[at/512] = true
		}
		for k, read := range here {
			if read {
				seen[k]++
			}
		}
	}
	for widths, want := range []float64{0, 0, 0, 1} { // there are eight times as many gathers as stretches
		n := 0
		for _, k := range seen {
			if k == widths {
				n++
			}
		}
		if part := float64(n) / lines; part < want-.05 || part > want+.05 {
			t.Errorf("%.2f of the region is read in %d widths", part, widths)
		}
	}
	first := slices.Clone(p.indices.Int32s()[:probeRows])
	p.draw(region, sliceColumns[0])
	same := 0
	for k, row := range p.indices.Int32s()[:probeRows] {
		if int(row)/4 == int(first[k]) { // the stretch of 128 columns that a row of 32 lies in
			same++
		}
	}
	if same > probeRows/100 {
		t.Errorf("%d of %d rows lie where those of another width did", same, probeRows)
	}
}
