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
