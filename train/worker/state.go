package worker

import (
	"encoding/json"
	"slices"

	"weft/checkpoint"
	"weft/internal/refusal"
	"weft/tensor"
	"weft/train/engine"
)

// Arrays lists all that the worker's next epoch reads from this one: parameters, the optimizer's state, and
// what the engine holds.
func (w *Worker) Arrays() []checkpoint.Array {
	return slices.Concat(w.Params.Arrays(), w.Optimizer.Arrays(), w.engine.Arrays())
}

// Mine are the arrays that this worker writes into a checkpoint. If all workers of a stage hold an array, one
// of them writes it.
func (w *member) Mine(arrays []checkpoint.Array) []checkpoint.Array {
	if w.Groups.Partition == 0 && w.Groups.Slice == 0 {
		return arrays
	}
	return slices.DeleteFunc(slices.Clone(arrays),
		func(a checkpoint.Array) bool { return !a.Own && a.Rows == nil })
}

// figures are what a worker measured, so that a run that continues on the same mesh reports the same as one
// without interruption.
type figures struct {
	Peaks    tensor.Peaks
	Pass     Tally // of the last epoch
	Spent    engine.StageReport
	Snapshot int64 // bytes
}

// Figures are the worker's figures, with the size of its snapshot, as metadata of its file.
func (w *Worker) Figures(snapshot int64) (map[string]string, error) {
	text, err := json.Marshal(figures{w.Team.Memory.Peaks(), w.LastPass, w.spent, snapshot})
	return map[string]string{figuresKey: string(text)}, err
}

const figuresKey = "figures"

// Restore makes the worker continue from a checkpoint. If the checkpoint was written on the same mesh,
// Restore returns the bytes of the worker's snapshot at that time; else 0.
func (w *Worker) Restore(from *checkpoint.Checkpoint, sameMesh bool) (snapshot int64, err error) {
	if err := from.Load(slices.Concat(w.Params.Arrays(), w.Optimizer.Arrays())); err != nil {
		return 0, err
	}
	w.epoch = from.Epoch
	if err := w.engine.Restore(from); err != nil {
		return 0, err
	}
	text := from.Metadata(w.Groups.World.Rank())[figuresKey]
	if !sameMesh || text == "" {
		return 0, nil
	}
	var f figures
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return 0, refusal.Errorf("%s: %w", from.Path, err)
	}
	w.Team.Memory.Continue(f.Peaks)
	w.LastPass, w.spent = f.Pass, f.Spent
	return f.Snapshot, nil
}
