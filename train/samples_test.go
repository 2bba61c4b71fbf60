package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/internal/safetensors"
	"weft/nn"
	"weft/train/plan"
	"weft/train/worker"
)

// jobOfSamples is of two mean aggregations: of features beside a table, with a batch norm and dropout between
// them.
func jobOfSamples(t *testing.T, parallel string) *Job {
	t.Helper()
	g := tangle(t, 60, 240)
	columns, n := g.Types[0].Features.Columns, 60
	shapes := map[string][]int{
		"v": {4, columns}, "table": {n, 4}, "w": {3, 4}, "mean": {4}, "variance": {4},
	}
	init, parameters := nn.State{}, ""
	for name, shape := range shapes {
		init[name] = nn.Tensor{Shape: shape, Float32: make([]float32, shape[0]*append(shape, 1)[1])}
		numbers, err := json.Marshal(shape)
		require.NoError(t, err)
		parameters += fmt.Sprintf(`{"name":%q,"shape":%s,"trained":%t},`, name, numbers, len(shape) == 2)
	}
	init["batches"] = nn.Tensor{Shape: []int{}, Int64: []int64{0}}
	table := `{"op":"table","name":"table"},{"op":"add","in":[4,5]}`
	text := fmt.Sprintf(`{"version":1,"class":"Net",
		"parameters":[%s{"name":"batches","shape":[]}],"operations":[{"op":"features","shape":[%d]},
		{"op":"gather","in":[0],"end":"source"},{"op":"scatter","in":[1],"reduce":"mean"},
		{"op":"parameter","name":"v"},{"op":"linear","in":[2,3]},%s,
		{"op":"batch_norm","in":[6],"eps":0.01,"momentum":0.25,"mean":"mean","variance":"variance",
			"batches":"batches"},
		{"op":"dropout","in":[7],"p":0.5,"path":"a"},
		{"op":"gather","in":[8],"end":"source"},{"op":"scatter","in":[9],"reduce":"mean"},
		{"op":"parameter","name":"w"},{"op":"linear","in":[10,11]}],"output":12}`, parameters, columns, table)
	var weights bytes.Buffer
	require.NoError(t, safetensors.Write(&weights, init, nil))
	o, folder := Defaults(), t.TempDir()
	o.Init, o.Program.Path = filepath.Join(folder, "init.safetensors"), filepath.Join(folder, "program.json")
	require.NoError(t, os.WriteFile(o.Init, weights.Bytes(), 0o666))
	require.NoError(t, os.WriteFile(o.Program.Path, []byte(text), 0o666))
	o.Parallel, o.Threads = parallel, 1
	require.NoError(t, o.ForLoop())
	return &Job{Graph: g, Options: o}
}

// sampled is what two samples make of a model: outputs and the gradients of features by sample, the gradients
// of the parameters, and the buffers.
type sampled struct {
	made       int // the number of the last pass
	outputs, x [2][]float32
	grads      nn.State
	values     nn.State
}

// rows are some rows of a matrix.
func rows(matrix []float32, vertices []int32, columns int) (some []float32) {
	if vertices == nil {
		return matrix
	}
	for _, v := range vertices {
		some = append(some, matrix[int(v)*columns:][:columns]...)
	}
	return some
}

// train takes a step of two samples: as many as p takes at a time, of the vertices that it has.
func (s *sampled) train(t *testing.T, p *Passes, seeds ...uint64) {
	state, trained := p.State()
	s.values, s.grads = nn.State{}, nn.State{}
	for name, param := range state {
		n := 1
		for _, size := range param.Shape {
			n *= size
		}
		if param.Int64 != nil {
			s.values[name] = nn.Tensor{Shape: param.Shape, Int64: []int64{3}}
			continue
		}
		value := nn.Tensor{Shape: param.Shape, Float32: make([]float32, n)}
		for k := range n {
			value.Float32[k] = float32(math.Sin(float64(3*k+len(name))))/2 + 1
		}
		s.values[name] = value
		if slices.Contains(trained, name) {
			s.grads[name] = nn.Tensor{Shape: param.Shape, Float32: make([]float32, n)}
		}
	}
	n, columns, vertices := p.all0(), p.Types[0].Features, p.Vertices(0)
	var groups [][]int // the samples of each pass
	switch {
	case p.Processes > 1:
		groups = [][]int{{p.Group}}
	case p.Groups == 2:
		groups = [][]int{{0, 1}}
	default:
		groups = [][]int{{0}, {1}}
	}
	var passes []int
	for k, samples := range groups {
		var each []worker.Forward
		s.made++
		passes = append(passes, s.made)
		own := seeds
		if p.Groups == 1 {
			own = seeds[k : k+1]
		}
		for _, sample := range samples {
			x := make([]float32, n*columns)
			for k := range x {
				x[k] = float32(math.Sin(float64(5*k+7*sample))) / 2
			}
			s.outputs[sample] = make([]float32, p.Types[0].Vertices*3)
			each = append(each, worker.Forward{
				Pass: s.made, Seeds: own, Training: true, Recording: true, Values: s.values,
				Features: []worker.InputValues{{Values: rows(x, vertices, columns), Differentiable: true}},
				Outputs:  [][]worker.ColumnBlock{{{Columns: 3, Values: s.outputs[sample]}}},
			})
		}
		require.NoError(t, p.Forward(each...))
	}
	sum := nn.State{}
	for k, samples := range groups {
		var each []worker.Backward
		for _, sample := range samples {
			grad := make([]float32, n*3)
			for k := range grad {
				grad[k] = float32(1+(k+sample)%3) / 8
			}
			s.x[sample] = make([]float32, p.Types[0].Vertices*columns)
			each = append(each, worker.Backward{
				Pass: passes[k], Gradients: s.grads, Features: []worker.InputValues{{Values: s.x[sample]}},
				Outputs: [][]worker.ColumnBlock{{{Columns: 3, Values: rows(grad, vertices, 3)}}},
			})
		}
		require.NoError(t, p.Backward(each...))
		for name, param := range s.grads {
			if sum[name].Float32 == nil {
				sum[name] = nn.Tensor{Float32: make([]float32, len(param.Float32))}
			}
			for k, v := range param.Float32 {
				sum[name].Float32[k] += v
			}
		}
	}
	s.grads = sum
}

// all0 is the number of all vertices of the first type.
func (p *Passes) all0() int { return p.begun[0].Share.Whole.Types[0].Vertices }

// checkSampled compares what samples make of a model, for those that p has.
func checkSampled(t *testing.T, what string, p *Passes, want, got *sampled) {
	t.Helper()
	near := func(name string, want, got []float32) {
		require.Len(t, got, len(want))
		for k := range want {
			assert.Near(t, float64(want[k]), float64(got[k]), 2e-5, "%s: %s %d", what, name, k)
		}
	}
	for sample := range 2 {
		if p.Processes > 1 && sample != p.Group {
			continue
		}
		vertices := p.Vertices(0)
		near("output", rows(want.outputs[sample], vertices, 3), got.outputs[sample])
		near("gradient of features", rows(want.x[sample], vertices, p.Types[0].Features), got.x[sample])
	}
	for name := range want.grads {
		near("gradient of "+name, want.grads[name].Float32, got.grads[name].Float32)
	}
	for name := range want.values {
		near(name, want.values[name].Float32, got.values[name].Float32)
		assert.Equal(t, want.values[name].Int64, got.values[name].Int64, "%s: %s", what, name)
	}
}

// TestSamplesOnGroups: groups of workers that take a sample each compute what one worker does in a pass of
// each sample, one after the other: outputs, the gradients of features and, summed, of parameters and of a
// table's rows; running statistics, and how many batches there were. Memory and messages are as planned.
func TestSamplesOnGroups(t *testing.T) {
	for _, parallel := range []string{
		"samples=2", "graph=2,samples=2", "samples=2,graph=2,tensor=2", "pipeline=2,samples=2",
	} {
		alone := jobOfSamples(t, parallel)
		alone.Options.Parallel, alone.Options.Chunks = "", 0
		whole, err := alone.Passes(t.Context())
		require.NoError(t, err)
		var want, got sampled
		want.train(t, whole, 7, 8)
		if slices.Equal(want.outputs[0], want.outputs[1]) {
			t.Error("the samples are equal")
		}
		require.NoError(t, whole.Close())

		job := jobOfSamples(t, parallel)
		planned, err := job.PlanPasses(t.Context(), plan.Asks{
			Loop: &plan.Loop{Passes: 1, Features: givenFeatures},
		})
		require.NoError(t, err)
		p, err := job.Passes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 2, p.Groups)
		for range 3 {
			got.train(t, p, 7, 8)
		}
		checkSampled(t, parallel, p, &want, &got)
		took, err := p.Totals()
		require.NoError(t, err)
		assert.Equal(t, planned.PeakTensorBytes, took.PeakTensorBytes, "%s: tensors", parallel)
		assert.Equal(t, planned.GraphBytes, took.GraphBytes, "%s: graph", parallel)
		sent := worker.SumOf(planned.Sent)
		assert.Equal(t, sent, took.Communication, "%s: messages", parallel)
		if sent.Gradient.Bytes == 0 || sent.Statistics.Bytes == 0 {
			t.Errorf("%s: no sums are planned: %+v", parallel, sent)
		}
		single := worker.Forward{Pass: -1, Seeds: []uint64{1, 2}, Values: got.values}
		assert.Refused(t, p.Forward(single), "a pass of 1 samples, where 2 groups")
		require.NoError(t, p.Close())
	}
}

// TestSamplesOfProcesses: so do groups of processes, with the seeds of the first one; sums are over all
// processes, or over those of a group.
func TestSamplesOfProcesses(t *testing.T) {
	whole, err := jobOfSamples(t, "").Passes(t.Context())
	require.NoError(t, err)
	var want sampled
	want.train(t, whole, 7, 8)
	require.NoError(t, whole.Close())
	for parallel, processes := range map[string]int{
		"samples=2": 2, "graph=2,samples=2": 4, "tensor=2,samples=2": 4,
	} {
		var all sync.WaitGroup
		for rank, end := range comm.InProcess(processes) {
			all.Go(func() {
				j := jobOfSamples(t, parallel)
				j.Comm = comm.New(end, 0)
				p, err := j.Passes(t.Context())
				if assert.NoError(t, err); err != nil {
					return
				}
				assert.Equal(t, []int{2, rank / (processes / 2)}, []int{p.Groups, p.Group})
				var got sampled
				got.train(t, p, 7+uint64(rank), 8+uint64(rank))
				checkSampled(t, parallel, p, &want, &got)
				values := []float64{float64(rank)}
				require.NoError(t, p.Sum(sums, false, values))
				assert.Equal(t, float64(processes*(processes-1)/2), values[0])
				values[0] = float64(p.Group)
				require.NoError(t, p.Sum(sums, true, values))
				assert.Equal(t, float64(processes/2*p.Group), values[0])
				assert.NoError(t, p.Close())
			})
		}
		all.Wait()
	}
}
