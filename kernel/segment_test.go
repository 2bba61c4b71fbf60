package kernel_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/kernel"
	"weft/kernel/kerneltest"
	"weft/tensor"
)

// TestHubRow has a long row: the first, or one behind as many rows as there are sources. Its segments are its
// entries in order, about 2,000 each; equal entries stay in one segment. Results have the same bits on one
// thread and three.
func TestHubRow(t *testing.T) {
	with(t, func(s *suite) {
		const degree = 50_001
		for _, c := range []struct{ sources, rows, long, cols, segments int }{
			{300, 300, 0, 257, 25}, {20, 50, 49, 7, 20}, // a segment for the entries of each source
		} {
			lists := make([][]int32, c.rows)
			for range degree {
				lists[c.long] = append(lists[c.long], s.r.Int32N(int32(c.sources)))
			}
			a := s.rows(c.sources, lists)
			a.FindSegments()
			end := 0
			for k, part := range a.Segments {
				if part.Row != c.long || part.Begin != end ||
					k > 0 && a.Indices.Int32s()[end] == a.Indices.Int32s()[end-1] {
					t.Fatalf("segments %v", a.Segments)
				}
				end = part.End
			}
			if end != degree || len(a.Segments) != c.segments {
				t.Fatalf("segments %v", a.Segments)
			}
			scales := kernel.Scales{Col: s.normal(c.sources, 1)}
			if c.sources == c.rows {
				scales.Row, scales.Self = s.normal(c.rows, 1), s.normal(c.rows, 1)
			}
			s.spmm("a long row", a, scales, c.cols, true)
			x, start := s.normal(c.sources, c.cols), s.normal(c.rows, c.cols)
			sum := func(threads int) *tensor.Matrix {
				z := s.copy(start)
				kerneltest.Team(s.t, threads, s.team.Memory).SpMM(z, a, x, scales, kernel.Accumulate)
				return z
			}
			if !same(sum(1), sum(3)) {
				t.Error("one and three threads differ")
			}
		}
	})
}

// longRows returns the rows that are cut.
func longRows(a *kernel.CSR) (rows []int) {
	for _, s := range a.Segments {
		rows = append(rows, s.Row)
	}
	return slices.Compact(rows)
}

// TestHubOnACard has several hubs, whose segments fit the partial results of a card, or do not. In both cases
// aggregations on the card have the CPU's bits, and attention nearly the same numbers. The segments are
// copied to the card once. Two ranges of rows, which both have hubs, have the bits of all rows.
func TestHubOnACard(t *testing.T) {
	if kernel.SIMD() == "portable" {
		t.Skip("the portable kernels have no fused multiply-adds")
	}
	devicetest.Library(t)
	const n, heads, width = 700, 2, 8
	const cols = heads * width
	for storage, tolerance := range map[tensor.Element]float64{tensor.Float32: 1e-4, tensor.BFloat16: 1. / 64} {
		run := func(partials int) map[string][]float64 {
			device := map[bool]string{true: "cuda"}[partials > 0]
			t.Setenv("WEFT_DEVICE", device)
			team := kerneltest.Team(t, 1, tensor.NewMeter())
			defer team.Memory.Close()
			kernel.SetPartials(team, partials)
			s := &suite{t, team, random(), storage}
			lists := make([][]int32, n)
			degrees := map[int]int{3: 40_000, 4: 17_000, 9: 3000, 200: 90_000, n - 1: 20_000}
			for row := range n {
				for range 1 + degrees[row] {
					lists[row] = append(lists[row], s.r.Int32N(n))
				}
			}
			a := s.rows(n, lists)
			a.FindSegments()
			transposed := team.Transpose(a, tensor.Graph)
			x, g, z, dx := s.stored(n, cols), s.stored(n, cols), s.stored(n, cols), s.stored(n, cols)
			arg, scale := s.int32s(n, cols), s.positive(n, 1)
			got := map[string][]float64{}
			team.SpMM(z, a, x, kernel.Scales{Row: scale, Self: scale}, kernel.Accumulate)
			before := team.Memory.DeviceUse().ToDevice
			sum := s.unwritten(n, cols)
			team.SpMM(sum, a, x, kernel.Scales{Row: scale, Self: scale}, kernel.Replace)
			assert.Equal(t, before, team.Memory.DeviceUse().ToDevice, "bytes copied to the card")
			got["spmm"] = append(values(z), values(sum)...)
			ranges := s.unwritten(n, cols)
			for _, r := range [][2]int{{0, 100}, {100, n}} {
				team.SpMMRows(ranges, a, x, kernel.Scales{Row: scale, Self: scale}, kernel.Replace, r[0], r[1])
			}
			if !same(sum, ranges) {
				t.Errorf("with %d partial results, ranges of rows have other bits than all", partials)
			}
			team.Max(z, arg, a, x, nil, nil, kernel.Replace)
			got["max"] = values(z)
			team.MaxBackward(dx, transposed, g, arg, nil, nil)
			got["max, gradient"] = values(dx)
			k := kernel.Attention{
				Heads: heads, Width: width, Slope: .2, Source: x, SourceScore: s.normal(n, heads),
				TargetScore: s.normal(n, heads), Mask: kernel.NewMask(5, .3, nil),
			}
			for name, m := range s.attending(k, g, a).over(team) {
				got["attention, "+name] = values(m)
			}
			return got
		}
		want, all, few := run(0), run(4096), run(7)
		for name := range want {
			what := case_(name, "element type", storage)
			if !strings.HasPrefix(name, "attention") {
				if !sameBits(all[name], want[name]) || !sameBits(few[name], want[name]) {
					t.Errorf("%s: a card gives other bits", what)
				}
				continue
			}
			for i, x := range all[name] {
				if d := math.Abs(few[name][i] - x); d > tolerance*max(1, math.Abs(x)) {
					t.Fatalf("%s: %v with few partial results, and %v with one for each segment", what, few[name][i], x)
				}
			}
		}
	}
}

// TestHubAttention has vertices with so many in-edges and out-edges, many of them equal, that their rows are
// cut. The result is the same for any number of threads, over two blocks that both have a hub, and without
// cutting. TestConformance holds it against the reference.
func TestHubAttention(t *testing.T) {
	// The second degree makes more segments than there are lanes, but not in two blocks.
	for _, degree := range []int{40_000, 300_000} {
		for _, v2 := range []bool{false, true} {
			with(t, func(s *suite) {
				const n, heads, width = 1024, 3, 5
				a := s.tangled(n, degree)
				left, right := halves(s.team, a, n/2)
				k := kernel.Attention{
					Heads: heads, Width: width, Slope: .2, Source: s.normal(n, heads*width),
					Mask:      kernel.NewMask(8, .4, nil),
					SourceIDs: s.permutation(n), TargetIDs: s.permutation(n),
				}
				if v2 {
					k.Target, k.A = s.normal(n, heads*width), s.normal(1, heads*width)
				} else {
					k.SourceScore, k.TargetScore = s.normal(n, heads), s.normal(n, heads)
				}
				g := s.normal(n, heads*width)
				run := s.attending(k, g, a)
				oneThread, three := run.over(kerneltest.Team(s.t, 1, s.team.Memory)),
					run.over(kerneltest.Team(s.t, 3, s.team.Memory))
				two := s.attending(k, g, left, right).over(s.team)
				whole := oneThread
				if degree < 100_000 { // longer whole rows are summed with too many roundings
					run.uncut = true
					whole = run.over(s.team)
				}
				for name, m := range oneThread {
					what := case_("GATv2", v2, "degree", degree, name)
					if !slices.Equal(m.Floats(), three[name].Floats()) {
						t.Errorf("%s: one and three threads differ", what)
					}
					s.vector(what+" in two blocks", two[name], values(m), longest(a))
					s.vector(what+" of whole rows", whole[name], values(m), longest(a))
				}
			})
		}
	}
}

// TestHubMax has rows that are cut in both directions, with many equal edges, ties, NaN and infinities. The
// maxima and their sources are those of whole rows, also over two blocks. The gradients have the same bits
// for any number of threads.
func TestHubMax(t *testing.T) {
	for _, degree := range []int{40_000, 300_000} { // the second makes more segments than there are lanes
		for _, loops := range []bool{false, true} {
			for _, permuted := range []bool{false, true} {
				storage := tensor.Float32
				if loops == permuted {
					storage = tensor.BFloat16
				}
				withStorage(t, storage, func(s *suite) {
					s.hubMax(case_("degree", degree, "loops", loops, "ids", permuted, "type", storage),
						degree, loops, permuted)
				})
			}
		}
	}
}

func (s *suite) hubMax(what string, degree int, loops, permuted bool) {
	const n, cols, at = 1024, 21, 512
	a := s.tangled(n, degree)
	var self, ids *tensor.Matrix
	if loops {
		self, a = s.int32s(n, 1), s.loopless(a)
		clear(self.Int32s())
		self.Int32s()[2], self.Int32s()[4], self.Int32s()[9] = 1, 2, 1 // 2 and 4 are the hubs
	}
	if permuted {
		ids = s.permutation(n)
	}
	x, g, start := s.normal(n, cols), s.stored(n, cols), s.stored(n, cols)
	for i, v := range x.Floats() {
		x.Floats()[i] = float32(math.Round(float64(v))) // ties everywhere
	}
	for i := range n {
		x.Floats()[i*cols] = float32(math.Inf(-1))
	}
	for _, i := range []int{100, 300, 301, 900} {
		x.Floats()[i*cols+1] = float32(math.NaN())
	}
	// A maximum of a hub by its loop, and a maximum of many rows from a hub.
	x.Floats()[2*cols+2], x.Floats()[4*cols+3] = 100, 100
	x = s.as(s.storage, x)

	run := func(threads int, apart, two bool) (z, arg, dx *tensor.Matrix) {
		team := kerneltest.Team(s.t, threads, s.team.Memory)
		z, arg, dx = s.unwritten(n, cols), s.int32s(n, cols), s.copy(start)
		if a.Segments = nil; apart {
			a.FindSegments()
		}
		if two { // the right columns first; loops are not for blocks
			left, right := halves(team, a, at)
			left.FindSegments()
			right.FindSegments()
			names := ids
			if ids == nil {
				names = s.counted(n)
			}
			team.Max(z, arg, right, x.RowRange(at, n), names.RowRange(at, n), nil, kernel.Replace)
			team.Max(z, arg, left, x.RowRange(0, at), names.RowRange(0, at), nil, kernel.Accumulate)
		} else {
			team.Max(z, arg, a, x, ids, self, kernel.Replace)
		}
		transposed := team.Transpose(a, tensor.Graph)
		if !apart {
			transposed.Segments = nil
		} else if !slices.Equal(longRows(a), []int{2}) || !slices.Equal(longRows(transposed), []int{4}) {
			s.t.Fatalf("%s: segments %v and %v", what, a.Segments, transposed.Segments)
		}
		team.MaxBackward(dx, transposed, g, arg, ids, self)
		return z, arg, dx
	}
	equalMaxima := func(who string, z, arg, wantZ, wantArg *tensor.Matrix) {
		s.t.Helper()
		equal := func(a, b float32) bool { return a == b || a != a && b != b }
		if !slices.EqualFunc(numbers(z), numbers(wantZ), equal) ||
			!slices.Equal(arg.Int32s(), wantArg.Int32s()) {
			s.t.Errorf("%s, %s: the maxima are not those of whole rows", what, who)
		}
	}
	z, arg, dx := run(1, false, false)
	z1, arg1, dx1 := run(1, true, false)
	z3, arg3, dx3 := run(3, true, false)
	equalMaxima("one thread", z1, arg1, z, arg)
	equalMaxima("three threads", z3, arg3, z, arg)
	if !same(dx1, dx3) {
		s.t.Errorf("%s: one and three threads give different gradients", what)
	}
	s.rowwise(what+", gradient", dx1, exact(dx), n)
	if !loops {
		z, arg, _ := run(3, true, true)
		equalMaxima("two blocks", z, arg, z1, arg1)
	}
}

// TestHubBytes: the bytes of calls are the same whether rows are cut or not, and no call gathers rows without
// entries.
func TestHubBytes(t *testing.T) {
	with(t, func(s *suite) {
		const n, heads, width = 1024, 2, 3
		a := s.tangled(n, 40_000)
		x, g := s.normal(n, heads*width), s.normal(n, heads*width)
		k := kernel.Attention{Heads: heads, Width: width, Source: x, Target: x, A: s.normal(1, heads*width)}
		z, arg := s.normal(n, heads*width), s.int32s(n, heads*width)
		counted := func(apart bool) (all kernel.Bytes, calls int) {
			if a.Segments = nil; apart {
				a.FindSegments()
			}
			team := kerneltest.Team(s.t, 2, s.team.Memory)
			team.Watch = func(c kernel.Call, run func()) {
				if c.Bytes.Gathered > 0 && c.Entries == 0 {
					t.Errorf("%s gathers %d bytes for no entries", c.Kernel, c.Bytes.Gathered)
				}
				all, calls = all.Plus(c.Bytes), calls+1
				run()
			}
			team.SpMM(z, a, x, kernel.Scales{}, kernel.Replace)
			team.Max(z, arg, a, x, nil, nil, kernel.Replace)
			transposed := team.Transpose(a, tensor.Graph)
			if !apart {
				transposed.Segments = nil
			}
			team.MaxBackward(z, transposed, g, arg, nil, nil)
			run := s.attending(k, g, a)
			run.over(team)
			return all, calls
		}
		whole, few := counted(false)
		apart, many := counted(true)
		if whole != apart || many <= few {
			t.Errorf("%+v in %d calls of whole rows, %+v in %d where hubs are apart", whole, few, apart, many)
		}
	})
}

// TestHubInStorage has hubs of more segments than there are lanes, over BFloat16. The results are those of
// Float32, rounded once, although a hub's row is merged in several steps.
func TestHubInStorage(t *testing.T) {
	withStorage(t, tensor.BFloat16, func(s *suite) {
		const n, cols, degree = 1024, 13, 300_000
		a := s.tangled(n, degree)
		a.FindSegments()
		scales := kernel.Scales{Row: s.positive(n, 1), Self: s.positive(n, 1)}
		x, z := s.stored(n, cols), s.stored(n, cols)
		before := s.copy(z)
		s.team.SpMM(z, a, x, scales, kernel.Accumulate)
		s.asFloat32("sum", z, x, before, func(z, x *tensor.Matrix) {
			s.team.SpMM(z, a, x, scales, kernel.Accumulate)
		})

		transposed := s.team.Transpose(a, tensor.Graph)
		arg := s.int32s(n, cols)
		s.team.Max(z, arg, a, x, nil, nil, kernel.Replace)
		g, dx := s.stored(n, cols), s.stored(n, cols)
		before = s.copy(dx)
		s.team.MaxBackward(dx, transposed, g, arg, nil, nil)
		s.asFloat32("gradient of the maximum", dx, g, before,
			func(dx, g *tensor.Matrix) { s.team.MaxBackward(dx, transposed, g, arg, nil, nil) })
		s.attention("a hub", network{a: a, transposed: transposed}, v1, 2, 9, 0, kernel.Mask{}, nil)
	})
}

// TestHubMaxOfNaN has NaN in several segments of a hub and in its self loop, and a tie between two segments.
// The smallest id wins.
func TestHubMaxOfNaN(t *testing.T) {
	with(t, func(s *suite) {
		const n = 60_000
		list := make([]int32, n-1)
		for k := range list {
			list[k] = int32(k + 1)
		}
		lists := make([][]int32, n)
		lists[0] = list
		a := s.rows(n, lists)
		a.FindSegments()
		x, z := s.normal(n, 3), s.blank(n, 3)
		loops, arg := s.int32s(n, 1), s.int32s(n, 3)
		clear(loops.Int32s())
		loops.Int32s()[0] = 1
		x.Floats()[0*3+0] = float32(math.NaN())
		for _, i := range []int{30_000, 50_000} {
			x.Floats()[i*3+0], x.Floats()[i*3+1] = float32(math.NaN()), float32(math.NaN())
		}
		x.Floats()[40_000*3+2], x.Floats()[20_000*3+2] = 50, 50
		s.team.Max(z, arg, a, x, nil, loops, kernel.Replace)
		if got := arg.Int32s()[:3]; !slices.Equal(got, []int32{0, 30_000, 20_000}) {
			t.Errorf("sources %v", got)
		}
		if f := z.Floats(); f[0] == f[0] || f[1] == f[1] || f[2] != 50 {
			t.Errorf("maxima %v", f[:3])
		}
	})
}

// TestHubMaxOfEqualEdges has a hub of one edge and of many equal edges, with empty segments between them.
// Empty segments count for nothing, and equal edges once.
func TestHubMaxOfEqualEdges(t *testing.T) {
	with(t, func(s *suite) {
		a := s.rows(3, [][]int32{nil, append(slices.Repeat([]int32{2}, 20_000), 0), nil})
		a.FindSegments()
		transposed := s.team.Transpose(a, tensor.Graph)
		if !slices.Equal(longRows(a), []int{1}) || !slices.Equal(longRows(transposed), []int{2}) {
			t.Fatalf("segments %v and %v", a.Segments, transposed.Segments)
		}
		x := s.row(-5, -5, 1, 1, -7, -3).Reshape(3, 2)
		z, arg := s.blank(3, 2), s.int32s(3, 2)
		s.team.Max(z, arg, a, x, nil, nil, kernel.Replace)
		if !slices.Equal(z.Floats(), []float32{0, 0, -5, -3, 0, 0}) ||
			!slices.Equal(arg.Int32s(), []int32{-1, -1, 0, 2, -1, -1}) {
			t.Errorf("maxima %v of %v", z.Floats(), arg.Int32s())
		}
		dx := s.row(1, 1, 1, 1, 1, 1).Reshape(3, 2)
		s.team.MaxBackward(dx, transposed, s.row(2, 3, 4, 5, 6, 7).Reshape(3, 2), arg, nil, nil)
		if !slices.Equal(dx.Floats(), []float32{5, 1, 1, 1, 1, 6}) {
			t.Errorf("gradients %v", dx.Floats())
		}
	})
}

// TestHubAttentionOfEqualEdges has a hub with one edge many times over, so that most of its segments are
// empty.
func TestHubAttentionOfEqualEdges(t *testing.T) {
	with(t, func(s *suite) {
		a := s.rows(2, [][]int32{nil, make([]int32, 300_000)})
		a.FindSegments()
		x, score := s.normal(2, 6), s.normal(2, 2)
		k := kernel.Attention{Heads: 2, Width: 3, Slope: .2, Source: x}
		k.SourceScore, k.TargetScore = score, score
		state := s.team.AttentionStart(2, 2, 3, tensor.Float32)
		s.team.Attend(state, k, a, nil, kernel.Last)
		// The mean of equal rows. Equal edges are added one after the other, each with its rounding.
		for c, want := range x.Floats()[:6] {
			none, got := state.Out.Floats()[c], state.Out.Floats()[6+c]
			if none != 0 || !(math.Abs(float64(got-want)) <= 1e-2*math.Abs(float64(want))) {
				t.Errorf("column %d: %v and %v, want 0 and %v", c, none, got, want)
			}
		}
	})
}

// TestScoresOfNoWeight: a score of −∞ has no weight, also if a block or a batch has no other score. A row
// with only such scores gives 0.
func TestScoresOfNoWeight(t *testing.T) {
	with(t, func(s *suite) {
		a := s.rows(2, [][]int32{append(make([]int32, 1500), 1), {0}})
		x, score, target := s.normal(2, 5), s.zeros(2, 1), s.zeros(2, 1)
		score.Floats()[0] = float32(math.Inf(-1))
		k := kernel.Attention{Heads: 1, Width: 5, Slope: .2, Source: x}
		k.SourceScore, k.TargetScore = score, target
		state := s.team.AttentionStart(2, 1, 5, tensor.Float32)
		s.team.Attend(state, k, a, nil, kernel.Last)
		if out := state.Out.Floats(); !slices.Equal(out[:5], x.Floats()[5:]) ||
			!slices.Equal(out[5:], make([]float32, 5)) {
			t.Errorf("outputs %v of sources %v", out, x.Floats())
		}
	})
}
