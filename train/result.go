package train

import (
	"fmt"

	"weft/internal/trace"
	"weft/nn"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/train/metric"
	"weft/train/task"
	"weft/train/worker"
)

// Result is the result of a run.
type Result struct {
	Epochs int // epochs that were run
	// BestEpoch is the first epoch with the best validation metric. If the options select the loss, it is the
	// first with the lowest validation loss.
	BestEpoch     int
	Metric        string
	metric.Scores // at the best epoch
	Losses        []float64
	EpochSeconds  []float64
	worker.Totals
	Ended       Ended
	Checkpoints CheckpointTotals // on worker 0; zero: there are none
	// Diverged says what ended the run after its last epoch, if numbers were not finite; nil: they were. The
	// best epoch is an earlier one.
	Diverged *Diverged
	Weights  nn.State        // at the best epoch; on worker 0
	Logits   []float32       // at the best epoch, V × classes, on worker 0; nil if OnLogits took them
	Whole    partition.Whole // the graph's counts
	// Learned describes the labels of the vertices, or of the edges that the run learns.
	Learned partition.WholeFrame
	// Relations are the names of the graph's relations, in the order of the graph.
	Relations []string
	Weighted  bool // edges have weights
	// Passed says which edges passed messages; nil: the run learns no labels of edges.
	Passed *task.Passed
	// Validation is the counts of the graph on which the model is validated; nil: it is the same graph.
	Validation *partition.Whole
	Links      *task.Links  // of link prediction
	Trace      *trace.Trace // if Job.Trace asks for it; on worker 0
}

// Ended is why a run ended.
type Ended string

// Reasons why a run ended.
const (
	EndedEpochs   Ended = "epochs"      // the last epoch is done
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
	Fault string // the number that is not finite
}

func (d *Diverged) Error() string {
	return fmt.Sprintf("epoch %d: %s; try a smaller --lr, --clip 1, or --norm layer", d.Epoch, d.Fault)
}

// Prediction is the result of Predict. Its rows are in the vertex order of the graph or of Job.Vertices.
type Prediction struct {
	Logits  []float32 // V × Classes, on worker 0; nil if the job's OnLogits took them
	Classes int
	// Embeddings are the input of the last layer, V × EmbeddingColumns; nil if not asked for, or if
	// OnEmbeddings took them.
	Embeddings       []float32
	EmbeddingColumns int
	Vertices         int
	Needs            []mfg.Need // what each block read of the graph, for Job.Vertices; else nil
}

// Outputs are what a prediction computes.
type Outputs int

// What a prediction computes.
const (
	Logits         Outputs = iota // of the last layer
	WithEmbeddings                // also the input of the last layer, which with one layer is the features
	Embeddings                    // only the input of the last layer
)
