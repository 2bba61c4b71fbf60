package train

import (
	"fmt"

	"weft/kernel"
	"weft/nn"
	"weft/tensor"
)

// Plan is what a run would take.
type Plan struct {
	PeakTensorBytes, GraphBytes []int64 // per worker
	Lines                       []string
	Warnings                    []string // of what the run leaves unused
}

// Plan finds out what the run would take, before any work: it goes through an epoch and an evaluation with kernels that do
// nothing, so that the same matrices are allocated, and none of their pages is ever touched.
func (j *Job) Plan() (p Plan, err error) {
	err = j.guarded(func() error {
		p, err = j.plan()
		return err
	})
	return p, err
}

func (j *Job) plan() (p Plan, err error) {
	mem := tensor.NewMeter()
	defer mem.Close()
	w, err := newWorker(kernel.NewPlan(mem), j, j.Graph.Labels.Classes)
	if err != nil {
		return p, err
	}
	if err := w.prepareTraining(); err != nil {
		return p, err
	}
	w.trainEpoch(1)
	w.evaluate()
	w.params.Save(&nn.Snapshot{})
	w.trainEpoch(2)
	o := &j.Options
	p.PeakTensorBytes, p.GraphBytes = []int64{mem.Peak()}, []int64{mem.Live(tensor.Graph)}
	p.Lines = append(p.Lines, fmt.Sprintf("%s, %d layers, %d parameters, one worker with %d threads, kernels for %s", o.Model, o.Layers,
		w.params.Count(), threads(o), kernel.SIMD()))
	p.Lines = append(p.Lines, w.whole.Explain()...)
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Lines = append(p.Lines, fmt.Sprintf("%-12s %8.1f MB at the peak", k, float64(mem.PeakOf(k))/1e6))
	}
	if j.Graph.Relation.Weights != nil && o.Model != "gcn" && j.Model == nil {
		p.Warnings = append(p.Warnings, "the graph has edge weights, which "+o.Model+" does not use")
	}
	return p, nil
}
