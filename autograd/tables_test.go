package autograd_test

import (
	"math"
	"testing"

	"weft/autograd"
	"weft/tensor"
)

// TestBasesOfLongTables: tables of more numbers than are transposed at a time are summed like short ones,
// forward and backward. The gradient of the sums is ones.
func TestBasesOfLongTables(t *testing.T) {
	b := newBench(t)
	const vertices, columns, tables = 3500, 12, 3
	const numbers = vertices * columns
	cm, xm := b.matrix(4, tables), b.matrix(tables*vertices, columns)
	dc, dx := b.team.Zeros(tensor.Parameters, 4, tables),
		b.team.Zeros(tensor.Parameters, tables*vertices, columns)
	listed := []int{3, 1}
	z := autograd.BasisDecomposition(b.tape.Parameter(cm, dc), listed, b.tape.Parameter(xm, dx))
	if z.Rows() != len(listed)*vertices || z.Cols() != columns {
		t.Fatalf("%d×%d", z.Rows(), z.Cols())
	}
	c, x := cm.Floats(), xm.Floats()
	for i, k := range listed {
		for at := range numbers {
			want := 0.
			for table := range tables {
				want += float64(c[k*tables+table]) * float64(x[table*numbers+at])
			}
			if got := float64(z.Value().Floats()[i*numbers+at]); math.Abs(got-want) > 1e-5 {
				t.Fatalf("sum %d, number %d: %v, want %v", i, at, got, want)
			}
		}
	}
	g := b.team.Memory.New(tensor.Gradients, z.Rows(), z.Cols())
	b.team.Fill(g, 1)
	b.tape.Backward(autograd.Root{Var: z, Grad: g})
	for table := range tables {
		sum := 0.
		for at := range numbers {
			sum += float64(x[table*numbers+at])
			if got, want := dx.Floats()[table*numbers+at], c[3*tables+table]+
				c[1*tables+table]; math.Abs(float64(got-want)) > 1e-5 {
				t.Fatalf("table %d, number %d: gradient %v, want %v", table, at, got, want)
			}
		}
		for k := range 4 {
			want := 0.
			if k == 3 || k == 1 {
				want = sum
			}
			if got := float64(dc.Floats()[k*tables+table]); math.Abs(got-want) > 1e-3*math.Abs(sum) {
				t.Errorf("weight %d of table %d: gradient %v, want %v", k, table, got, want)
			}
		}
	}
	b.live("the backward pass", 0)
}
