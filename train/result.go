package train

import (
	"fmt"

	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/nn"
	"weft/partition"
	"weft/train/task"
	"weft/train/worker"
)

// Epoch is the result of an epoch. Only evaluated epochs have metrics.
type Epoch struct {
	Epoch, Epochs        int // counted from 1
	Loss                 float64
	Metric               string  // by name
	Train, Val, Test     float64 // the metric; NaN: not measured
	ValLoss              float64
	Evaluated            bool
	Seconds              float64 // evaluation excluded
	LiveBytes, PeakBytes int64   // tensors of one worker
}

// Result is the result of a run.
type Result struct {
	Epochs int // epochs that were run
	// BestEpoch is the first epoch with the highest validation metric or, if the options select it, the
	// lowest validation loss.
	BestEpoch        int
	Metric           string
	Train, Val, Test float64 // the metric at the best epoch
	ValLoss          float64 // at the best epoch
	Losses           []float64
	EpochSeconds     []float64
	worker.Totals
	Interrupted bool
	// Diverged is what ended the run after its last epoch; nil: nothing. The best epoch is an earlier one.
	Diverged *Diverged
	Weights  nn.State        // at the best epoch; on worker 0
	Logits   []float32       // at the best epoch, V × classes, on worker 0; nil if OnLogits took them
	Whole    partition.Whole // the graph's counts
	Links    *task.Links     // of link prediction
	Trace    *trace.Trace    // if Job.Trace asks for it; on worker 0
}

// Diverged ends a run whose numbers are no longer finite. All workers return it.
type Diverged struct {
	Epoch int
	Fault string // what is not finite
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: %s; try a smaller %s, %s 1, or %s layer",
		d.Epoch, d.Fault, refusal.Setting("lr"), refusal.Setting("clip"), refusal.Setting("norm"))
}
