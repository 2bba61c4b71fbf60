package program_test

import (
	"fmt"
	"strings"
	"testing"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// onModel calls f with a model on one worker, and with the graph's features. The model has these operations
// after the features, no parameters, and so many stages.
func onModel(t *testing.T, operations string, g *graph.Graph, stages int,
	f func(team *kernel.Team, m gnn.Model, x *tensor.Matrix, rows *autograd.RowSet),
) {
	t.Helper()
	n := g.Types[0].Features.Columns
	p, err := program.Read(strings.NewReader(fmt.Sprintf(`{"version":1,"class":"Net","parameters":[],
		"operations":[{"op":"features","shape":[%d]},%s],"output":%d}`, n, operations,
		strings.Count(operations, `"op"`))))
	require.NoError(t, err)
	single := paralleltest.Grid(1, 1, 1)
	paralleltest.Workers{Mesh: single, Graph: g}.Run(t, func(c engine.Config) {
		part := axisOf(c, single)
		specs, err := p.Blocks(part.Schema(), n, stages)
		exchange.Must(err)
		model := gnn.Build(specs, 0, len(specs), gnn.Env{
			Params: nn.NewParams(c.Team, 1), Schema: part.Schema(), Rows: part.Types(),
			Propagators: part.Propagator,
		})
		x := c.Team.Memory.New(tensor.Features, g.Vertices(), n)
		copy(x.WriteFloats(), g.Types[0].Features.Dense)
		f(c.Team, model, x, part.Types()[0])
	})
}

// TestKeepsDenseFeatures: if an operation reads sparse features as dense, training makes them dense once, and
// evaluation alone keeps nothing.
func TestKeepsDenseFeatures(t *testing.T) {
	g := paralleltest.GraphOf(t, 500, graph.Edges{Source: []int32{0, 3}, Target: []int32{2, 499}})
	g.Types[0].Features = graph.Features{Columns: 300, Dense: make([]float32, 500*300)}
	onModel(t, `{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"max"}`, g, 1, func(
		team *kernel.Team, model gnn.Model, x *tensor.Matrix, rows *autograd.RowSet,
	) {
		team.Fill(x, 1)
		sparse, live := compressed(team, x), team.Memory.LiveTensors()
		for pass, training := range []bool{false, true, true, false} {
			tape := autograd.NewTape(team)
			tape.Training = training
			model.Forward(gnn.StateOf(tape.SparseFixed(sparse, rows))).Output().Drop()
			kept := team.Memory.LiveTensors() - live
			if dense := int64(4 * 500 * 300); pass == 0 && kept != 0 || pass > 0 && kept/dense != 1 {
				t.Errorf("after pass %d %d bytes are kept, and the dense form has %d", pass, kept, dense)
			}
		}
	})
}

// TestOverAllRows compares values over all rows with values by hand, in one block and in two stages.
func TestOverAllRows(t *testing.T) {
	for name, c := range map[string]struct {
		operations     string
		source, target []int32
		x, want        []float32
	}{
		"the largest of negative rows of edges, where vertices have none": {
			`{"op":"gather","in":[0],"end":"source"},{"op":"row_max","in":[1]},{"op":"sub","in":[0,2]}`,
			[]int32{0, 1},
			[]int32{1, 3},
			[]float32{-1, -2, -3, -6},
			[]float32{0, -1, -2, -5},
		},
		"a mean of the features that the second layer reads": {
			`{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"mean"},
			{"op":"row_mean","in":[0]},{"op":"gather","in":[2],"end":"source"},
			{"op":"scatter","in":[4],"reduce":"mean"},{"op":"add","in":[5,3]}`,
			[]int32{0, 1, 2, 3},
			[]int32{1, 2, 3, 0},
			[]float32{1, 2, 3, 6},
			[]float32{6, 9, 4, 5},
		},
	} {
		g := paralleltest.GraphOf(t, len(c.x), graph.Edges{Source: c.source, Target: c.target})
		g.Types[0].Features = graph.Features{Columns: 1, Dense: c.x}
		for stages := 1; stages <= 2; stages++ {
			onModel(t, c.operations, g, stages, func(
				team *kernel.Team, model gnn.Model, x *tensor.Matrix, rows *autograd.RowSet,
			) {
				z := model.Forward(gnn.StateOf(autograd.NewTape(team).Constant(x, rows))).Output()
				assert.Equal(t, c.want, z.Value().ReadFloats(), fmt.Sprintf("%s, %d stages", name, stages))
			})
		}
	}
}

// TestIgnoresWeights: a GCN without weights is the same on a graph that has some.
func TestIgnoresWeights(t *testing.T) {
	g := readGolden(t, "testdata/gcn.safetensors")
	index := g.tensors["edge_index"].Shape
	weights := safetensors.Tensor{Shape: index[1:]}
	for k := range index[1] {
		weights.Float32 = append(weights.Float32, float32(k%5)+.5)
	}
	g.tensors["edge_weight"] = weights
	g.step(t, 1, paralleltest.Grid(1, 1, 1))
}
