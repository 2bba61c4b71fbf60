package program_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/graph"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// goldenLoss is a loss of testdata/losses.py.
type goldenLoss struct {
	Name                              string
	Loss                              json.RawMessage
	Class                             []int32
	Logits, Several, Values, Gradient []float32
	Value                             float64
	columns                           int
}

func goldenLosses(t *testing.T) (all []goldenLoss) {
	text, err := os.ReadFile("testdata/losses.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	assert.Equal(t, 29, len(all))
	for i := range all {
		g := &all[i]
		g.columns = len(g.Logits) / max(len(g.Class), len(g.Several)/5, len(g.Values)/2)
	}
	return all
}

// labels returns the labels of some vertices.
func (g *goldenLoss) labels(team *kernel.Team, vertices []int32) (l nn.Labels) {
	columns := func(values []float32) *tensor.Matrix {
		m := team.Memory.New(tensor.Buffers, len(vertices), g.columns)
		team.Serial(func() {
			for i, v := range vertices {
				copy(m.WriteFloats()[i*g.columns:], values[int(v)*g.columns:][:g.columns])
			}
		})
		return m
	}
	switch {
	case g.Several != nil:
		l.Multi = columns(g.Several)
	case g.Values != nil:
		l.Values = columns(g.Values)
	default:
		l.Class = team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(vertices))
		team.Serial(func() {
			for i, v := range vertices {
				l.Class.WriteInt32s()[i] = g.Class[v]
			}
		})
	}
	return l
}

// TestLosses: losses and their gradients agree with PyTorch in float64, also if workers divide the rows, or
// have none.
func TestLosses(t *testing.T) {
	for _, g := range goldenLosses(t) {
		l, err := program.ReadLoss(strings.NewReader(string(g.Loss)))
		require.NoError(t, err, g.Name)
		rows := len(g.Logits) / g.columns
		assert.NoError(t, l.Check(g.columns, g.Class == nil), g.Name)
		for name, division := range paralleltest.Dividings(rows, 3) {
			what, parts, got := g.Name+", "+name, make([]float64, 3), make([]float32, len(g.Gradient))
			paralleltest.Workers{
				Mesh: paralleltest.Grid(1, 3, 1), Graph: paralleltest.GraphOf(t, rows, graph.Edges{}),
				Owners: division,
			}.Run(t, func(c engine.Config) {
				rank := c.Groups.World.Rank()
				var vertices, listed []int32
				for v, part := range division {
					if int(part) == rank {
						listed = append(listed, int32(len(vertices)))
						vertices = append(vertices, int32(v))
					}
				}
				z := c.Team.Memory.New(tensor.Activations, len(vertices), g.columns)
				for i, v := range vertices {
					copy(z.WriteFloats()[i*g.columns:], g.Logits[int(v)*g.columns:][:g.columns])
				}
				output := autograd.NewTape(c.Team).Constant(z, autograd.AllHere(len(vertices)))
				own := nn.WholeLoss{
					Function: l.For(), Peers: exchange.PeersOf(c.Groups.World), First: rank == 0,
				}
				list := nn.Listed{Rows: kernel.List(c.Team, tensor.Buffers, listed), All: rows}
				labels := g.labels(c.Team, vertices)
				live := c.Team.Memory.LiveTensors()
				part := own.Loss(output, labels, list)
				value, gradient := own.LossGradient(output, labels, list)
				if parts[rank] = value; part != value {
					t.Errorf("%s: %v without a gradient, and %v with it", what, part, value)
				}
				place(got, gradient, vertices)
				gradient.Release()
				if extra := c.Team.Memory.LiveTensors() - live; extra != 0 {
					t.Errorf("%s: %d bytes are still live", what, extra)
				}
			})
			near(t, what, []float32{float32(parts[0]), float32(parts[1]), float32(parts[2])},
				[]float32{float32(g.Value), 0, 0})
			near(t, what+", gradient", got, g.Gradient)
		}
	}
}

// TestDamagedLosses reads damaged losses: each is refused in one line, or is another loss, which can be
// planned.
func TestDamagedLosses(t *testing.T) {
	all, r, refused := goldenLosses(t), rand.New(rand.NewPCG(1, 2)), 0
	for k := range 300 {
		g := all[k%len(all)]
		text := damaged(t, r, string(g.Loss))
		l, err := program.ReadLoss(strings.NewReader(text))
		if err != nil {
			refused++
			if !refusal.Is(err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if l.Check(g.columns, g.Class == nil) != nil {
			continue
		}
		memory := tensor.NewMeter()
		team := kernel.NewPlan(1, memory)
		z := memory.New(tensor.Activations, 3, g.columns)
		output := autograd.NewTape(team).Constant(z, autograd.AllHere(3))
		own := nn.WholeLoss{Function: l.For(), First: true}
		own.LossGradient(output, g.labels(team, []int32{0, 1, 2}), nn.Listed{
			Rows: memory.NewElement(tensor.Buffers, tensor.Int32, 1, 3), All: 3,
		})
		memory.Close()
	}
	if refused < 150 {
		t.Errorf("%d of 300 are refused", refused)
	}
}

// TestReadLossRefuses: ReadLoss refuses programs that are no loss, and Check labels of other shapes.
func TestReadLossRefuses(t *testing.T) {
	const logits, mean = `{"op": "logits", "shape": [3]}`, `{"op": "row_mean", "in": [0]}, {"op": "sum", "in": [1]}`
	for _, c := range []struct{ operations, want string }{
		{logits, "output: rows of vertices of shape [3], and a loss is one number"},
		{logits + `, {"op": "row_mean", "in": [0]}`, "output: a tensor of shape [3], and a loss is one number"},
		{`{"op": "features", "shape": [3]}, ` + mean, "operation 0 (features): a loss reads logits and labels alone"},
		{logits + `, {"op": "dropout", "in": [0], "p": 0.5}, ` + mean, "operation 1 (dropout): a loss reads"},
		{logits + `, {"op": "ones", "rows": "edges"}, ` + mean, "operation 1 (ones): a loss reads"},
		{`{"op": "labels"}, ` + mean, "output: does not depend on the logits"},
		{logits + `, {"op": "logits", "shape": [4]}, {"op": "row_mean", "in": [1]}`, "operation 1 (logits): logits of two shapes"},
		{`{"op": "logits", "shape": [3, 2]}`, "a shape of [3 2], and rows have one size"},
	} {
		last := strings.Count(c.operations, `"op"`) - 1
		text, err := json.Marshal(map[string]any{
			"version": 1, "class": "mean", "output": last,
			"operations": json.RawMessage("[" + c.operations + "]"),
		})
		require.NoError(t, err)
		_, err = program.ReadLoss(strings.NewReader(string(text)))
		assert.Refused(t, err, c.want, c.operations)
		if slices.Contains([]string{"features", "labels"}, c.operations[8:14]) {
			continue
		}
		_, err = program.Read(strings.NewReader(string(text)))
		assert.Refused(t, err, "program: ", "as a model")
	}
	for _, more := range []string{
		`"parameters":[{}]`, `"relations":[{}]`, `"updates":[{}]`,
	} {
		_, err := program.ReadLoss(strings.NewReader(`{"version":1,"class":"mean",` + more + "}"))
		const want = "a loss has no parameters, relations or updates"
		assert.Refused(t, err, want, more)
	}
	read := func(labels string) *program.Loss {
		l, err := program.ReadLoss(strings.NewReader(`{"version": 1, "class": "mean", "output": 4, "operations": [` +
			logits + `, {"op": "labels"` + labels + `}, {"op": "sub", "in": [0, 1]}, {"op": "row_mean", "in": [2]},
			{"op": "sum", "in": [3]}]}`))
		require.NoError(t, err)
		return l
	}
	several := `, "shape": [3]`
	assert.NoError(t, read(several).Check(3, true))
	assert.Refused(t, read(several).Check(3, false), "reads labels of shape [3]", "classes")
	assert.Refused(t, read(several).Check(4, true), "reads 3 logits of a vertex, and the graph's labels need 4", "")
	assert.Refused(t, read("").Check(3, true), "reads labels of shape []", "several labels")
}
