package train

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// statesShapes are the shapes of the parameters of statesOptions.
func statesShapes(outputs int) map[string][]int {
	shapes := map[string][]int{"v": {8, 13}, "u": {8, 3}, "o": {outputs, 8}}
	for layer := range 9 {
		shapes[fmt.Sprintf("w%d", layer)] = []int{8, 8}
	}
	return shapes
}

// statesOptions are options with a program of 9 layers whose edges have a state: e' = tanh(e·w + x_j) and
// x' = x + mean e'.
func statesOptions(t *testing.T, outputs int) Options {
	t.Helper()
	operations := []string{
		`{"op":"features","shape":[13]}`, `{"op":"parameter","name":"v"}`, `{"op":"linear","in":[0,1]}`,
		`{"op":"edge_features","shape":[3]}`, `{"op":"parameter","name":"u"}`, `{"op":"linear","in":[3,4]}`,
	}
	add := func(format string, args ...any) int {
		operations = append(operations, fmt.Sprintf(format, args...))
		return len(operations) - 1
	}
	x, e := 2, 5
	for layer := range 9 {
		source := add(`{"op":"gather","in":[%d],"end":"source"}`, x)
		product := add(`{"op":"linear","in":[%d,%d]}`, e, add(`{"op":"parameter","name":"w%d"}`, layer))
		sum := add(`{"op":"add","in":[%d,%d]}`, product, source)
		e = add(`{"op":"tanh","in":[%d]}`, sum)
		x = add(`{"op":"add","in":[%d,%d]}`, add(`{"op":"scatter","in":[%d],"reduce":"mean"}`, e), x)
	}
	output := add(`{"op":"linear","in":[%d,%d]}`, x, add(`{"op":"parameter","name":"o"}`))
	o := programOptions(t, statesShapes(outputs), fmt.Sprintf(`"operations":[%s],"output":%d`,
		strings.Join(operations, ","), output))
	o.Epochs, o.Threads, o.Seed, o.Recompute = 3, 2, 3, setting.RecomputeNone
	return o
}

// TestEdgeStatesInLimit: a run keeps the states of edges that its memory limit has room for, as planned to
// the byte; a pipeline keeps all. Another number of them changes sums of gradients by rounding alone, and the
// same number changes no bit.
func TestEdgeStatesInLimit(t *testing.T) {
	g := tangle(t, 60, 40)
	for _, parallel := range []string{"graph=1", "graph=2,tensor=2", "pipeline=2"} {
		o := statesOptions(t, 5)
		o.Parallel = parallel
		require.NoError(t, o.ForLoop())
		need := func(states setting.EdgeStates) (setting.Bytes, *Result) {
			o := o
			o.KeepEdgeStates = states
			got, _ := planAndRun(t, &Job{Graph: g, Options: o})
			most := int64(0)
			for worker, tensors := range got.PeakTensorBytes {
				most = max(most, tensors+got.GraphBytes[worker])
			}
			return setting.Bytes(most), got
		}
		all, want := need(setting.AllEdgeStates)
		second, partial := need(2)
		if second >= all {
			t.Fatalf("%s: every second needs %d bytes, and all %d", parallel, second, all)
		}
		others := []*Result{partial}
		if parallel != "pipeline=2" { // whose stages would read parameters of each other
			_, none := need(setting.NoEdgeStates)
			others = append(others, none)
		}
		for _, other := range others {
			for k, loss := range want.Losses {
				assert.Near(t, loss, other.Losses[k], 1e-6, "%s: epoch %d", parallel, k+1)
			}
		}
		if parallel == "pipeline=2" {
			o.MemoryLimit = all - 1
			_, err := (&Job{Graph: g, Options: o}).Run(t.Context())
			assert.Refused(t, err, "would need", parallel)
			continue
		}
		for limit, same := range map[setting.Bytes]*Result{all: want, all - 1: partial} {
			o.MemoryLimit = limit
			got, _ := planAndRun(t, &Job{Graph: g, Options: o})
			assert.Equal(t, same.Losses, got.Losses, "%s, limit %d", parallel, limit)
			assert.Equal(t, same.PeakTensorBytes, got.PeakTensorBytes, "%s, limit %d", parallel, limit)
		}
		o.MemoryLimit, o.KeepEdgeStates = second-1, 2
		_, err := (&Job{Graph: g, Options: o}).Run(t.Context())
		assert.Refused(t, err, "--keep-edge-states auto, ", parallel)
	}
}

// TestEdgeStatesOfPasses: passes keep the states of edges that the limit has room for in one of them, as
// planned to the byte.
func TestEdgeStatesOfPasses(t *testing.T) {
	g, o := tangle(t, 60, 40), statesOptions(t, 3)
	require.NoError(t, o.ForLoop())
	job, values := &Job{Graph: g, Options: o}, nn.State{}
	for name, shape := range statesShapes(3) {
		values[name] = nn.Tensor{Shape: shape, Float32: sixteenths(shape)}
	}
	whole, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &plan.Loop{Passes: 1}})
	require.NoError(t, err)
	_, all := whole.Most()
	for limit, states := range map[int64]setting.EdgeStates{all: setting.AllEdgeStates, all - 1: 2} {
		job.Options.MemoryLimit = setting.Bytes(limit)
		planned, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &plan.Loop{Passes: 1}})
		require.NoError(t, err)
		assert.Equal(t, states, planned.EdgeStates)
		p, err := job.Passes(t.Context())
		require.NoError(t, err)
		for range 3 {
			c := &call{Passes: p, values: values}
			c.forward(t, nil, worker.Forward{Training: true, Recording: true}).backward(t, 0, false)
		}
		took, err := p.Totals()
		require.NoError(t, err)
		assert.Equal(t, planned.PeakTensorBytes, took.PeakTensorBytes, "limit %d", limit)
		require.NoError(t, p.Close())
	}
}

// TestNormsOfEdges: a norm over the edges of a relation divides by those of all workers, as computed here in
// double precision. With edges that an epoch leaves out it is refused.
func TestNormsOfEdges(t *testing.T) {
	var rows [5][2]float64 // b's rows times w, by edge
	var sum, squares [2]float64
	for k, source := range []int{0, 1, 3, 3, 2} {
		rows[k] = [][2]float64{{1, 0}, {2, -1}, {3, -1}, {0, 1}}[source]
		for c, x := range rows[k] {
			sum[c], squares[c] = sum[c]+x/5, squares[c]+x*x/5
		}
	}
	var want [5][2]float64
	for k, target := range []int{0, 0, 1, 4, 4} {
		for c, x := range rows[k] {
			want[target][c] += (x - sum[c]) / math.Sqrt(squares[c]-sum[c]*sum[c]+1)
		}
	}
	values := nn.State{"w": {Shape: []int{2, 2}, Float32: []float32{1, 2, 0, -1}}}
	const relations = `"relations":[{"name":"b__y__a","source":"b","target":"a"}],`
	operations := func(columns int, key string) string {
		return fmt.Sprintf(`"operations":[{"op":"features","shape":[%d]%s},{"op":"parameter","name":"w"},
			{"op":"linear","in":[0,1]},{"op":"gather","in":[2],"end":"source"%s},
			{"op":"batch_norm","in":[3],"eps":1},{"op":"scatter","in":[4],"reduce":"sum"}],"output":5`,
			columns, strings.ReplaceAll(key, "RELATION", "b"), strings.ReplaceAll(key, "RELATION", "b__y__a"))
	}
	for _, parallel := range []string{"graph=1", "graph=3", "tensor=2", "graph=2,tensor=2"} {
		o := programOptions(t, map[string][]int{"w": {2, 2}}, relations+operations(2, `,"of":"RELATION"`))
		o.Parallel, o.Threads = parallel, 1
		require.NoError(t, o.ForLoop())
		p, err := (&Job{Graph: twoTypes(t), Options: o}).Passes(t.Context())
		require.NoError(t, err)
		made := make([]float32, 10)
		require.NoError(t, p.Forward(worker.Forward{
			Values: values, Outputs: [][]worker.ColumnBlock{{{Columns: 2, Values: made}}}, Training: true,
		}))
		for k, x := range made {
			assert.Near(t, want[k/2][k%2], float64(x), 1e-6, "%s: number %d", parallel, k)
		}
		require.NoError(t, p.Close())

		o = programOptions(t, map[string][]int{"w": {5, 13}}, operations(13, ""))
		o.Parallel, o.DropEdge, o.Epochs = parallel, .2, 1
		_, err = (&Job{Graph: tangle(t, 60, 40), Options: o}).Run(t.Context())
		assert.Refused(t, err, "a norm over all edges, of which --drop-edge leaves some out; leave --drop-edge out",
			parallel)
	}
}
