package sar_test

import (
	"math"
	"slices"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/sar"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestMessagesByHand: the edges are 2 → 1 twice, 0 → 1 and 1 → 0, and the rows of x are (1, 10), (2, 20) and
// (4, 40). A message is the sum of both ends, of which x is both, or the source alone. Of two equal edges one
// has the largest message.
func TestMessagesByHand(t *testing.T) {
	g := paralleltest.GraphOf(t, 3, graph.Edges{Source: []int32{2, 2, 0, 1}, Target: []int32{1, 1, 1, 0}})
	x, seed := []float32{1, 2, 4}, []float32{3, 6, 12} // first columns; the second are ten times them
	for _, c := range []struct {
		name    string
		reduce  gnn.ReduceKind
		both    bool
		out, dx [3]float64
	}{
		// (2·4+1)/3+2 and 2+1; 3+2, 3+6 and 6·2/3
		{"mean of both ends", gnn.KindMean, true, [3]float64{3, 5, 0}, [3]float64{3 + 2, 3 + 6, 4}},
		{"sum of both ends", gnn.KindSum, true, [3]float64{3, 9 + 6, 0}, [3]float64{3 + 6, 3 + 18, 12}},
		{"mean of sources", gnn.KindMean, false, [3]float64{2, 3, 0}, [3]float64{2, 3, 4}},
		{"largest source", gnn.KindMax, false, [3]float64{2, 4, 0}, [3]float64{0, 3, 6}},
		{"largest of both ends", gnn.KindMax, true, [3]float64{3, 6, 0}, [3]float64{3, 3 + 6, 6}},
	} {
		for k := 1; k <= 3; k++ {
			workers(t, g, inTurn(3, k), k, axis.Options{}, nil, func(w engine.Config, p *sar.Partition) {
				rows := p.Rows()
				vertex := func(row int) int {
					if rows.IDs == nil {
						return row
					}
					return int(rows.IDs.Int32s()[row])
				}
				matrix := func(values []float32) *tensor.Matrix {
					m := w.Team.Zeros(tensor.Features, rows.Here, 2)
					for row := range rows.Here {
						m.Floats()[2*row], m.Floats()[2*row+1] = values[vertex(row)], 10*values[vertex(row)]
					}
					return m
				}
				tape := autograd.NewTrainingTape(w.Team, autograd.Random{})
				source := tape.Input(matrix(x), rows)
				m := gnn.Message{
					Source: source, Columns: 2, Reduce: c.reduce,
					Function: func(e gnn.Edges) *autograd.Var { return e.Source },
				}
				if c.both {
					m.Target, m.Function = source,
						func(e gnn.Edges) *autograd.Var { return autograd.Add(e.Source, e.Target) }
				}
				z := p.Propagator("here", paralleltest.Stored).Message(m)
				out := append([]float32(nil), z.Value().Floats()...)
				tape.Backward(autograd.Root{Var: z, Grad: matrix(seed)})
				dx := source.TakeGrad().Floats()
				for i := range out {
					by := []float64{1, 10}[i%2]
					if got, want := float64(out[i]), by*c.out[vertex(i/2)]; math.Abs(got-want) > 1e-5 {
						t.Errorf("%s, %d workers: vertex %d gets %v, want %v", c.name, k,
							vertex(i/2), got, want)
					}
					if got, want := float64(dx[i]), by*c.dx[vertex(i/2)]; math.Abs(got-want) > 1e-5 {
						t.Errorf("%s, %d workers: the gradient of vertex %d is %v, want %v", c.name, k,
							vertex(i/2), got, want)
					}
				}
			})
		}
	}
}

// TestDropoutOfEqualEdges: edges that join the same vertices have dropout masks of their own: of 64 messages
// of 1 between two vertices some are dropped and some are not, and those that are kept count double.
func TestDropoutOfEqualEdges(t *testing.T) {
	const edges = 64
	g := paralleltest.GraphOf(t, 2,
		graph.Edges{Source: make([]int32, edges), Target: slices.Repeat([]int32{1}, edges)})
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, g)
	x := team.Zeros(tensor.Features, 2, 1)
	x.Floats()[0] = 1
	tape := autograd.NewTrainingTape(team, autograd.Random{})
	z := p.Propagator("here", paralleltest.Stored).Message(gnn.Message{
		Source: tape.Input(x, p.Rows()), Columns: 1, Reduce: gnn.KindSum,
		Function: func(e gnn.Edges) *autograd.Var {
			return autograd.Dropout(e.Source, nn.Dropout{Path: "edge", P: .5}.Mask(e.Source))
		},
	})
	if got := z.Value().Floats()[1]; got < 2*edges/4 || got > 2*edges*3/4 || math.Mod(float64(got), 2) != 0 {
		t.Errorf("the messages add up to %v", got)
	}
}

// TestMessagesOfAnotherShape: a function that gives another number of columns than it says, or of rows than
// there are edges, is a fault that names the layer.
func TestMessagesOfAnotherShape(t *testing.T) {
	g := paralleltest.GraphOf(t, 3, graph.Edges{Source: []int32{0, 2}, Target: []int32{1, 1}})
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	p := paralleltest.Whole(t, team, g)
	tape := autograd.NewTape(team)
	for want, f := range map[string]func(e gnn.Edges) *autograd.Var{
		"2×4": func(e gnn.Edges) *autograd.Var { return autograd.Join(e.Source, e.Source) },
		"1×2": func(e gnn.Edges) *autograd.Var {
			return e.Tape.Constant(team.Zeros(tensor.Buffers, 1, 2),
				&autograd.RowSet{Here: 1, Total: autograd.NotVertices})
		},
	} {
		func() {
			defer func() {
				got, _ := recover().(tensor.Mismatch)
				assert.EqualError(t, got, "the message function of here gives "+want+
					", and needs 2×2: a row for each edge, and Columns")
			}()
			x := tape.Constant(team.Zeros(tensor.Features, 3, 2), p.Rows())
			p.Propagator("here", paralleltest.Stored).Message(gnn.Message{Source: x, Columns: 2, Function: f})
		}()
	}
}
