package train

import (
	"context"
	"errors"
	"fmt"

	"weft/kernel"
	"weft/nn"
	"weft/partition"
	"weft/tensor"
)

// Plan is what a run would take.
type Plan struct {
	PeakTensorBytes, GraphBytes []int64 // per worker
	Lines                       []string
	Warnings                    []string // of what the run leaves unused
}

// Plan finds out what the run would take, before any work: each worker goes through an epoch and an evaluation with kernels that do
// nothing, so that the same matrices are allocated, and none of their pages is ever touched.
func (j *Job) Plan(ctx context.Context) (p Plan, err error) {
	n, err := j.Options.Workers()
	if err != nil {
		return p, err
	}
	mine := []int64{0, 0}
	err = j.eachShare(ctx, func(share *partition.Share) error {
		one, err := j.plan(share)
		if err != nil {
			return err
		}
		p.Warnings, p.Lines = one.Warnings, one.Lines
		mine = []int64{one.PeakTensorBytes[0], one.GraphBytes[0]}
		p.PeakTensorBytes, p.GraphBytes = append(p.PeakTensorBytes, mine[0]), append(p.GraphBytes, mine[1])
		return nil
	})
	if j.Comm == nil {
		return p, err
	}
	if err != nil { // the others wait for this worker's numbers
		mine = []int64{0, 0}
	}
	p.PeakTensorBytes, p.GraphBytes = make([]int64, n), make([]int64, n)
	for k, all := range [][]int64{p.PeakTensorBytes, p.GraphBytes} {
		err = errors.Join(err, allGather(j.Comm, mine[k], all))
	}
	return p, err
}

func (j *Job) plan(share *partition.Share) (p Plan, err error) {
	mem := tensor.NewMeter()
	defer mem.Close()
	w, err := newWorker(kernel.NewPlan(mem), nil, share, j, share.Whole.Classes)
	if err != nil {
		return p, err
	}
	if err := w.prepareTraining(); err != nil {
		return p, err
	}
	for epoch := range 2 {
		if _, _, err := w.trainEpoch(1+epoch, false); err != nil {
			return p, err
		}
		if epoch == 0 {
			if _, err := w.evaluate(); err != nil {
				return p, err
			}
			w.params.Save(&nn.Snapshot{})
		}
	}
	o := &j.Options
	n, err := o.Workers()
	if err != nil {
		return p, err
	}
	workers := "one worker"
	if n > 1 {
		workers = fmt.Sprintf("%d workers", n)
	}
	p.PeakTensorBytes, p.GraphBytes = []int64{mem.Peak()}, []int64{mem.Live(tensor.Graph)}
	p.Lines = append(p.Lines, fmt.Sprintf("%s, %d layers, %d parameters, %s with %d threads, kernels for %s", o.Model, o.Layers,
		w.params.Count(), workers, j.threads(), kernel.SIMD()))
	p.Lines = append(p.Lines, w.graph.Explain()...)
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Lines = append(p.Lines, fmt.Sprintf("%-12s %8.1f MB at the peak", k, float64(mem.PeakOf(k))/1e6))
	}
	if share.Graph.Relation.Weights != nil && o.Model != "gcn" && j.Model == nil {
		p.Warnings = append(p.Warnings, "the graph has edge weights, which "+o.Model+" does not use")
	}
	return p, nil
}
