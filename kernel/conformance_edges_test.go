package kernel_test

import (
	"math"
	"slices"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

// The suite's tests of kernels that run over edges.

// spmm compares one aggregation of random numbers with the reference, and computed range by range with
// itself.
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
	if s.storage == tensor.BFloat16 { // the suite in Float32 compares these bits with the reference
		s.asFloat32(what, z, x, before, func(z, x *tensor.Matrix) {
			s.team.SpMM(z, a, x, scales, kernel.Output(accumulate))
		})
	} else {
		want, terms := start.Clone(), magnitudes(start)
		aggregation := func(read func(*tensor.Matrix) []float64) *reference.Aggregation {
			return &reference.Aggregation{
				Indptr: a.Indptr.Int64s(), Indices: a.Indices.Int32s(), Weights: read(a.Values),
				RowScale: read(scales.Row),
				ColScale: read(scales.Col), Self: read(scales.Self),
			}
		}
		reference.SpMM(want, aggregation(values), exact(x))
		reference.SpMM(terms, aggregation(func(m *tensor.Matrix) []float64 {
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

// asFloat32 fails unless z is the kernel's result in Float32, rounded. A kernel has computed z from x and
// from before, its elements before the call; run computes the same in Float32.
func (s *suite) asFloat32(what string, z, x, before *tensor.Matrix, run func(z, x *tensor.Matrix)) {
	s.t.Helper()
	wide := s.as(tensor.Float32, before)
	run(wide, s.as(tensor.Float32, x))
	if !same(z, s.as(z.Element, wide)) {
		s.t.Fatalf("%s: not what comes of Float32, rounded", what)
	}
}

// spmmRows computes the aggregation z of x range by range, each from only the rows of x that it needs. A
// range must leave the rows behind it alone.
func (s *suite) spmmRows(what string, a *kernel.CSR, scales kernel.Scales, x, z *tensor.Matrix,
	to kernel.Output,
) {
	s.t.Helper()
	// a hub may be the last of its range
	bounds := []int{0, min(1, a.Rows), min(3, a.Rows), a.Rows / 3, a.Rows / 3, a.Rows}
	slices.Sort(bounds)
	for k, lo := range bounds[:len(bounds)-1] {
		hi, needed := bounds[k+1], s.blankOf(x.Element, x.Rows, x.Cols)
		all, some, size := x.Bytes(), needed.Bytes(), x.Cols*x.Element.Size()
		give := func(row int) { copy(some[row*size:][:size], all[row*size:]) }
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

// longest returns the number of entries of the longest row.
func longest(a *kernel.CSR) (n int) {
	for i := range a.Rows {
		n = max(n, len(list(a, i)))
	}
	return n
}

// loopless returns a without its self loops.
func (s *suite) loopless(a *kernel.CSR) *kernel.CSR {
	lists := make([][]int32, a.Rows)
	for i := range a.Rows {
		lists[i] = slices.DeleteFunc(slices.Clone(list(a, i)), func(j int32) bool { return int(j) == i })
	}
	return s.rows(a.Cols, lists)
}

// scalings runs a test for all combinations of the factors of an aggregation over a square matrix: weights,
// row, column, self.
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
	s.each([]int{1, 7, 16, 33, 101, 300}, func(s *suite, cols int) {
		n := 200
		if cols < 10 {
			n = 1024 // fills the matrices' pages, so that reading too far faults in a debug build
		}
		for _, accumulate := range []bool{false, true} {
			what := case_("long rows, columns", cols, "accumulate", accumulate)
			s.spmm(what, s.tangled(n, 4000), kernel.Scales{}, cols, accumulate)
		}
		a := s.tangled(n, 18_000)
		a.FindSegments()
		s.scalings(a, func(what string, a *kernel.CSR, scales kernel.Scales) {
			s.spmm(case_(what, "columns", cols, "segments", len(a.Segments)), a, scales, cols, false)
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

// conformDensify: each element is the sum of its entries, rounded once.
func conformDensify(s *suite) {
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {40, 9}, {2100, 30}} {
		lists := make([][]int32, shape[0])
		for i := range lists {
			for c := range shape[1] {
				for range max(0, s.r.IntN(6)-3) { // none, one or two entries of one element
					lists[i] = append(lists[i], int32(c))
				}
			}
		}
		a := s.rows(shape[1], lists)
		a.Values = s.normal(1, a.Entries())
		z, want, k := s.unwritten(a.Rows, a.Cols), s.zeros(a.Rows, a.Cols), 0
		s.team.Densify(z, a)
		for i := range lists {
			for _, c := range lists[i] {
				want.Floats()[i*a.Cols+int(c)] += a.Values.Floats()[k]
				k++
			}
		}
		s.within(case_(shape), z, values(s.as(z.Element, want)), func(int) float64 { return 0 })
	}
}

// conformUniform: the numbers are the reference's, also if rows are other vertices.
func conformUniform(s *suite) {
	for _, shape := range [][2]int{{0, 3}, {1, 1}, {300, 17}, {5, 300}} {
		ids := s.int32s(1, shape[0])
		for i := range ids.Int32s() {
			ids.WriteInt32s()[i] = int32(3 * (shape[0] - i))
		}
		for _, rowIDs := range []*tensor.Matrix{nil, ids} {
			z := s.unwritten(shape[0], shape[1])
			s.team.Uniform(z, 77, rowIDs)
			want := make([]float64, z.Len())
			for i := range want {
				vertex := i / shape[1]
				if rowIDs != nil {
					vertex = int(rowIDs.Int32s()[vertex])
				}
				want[i] = reference.Drawn(77, uint32(vertex), i%shape[1])
				if z.Element == tensor.BFloat16 {
					want[i] = float64(math.Float32frombits(math.Float32bits(float32(want[i])) &^ 0xffff))
				}
			}
			s.within(case_(shape), z, want, func(int) float64 { return 0 })
		}
	}
}

// conformMax: maxima have the reference's bits, and its source among equal ones. There are few values, so
// that there are many ties.
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
			self := s.int32s(n, 1)
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
	z, arg := s.unwritten(n, cols), s.int32s(n, cols)
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

// network has the edges of attention: a matrix, self loops besides, and both as the reference's lists.
type network struct {
	a, transposed *kernel.CSR
	loops         *tensor.Matrix
	indptr        []int64
	indices       []int32
}

// network returns a's edges. With loops, its self loops are counted for each vertex instead.
func (s *suite) network(a *kernel.CSR, loops bool) network {
	if !loops {
		return s.networkOf(a, nil)
	}
	counts := s.int32s(a.Rows, 1)
	for i := range a.Rows {
		counts.Int32s()[i] = int32(i % 3)
	}
	return s.networkOf(s.loopless(a), counts)
}

// networkOf returns a's edges, and so many self loops for each vertex; nil: none.
func (s *suite) networkOf(a *kernel.CSR, loops *tensor.Matrix) network {
	g := network{a: a, loops: loops, transposed: s.team.Transpose(a, tensor.Graph), indptr: []int64{0}}
	for i := range a.Rows {
		g.indices = append(g.indices, list(a, i)...)
		if loops != nil {
			g.indices = append(g.indices, slices.Repeat([]int32{int32(i)}, int(g.loops.Int32s()[i]))...)
		}
		g.indptr = append(g.indptr, int64(len(g.indices)))
	}
	return g
}

// features gives the network's edges so many features each, or none, in the forms of the kernel and of the
// reference. The vector has a column for each of GATv1's heads, and the weight one for each column of the
// other forms.
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

// transposedRows returns, for each entry of the transpose, its position among the entries of a.
func (s *suite) transposedRows(a *kernel.CSR) *tensor.Matrix {
	type entry struct{ column, number int32 }
	var all []entry
	for k, column := range a.Indices.Int32s() {
		all = append(all, entry{column, int32(k)})
	}
	slices.SortStableFunc(all, func(x, y entry) int { return int(x.column - y.column) })
	rows := s.int32s(1, len(all))
	for k, e := range all {
		rows.Int32s()[k] = e.number
	}
	return rows
}

// edgeMask finds the mask of every edge and head, for the reference. It attends with equal scores to sources
// of ones. For the n-th of equal edges it uses a row with n of them, which gives the mean of their masks, and
// a row with n−1, which gives the mean of the others.
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
	ones, none := s.ones(n, heads), s.zeros(len(lists), heads)
	state := s.team.AttentionStart(len(lists), heads, 1, tensor.Float32)
	s.team.Attend(state, kernel.Attention{
		Heads: heads, Width: 1, Slope: 1, Source: ones, SourceScore: ones, TargetScore: none,
		Mask: mask, SourceIDs: ids,
		TargetIDs: s.ints(targets).Reshape(len(targets), 1),
	}, rows, nil, kernel.Last)
	keep, sums, scale := make([]float64, len(g.indices)*heads), values(state.Out), kept(s, mask)
	for i := range n {
		before := map[int32]int64{} // by source, its last edge
		for e := g.indptr[i]; e < g.indptr[i+1]; e++ {
			j := g.indices[e]
			for h := range heads {
				k := int(e)*heads + h
				sums[k] *= float64(copies[e])
				sum := sums[k]
				if f, found := before[j]; found {
					sum -= sums[int(f)*heads+h]
				}
				if sum > .5 { // not 0, apart from rounding
					keep[k] = scale
				}
			}
			before[j] = e
		}
	}
	return keep
}
