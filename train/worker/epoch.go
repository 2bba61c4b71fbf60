package worker

import (
	"time"

	"weft/autograd"
	"weft/tensor"
	"weft/train/engine"
)

// TrainEpoch makes one step on the whole graph. It returns the training loss before the step, and what the
// workers ask for. It calls asks, which may be nil, after the step. If Reads allows it, it calls ends before
// the step, with the scores of the weights until then. If ends reports that the run has ended, there is no
// step.
func (w *Worker) TrainEpoch(epoch int, ends func(Scores) bool,
	asks func() Asks,
) (loss float64, asked Asks, err error) {
	w.epoch = epoch
	w.Recorder.Start(epoch)
	defer w.Recorder.Stop()
	whole := w.phase("training pass")
	defer whole.End()
	start := time.Now()
	before := w.done()
	w.beginProfile(epoch)
	if ends != nil {
		w.read = &read{}
	}
	call := engine.Training(w.Seed, epoch)
	part := engine.Train(w.engine, call, func(output *autograd.Var) (func() float64, *tensor.Matrix) {
		w.readScores(output)
		defer w.phase("loss").End()
		return w.Task.Loss(epoch, output)
	})
	found := w.read
	w.read = nil
	w.Groups.World.At(epoch, "")
	if found != nil {
		began := time.Now()
		if ends(found.Scores) {
			w.epoch--
			part() // this gives its memory back
			w.endPass()
			return 0, 0, nil
		}
		start = start.Add(time.Since(began) + found.took) // others are told meanwhile
	}
	step := w.phase("optimizer step")
	w.Params.Keep()
	w.Params.Commit()
	w.Optimizer.Step(w.Rate.Factor(epoch))
	w.Params.ZeroGrad()
	localLoss := part()
	w.Team.Memory.WaitForDevice() // for the step; otherwise the loss has waited already
	step.End()
	waited := w.Groups.World.Waited()
	if asks != nil {
		asked = asks()
	}
	loss, asked, err = w.agree(epoch, localLoss, asked)
	// The last stages wait here until the pipeline has drained.
	w.spent.Bubble += w.Groups.World.Waited() - waited
	w.endPass()
	w.LastPass = w.done().since(before)
	if found != nil {
		w.LastPass = w.LastPass.since(found.sent)
	}
	w.LastPass.Seconds, w.LastPass.Disk = time.Since(start).Seconds(), w.disk()
	w.LastPass.Device = w.onDevice()
	return loss, asked, err
}
