package train

import (
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train/setting"
	"weft/train/worker"
)

// sums names a call.
var sums = launch.Call{Says: "sum of numbers"}

// eachProcess does work as each of n processes, which comm.InProcess connects.
func eachProcess(t *testing.T, n int, parallel string, work func(p *Passes)) {
	t.Helper()
	var all sync.WaitGroup
	for _, end := range comm.InProcess(n) {
		all.Go(func() {
			j := jobOfLayers(t, parallel, nil)
			j.Comm = comm.New(end, 0)
			p, err := j.Passes(t.Context())
			if assert.NoError(t, err); err != nil {
				return
			}
			work(p)
			assert.NoError(t, p.Close())
		})
	}
	all.Wait()
}

// ofProcess are the rows of the vertices that a process has.
func ofProcess(p *Passes, matrix []float32, columns int) (rows []float32) {
	for _, v := range p.Vertices(0) {
		rows = append(rows, matrix[int(v)*columns:][:columns]...)
	}
	return rows
}

// TestPassesOfProcesses: processes that have rows of their own compute what one process does: outputs, the
// gradients of the parameters, which are of the sum of their losses, and those of the features. The seed is
// the first one's.
func TestPassesOfProcesses(t *testing.T) {
	whole, values := passesOfLayers(t, "graph=1", nil)
	columns, n := whole.Types[0].Features, whole.Types[0].Vertices
	features := make([]float32, n*columns)
	for k := range features {
		features[k] = float32(k%11)/8 - .5
	}
	weight := func(v, column int) float32 { return float32(1 + (v+column)%3) }
	grads := make([]float32, n*3)
	for k := range grads {
		grads[k] = weight(k/3, k%3)
	}
	train := func(seed uint64, x []float32, output []float32) worker.Forward {
		made++
		return worker.Forward{
			Pass: made, Seeds: []uint64{seed}, Training: true, Recording: true, Changed: true,
			Features: []worker.InputValues{{Values: x, Differentiable: true}},
			Outputs:  [][]worker.ColumnBlock{{{Columns: 3, Values: output}}},
		}
	}
	like := func() nn.State {
		zeros := nn.State{}
		for name, value := range values {
			zeros[name] = nn.Tensor{Shape: value.Shape, Float32: make([]float32, len(value.Float32))}
		}
		return zeros
	}
	pass := func(p *Passes, f worker.Forward, x, grad []float32) (paramGrads nn.State) {
		f.Values = values
		require.NoError(t, p.Forward(f))
		paramGrads = like()
		require.NoError(t, p.Backward(worker.Backward{
			Pass: f.Pass, Gradients: paramGrads, Features: []worker.InputValues{{Values: x}},
			Outputs: [][]worker.ColumnBlock{{{Columns: 3, Values: grad}}},
		}))
		return paramGrads
	}
	wantOutput, wantX := make([]float32, n*3), make([]float32, n*columns)
	want := pass(whole, train(7, features, wantOutput), wantX, grads)

	for parallel, processes := range map[string]int{
		"graph=2": 2, "graph=3": 3, "tensor=2": 2, "graph=2,tensor=2": 4,
	} {
		var mu sync.Mutex
		seen := make([]int, n)
		eachProcess(t, processes, parallel, func(p *Passes) {
			assert.Equal(t, processes, p.Processes, "%s", parallel)
			ids := p.Vertices(0)
			assert.Equal(t, true, slices.IsSorted(ids), "%s: %v", parallel, ids)
			assert.Equal(t, len(ids), p.Types[0].Vertices, "%s", parallel)
			output, x := make([]float32, len(ids)*3), make([]float32, len(ids)*columns)
			mu.Lock() // one pass number for each process
			f := train(uint64(7+p.Process), ofProcess(p, features, columns), output)
			mu.Unlock()
			paramGrads := pass(p, f, x, ofProcess(p, grads, 3))
			for k, v := range ofProcess(p, wantOutput, 3) {
				assert.Near(t, float64(v), float64(output[k]), 1e-5, "%s: output %d", parallel, k)
			}
			for k, v := range ofProcess(p, wantX, columns) {
				assert.Near(t, float64(v), float64(x[k]), 1e-5, "%s: gradient of feature %d", parallel, k)
			}
			for name := range want {
				for k, v := range want[name].Float32 {
					got := float64(paramGrads[name].Float32[k])
					assert.Near(t, float64(v), got, 1e-4, "%s: gradient of %s", parallel, name)
				}
			}
			mu.Lock()
			for _, v := range ids {
				seen[v]++
			}
			mu.Unlock()

			sum := []float64{float64(p.Process), 1}
			require.NoError(t, p.Sum(sums, false, sum))
			ranks := processes * (processes - 1) / 2
			assert.Equal(t, []float64{float64(ranks), float64(processes)}, sum, "%s", parallel)
			first := []float32{float32(p.Process) + 5}
			require.NoError(t, p.FromFirst(first))
			assert.Equal(t, []float32{5}, first, "%s: of the first", parallel)

			asked := []int32{int32(p.Process), 7, int32(n - 1), 7}
			fetched := make([]float32, len(asked)*3)
			require.NoError(t, p.FetchRows(0, 3, asked, output, fetched))
			back, ones := make([]float32, len(output)), make([]float32, len(fetched))
			for k, v := range asked {
				for c := range 3 {
					expected, got := float64(wantOutput[int(v)*3+c]), float64(fetched[k*3+c])
					assert.Near(t, expected, got, 1e-5, "%s: row %d", parallel, v)
					ones[k*3+c] = 1
				}
			}
			require.NoError(t, p.ReturnRows(0, 3, asked, back, ones))
			for k, v := range ids {
				count := 0 // how many have asked for it
				for process := range processes {
					for _, vertex := range []int{process, 7, n - 1, 7} {
						if vertex == int(v) {
							count++
						}
					}
				}
				assert.Equal(t, float32(count), back[k*3+1], "%s: what comes back to vertex %d", parallel, v)
			}
		})
		assert.Equal(t, slices.Repeat([]int{1}, n), seen, "%s: each vertex is of one process", parallel)
	}
}

// TestProcessesCallAlike: a process that calls otherwise than the first is named, and all go on.
func TestProcessesCallAlike(t *testing.T) {
	eachProcess(t, 2, "graph=2", func(p *Passes) {
		assert.NoError(t, p.Sum(sums, false, []float64{1}))
		var err error
		if p.Process == 1 {
			err = p.FromFirst([]float32{1})
		} else {
			err = p.Sum(sums, false, []float64{1})
		}
		const want = "rank 1 calls the values of the first process, its call 2 of net 1, and rank 0 sum of " +
			"numbers, its call 2 of net 1"
		assert.Refused(t, err, want)
		sum := []float64{2}
		assert.NoError(t, p.Sum(sums, false, sum))
		assert.Equal(t, []float64{4}, sum)
	})
}

// TestProcessesRefuse: what processes do not do together is refused by name on all.
func TestProcessesRefuse(t *testing.T) {
	for _, c := range []struct {
		parallel   string
		partitions setting.Partitions
		lacking    []Lacking
		want       string
	}{
		{"pipeline=2", 0, nil, "--parallel pipeline=2: one process has all stages of a pipeline: take the graph or"},
		{"graph=2", 4, nil, "--partitions 4: over processes each has one partition: leave it out, or start one"},
		{"graph=2", 0, []Lacking{{Kind: "edges", Weights: true}}, ""},
		{"graph=2", 0, nil, ""},
	} {
		var all sync.WaitGroup
		for _, end := range comm.InProcess(2) {
			all.Go(func() {
				j := jobOfLayers(t, c.parallel, func(o *Options) { o.Partitions = c.partitions })
				j.Comm = comm.New(end, 0)
				p, err := j.Passes(t.Context(), c.lacking...)
				if c.want != "" {
					assert.Refused(t, err, c.want, "%s", c.parallel)
					return
				}
				require.NoError(t, err)
				rows := worker.Forward{Pass: 1, Values: valuesOf(t, p), Rows: [][]int32{{0}}}
				assert.Refused(t, p.Forward(rows), "over processes a pass has")
				assert.NoError(t, p.Close())
			})
		}
		all.Wait()
	}
}

// TestProcessesInLimit: the plan of a pass, by which a memory limit is kept, is made in each process.
func TestProcessesInLimit(t *testing.T) {
	var all sync.WaitGroup
	for rank, end := range comm.InProcess(2) {
		all.Go(func() {
			j := jobOfLayers(t, "graph=2", func(o *Options) {
				if rank == 1 { // of one of them
					o.MemoryLimit = 1 << 30
				}
			})
			j.Comm = comm.New(end, 0)
			p, err := j.Passes(t.Context())
			if assert.NoError(t, err); err != nil {
				return
			}
			assert.NoError(t, p.Sum(sums, false, []float64{1}))
			assert.NoError(t, p.Close())
		})
	}
	all.Wait()
}
