package kernel_test

import (
	"math"
	"slices"
	"strings"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// Kernels that run over edges.

// spmm is one aggregation of random numbers against the reference, and range by range against itself.
func (s *suite) spmm(what string, a *kernel.CSR, scales kernel.Scales, cols int, accumulate bool) {
	s.t.Helper()
	s.types(s.stored(a.Cols, cols), func(x *tensor.Matrix, element tensor.Element) {
		s.spmmOf(case_(what, "types", x.Element, element), a, scales, x, element, accumulate)
	})
}

func (s *suite) spmmOf(what string, a *kernel.CSR, scales kernel.Scales, x *tensor.Matrix,
	element tensor.Element, accumulate bool,
) {
	s.t.Helper()
	cols := x.Cols
	z, start := s.blankOf(element, a.Rows, cols), reference.New(a.Rows, cols)
	if accumulate {
		z = s.as(element, s.normal(a.Rows, cols))
		start = exact(z)
	}
	before, ranges := s.copy(z), s.copy(z)
	s.team.SpMM(z, a, x, scales, kernel.Output(accumulate))
	if s.storage == tensor.BFloat16 { // the suite in Float32 has held those bits against the reference
		s.asFloat32(what, z, x, before, func(z, x *tensor.Matrix) {
			s.team.SpMM(z, a, x, scales, kernel.Output(accumulate))
		})
	} else {
		want, terms := start.Clone(), magnitudes(start)
		of := func(read func(*tensor.Matrix) []float64) *reference.Aggregation {
			return &reference.Aggregation{
				Indptr: a.Indptr.Int64s(), Indices: a.Indices.Int32s(), Weights: read(a.Values),
				RowScale: read(scales.Row),
				ColScale: read(scales.Col), Self: read(scales.Self),
			}
		}
		reference.SpMM(want, of(values), exact(x))
		reference.SpMM(terms, of(func(m *tensor.Matrix) []float64 {
			return magnitudesOf(values(m))
		}), magnitudes(exact(x)))
		s.sums(what, z, want.Data, terms.Data, longest(a)+2)
	}
	s.spmmRows(what, a, scales, x, ranges, kernel.Output(accumulate))
	if !same(ranges, z) {
		s.t.Fatalf("%s: range by range gives other bits than the whole", what)
	}
	ranges.Release()
	before.Release()
}

// asFloat32 fails unless z, which a kernel has made of x and of what z held before, is what it makes of the
// same numbers in Float32, rounded.
func (s *suite) asFloat32(what string, z, x, before *tensor.Matrix, run func(z, x *tensor.Matrix)) {
	s.t.Helper()
	wide := s.as(tensor.Float32, before)
	run(wide, s.as(tensor.Float32, x))
	if !same(z, s.as(z.Element, wide)) {
		s.t.Fatalf("%s: not what comes of Float32, rounded", what)
	}
}

// spmmRows makes the aggregation z of x range by range, each from the rows of x alone that it needs. A range
// leaves the rows behind it alone.
func (s *suite) spmmRows(what string, a *kernel.CSR, scales kernel.Scales, x, z *tensor.Matrix,
	to kernel.Output,
) {
	s.t.Helper()
	// a hub may be the last of its range
	bounds := []int{0, min(1, a.Rows), min(3, a.Rows), a.Rows / 3, a.Rows / 3, a.Rows}
	slices.Sort(bounds)
	for k, lo := range bounds[:len(bounds)-1] {
		hi, needed := bounds[k+1], s.blankOf(x.Element, x.Rows, x.Cols)
		give := func(row int) { copy(needed.RowRange(row, row+1).Bytes(), x.RowRange(row, row+1).Bytes()) }
		for row := lo; row < hi; row++ {
			if scales.Self != nil {
				give(row)
			}
			for _, source := range list(a, row) {
				give(int(source))
			}
		}
		before := s.copy(z)
		s.team.SpMMRows(z, a, needed, scales, to, lo, hi)
		if !same(z.RowRange(hi, z.Rows), before.RowRange(hi, z.Rows)) {
			s.t.Fatalf("%s: rows %d to %d set others behind them", what, lo, hi-1)
		}
		needed.Release()
		before.Release()
	}
}

// longest is the number of entries of the longest row.
func longest(a *kernel.CSR) (n int) {
	for i := range a.Rows {
		n = max(n, len(list(a, i)))
	}
	return n
}

// loopless is a without its self loops.
func (s *suite) loopless(a *kernel.CSR) *kernel.CSR {
	lists := make([][]int32, a.Rows)
	for i := range a.Rows {
		lists[i] = slices.DeleteFunc(slices.Clone(list(a, i)), func(j int32) bool { return int(j) == i })
	}
	return s.rows(a.Cols, lists)
}

// scalings are all combinations of the factors of an aggregation over a square matrix: weights, row, column,
// self.
func (s *suite) scalings(a *kernel.CSR, run func(what string, a *kernel.CSR, scales kernel.Scales)) {
	weighted := *a
	weighted.Values = s.normal(1, a.Entries())
	row, col, self := s.normal(a.Rows, 1), s.normal(a.Cols, 1), s.normal(a.Rows, 1)
	for i := range self.Floats() {
		if i%3 == 0 {
			self.Floats()[i] = 0
		}
	}
	choose := func(yes bool, m *tensor.Matrix) *tensor.Matrix {
		if yes {
			return m
		}
		return nil
	}
	for bits := range 16 {
		m := a
		if bits&1 != 0 {
			m = &weighted
		}
		run(case_("weights, row, col, self", bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0), m,
			kernel.Scales{
				Row: choose(bits&2 != 0, row), Col: choose(bits&4 != 0, col),
				Self: choose(bits&8 != 0, self),
			})
	}
}

func conformSpMM(s *suite) {
	s.each(widths, func(s *suite, cols int) {
		s.scalings(s.tangled(31, 90), func(what string, a *kernel.CSR, scales kernel.Scales) {
			for _, accumulate := range []bool{false, true} {
				s.spmm(case_(what, "columns", cols, "accumulate", accumulate), a, scales, cols, accumulate)
			}
		})
		s.spmm(case_("more columns than rows", cols), bipartite(s.team, s.r, 12, 40),
			kernel.Scales{}, cols, true)
	})
}

func conformSpMMHub(s *suite) {
	s.each([]int{1, 7, 16, 33, 300}, func(s *suite, cols int) {
		n := 200
		if cols < 10 {
			n = 1024 // fills the matrices' pages, so that a step too far is a fault in a debug build
		}
		s.spmm(case_("long rows, columns", cols), s.tangled(n, 4000), kernel.Scales{}, cols, false)
		a := s.tangled(n, 20_000)
		a.FindHubs()
		s.scalings(a, func(what string, a *kernel.CSR, scales kernel.Scales) {
			s.spmm(case_(what, "columns", cols, "hubs", len(a.Hubs)), a, scales, cols, false)
		})
	})
}

func conformSpMMEmpty(s *suite) {
	for _, cols := range []int{0, 1, 17} {
		for name, a := range map[string]*kernel.CSR{
			"no rows":              s.rows(0, nil),
			"no rows, six columns": s.rows(6, nil),
			"no entries":           s.rows(5, make([][]int32, 5)),
			"one row":              s.rows(1, [][]int32{{0, 0, 0}}),
			"one row, no entry":    s.rows(1, make([][]int32, 1)),
		} {
			for _, accumulate := range []bool{false, true} {
				s.spmm(case_(name, "columns", cols, "accumulate", accumulate), a,
					kernel.Scales{}, cols, accumulate)
				if a.Rows == a.Cols {
					s.scalings(a, func(what string, a *kernel.CSR, scales kernel.Scales) {
						s.spmm(case_(name, what), a, scales, cols, accumulate)
					})
				}
			}
		}
	}
}

// conformSparseDense multiplies sparse features with a weight, and their transpose with a gradient.
func conformSparseDense(s *suite) {
	for _, shape := range [][3]int{{1, 1, 1}, {40, 9, 16}, {300, 70, 33}, {2100, 500, 7}} {
		a := bipartite(s.team, s.r, shape[0], shape[1])
		a.Values = s.normal(1, a.Entries())
		dense := reference.New(a.Rows, a.Cols)
		for i := range a.Rows {
			for k, c := range list(a, i) {
				dense.Add(i, int(c), float64(a.Values.Floats()[int(a.Indptr.Int64s()[i])+k]))
			}
		}
		w, g := s.normal(a.Cols, shape[2]), s.stored(a.Rows, shape[2])
		z, dw := s.unwritten(a.Rows, shape[2]), s.blank(a.Cols, shape[2])
		s.team.SpMM(z, a, w, kernel.Scales{}, kernel.Replace)
		s.team.SpMM(dw, s.team.Transpose(a, tensor.Graph), g, kernel.Scales{}, kernel.Replace)
		s.rowwise(case_("x·w", shape), z, reference.MatMul(dense, exact(w)), longest(a))
		s.rowwise(case_("xᵀ·g", shape), dw, reference.MatMulTransA(dense, exact(g)), a.Rows)
	}
}

// conformDensify takes each entry once, as features have them.
func conformDensify(s *suite) {
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {40, 9}, {2100, 30}} {
		lists := make([][]int32, shape[0])
		for i := range lists {
			for c := range shape[1] {
				if s.r.IntN(3) == 0 {
					lists[i] = append(lists[i], int32(c))
				}
			}
		}
		a := s.rows(shape[1], lists)
		a.Values = s.as(tensor.Float32, s.stored(1, a.Entries()))
		z, want, k := s.unwritten(a.Rows, a.Cols), reference.New(a.Rows, a.Cols), 0
		s.team.Densify(z, a)
		for i := range lists {
			for _, c := range lists[i] {
				want.Set(i, int(c), float64(a.Values.Floats()[k]))
				k++
			}
		}
		s.within(case_(shape), z, want.Data, func(int) float64 { return 0 })
	}
}

// conformMax wants the same bits as the reference, and the same source among equal ones: the values are few,
// so that there are many ties.
func conformMax(s *suite) {
	s.each(append([]int{0}, widths...), func(s *suite, cols int) {
		for _, n := range []int{0, 1, 31, 1024} {
			if n == 1024 && cols > 9 {
				continue
			}
			a := s.tangled(n, 70*min(1, n/2))
			x, g := s.normal(n, cols), s.stored(n, cols)
			for i, v := range x.Floats() {
				x.Floats()[i] = float32(math.Round(float64(v)))
			}
			x = s.as(s.storage, x)
			self := s.team.Memory.NewElement(tensor.Graph, tensor.Int32, n, 1)
			for i := range n {
				self.Int32s()[i] = int32(i % 3)
			}
			for _, loops := range []*tensor.Matrix{nil, self} {
				if loops != nil {
					a = s.loopless(a)
				}
				for _, ids := range []*tensor.Matrix{nil, s.permutation(n)} {
					s.max(case_("rows", n, "columns", cols, "self", loops != nil, "ids", ids != nil),
						a, x, g, loops, ids)
				}
			}
		}
	})
}

func (s *suite) max(what string, a *kernel.CSR, x, g, self, ids *tensor.Matrix) {
	s.t.Helper()
	n, cols := a.Rows, x.Cols
	z, arg := s.unwritten(n, cols), s.team.Memory.NewElement(tensor.Buffers, tensor.Int32, n, cols)
	s.team.Max(z, arg, a, x, ids, self, kernel.Replace)
	dx, ofX := s.stored(n, cols), numbers(x)
	start := exact(dx)
	s.team.MaxBackward(dx, s.team.Transpose(a, tensor.Graph), g, arg, ids, self)

	id := func(j int32) int32 {
		if ids == nil {
			return j
		}
		return ids.Int32s()[j]
	}
	// In the reference the sources have their ids, and a self loop is an edge.
	indptr, indices := []int64{0}, []int32{}
	named, row := reference.New(n, cols), make([]int32, n)
	for i := range n {
		for c := range cols {
			named.Set(int(id(int32(i))), c, float64(ofX[i*cols+c]))
		}
		row[id(int32(i))] = int32(i)
		for _, j := range list(a, i) {
			indices = append(indices, id(j))
		}
		if self != nil && self.Int32s()[i] > 0 {
			indices = append(indices, id(int32(i)))
		}
		indptr = append(indptr, int64(len(indices)))
	}
	want, wantArg := reference.Max(indptr, indices, named)
	s.within(what, z, want.Data, func(int) float64 { return 0 })
	if !slices.Equal(arg.Int32s(), wantArg) {
		s.t.Fatalf("%s: sources %v, want %v", what, arg.Int32s(), wantArg)
	}
	fromRow := make([]int32, len(wantArg))
	for k, j := range wantArg {
		fromRow[k] = -1
		if j >= 0 {
			fromRow[k] = row[j]
		}
	}
	s.rowwise(what+", gradient", dx, start.Plus(reference.MaxBackward(n, fromRow, exact(g))), n)
}

// network is the edges that attention runs over: a matrix, self loops besides, and both as the reference's
// list.
type network struct {
	a, transposed *kernel.CSR
	loops         *tensor.Matrix
	indptr        []int64
	indices       []int32
}

// network takes a's edges, its self loops among them unless loops count them per vertex.
func (s *suite) network(a *kernel.CSR, loops bool) network {
	g := network{a: a, indptr: []int64{0}}
	if loops {
		g.a, g.loops = s.loopless(a), s.team.Memory.NewElement(tensor.Graph, tensor.Int32, a.Rows, 1)
		for i := range a.Rows {
			g.loops.Int32s()[i] = int32(i % 3)
		}
	}
	g.transposed = s.team.Transpose(g.a, tensor.Graph)
	for i := range g.a.Rows {
		g.indices = append(g.indices, list(g.a, i)...)
		if loops {
			g.indices = append(g.indices, slices.Repeat([]int32{int32(i)}, int(g.loops.Int32s()[i]))...)
		}
		g.indptr = append(g.indptr, int64(len(g.indices)))
	}
	return g
}

// features gives the network's edges so many features each, random or none, as kernel and reference want them.
// Their vector has columns for GATv1's heads, and their weight for all columns of the other forms.
func (s *suite) features(g network, columns, heads,
	width int,
) (f kernel.EdgeFeatures, edges *reference.Matrix) {
	if columns == 0 {
		return f, nil
	}
	all := s.stored(len(g.indices), columns)
	f = kernel.EdgeFeatures{Transposed: s.transposedRows(g.a), Vector: s.normal(columns, heads)}
	weight := &f.Vector
	if width > 0 {
		f.Vector, weight = nil, &f.Weight
		f.Weight = s.normal(columns, heads*width)
	}
	// scores of about 1, as in a model
	s.team.Scale(*weight, float32(.5/math.Sqrt(float64(columns))), *weight)
	var entries, loops, first []int32
	for i := range g.a.Rows {
		stored := int32(len(list(g.a, i)))
		first = append(first, int32(len(loops)))
		for e := int32(g.indptr[i]); e < int32(g.indptr[i+1]); e++ {
			if e < int32(g.indptr[i])+stored {
				entries = append(entries, e)
			} else {
				loops = append(loops, e)
			}
		}
	}
	pick := func(rows []int32) *tensor.Matrix {
		m := s.blankOf(all.Element, len(rows), columns)
		s.team.Gather(m, all, s.ints(rows))
		return m
	}
	f.Rows = pick(entries)
	if g.loops != nil {
		f.Loops, f.FirstLoop = pick(loops), s.team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, g.a.Rows)
		for i, k := range first {
			f.FirstLoop.Int64s()[i] = int64(k)
		}
	}
	return f, exact(all)
}

// transposedRows is where each entry of the transpose is among the entries of a.
func (s *suite) transposedRows(a *kernel.CSR) *tensor.Matrix {
	type entry struct{ column, number int32 }
	var all []entry
	for k, column := range a.Indices.Int32s() {
		all = append(all, entry{column, int32(k)})
	}
	slices.SortStableFunc(all, func(x, y entry) int { return int(x.column - y.column) })
	rows := s.team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(all))
	for k, e := range all {
		rows.Int32s()[k] = e.number
	}
	return rows
}

// edgeMask finds the mask of every edge and head, as the reference wants it, by attending with equal scores
// to sources of ones. For the nth of equal edges there is a row with n of them: it gives the average of their
// masks, and the row of one edge fewer that of the others.
func (s *suite) edgeMask(g network, heads int, mask kernel.Mask, ids *tensor.Matrix) []float64 {
	n := g.a.Rows
	id := func(v int32) int32 {
		if ids == nil {
			return v
		}
		return ids.Int32s()[v]
	}
	lists, targets, copies := make([][]int32, len(g.indices)), make([]int32, len(g.indices)),
		make([]int, len(g.indices))
	for i := range n {
		seen := map[int32]int{}
		for e := g.indptr[i]; e < g.indptr[i+1]; e++ {
			j := g.indices[e]
			seen[j]++
			lists[e], targets[e], copies[e] = slices.Repeat([]int32{j}, seen[j]), id(int32(i)), seen[j]
		}
	}
	rows := s.rows(n, lists)
	ones, none := s.team.Memory.New(tensor.Buffers, n, heads), s.team.Zeros(tensor.Buffers, len(lists), heads)
	s.team.Fill(ones, 1)
	state := s.team.AttentionStart(len(lists), heads, 1, tensor.Float32)
	s.team.Attend(state, kernel.Attention{
		Heads: heads, Width: 1, Slope: 1, Source: ones, SourceScore: ones, TargetScore: none,
		Mask: mask, SourceIDs: ids,
		TargetIDs: s.ints(targets).Reshape(len(targets), 1),
	}, rows, nil, kernel.Last)
	keep, sums, scale := make([]float64, len(g.indices)*heads), values(state.Out), kept(s, mask)
	for i := range n {
		before := map[int32]int64{} // the last of the edges from each source
		for e := g.indptr[i]; e < g.indptr[i+1]; e++ {
			j := g.indices[e]
			for h := range heads {
				k := int(e)*heads + h
				sums[k] *= float64(copies[e])
				sum := sums[k]
				if f, found := before[j]; found {
					sum -= sums[int(f)*heads+h]
				}
				if sum > .5 { // not 0, but for rounding
					keep[k] = scale
				}
			}
			before[j] = e
		}
	}
	return keep
}

// kept is what a mask multiplies the elements that stay by.
func kept(s *suite, mask kernel.Mask) float64 {
	return float64(slices.Max(s.vertexMask(8, 32, mask).Floats()))
}

// vertexMask is the mask of rows × cols elements.
func (s *suite) vertexMask(rows, cols int, mask kernel.Mask) *tensor.Matrix {
	ones := s.team.Memory.New(tensor.Buffers, rows, cols)
	s.team.Fill(ones, 1)
	s.team.Finish(ones, ones, nil, kernel.Identity, mask)
	return ones
}

func conformAttention(s *suite) {
	each := func(s *suite, heads, width int,
		attend func(what string, g network, mask kernel.Mask, keep []float64),
	) {
		for _, loops := range []bool{false, true} {
			g := s.network(s.tangled(19, 75), loops)
			for _, mask := range []kernel.Mask{{}, kernel.NewMask(99, .4, nil)} {
				what := case_("heads", heads, "width", width, "loops", loops, "mask", mask.Active())
				var keep []float64
				if mask.Active() {
					keep = s.edgeMask(g, heads, mask, nil)
				}
				attend(what, g, mask, keep)
			}
		}
	}
	run := func(s *suite, heads, width int) {
		each(s, heads, width, func(what string, g network, mask kernel.Mask, keep []float64) {
			s.attention(what, g, heads, width, 0, mask, keep)
			s.attention2(what+", GATv2", g, heads, width, 0, mask, keep)
		})
		each(s, heads, width, func(what string, g network, mask kernel.Mask, keep []float64) {
			s.attention(what+", edge features", g, heads, width, 1+(heads*width)%11, mask, keep)
			s.attention2(what+", GATv2, edge features", g, heads, width, 1+(heads*width)%11, mask, keep)
			s.dotAttention(what+", dot products", g, heads, width, 0, mask, keep)
			s.dotAttention(what+", dot products, edge features", g, heads, width,
				1+(heads*width)%11, mask, keep)
		})
	}
	s.each(widths, func(s *suite, width int) { run(s, 1, width) })
	// With widths of half a vector, and of one, two and four, at one level or another
	for _, heads := range []int{2, 4, 5, 7, 8, 16} {
		s.each([]int{4, 8, 16, 32, 64}, func(s *suite, width int) { run(s, heads, width) })
	}
	for _, heads := range []int{3, 8, 9, 17} { // the masks of eight heads come from one random number
		s.each([]int{1, 15, 16, 17}, func(s *suite, width int) { run(s, heads, width) })
	}
	// A head's columns in two blocks, the last of one vector and of two
	s.each([]int{133, 150}, func(s *suite, width int) { run(s, 2, width) })
}

// conformAttentionHub has rows that one thread works on, and rows that are taken apart.
func conformAttentionHub(s *suite) {
	for _, degree := range []int{4000, 20_000} {
		// With fewer vertices equal terms would be rounded alike, and the errors add up
		a := s.tangled(1024, degree)
		g := s.network(a, true)
		g.a.FindHubs()
		for _, shape := range [][2]int{{1, 8}, {3, 5}, {4, 4}, {1, 65}} {
			for _, mask := range []kernel.Mask{{}, kernel.NewMask(99, .4, nil)} {
				what := case_("degree", degree, "shape", shape, "mask", mask.Active())
				var keep []float64
				if mask.Active() {
					keep = s.edgeMask(g, shape[0], mask, nil)
				}
				s.attention(what, g, shape[0], shape[1], 0, mask, keep)
				s.attention(what+", edge features", g, shape[0], shape[1], 3, mask, keep)
				s.attention2(what+", GATv2", g, shape[0], shape[1], 0, mask, keep)
				s.attention2(what+", GATv2, edge features", g, shape[0], shape[1], 3, mask, keep)
				s.dotAttention(what+", dot products, edge features", g, shape[0], shape[1], 2, mask, keep)
			}
		}
	}
}

func conformAttentionEmpty(s *suite) {
	for name, a := range map[string]*kernel.CSR{
		"no rows":    s.rows(0, nil),
		"no entries": s.rows(5, make([][]int32, 5)),
		"one row":    s.rows(1, [][]int32{{0, 0, 0}}),
	} {
		g := s.network(a, false)
		s.attention(name, g, 2, 3, 0, kernel.Mask{}, nil)
		s.attention(name+", edge features", g, 2, 3, 2, kernel.Mask{}, nil)
		s.attention2(name+", GATv2", g, 2, 3, 0, kernel.Mask{}, nil)
		s.attention2(name+", GATv2, edge features", g, 2, 3, 1, kernel.Mask{}, nil)
		s.dotAttention(name+", dot products", g, 2, 3, 0, kernel.Mask{}, nil)
		s.dotAttention(name+", dot products, edge features", g, 2, 3, 1, kernel.Mask{}, nil)
	}
}

func (g network) reference(heads int, keep []float64) *reference.Attention {
	return &reference.Attention{Indptr: g.indptr, Indices: g.indices, Heads: heads, Slope: .2, Mask: keep}
}

// logSums compares the log-sum-exp, which is 0 where there is no edge.
func (s *suite) logSums(what string, got *tensor.Matrix, want []float64) {
	s.t.Helper()
	finite := slices.Clone(want)
	for i, w := range want {
		if math.IsInf(w, -1) {
			finite[i] = 0
		}
	}
	s.elements(what+", log-sum-exp", got, finite, 40)
}

// form is one of those of kernel.Attention.
type form int

const (
	v1 form = iota
	v2
	dotProducts
)

// query is rows of storage whose products with others, of heads of that width, are at most about 1.
func (s *suite) query(rows, cols, width int) *tensor.Matrix {
	q := s.normal(rows, cols)
	s.team.Scale(q, float32(.5/math.Sqrt(float64(width))), q)
	return s.as(s.storage, q)
}

// storedAttention holds attention over sources, targets and gradients in BFloat16 against what comes of the
// same numbers in Float32, which is held against the reference. GATv1 has the same bits, rounded; the
// other forms add in another order.
func (s *suite) storedAttention(what string, g network, heads, width, features int,
	mask kernel.Mask, form form,
) {
	s.t.Helper()
	n, cols, terms := g.a.Rows, heads*width, max(longest(g.a), longest(g.transposed))
	k := kernel.Attention{Heads: heads, Width: width, Slope: .2, Source: s.stored(n, cols), Mask: mask}
	switch form {
	case v1:
		k.SourceScore, k.TargetScore = s.normal(n, heads), s.normal(n, heads)
		k.Edges, _ = s.features(g, features, heads, 0)
	case v2:
		k.Target, k.A = s.stored(n, cols), s.normal(1, cols)
		s.team.Scale(k.A, float32(1/math.Sqrt(float64(width))), k.A)
		k.Edges, _ = s.features(g, features, heads, width)
	case dotProducts:
		k.Target, k.Key = s.query(n, cols, width), s.stored(n, cols)
		k.Edges, _ = s.features(g, features, heads, width)
	}
	dOut, dSource, dTarget := s.stored(n, cols), s.stored(n, cols), s.stored(n, cols)
	var of kernel.Attended
	run := func(element tensor.Element) (*kernel.AttentionState, kernel.AttentionGradients) {
		k := k
		k.Source = s.as(element, k.Source)
		for _, m := range []**tensor.Matrix{&k.Target, &k.Key, &k.Edges.Rows, &k.Edges.Loops} {
			if *m != nil {
				*m = s.as(element, *m)
			}
		}
		state := s.team.AttentionStart(n, heads, width, element)
		s.team.Attend(state, k, g.a, g.loops, kernel.Last)
		if of.LogSum == nil {
			of = kernel.Attended{LogSum: state.Maximum, GradDotOut: s.blank(n, heads)}
			s.team.RowDots(of.GradDotOut, s.as(element, dOut), state.Out)
		}
		of.Grad = s.as(element, dOut)
		zeros := func(rows, cols int) *tensor.Matrix { return s.team.Zeros(tensor.Buffers, rows, cols) }
		d := kernel.AttentionGradients{
			Source: s.as(element, s.copy(dSource)), SourceScore: zeros(n, heads),
			TargetScore: zeros(n, heads),
			Target:      s.as(element, s.copy(dTarget)), A: zeros(1, cols),
			EdgeVector: zeros(features, heads),
			EdgeWeight: zeros(features, cols),
			Key:        s.as(element, s.copy(dTarget)),
		}
		s.team.AttendBackward(d, k, g.a, g.transposed, g.loops, of)
		return state, d
	}
	want, dWant := run(tensor.Float32)
	got, d := run(tensor.BFloat16)
	for name, m := range map[string][2]*tensor.Matrix{
		"output": {got.Out, want.Out}, "log-sum-exp": {got.Maximum, want.Maximum},
		"source gradient":       {d.Source, dWant.Source},
		"source score gradient": {d.SourceScore, dWant.SourceScore},
		"target score gradient": {d.TargetScore, dWant.TargetScore},
		"target gradient":       {d.Target, dWant.Target}, "gradient of the vector": {d.A, dWant.A},
		"gradient of the edges' vector": {d.EdgeVector, dWant.EdgeVector},
		"gradient of the edges' weight": {d.EdgeWeight, dWant.EdgeWeight}, "key gradient": {d.Key, dWant.Key},
	} {
		switch {
		case form == v1 && !same(m[0], s.as(m[0].Element, m[1])):
			s.t.Fatalf("%s: the %s is not what comes of Float32, rounded", what, name)
		case form != v1 && strings.HasPrefix(name, "gradient of"):
			s.vector(what+", "+name, m[0], values(m[1]), terms)
		case form != v1:
			s.rowwise(what+", "+name, m[0], exact(m[1]), terms)
		}
	}
}

// attention holds GATv1's forward and backward pass against the reference. Its scores come from HeadDot.
func (s *suite) attention(what string, g network, heads, width, features int,
	mask kernel.Mask, keep []float64,
) {
	s.t.Helper()
	if s.storage == tensor.BFloat16 {
		s.storedAttention(what, g, heads, width, features, mask, v1)
		return
	}
	n, cols, terms := g.a.Rows, heads*width, max(longest(g.a), longest(g.transposed))
	x, aSource, aTarget, dOut := s.normal(n, cols), s.normal(1, cols), s.normal(1, cols), s.normal(n, cols)
	for _, a := range []*tensor.Matrix{aSource, aTarget} { // scores of about 1, as in a model
		s.team.Scale(a, float32(1/math.Sqrt(float64(width))), a)
	}
	k := kernel.Attention{
		Heads: heads, Width: width, Slope: .2, Source: x, Mask: mask,
		SourceScore: s.blank(n, heads), TargetScore: s.blank(n, heads),
	}
	s.team.HeadDot(k.SourceScore, x, aSource)
	s.team.HeadDot(k.TargetScore, x, aTarget)
	var edges, vector *reference.Matrix
	if k.Edges, edges = s.features(g, features, heads, 0); features > 0 {
		vector = exact(k.Edges.Vector)
	}
	state := s.team.AttentionStart(n, heads, width, tensor.Float32)
	s.team.Attend(state, k, g.a, g.loops, kernel.Last)
	out, logSum := state.Out, state.Maximum
	r := g.reference(heads, keep)
	r.Features = edges
	want, lse := reference.GAT(r, exact(x), values(aSource), values(aTarget), vector)
	s.rowwise(what+", output", out, want, terms)
	s.logSums(what, logSum, lse)

	dx, da, db, dv := reference.GATBackward(r, exact(x), values(aSource), values(aTarget),
		vector, exact(dOut))
	for _, k.Whole = range []bool{true, false} {
		d := kernel.AttentionGradients{
			Source:      s.normal(n, cols),
			SourceScore: s.team.Zeros(tensor.Buffers, n, heads),
			TargetScore: s.team.Zeros(tensor.Buffers, n, heads),
			EdgeVector:  s.team.Zeros(tensor.Buffers, features, heads),
		}
		start := exact(d.Source)
		dSource, dTarget, gOut := s.team.Zeros(tensor.Buffers, 1, cols),
			s.team.Zeros(tensor.Buffers, 1, cols), s.blank(n, heads)
		s.team.RowDots(gOut, dOut, out)
		s.team.AttendBackward(d, k, g.a, g.transposed, g.loops,
			kernel.Attended{Grad: dOut, GradDotOut: gOut, LogSum: logSum})
		s.team.HeadDotBackward(d.Source, dSource, d.SourceScore, x, aSource)
		s.team.HeadDotBackward(d.Source, dTarget, d.TargetScore, x, aTarget)
		s.rowwise(what+case_(", whole", k.Whole)+", gradient", d.Source, start.Plus(dx), terms)
		s.vector(what+case_(", whole", k.Whole)+", gradient of the source vector", dSource, da, terms)
		s.vector(what+case_(", whole", k.Whole)+", gradient of the target vector", dTarget, db, terms)
		if features > 0 {
			s.vector(what+case_(", whole", k.Whole)+", gradient of the edges' vector",
				d.EdgeVector, dv.Data, terms)
		}
	}
}

// attention2 does the same for GATv2, with features of edges if they have some.
func (s *suite) attention2(what string, g network, heads, width, features int,
	mask kernel.Mask, keep []float64,
) {
	s.t.Helper()
	if s.storage == tensor.BFloat16 {
		s.storedAttention(what, g, heads, width, features, mask, v2)
		return
	}
	n, cols, terms := g.a.Rows, heads*width, max(longest(g.a), longest(g.transposed))
	x, y, att, dOut := s.normal(n, cols), s.normal(n, cols), s.normal(1, cols), s.normal(n, cols)
	s.team.Scale(att, float32(1/math.Sqrt(float64(width))), att)
	k := kernel.Attention{Heads: heads, Width: width, Slope: .2, Source: x, Target: y, A: att, Mask: mask}
	r, weight := s.withFeatures(&k, g, features, keep)
	state := s.team.AttentionStart(n, heads, width, tensor.Float32)
	s.team.Attend(state, k, g.a, g.loops, kernel.Last)
	out, logSum := state.Out, state.Maximum
	want, lse := reference.GATv2(r, exact(x), exact(y), values(att), weight)
	s.rowwise(what+", output", out, want, terms)
	s.logSums(what, logSum, lse)

	d := kernel.AttentionGradients{
		Source: s.normal(n, cols), Target: s.normal(n, cols), A: s.normal(1, cols),
		EdgeWeight: s.team.Zeros(tensor.Buffers, features, cols),
	}
	startX, startY, startA, gOut := exact(d.Source), exact(d.Target), exact(d.A), s.blank(n, heads)
	s.team.RowDots(gOut, dOut, out)
	s.team.AttendBackward(d, k, g.a, g.transposed, g.loops,
		kernel.Attended{Grad: dOut, GradDotOut: gOut, LogSum: logSum})
	dx, dy, da, dw := reference.GATv2Backward(r, exact(x), exact(y), values(att), weight, exact(dOut))
	s.rowwise(what+", source gradient", d.Source, startX.Plus(dx), terms)
	s.rowwise(what+", target gradient", d.Target, startY.Plus(dy), terms)
	s.vector(what+", gradient of the vector", d.A,
		startA.Plus(&reference.Matrix{Rows: 1, Cols: cols, Data: da}).Data, terms)
	if weight != nil {
		s.vector(what+", gradient of the edges' weight", d.EdgeWeight, dw.Data, terms)
	}
}

// withFeatures gives k features of the network's edges and a weight of them, and returns both for the
// reference; nil for none.
func (s *suite) withFeatures(k *kernel.Attention, g network, features int,
	keep []float64,
) (*reference.Attention, *reference.Matrix) {
	r := g.reference(k.Heads, keep)
	if features == 0 {
		return r, nil
	}
	k.Edges, r.Features = s.features(g, features, k.Heads, k.Width)
	return r, exact(k.Edges.Weight)
}

// dotAttention does the same for dot products.
func (s *suite) dotAttention(what string, g network, heads, width, features int,
	mask kernel.Mask, keep []float64,
) {
	s.t.Helper()
	if s.storage == tensor.BFloat16 {
		s.storedAttention(what, g, heads, width, features, mask, dotProducts)
		return
	}
	// a coefficient of an edge is a sum of width terms
	n, cols, terms := g.a.Rows, heads*width, max(longest(g.a), longest(g.transposed))*width
	query, key, value, dOut := s.query(n, cols, width), s.normal(n, cols),
		s.normal(n, cols), s.normal(n, cols)
	k := kernel.Attention{Heads: heads, Width: width, Source: value, Target: query, Key: key, Mask: mask}
	r, weight := s.withFeatures(&k, g, features, keep)
	state := s.team.AttentionStart(n, heads, width, tensor.Float32)
	s.team.Attend(state, k, g.a, g.loops, kernel.Last)
	out, logSum := state.Out, state.Maximum
	want, lse := reference.DotProduct(r, exact(query), exact(key), exact(value), weight)
	s.rowwise(what+", output", out, want, terms)
	s.logSums(what, logSum, lse)

	d := kernel.AttentionGradients{
		Source: s.normal(n, cols), Target: s.normal(n, cols),
		Key: s.normal(n, cols), EdgeWeight: s.team.Zeros(tensor.Buffers, features, cols),
	}
	startV, startQ, startK, gOut := exact(d.Source), exact(d.Target), exact(d.Key), s.blank(n, heads)
	s.team.RowDots(gOut, dOut, out)
	s.team.AttendBackward(d, k, g.a, g.transposed, g.loops,
		kernel.Attended{Grad: dOut, GradDotOut: gOut, LogSum: logSum})
	dq, dk, dv, dw := reference.DotProductBackward(r, exact(query), exact(key), exact(value),
		weight, exact(dOut))
	s.rowwise(what+", value gradient", d.Source, startV.Plus(dv), terms)
	s.rowwise(what+", query gradient", d.Target, startQ.Plus(dq), terms)
	s.rowwise(what+", key gradient", d.Key, startK.Plus(dk), terms)
	if weight != nil {
		s.vector(what+", gradient of the edges' weight", d.EdgeWeight, dw.Data, terms)
	}
}
