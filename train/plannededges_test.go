package train

import (
	"fmt"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// TestPlannedPassesOfEdges: the memory of passes with edges of their own, and with given weights and features
// of edges, is planned to the byte where they keep all edges. A limit of so many bytes has room for a pass,
// and one of a byte less has none.
func TestPlannedPassesOfEdges(t *testing.T) {
	g := tangle(t, 60, 40)
	r := &g.Relations[0]
	n := len(r.Sources)
	all, ones := worker.EdgeValues{Relation: r}, make([]float32, 3*n)
	for k := range ones {
		ones[k] = 1
	}
	all.Kept = ones[:n]
	weighted := all
	weighted.Weights = worker.InputValues{Values: ones[:n], Differentiable: true}
	both := worker.EdgeValues{
		Relation: r, Weights: worker.InputValues{Values: ones[:n]},
		Features: worker.InputValues{Values: ones, Differentiable: true},
	}
	for _, parallel := range []string{"graph=1", "graph=3", "graph=2,tensor=2", "pipeline=2"} {
		for k, input := range []worker.EdgeValues{all, weighted, both} {
			what := fmt.Sprintf("%s, case %d", parallel, k)
			job := &Job{Graph: g}
			p, values := passesOfJob(t, job, parallel)
			loop := plan.Loop{Passes: 2, Edges: []worker.EdgeValues{placeholders(input)}}
			job.Options.Recompute = "none"
			planned, err := job.PlanPasses(t.Context(), plan.Asks{Loop: &loop})
			require.NoError(t, err)
			with := worker.Forward{Training: true, Recording: true, Edges: []worker.EdgeValues{input}}
			for range 3 {
				first := (&call{Passes: p, values: values}).forward(t, nil, with)
				second := (&call{Passes: p, values: values}).forward(t, nil, with)
				second.backward(t, 0, false)
				first.backward(t, 0, false)
			}
			took, err := p.Totals()
			require.NoError(t, err)
			if parallel != "pipeline=2" { // of which a plan is a bound
				assert.Equal(t, planned.PeakTensorBytes, took.PeakTensorBytes, "%s: tensors", what)
			}
			for k, most := range planned.PeakTensorBytes {
				assert.Equal(t, most, max(most, took.PeakTensorBytes[k]), "%s: tensors", what)
			}
			assert.Equal(t, planned.GraphBytes, took.GraphBytes, "%s: graph", what)
			if parallel != "graph=3" {
				continue
			}
			onePass, err := job.PlanPasses(t.Context(), plan.Asks{
				Loop: &plan.Loop{Passes: 1, Edges: loop.Edges},
			})
			require.NoError(t, err)
			_, most := onePass.Most()
			for _, less := range []int64{0, 1} {
				job.Options.MemoryLimit = setting.Bytes(most - less)
				p, err := job.Passes(t.Context())
				require.NoError(t, err)
				c := &call{Passes: p, values: values}
				if less == 0 {
					c.forward(t, nil, with).backward(t, 0, false)
				} else {
					with.Pass, with.Values = -1, values
					assert.Refused(t, p.Forward(with), "would need")
				}
				require.NoError(t, p.Close())
			}
		}
	}
}

// placeholders say what is given, without its values.
func placeholders(e worker.EdgeValues) worker.EdgeValues {
	e.Relation = nil
	for _, values := range []*[]float32{&e.Kept, &e.Weights.Values, &e.Features.Values} {
		if *values != nil {
			*values = []float32{}
		}
	}
	return e
}
