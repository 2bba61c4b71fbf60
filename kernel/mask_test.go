package kernel_test

import (
	"math"
	"slices"
	"testing"

	"weft/autograd"
	"weft/kernel"
	"weft/tensor"
)

// TestMaskRate: a mask drops as often as asked, within four standard deviations, and scales the other
// elements so that the mean stays. This also holds column by column, row by row, and for neighbouring
// elements.
func TestMaskRate(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols = 700, 300
		for _, p := range []float64{.1, .5, .6, .9} {
			m := s.vertexMask(rows, cols, kernel.NewMask(2026, p, nil)).Floats()
			rate := func(what string, n int, kept float64) {
				if sigma := math.Sqrt(p * (1 - p) / float64(n)); math.Abs(kept/float64(n)-(1-p)) > 4*sigma {
					t.Errorf("p %v, %s: %v of %d are kept, %.1f standard deviations off", p, what, kept, n,
						(kept/float64(n)-(1-p))/sigma)
				}
			}
			all, pairs := 0.0, 0.0
			byRow, byColumn := make([]float64, rows), make([]float64, cols)
			for i, k := range m {
				switch {
				case k == 0:
					continue
				// p is rounded to a multiple of 2⁻¹⁶, and the scale follows from the rounded p
				case math.Abs(float64(k)*(1-p)-1)*(1-p) > 1./(1<<16):
					t.Fatalf("p %v: an element is scaled by %v", p, k)
				}
				all++
				byRow[i/cols]++
				byColumn[i%cols]++
				if i+1 < len(m) && m[i+1] != 0 {
					pairs++
				}
			}
			rate("all", len(m), all)
			if want, got := (1-p)*(1-p), pairs/float64(len(m)); math.Abs(got-want) > 4*math.Sqrt(
				want/float64(len(m))) {
				t.Errorf("p %v: %v of neighbours are both kept, want %v", p, got, want)
			}
			// The furthest of a thousand rows and columns is about 3.3 standard deviations off.
			for _, counts := range [][]float64{byRow, byColumn} {
				n := len(m) / len(counts)
				for _, kept := range counts {
					if sigma := math.Sqrt(p * (1 - p) * float64(n)); math.Abs(
						kept-(1-p)*float64(n)) > 5*sigma {
						t.Errorf("p %v: a row or column of %d keeps %v", p, n, kept)
					}
				}
			}
		}
	})
}

// TestMaskBelongsToVertexAndColumn: an element's mask is the same wherever its row stands and however wide
// the matrix is.
func TestMaskBelongsToVertexAndColumn(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols = 90, 300
		whole := s.vertexMask(rows, cols, kernel.NewMask(1, .5, nil)).Floats()
		ids := s.permutation(rows)
		for _, width := range widths {
			if width > cols {
				continue
			}
			m := s.vertexMask(rows, width, kernel.NewMask(1, .5, ids)).Floats()
			for i, k := range m {
				if want := whole[int(ids.Int32s()[i/width])*cols+i%width]; k != want {
					t.Fatalf("width %d: vertex %d, column %d has mask %v, want %v", width,
						ids.Int32s()[i/width], i%width, k, want)
				}
			}
		}
	})
}

// TestMaskKeys: another seed, epoch or path gives another mask, which agrees with the first in half of the
// elements.
func TestMaskKeys(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols = 200, 100
		maskFor := func(seed uint64, epoch int, site string) []float32 {
			return s.vertexMask(rows, cols,
				kernel.NewMask(autograd.Random{Seed: seed, Epoch: epoch}.Key(site), .5, nil)).Floats()
		}
		first := maskFor(1, 1, "layers.0.dropout")
		if !slices.Equal(first, maskFor(1, 1, "layers.0.dropout")) {
			t.Error("equal keys give different masks")
		}
		others := map[string][]float32{
			"seed": maskFor(2, 1, "layers.0.dropout"), "epoch": maskFor(1, 2, "layers.0.dropout"),
			"site":                     maskFor(1, 1, "layers.1.dropout"),
			"another site":             maskFor(1, 1, "layers.0.attention"),
			"epoch and seed exchanged": maskFor(2, 1, "layers.0.dropout"),
		}
		for name, m := range others {
			same := 0.0
			for i := range m {
				if m[i] == first[i] {
					same++
				}
			}
			if n := float64(len(m)); math.Abs(same/n-.5) > 4*.5/math.Sqrt(n) {
				t.Errorf("another %s: %v of the elements agree, want a half", name, same/n)
			}
		}
	})
}

// TestSparseMaskIsTheDenseOne: the stored entries of a matrix, and of its transpose, have the masks of the
// same elements of a dense matrix.
func TestSparseMaskIsTheDenseOne(t *testing.T) {
	with(t, func(s *suite) {
		for _, ids := range []*tensor.Matrix{nil, s.permutation(70)} {
			mask := kernel.NewMask(8, .4, ids)
			s.sparseMask(bipartite(s.team, s.r, 70, 300), mask, s.vertexMask(70, 300, mask).Floats())
		}
	})
}

// sparseMask compares the mask of the entries of a, which has no values, and of its transpose, with the mask
// of a dense matrix.
func (s *suite) sparseMask(a *kernel.CSR, mask kernel.Mask, dense []float32) {
	s.t.Helper()
	ones := *a
	ones.Values = s.team.Memory.New(tensor.Features, 1, a.Entries())
	s.team.Fill(ones.Values, 1)
	transposed := s.team.Transpose(&ones, tensor.Features)
	byRow, byColumn := s.team.MaskEntries(&ones, mask, kernel.Straight).Floats(),
		s.team.MaskEntries(transposed, mask, kernel.Transposed).Floats()
	compare := func(m *kernel.CSR, masks []float32, index func(row, column int) int) {
		for row := range m.Rows {
			for k, column := range list(m, row) {
				got := masks[int(m.Indptr.Int64s()[row])+k]
				if want := dense[index(row, int(column))]; got != want {
					s.t.Fatalf("entry %d, %d of %d rows: %v, dense %v", row, column, m.Rows, got, want)
				}
			}
		}
	}
	compare(a, byRow, func(row, column int) int { return row*a.Cols + column })
	compare(transposed, byColumn, func(row, column int) int { return column*a.Cols + row })
	if !slices.Equal(s.team.MaskEntries(a, mask, kernel.Straight).Floats(), byRow) {
		s.t.Fatal("the mask of a matrix without values is not that of one with ones")
	}
}

// TestMaskOfASlice: slices of columns have the mask of the whole, wherever it is cut: inside a batch of
// random numbers, between two batches, and for a slice of more than a piece.
func TestMaskOfASlice(t *testing.T) {
	with(t, func(s *suite) {
		const rows, cols = 23, 2600
		mask := kernel.NewMask(7, .4, s.permutation(rows))
		whole := s.vertexMask(rows, cols, mask).Floats()
		for _, cut := range [][2]int{
			{0, 1},
			{1, 2},
			{5, 133},
			{16, 41},
			{127, 129},
			{128, 300},
			{131, 2600},
			{255, 2400},
			{2049, 2600},
		} {
			lo, hi := cut[0], cut[1]
			want := make([]float32, 0, rows*(hi-lo))
			for r := range rows {
				want = append(want, whole[r*cols+lo:r*cols+hi]...)
			}
			slice, ones := mask.From(lo), s.blank(rows, hi-lo)
			s.team.Fill(ones, 1)
			gradient := s.blank(rows, hi-lo)
			s.team.FinishBackward(gradient, nil, ones, ones, kernel.Identity, slice)
			if !slices.Equal(s.vertexMask(rows, hi-lo, slice).Floats(), want) ||
				!slices.Equal(gradient.Floats(), want) {
				t.Errorf("columns %d … %d have another mask than in the whole", lo, hi-1)
			}
			s.sparseMask(bipartite(s.team, s.r, rows, hi-lo), slice, want)
		}
	})
}

// TestEdgeMaskOfASlice: attention over some of the heads drops the same edges of them as attention over all
// heads, forward and backward.
func TestEdgeMaskOfASlice(t *testing.T) {
	with(t, func(s *suite) {
		const heads = 19
		g := s.network(s.tangled(30, 40), true)
		mask := kernel.NewMask(4, .4, nil)
		whole := s.edgeMask(g, heads, mask, nil)
		for _, cut := range [][2]int{{0, 3}, {1, 2}, {3, 8}, {5, 11}, {7, 18}, {8, 16}, {13, 19}} {
			lo, hi := cut[0], cut[1]
			var keep []float64
			for e := range g.indices {
				keep = append(keep, whole[e*heads+lo:e*heads+hi]...)
			}
			what := case_("heads from", lo, "to", hi)
			s.attention(what, g, v1, hi-lo, 3, 0, mask.From(lo), keep)
			s.attention(what, g, v2, hi-lo, 3, 0, mask.From(lo), keep)
		}
	})
}

// TestEdgeMask: attention drops edges as often as asked. Each edge, also among equal ones, and each head is
// dropped on its own. The ids of both ends count, not their rows.
func TestEdgeMask(t *testing.T) {
	with(t, func(s *suite) {
		const n, heads = 40, 11
		g := s.network(s.tangled(n, 60), true)
		for _, p := range []float64{.1, .5, .9} {
			keep := s.edgeMask(g, heads, kernel.NewMask(4, p, nil), nil)
			kept, differ := 0.0, 0
			for i, k := range keep {
				if k != 0 {
					kept++
				}
				if e := i / heads; e+1 < len(g.indices) && g.indices[e] == g.indices[e+1] &&
					k != keep[i+heads] {
					differ++
				}
			}
			if sigma := math.Sqrt(p * (1 - p) * float64(len(keep))); math.Abs(
				kept-(1-p)*float64(len(keep))) > 4*sigma {
				t.Errorf("p %v: %v of %d are kept", p, kept, len(keep))
			}
			if differ == 0 {
				t.Errorf("p %v: all equal edges have equal masks", p)
			}
		}

		// The same graph, with its vertices in another order: row i is vertex ids[i].
		ids := s.permutation(n)
		row := make([]int32, n)
		for i, v := range ids.Int32s() {
			row[v] = int32(i)
		}
		lists := make([][]int32, n)
		for v := range n {
			for _, j := range list(g.a, v) {
				lists[row[v]] = append(lists[row[v]], row[j])
			}
		}
		loops := s.int32s(n, 1)
		for v, l := range g.loops.Int32s() {
			loops.Int32s()[row[v]] = l
		}
		moved := s.networkOf(s.rows(n, lists), loops)
		mask := kernel.NewMask(4, .5, nil)
		type edge struct{ source, target, occurrence, head int }
		masks := func(g network, keep []float64, id func(i int32) int32) map[edge]float64 {
			m := map[edge]float64{}
			for i := range n {
				seen := map[int32]int{}
				for e := g.indptr[i]; e < g.indptr[i+1]; e++ {
					j := g.indices[e]
					for h := range heads {
						m[edge{int(id(j)), int(id(int32(i))), seen[j], h}] = keep[int(e)*heads+h]
					}
					seen[j]++
				}
			}
			return m
		}
		here := masks(g, s.edgeMask(g, heads, mask, nil), func(i int32) int32 { return i })
		there := masks(moved, s.edgeMask(moved, heads, mask, ids),
			func(i int32) int32 { return ids.Int32s()[i] })
		if len(here) != len(there) {
			t.Fatalf("%d edges and heads, moved %d", len(here), len(there))
		}
		for e, k := range here {
			if there[e] != k {
				t.Fatalf("edge and head %v has mask %v, moved %v", e, k, there[e])
			}
		}
	})
}
