package tp_test

import (
	"fmt"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/parallel/tp"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestToRowsInvertsToSlices: toRows(toSlices(x)) has the bits of x, and so have the gradients. The cases have
// one message or several, and numbers of rows, columns and workers that do not divide each other. 0 rounds
// make two all-to-alls alone; 1 and 2 rounds overlap them with the computation.
func TestToRowsInvertsToSlices(t *testing.T) {
	for _, c := range []struct{ vertices, columns, workers int }{
		{3000, 700, 2}, {13, 7, 3}, {13, 2, 4}, {2, 5, 7}, {0, 5, 2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			g := paralleltest.GraphOf(t, c.vertices, graph.Edges{})
			sliced(t, g, c.workers, 3, nil, func(e engine.Config, a *tp.Axis) {
				numbers := func(factor float32) *tensor.Matrix {
					m := e.Team.Memory.New(tensor.Features, a.Rows().Here, c.columns)
					for i := range m.Floats() {
						m.Floats()[i] = factor * (float32(a.Vertices()[i/c.columns]) +
							float32(i%c.columns)/1024)
					}
					return m
				}
				same := func(what string, got, want *tensor.Matrix) {
					for i, x := range want.Floats() {
						if got.Floats()[i] != x {
							t.Errorf("%s: element %d is %v, want %v", what, i, got.Floats()[i], x)
							return
						}
					}
				}
				for rounds := range 3 { // without edges a round does not change the rows
					tape := autograd.NewTrainingTape(e.Team, autograd.Random{})
					x := tape.Input(numbers(1), a.Rows())
					p := a.Propagator("nowhere", paralleltest.Stored)
					z := p.Propagate(x, gnn.Reduce{Kind: gnn.KindSum, Self: 1}, gnn.Rounds{Count: rounds})
					same(fmt.Sprintf("values, %d rounds", rounds), z.Value(), numbers(1))
					tape.Backward(autograd.Root{Var: z, Grad: numbers(3)})
					same(fmt.Sprintf("gradients, %d rounds", rounds), x.TakeGrad(), numbers(3))
				}
			})
		})
	}
}
