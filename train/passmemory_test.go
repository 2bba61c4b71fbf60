package train

import (
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/tensor"
	"weft/train/worker"
)

// TestPassMemory: passes that take memory which others left compute the same, and need no more. All that they
// had is idle when they are closed.
func TestPassMemory(t *testing.T) {
	for _, parallel := range []string{"graph=1", "graph=2", "tensor=2"} {
		memory := &PassMemory{}
		alone, values := passesOfLayers(t, parallel, nil)
		want := (&call{Passes: alone, values: values}).forward(t, nil, worker.Forward{Recording: true})
		wantGrads, _ := want.backward(t, 0, false)
		var peaks []int64
		for range 3 {
			job := jobOfLayers(t, parallel, nil)
			job.Memory = memory
			p, err := job.Passes(t.Context())
			require.NoError(t, err)
			c := (&call{Passes: p, values: valuesOf(t, p)}).forward(t, nil, worker.Forward{Recording: true})
			grads, _ := c.backward(t, 0, false)
			assert.Equal(t, want.output, c.output, parallel)
			assert.Equal(t, wantGrads, grads, parallel)
			require.NoError(t, p.Close())
			for _, w := range memory.workers {
				assert.Equal(t, 0, w.LiveTensors()+w.Live(tensor.Graph), parallel)
				peaks = append(peaks, w.Peak())
			}
		}
		n := len(memory.workers)
		assert.Equal(t, map[string]int{"graph=1": 1, "graph=2": 2, "tensor=2": 0}[parallel], n, parallel)
		if n > 0 {
			assert.Equal(t, peaks[:n], peaks[2*n:], parallel)
		}
		memory.Close()
	}
}

// TestPassMemoryOfLimited: below a limit each graph's passes count alone.
func TestPassMemoryOfLimited(t *testing.T) {
	job := jobOfLayers(t, "graph=1", func(o *Options) { o.MemoryLimit = 1 << 30 })
	job.Memory = &PassMemory{}
	p, err := job.Passes(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 0, len(job.Memory.workers))
	require.NoError(t, p.Close())
}
