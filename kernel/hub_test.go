package kernel_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/kernel"
	"weft/tensor"
)

// TestHubRow has a row that is taken apart: the result is that of its edges in two blocks that need none, and the same for
// any number of threads.
func TestHubRow(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	r := rand.New(rand.NewPCG(4, 4))
	const n, degree = 300, 50_001
	indptr, indices := []int64{0, degree}, make([]int32, degree)
	for k := range indices {
		indices[k] = r.Int32N(n)
	}
	slices.Sort(indices)
	for range n - 1 {
		indptr = append(indptr, degree)
	}
	a := csr(team, n, n, indptr, indices)
	a.FindHubs()
	if !slices.Equal(a.Hubs, []int{0}) {
		t.Fatalf("hubs %v", a.Hubs)
	}
	x := normal(team, r, n, 37)
	s := kernel.Scales{Row: normal(team, r, n, 1), Col: normal(team, r, n, 1), Self: normal(team, r, n, 1)}
	want, size := make([]float64, 37), make([]float64, 37)
	for _, j := range indices {
		for c := range want {
			term := float64(s.Col.Floats()[j]) * float64(x.Floats()[int(j)*37+c])
			want[c] += term
			size[c] += math.Abs(term)
		}
	}
	z := team.Zeros(tensor.Activations, n, 37)
	team.Fill(z, 1)
	team.SpMM(z, a, x, s, true)
	for c := range want {
		w := 1 + float64(s.Row.Floats()[0])*(want[c]+float64(s.Self.Floats()[0])*float64(x.Floats()[c]))
		if d := math.Abs(float64(z.Floats()[c]) - w); d > 1e-5*size[c] {
			t.Errorf("column %d: %v, want %v", c, z.Floats()[c], w)
		}
	}
	three := kernel.NewTeam(3, team.Memory)
	again := three.Zeros(tensor.Activations, n, 37)
	three.Fill(again, 1)
	three.SpMM(again, a, x, s, true)
	if !slices.Equal(z.Floats(), again.Floats()) {
		t.Error("one and three threads differ")
	}
}

// TestHubAttention has vertices with so many in-edges and out-edges, many of them equal, that their rows are taken apart: the result is
// the same for any number of threads, over two blocks that both have a hub, and of whole rows. TestConformance holds it against the reference.
func TestHubAttention(t *testing.T) {
	for _, degree := range []int{40_000, 300_000} { // the second is of more parts than there are lanes, but not in two blocks
		for _, v2 := range []bool{false, true} {
			with(t, func(s *suite) {
				const n, heads, width = 1024, 3, 5
				a := s.tangled(n, degree)
				left, right := halves(s.team, a, n/2)
				k := kernel.Attention{
					Heads: heads, Width: width, Slope: .2, Source: s.normal(n, heads*width), Mask: kernel.NewMask(8, .4, nil),
					SourceIDs: s.permutation(n), TargetIDs: s.permutation(n),
				}
				if v2 {
					k.Target, k.A = s.normal(n, heads*width), s.normal(1, heads*width)
				} else {
					k.SourceScore, k.TargetScore = s.normal(n, heads), s.normal(n, heads)
				}
				g := s.normal(n, heads*width)
				one := attendBlocks(kernel.NewTeam(1, s.team.Memory), k, g, true, a)
				three := attendBlocks(kernel.NewTeam(3, s.team.Memory), k, g, true, a)
				two := attendBlocks(s.team, k, g, true, left, right)
				whole := one
				if degree < 100_000 { // whole rows of more are summed with too many roundings
					whole = attendBlocks(s.team, k, g, false, a)
				}
				for name, m := range one {
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

// attendBlocks is what attention over the blocks of some columns each gives, and its gradients for the output's gradient g, with hubs
// taken apart or not.
func attendBlocks(team *kernel.Team, k kernel.Attention, g *tensor.Matrix, apart bool, blocks ...*kernel.CSR) map[string]*tensor.Matrix {
	rows, cols := k.Source.Rows, k.Source.Cols
	zeros := func(rows, cols int) *tensor.Matrix { return team.Zeros(tensor.Buffers, rows, cols) }
	d := kernel.AttentionGradients{
		Source: zeros(rows, cols), SourceScore: zeros(rows, k.Heads), TargetScore: zeros(rows, k.Heads), Target: zeros(rows, cols), A: zeros(1, cols),
	}
	each := func(run func(k kernel.Attention, d kernel.AttentionGradients, b *kernel.CSR, last bool)) {
		from := 0
		for n, b := range blocks {
			k, d := k, d
			for _, m := range []**tensor.Matrix{&k.Source, &k.SourceScore, &k.SourceIDs, &d.Source, &d.SourceScore} {
				if *m != nil {
					*m = (*m).RowRange(from, from+b.Cols)
				}
			}
			if b.Hubs = nil; apart {
				b.FindHubs()
			}
			run(k, d, b, n == len(blocks)-1)
			from += b.Cols
		}
	}
	state := team.AttentionStart(rows, k.Heads, k.Width)
	team.Fill(state.Maximum, float32(math.NaN()))
	team.Fill(state.Out, float32(math.NaN()))
	each(func(k kernel.Attention, _ kernel.AttentionGradients, b *kernel.CSR, last bool) {
		team.Attend(state, k, b, nil, last)
	})
	gOut := zeros(rows, k.Heads)
	team.RowDots(gOut, g, state.Out)
	each(func(k kernel.Attention, d kernel.AttentionGradients, b *kernel.CSR, _ bool) {
		transposed := team.Transpose(b, tensor.Graph)
		if !apart {
			transposed.Hubs = nil
		}
		team.AttendBackward(d, k, b, transposed, nil, g, gOut, state.Maximum)
	})
	return map[string]*tensor.Matrix{
		"output": state.Out, "log-sum-exp": state.Maximum, "source gradient": d.Source, "source score's gradient": d.SourceScore,
		"target gradient": d.Target, "target score's gradient": d.TargetScore, "vector's gradient": d.A,
	}
}
