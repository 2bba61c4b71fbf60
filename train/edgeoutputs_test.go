package train

import (
	"math"
	"os"
	"strings"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/plan"
	"weft/train/worker"
)

// edgeOutputsOptions are options with a program whose edges have a state, which it returns: e = tanh(a·u +
// x_j·v), m = mean e, e' = e·w + m_i. Its outputs are m and e'.
func edgeOutputsOptions(t *testing.T, end string) Options {
	t.Helper()
	edge := `{"op":"edge_features","shape":[3]},{"op":"parameter","name":"u"},{"op":"linear","in":[3,4]}`
	if end == "source" { // where features of edges are not read
		edge = `{"op":"gather","in":[2],"end":"target"},{"op":"parameter","name":"u"},{"op":"linear","in":[3,4]}`
	}
	return programOptions(t, edgeOutputsShapes(end), `"operations":[
		{"op":"features","shape":[13]},{"op":"parameter","name":"v"},{"op":"linear","in":[0,1]},`+edge+`,
		{"op":"gather","in":[2],"end":"source"},{"op":"add","in":[5,6]},{"op":"tanh","in":[7]},
		{"op":"scatter","in":[8],"reduce":"mean","end":"`+end+`"},
		{"op":"parameter","name":"w"},{"op":"linear","in":[8,10]},{"op":"gather","in":[9],"end":"target"},
		{"op":"add","in":[11,12]}],"output":9,"edge_outputs":[13]`)
}

func edgeOutputsShapes(end string) map[string][]int {
	if end == "source" {
		return map[string][]int{"v": {4, 13}, "u": {4, 4}, "w": {4, 4}}
	}
	return map[string][]int{"v": {4, 13}, "u": {4, 3}, "w": {4, 4}}
}

// TestEdgeOutputs: a pass returns rows of edges in the order of the store, as computed here edge by edge in
// double precision, and its gradients are those of differences. They are the same on every mesh, and of some
// of the edges, too: the other rows stay as they are. No pass leaves memory behind, and the plan of one is
// exact to the byte.
func TestEdgeOutputs(t *testing.T) {
	for _, end := range []string{"target", "source"} {
		testEdgeOutputs(t, end)
	}
}

func testEdgeOutputs(t *testing.T, end string) {
	t.Helper()
	g := tangle(t, 60, 40)
	from := g.Relations[0].Edges()
	sameOnMeshes(t, g, edgeOutputsOptions(t, end), edgeOutputsShapes(end),
		[]string{"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2"},
		func(c *edgesCall, forward worker.Forward) {
			c.likeByHand(t, g, from, forward.Edges, end)
			c.gradientsLikeDifferences(t, forward)
		})
}

// sameOnMeshes compares passes of a program, of all edges and of some, on meshes with those on the first. No
// pass leaves memory behind, and the plan of one is exact to the byte. check, if there is one, gets those on
// the first.
func sameOnMeshes(t *testing.T, g *graph.Graph, o Options, shapes map[string][]int, meshes []string,
	check func(c *edgesCall, forward worker.Forward),
) {
	t.Helper()
	r := &g.Relations[0]
	kept := make([]float32, len(r.Sources))
	for k := range kept {
		kept[k] = float32(k % 3)
	}
	values := nn.State{}
	for name, shape := range shapes {
		values[name] = nn.Tensor{Shape: shape, Float32: sixteenths(shape)}
	}
	var first [2]edgesCall
	for mesh, parallel := range meshes {
		o := o
		o.Parallel, o.Threads = parallel, 1
		require.NoError(t, o.ForLoop())
		job := &Job{Graph: g, Options: o}
		p, err := job.Passes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []Output{{Columns: 4}, {Edges: true, Columns: 4}}, p.Outputs)
		before := live(t, p)
		for some, forward := range []worker.Forward{
			{}, {Edges: []worker.EdgeValues{{Relation: r, Kept: kept}}},
		} {
			c := &edgesCall{Passes: p, values: values, relation: r}
			c.forward(t, forward)
			c.backward(t)
			if forward.Edges == nil { // else the pass takes less
				planned, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &plan.Loop{Passes: 1}})
				require.NoError(t, err)
				took, err := p.Totals()
				require.NoError(t, err)
				assert.Equal(t, planned.PeakTensorBytes, took.PeakTensorBytes, parallel)
			}
			if mesh == 0 {
				if check != nil {
					check(c, forward)
				}
				first[some] = *c
			}
			c.like(t, &first[some], parallel)
		}
		assert.Equal(t, before, live(t, p), "%s: bytes after all passes", parallel)
		require.NoError(t, p.Close())
	}
}

// TestEdgeOutputsOfStages: those of a pipeline are those of one worker, where states of edges pass from stage
// to stage, and so are gradients. The plan is exact to the byte.
func TestEdgeOutputsOfStages(t *testing.T) {
	sameOnMeshes(t, tangle(t, 60, 40), lastStatesOptions(t, 4), statesShapes(4),
		[]string{"graph=1", "pipeline=2", "pipeline=4", "graph=2,pipeline=2", "graph=2,tensor=2,pipeline=2"},
		nil)
}

// lastStatesOptions are statesOptions whose program returns the states of the last layer, too, with the
// weight of its rows of vertices.
func lastStatesOptions(t *testing.T, outputs int) Options {
	t.Helper()
	o := statesOptions(t, outputs)
	program, err := os.ReadFile(o.Program.Path)
	require.NoError(t, err)
	text := strings.Replace(string(program), `],"output":70`,
		`,{"op":"linear","in":[66,69]}],"output":70,"edge_outputs":[71]`, 1)
	require.NoError(t, os.WriteFile(o.Program.Path, []byte(text), 0o666))
	return o
}

// like compares outputs of edges and gradients with those of another call.
func (c *edgesCall) like(t *testing.T, first *edgesCall, parallel string) {
	t.Helper()
	for k, x := range first.edges {
		assert.Near(t, float64(x), float64(c.edges[k]), 1e-6, "%s: number %d", parallel, k)
	}
	for name, gradient := range first.gradients {
		for k, x := range gradient.Float32 {
			got := c.gradients[name].Float32[k]
			assert.Near(t, float64(x), float64(got), 1e-4, "%s: %s %d", parallel, name, k)
		}
	}
}

// edgesCall is a pass with outputs of vertices and of edges.
type edgesCall struct {
	*Passes
	values          nn.State
	relation        *graph.Relation
	number          int
	vertices, edges []float32
	gradients       nn.State
}

// untouched is what an output of edges has where the pass writes no row.
const untouched = 99

func (c *edgesCall) forward(t *testing.T, f worker.Forward) {
	t.Helper()
	made++
	c.number = made
	c.vertices, c.edges = make([]float32, 4*c.Types[0].Vertices), make([]float32, 4*len(c.relation.Sources))
	for k := range c.edges {
		c.edges[k] = untouched
	}
	n := len(c.relation.Sources)
	f.Pass, f.Values, f.Recording = c.number, c.values, true
	f.Relations = []*graph.Relation{nil, c.relation}
	f.Outputs = [][]worker.ColumnBlock{
		{{Columns: 4, Values: c.vertices}},
		{{Columns: 1, Values: c.edges[:n]}, {Columns: 3, Values: c.edges[n:]}},
	}
	require.NoError(t, c.Forward(f))
}

// weight is that of a number of an output in the loss.
func weight(k int) float64 { return math.Cos(float64(3 * k)) }

func (c *edgesCall) backward(t *testing.T) {
	t.Helper()
	n := len(c.relation.Sources)
	grads := [][]float32{make([]float32, len(c.vertices)), make([]float32, len(c.edges))}
	for _, grad := range grads {
		for k := range grad {
			grad[k] = float32(weight(k))
		}
	}
	c.gradients = nn.State{}
	for name, value := range c.values {
		c.gradients[name] = nn.Tensor{Shape: value.Shape, Float32: make([]float32, len(value.Float32))}
	}
	require.NoError(t, c.Backward(worker.Backward{
		Pass: c.number, Gradients: c.gradients, Outputs: [][]worker.ColumnBlock{
			{{Columns: 4, Values: grads[0]}},
			{{Columns: 1, Values: grads[1][:n]}, {Columns: 3, Values: grads[1][n:]}},
		},
	}))
}

func (c *edgesCall) loss() (sum float64) {
	for _, values := range [][]float32{c.vertices, c.edges} {
		for k, x := range values {
			if x != untouched {
				sum += weight(k) * float64(x)
			}
		}
	}
	return sum
}

// likeByHand compares the outputs with the equations of edgeOutputsOptions.
func (c *edgesCall) likeByHand(t *testing.T, g *graph.Graph, edges graph.Edges, requested []worker.EdgeValues,
	end string,
) {
	t.Helper()
	rows := g.Types[0].Features
	n := len(edges.Source)
	product := func(x []float64, name string) (z [4]float64) {
		w := c.values[name]
		for i := range z {
			for k, a := range x {
				z[i] += a * float64(w.Float32[i*w.Shape[1]+k])
			}
		}
		return z
	}
	h := make([][4]float64, c.Types[0].Vertices)
	for v := range h {
		x := make([]float64, rows.Columns)
		for k := range x {
			x[k] = float64(rows.Dense[v*rows.Columns+k])
		}
		h[v] = product(x, "v")
	}
	e, sums, counts := make([][4]float64, n), make([][4]float64, len(h)), make([]float64, len(h))
	there := func(k int) bool { return requested == nil || requested[0].Kept[k] != 0 }
	for k := range n {
		a := []float64{}
		for i := range 3 {
			a = append(a, float64(c.relation.Features.Dense[3*k+i]))
		}
		at := edges.Target[k]
		if end == "source" {
			a, at = h[edges.Target[k]][:], edges.Source[k]
		}
		z := product(a, "u")
		for i := range z {
			z[i] = math.Tanh(z[i] + h[edges.Source[k]][i])
		}
		if e[k] = z; there(k) {
			counts[at]++
			for i := range z {
				sums[at][i] += z[i]
			}
		}
	}
	for k := range n {
		z := product(e[k][:], "w")
		for i := range z {
			want, at := z[i]+sums[edges.Target[k]][i]/max(1, counts[edges.Target[k]]), k
			if i > 0 {
				at = n + 3*k + i - 1
			}
			if !there(k) {
				want = untouched
			}
			assert.Near(t, want, float64(c.edges[at]), 1e-5, "edge %d, column %d", k, i)
		}
	}
}

// gradientsLikeDifferences compares gradients with quotients of differences.
func (c *edgesCall) gradientsLikeDifferences(t *testing.T, f worker.Forward) {
	t.Helper()
	for name, gradient := range c.gradients {
		for k := 0; k < len(gradient.Float32); k += 3 {
			at, losses := &c.values[name].Float32[k], [2]float64{}
			was := *at
			for i, step := range []float32{.01, -.01} {
				other := &edgesCall{Passes: c.Passes, values: c.values, relation: c.relation}
				*at = was + step
				other.forward(t, f)
				losses[i] = other.loss()
				require.NoError(t, c.Drop(other.number))
			}
			*at = was
			assert.Near(t, (losses[0]-losses[1])/.02, float64(gradient.Float32[k]), 2e-2, "%s %d", name, k)
		}
	}
}

// TestRefusesEdgeOutputs: a training by weft refuses outputs of edges.
func TestRefusesEdgeOutputs(t *testing.T) {
	g, o := tangle(t, 60, 40), edgeOutputsOptions(t, "target")
	require.NoError(t, o.ForLoop())
	_, err := (&Job{Graph: g, Options: o}).Run(t.Context())
	assert.Refused(t, err, "it has outputs of edges", "weft.compile")
}
