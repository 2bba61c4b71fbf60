package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weft/internal/assert"
	"weft/tensor"
)

// scattered returns a matrix with entries in random columns. Rows have 0 … 2·degree of them, some equal, and
// with hub one row is long enough to be cut.
func scattered(team *Team, r *rand.Rand, rows, cols, degree int, hub bool) *CSR {
	indptr, indices := []int64{0}, []int32(nil)
	for row := range rows {
		n := r.IntN(2*degree + 1)
		if row%7 == 3 {
			n = 0
		}
		if hub && row == rows/3 {
			n = longRow + 5
		}
		from := len(indices)
		for range n {
			indices = append(indices, r.Int32N(int32(cols)))
		}
		slices.Sort(indices[from:])
		indptr = append(indptr, int64(len(indices)))
	}
	return csrOf(team, cols, indptr, indices)
}

// csrOf returns the matrix of cols columns that has ones at the listed columns of each row.
func csrOf(team *Team, cols int, indptr []int64, indices []int32) *CSR {
	a := &CSR{
		Rows: len(indptr) - 1, Cols: cols,
		Indptr:  team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, len(indptr)),
		Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(indices)),
	}
	a.MakeRoom(team.Memory, tensor.Graph)
	copy(a.Indptr.WriteInt64s(), indptr)
	copy(a.Indices.WriteInt32s(), indices)
	a.FindSegments()
	return a
}

func randomMatrix(team *Team, r *rand.Rand, rows, cols int) *tensor.Matrix {
	m := team.Memory.New(tensor.Activations, rows, cols)
	for i := range m.Floats() {
		m.Floats()[i] = float32(r.NormFloat64())
	}
	return m
}

// as returns a copy of m of an element type.
func as(team *Team, element tensor.Element, m *tensor.Matrix) *tensor.Matrix {
	z := team.Memory.NewElement(tensor.Activations, element, m.Rows, m.Cols)
	team.Convert(z, m)
	return z
}

// withTiles returns a team that tiles every matrix that can be tiled, with tiles of so many bytes.
func withTiles(threads, bytes int, memory *tensor.Meter) *Team {
	t := NewTeam(threads, memory)
	t.sizes = tileSizes{from: 1, tile: bytes}
	return t
}

// TestTilesHaveTheSameBits: products with tiles have the bits of products without tiles, on one thread and
// three. The tiles' sizes do not divide the matrix.
func TestTilesHaveTheSameBits(t *testing.T) {
	const rows, cols = 1500, 2000
	memory := tensor.NewMeter()
	defer memory.Close()
	r := rand.New(rand.NewPCG(5, 5))
	whole := NewTeam(2, memory)
	for _, test := range []struct {
		name                  string
		columns               int
		square, hub, weighted bool
		accumulate            bool
		blocks                bool
		x, z                  tensor.Element
	}{
		{"plain", 100, false, false, false, false, true, tensor.Float32, tensor.Float32},
		{"of scales and own rows", 131, true, false, false, false, true, tensor.Float32, tensor.Float32},
		{"with a hub", 100, true, true, false, false, true, tensor.Float32, tensor.Float32},
		{"weighted", 300, false, false, true, false, true, tensor.Float32, tensor.Float32},
		{"added", 500, true, true, true, true, false, tensor.Float32, tensor.Float32},
		{"stored", 500, true, true, false, false, false, tensor.BFloat16, tensor.BFloat16},
		{"stored and added", 500, true, true, true, true, false, tensor.BFloat16, tensor.BFloat16},
		{"stored in parts", 131, true, true, true, false, true, tensor.BFloat16, tensor.BFloat16},
		{"added in parts", 100, true, true, false, true, true, tensor.BFloat16, tensor.BFloat16},
		{"summed from storage", 131, true, true, false, false, true, tensor.BFloat16, tensor.Float32},
		{"summed to storage", 500, true, true, false, false, false, tensor.Float32, tensor.BFloat16},
	} {
		t.Run(test.name, func(t *testing.T) {
			n, tile := rows, 64<<10
			if test.square {
				n = cols
			}
			if !test.blocks {
				tile = 512 << 10 // so large that a tile holds all rows
			}
			a := scattered(whole, r, n, cols, 150, test.hub)
			x := as(whole, test.x, randomMatrix(whole, r, cols, test.columns))
			var s Scales
			if test.square {
				s = Scales{
					Row: randomMatrix(whole, r, n, 1), Col: randomMatrix(whole, r, cols, 1),
					Self: randomMatrix(whole, r, n, 1),
				}
			}
			if test.weighted {
				a.Values = randomMatrix(whole, r, 1, a.Entries())
			}
			start := as(whole, test.z, randomMatrix(whole, r, n, test.columns))
			sum := func(team *Team) []byte {
				z := as(team, test.z, start)
				team.SpMM(z, a, x, s, Output(test.accumulate))
				return z.Bytes()
			}
			want := sum(whole)
			for _, threads := range []int{1, 3} {
				team := withTiles(threads, tile, memory)
				p := team.tiling(a, x, test.z, test.accumulate)
				if p == nil || (p.sources < cols) != test.blocks {
					t.Fatalf("the matrix is not tiled as the test means: %+v", p)
				}
				p.release()
				if !slices.Equal(sum(team), want) {
					t.Errorf("%d threads: a matrix in tiles gives other bits", threads)
				}
			}
		})
	}
}

// TestSumsCountTheirBytes: sums along edges count the bytes of their matrices, as by hand; a matrix that they
// are added to counts twice. Ranges of rows count the same in all, and tiles count what they read and write
// more.
func TestSumsCountTheirBytes(t *testing.T) {
	const rows, cols, columns = 1500, 2000, 300
	memory := tensor.NewMeter()
	defer memory.Close()
	r := rand.New(rand.NewPCG(5, 5))
	plain, tiled := NewTeam(2, memory), withTiles(2, 512<<10, memory)
	a, x, z := scattered(plain, r, rows, cols, 150, false), randomMatrix(plain, r, cols, columns),
		randomMatrix(plain, r, rows, columns)
	passed := func(team *Team, sum func(*Team)) (all Bytes) {
		team.Watch = func(c Call, run func()) {
			if c.Kernel == "spmm" {
				all = all.Plus(c.Bytes)
			}
			run()
		}
		sum(team)
		return all
	}
	structure, result, gathered := 8*(rows+1)+4*a.Entries(), 4*rows*columns, 4*columns*a.Entries()
	inTiles := map[Output]int{}
	for to, want := range map[Output]Bytes{
		Replace:    {structure + result, structure + result, result, gathered},
		Accumulate: {structure + 2*result, structure, 0, gathered},
	} {
		all := func(team *Team) { team.SpMM(z, a, x, Scales{}, to) }
		assert.Equal(t, want, passed(plain, all), "output %v", to)
		assert.Equal(t, want, passed(plain, func(team *Team) {
			team.SpMMRows(z, a, x, Scales{}, to, 0, rows/2)
			team.SpMMRows(z, a, x, Scales{}, to, rows/2, rows)
		}), "output %v, in halves", to)
		inTiles[to] = passed(tiled, all).Streamed
		if inTiles[to] <= want.Streamed {
			t.Errorf("output %v: tiles stream %d bytes, one sum %d", to, inTiles[to], want.Streamed)
		}
	}
	assert.Equal(t, result, inTiles[Accumulate]-inTiles[Replace], "bytes that tiles are added to")
}

// peakOf returns the peak of sums over a matrix of scattered entries, with small tiles. It is the peak of a
// run or a plan, and of SpMM or, if bounds are given, of SpMMRows between them.
func peakOf(n, degree int, near, plan, untiled bool, bounds ...int) int64 {
	memory := tensor.NewMeter()
	defer memory.Close()
	team := withTiles(1, 64<<10, memory)
	a := scattered(team, rand.New(rand.NewPCG(6, 6)), n, n, degree, false)
	if near {
		clear(a.Indices.Int32s())
	}
	x, z := memory.New(tensor.Activations, n, 100), memory.New(tensor.Activations, n, 100)
	team.Untiled = untiled
	if plan {
		team.backend = nothing{}
	}
	if len(bounds) == 0 {
		team.SpMM(z, a, x, Scales{}, Replace)
	}
	for k := 1; k < len(bounds); k++ {
		team.SpMMRows(z, a, x, Scales{}, Replace, bounds[k-1], bounds[k])
	}
	return memory.Peak()
}

// TestPlanTakesTiles: a plan takes as much memory as a run, whether the run uses tiles or finds that sources
// are near each other. Neither takes memory for tiles if sizes or Untiled rule them out.
func TestPlanTakesTiles(t *testing.T) {
	for _, test := range []struct {
		n, degree int
		cut       bool
	}{{2000, 2, false}, {2000, 150, true}, {256, 150, true}} {
		whole := peakOf(test.n, test.degree, false, true, true)
		plan := peakOf(test.n, test.degree, false, true, false)
		assert.Equal(t, test.cut, plan > whole, "%+v: a plan's peak is %d, %d without tiles", test, plan, whole)
		for _, near := range []bool{false, true} {
			assert.Equal(t, plan, peakOf(test.n, test.degree, near, false, false), "%+v, near %v", test, near)
			assert.Equal(t, whole, peakOf(test.n, test.degree, near, false, true), "%+v, without tiles", test)
		}
	}
}

// TestRowsAreNotTiled: SpMMRows takes no memory for tiles although SpMM would, neither in a plan, which has
// other ranges of rows, nor in a run.
func TestRowsAreNotTiled(t *testing.T) {
	want := peakOf(2000, 150, false, false, true, 0, 2000)
	assert.Equal(t, want, peakOf(2000, 150, false, true, false, 0, 1000, 2000))
	assert.Equal(t, want, peakOf(2000, 150, false, false, false, 0, 40, 2000))
	assert.Equal(t, want, peakOf(2000, 150, false, false, false, 0, 2000))
}

// TestWhatIsTiled: a large matrix with many scattered entries is tiled. With few entries, with entries that
// read the same rows again soon, with narrow rows or with a small x it is not.
func TestWhatIsTiled(t *testing.T) {
	const n, tile = 4096, 64 << 10
	memory := tensor.NewMeter()
	defer memory.Close()
	r := rand.New(rand.NewPCG(7, 7))
	near := func(degree int) *CSR { // neighbours are a few rows away
		a := scattered(NewTeam(1, memory), r, n, n, degree, false)
		for row := range n {
			index := a.Indices.Int32s()[a.Indptr.Int64s()[row]:a.Indptr.Int64s()[row+1]]
			for k := range index {
				index[k] = int32(min(n-1, row+k/4))
			}
		}
		return a
	}
	over := func(degree int) *CSR { return scattered(NewTeam(1, memory), r, n, n, degree, false) }
	for _, test := range []struct {
		name    string
		a       *CSR
		columns int
		from    int
		want    bool
	}{
		{"many edges all over", over(300), 64, 1, true},
		{"few edges", over(20), 64, 1, false},
		{"neighbours nearby", near(300), 64, 1, false},
		{"narrow rows", over(300), 63, 1, false},
		{"a small matrix", over(300), 64, 4*n*64 + 1, false},
	} {
		team := withTiles(1, tile, memory)
		team.sizes.from = test.from
		p := team.tiling(test.a, memory.New(tensor.Activations, n, test.columns), tensor.Float32, false)
		if (p != nil) != test.want {
			t.Errorf("%s: tiled %v", test.name, !test.want)
		}
		if p != nil {
			p.release()
		}
	}
}
