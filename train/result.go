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

// Epoch is what one epoch came to. The metrics stand only in epochs that were evaluated.
type Epoch struct {
	Epoch, Epochs        int // counted from 1
	Loss                 float64
	Train, Val, Test     float64
	ValLoss              float64
	Evaluated            bool
	Seconds              float64 // evaluation excluded
	LiveBytes, PeakBytes int64   // tensors of one worker
}

// Result is what a run came to.
type Result struct {
	Epochs int // that were run
	// BestEpoch: the first with the highest validation metric or, as the options select, the lowest
	// validation loss
	BestEpoch        int
	Metric           string
	Train, Val, Test float64 // the metric at the best epoch
	ValLoss          float64 // at the best epoch
	Losses           []float64
	EpochSeconds     []float64
	worker.Totals
	Interrupted bool
	// Diverged: what ended the run after its last epoch; nil: nothing. The best epoch is one before
	Diverged *Diverged
	Weights  nn.State        // at the best epoch; on worker 0
	Logits   []float32       // at the best epoch, V × classes, on worker 0; nil where OnLogits took them
	Whole    partition.Whole // the graph's counts
	Links    *task.Links     // of link prediction
	Trace    *trace.Trace    // as Job.Trace asks; on worker 0
}

// Diverged ends a run whose numbers are not finite any more; all workers come to it.
type Diverged struct {
	Epoch int
	Fault string // what is not finite
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: %s; try a smaller %s, %s 1, or %s layer",
		d.Epoch, d.Fault, refusal.Setting("lr"), refusal.Setting("clip"), refusal.Setting("norm"))
}
