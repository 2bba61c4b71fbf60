package train

import (
	"weft/checkpoint"
)

// Checkpoints say where a run keeps its state, and from where it continues.
type Checkpoints struct {
	Path string // the folder, the same for all processes
	// From is the opened checkpoint from which the run continues; nil: the run begins.
	From    *checkpoint.Checkpoint
	Version string // of the program
	// Store returns a checksum of the graph. It is called on worker 0, beside the training, until it has
	// succeeded. nil: "".
	Store     func() (string, error)
	Partition string // identifies the graph's division into partitions, "" for one
	// KeepFree is how many bytes of the disk a checkpoint leaves free, for the results.
	KeepFree int64
	// OnSaved is called on worker 0 with each checkpoint that was written, or failed. It may be nil.
	OnSaved func(Saved)
}

// Saved is a checkpoint that was written, or failed. The run goes on.
type Saved struct {
	Epoch   int
	Bytes   int64
	Seconds float64 // from the epoch's end until the files are on disk
	Err     error
}

// CheckpointTotals are what the checkpoints of a run took.
type CheckpointTotals struct {
	Written      int     `json:"written"`
	Bytes        int64   `json:"bytes"`         // of the last one
	WriteSeconds float64 `json:"write_seconds"` // of the last one, beside the training until it is on disk
	ReadSeconds  float64 `json:"read_seconds"`  // before the first epoch; 0: the run began
}
