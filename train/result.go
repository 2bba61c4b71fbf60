package train

import (
	"encoding/json"

	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/nn"
	"weft/partition"
	"weft/train/metric"
	"weft/train/task"
	"weft/train/worker"
)

// Epoch is the result of an epoch. Only evaluated epochs have scores.
type Epoch struct {
	Epoch, Epochs int // counted from 1
	Loss          float64
	LR            float64 // learning rate
	Metric        string  // by name
	metric.Scores
	Evaluated            bool
	Seconds              float64 // evaluation excluded
	LiveBytes, PeakBytes int64   // tensors of one worker
}

// epochLine is an Epoch as a line of metrics.jsonl. The scores stand only in those of evaluated epochs.
type epochLine struct {
	Epoch int           `json:"epoch"`
	Loss  metric.Number `json:"loss"`
	LR    float64       `json:"lr"`
	*metric.Numbers
	Seconds   float64 `json:"seconds"`
	LiveBytes int64   `json:"live_bytes"`
	PeakBytes int64   `json:"peak_bytes"`
}

// MarshalJSON implements json.Marshaler: a line of metrics.jsonl.
func (e Epoch) MarshalJSON() ([]byte, error) {
	line := epochLine{e.Epoch, metric.Number(e.Loss), e.LR, nil, e.Seconds, e.LiveBytes, e.PeakBytes}
	if e.Evaluated {
		line.Numbers = new(e.Numbers())
	}
	return json.Marshal(line)
}

// UnmarshalJSON implements json.Unmarshaler. No line has Epochs and Metric, which stay as they are. A score
// that a line with others lacks is NaN.
func (e *Epoch) UnmarshalJSON(text []byte) error {
	var line epochLine
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	if line.Numbers != nil {
		*line.Numbers = metric.Unmeasured().Numbers()
		if err := json.Unmarshal(text, &line); err != nil {
			return err
		}
	}
	*e = Epoch{
		Epoch: line.Epoch, Epochs: e.Epochs, Metric: e.Metric, Loss: float64(line.Loss), LR: line.LR,
		Seconds: line.Seconds, LiveBytes: line.LiveBytes, PeakBytes: line.PeakBytes,
	}
	if e.Evaluated = line.Numbers != nil; e.Evaluated {
		e.Scores = line.Scores()
	}
	return nil
}

// Result is the result of a run.
type Result struct {
	Epochs int // epochs that were run
	// BestEpoch is the first epoch with the best validation metric or, if the options select it, the lowest
	// validation loss.
	BestEpoch     int
	Metric        string
	metric.Scores // at the best epoch
	Losses        []float64
	EpochSeconds  []float64
	worker.Totals
	Ended       Ended
	Checkpoints CheckpointTotals // on worker 0; zero: none
	// Diverged is what ended the run after its last epoch; nil: nothing. The best epoch is an earlier one.
	Diverged *Diverged
	Weights  nn.State        // at the best epoch; on worker 0
	Logits   []float32       // at the best epoch, V × classes, on worker 0; nil if OnLogits took them
	Whole    partition.Whole // the graph's counts
	// Relations are the names of the graph's relations, in the order of the graph.
	Relations []string
	Weighted  bool // edges have weights
	// Validation is the counts of the graph that the model is validated on; nil: it is the same.
	Validation *partition.Whole
	Links      *task.Links  // of link prediction
	Trace      *trace.Trace // if Job.Trace asks for it; on worker 0
}

// Ended is why a run ended.
type Ended string

// Why a run ended.
const (
	EndedEpochs   Ended = "epochs"      // the last one is done
	EndedPatience Ended = "patience"    // no progress for as many epochs
	EndedSignal   Ended = "interrupted" // a signal; the run can continue
	EndedTime     Ended = "max-time"    // the time is up; the run can continue
	EndedDiverged Ended = "diverged"    // numbers that are not finite
)

// Interrupted reports whether the run stopped before its end and can continue.
func (r *Result) Interrupted() bool { return r.Ended == EndedSignal || r.Ended == EndedTime }

// Diverged ends a run whose numbers are no longer finite. All workers return it.
type Diverged struct {
	Epoch int
	Fault string // what is not finite
}

func (d *Diverged) Error() string {
	return refusal.Sprintf("epoch %d: %s; try a smaller {lr}, {clip} 1, or {norm} layer", d.Epoch, d.Fault)
}
