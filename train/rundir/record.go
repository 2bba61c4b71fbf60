package rundir

import (
	"context"

	"weft/nn"
	"weft/train"
	"weft/train/plan"
)

// Record runs the job, with its plan as in RunPlanned, and writes the results to the directory: a line for
// each epoch as it ends, and the weights and logits of the best epoch. The weights note the version of weft.
// Record calls the job's own OnEpoch, too, and does not call its OnResume, OnWeights and OnLogits. If a line
// cannot be written, the run ends after the epoch under way, and the error says why. If there is a result in
// spite of an error, Record returns both.
func (d *Dir) Record(ctx context.Context, job *train.Job, planned *plan.Plan,
	version string,
) (*train.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	onResume, onEpoch, onWeights, onLogits := job.OnResume, job.OnEpoch, job.OnWeights, job.OnLogits
	defer func() {
		job.OnResume, job.OnEpoch, job.OnWeights, job.OnLogits = onResume, onEpoch, onWeights, onLogits
	}()
	job.OnResume = d.Resume
	var unrecorded error
	job.OnEpoch = func(e train.Epoch) {
		if onEpoch != nil {
			onEpoch(e)
		}
		if err := d.Epoch(e); err != nil && unrecorded == nil {
			unrecorded = err
			cancel()
		}
	}
	job.OnWeights = func(weights nn.State) error {
		job.Options.Program.Alias(weights)
		return d.Weights(version, job.Columns(), weights)
	}
	job.OnLogits = d.Predictions
	result, err := job.RunPlanned(ctx, planned)
	switch {
	case unrecorded == nil:
		return result, err
	case err == nil:
		return result, unrecorded
	}
	return nil, instead{err, unrecorded}
}

// instead is an error that is reported as another error, its cause.
type instead struct{ error, told error }

func (i instead) Error() string { return i.told.Error() }

func (i instead) Unwrap() error { return i.error }
