package worker

import (
	"math"
	"strings"
	"time"

	"weft/autograd"
	"weft/internal/trace"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// How good the weights are, by an evaluation or by the training pass of the next epoch.

// Infer runs the engine's Infer. Later errors name no layer.
func (w *Worker) Infer(without int) *autograd.Var {
	v := w.Inference.Infer(without)
	if w.later != nil && without == 0 {
		w.later.replace(v, w.Params)
	}
	w.Groups.World.At(w.epoch, "")
	return v
}

// Scores are the scores of the current model. All are NaN if a value is not finite; Fault then names it.
type Scores struct {
	metric.Scores
	Fault string
}

// Evaluate measures the current model without dropout. All workers get the same scores. Validation and test
// vertices are those of the graph on which the model is validated.
func (w *Worker) Evaluate() (s Scores, err error) {
	w.Recorder.Work().Layer(trace.NoLayer, trace.Evaluation)
	s, err = w.evaluate()
	if w.validates == nil || s.Fault != "" || err != nil {
		return s, err
	}
	w.validates.Params.Copy(w.Params)
	v, err := w.validates.evaluate()
	if v.Fault == "" {
		v.Train = s.Train
	}
	return v, err
}

// evaluate measures the model on the worker's own graph.
func (w *Worker) evaluate() (s Scores, err error) {
	output := w.Infer(0)
	defer output.Drop()
	return w.scores(output)
}

// read is what a training pass finds out about the weights before its step.
type read struct {
	Scores
	sent Tally         // what the workers sent each other to measure
	took time.Duration // how long measuring took
}

// OwnPass names, as flags with their values, what an evaluation needs a pass of its own for; "": there is
// nothing, and the forward pass of the next epoch has the bits of an evaluation.
func (w *Worker) OwnPass() string {
	flags := w.Resolved.OwnPass(w.Blocks)
	if w.later != nil {
		flags = strings.TrimPrefix(flags+", --pass-messages "+task.PassEarlier, ", ")
	}
	return flags
}

// Reads reports whether the weights after an epoch are evaluated by the forward pass of the next one. A model
// of the caller's own may compute anything in training.
func (w *Worker) Reads() bool {
	return w.EvalEvery == setting.AutoEvery && w.OwnModel == nil && w.validates == nil && w.OwnPass() == ""
}

// EvaluatesAfter reports whether a pass of its own evaluates the weights after an epoch, whether or not the
// run ends with it.
func (w *Worker) EvaluatesAfter(epoch int) bool { return w.EvaluatesWithin(epoch-1, epoch) }

// EvaluatesWithin reports the same for any of the epochs after after and up to until.
func (w *Worker) EvaluatesWithin(after, until int) bool {
	return !w.Reads() && w.EvalEvery.Due(after, until)
}

// readScores measures the weights before the step by the output of the training pass, if TrainEpoch asks for
// it.
func (w *Worker) readScores(output *autograd.Var) {
	if w.read == nil {
		return
	}
	before := w.done()
	scores, err := w.scores(output)
	exchange.Must(err)
	w.read.Scores = scores
	w.read.sent = w.done().since(before)
	w.read.sent.Waited = 0 // this worker waited for the others' forward passes
	w.Groups.Replicas.LocalBarrier()
}

// scores measures the model by its output, which it leaves as it is.
func (w *Worker) scores(output *autograd.Var) (s Scores, err error) {
	weights, bad := w.Params.NotFinite()
	measuring := w.Task.Measuring(output)
	read := w.Team.Read(append([]kernel.Sum{weights, w.Team.NotFinite(output.Value())}, measuring.Sums...)...)
	results := read[2:]
	// The loss, and the numbers of workers with weights, and with results, that are not finite.
	sums := []float64{measuring.Loss(results), 0, 0}
	if bad || read[0] != 0 { // or NaN
		sums[1] = 1
	}
	if read[1] != 0 {
		sums[2] = 1
	}
	if err := w.sum(sums); err != nil {
		return s, err
	}
	if w.read != nil { // from now on no worker is in its forward pass
		defer func(began time.Time) { w.read.took = time.Since(began) }(time.Now())
	}
	switch {
	case sums[1] > 0:
		return Scores{metric.Unmeasured(), "the weights are not finite"}, nil
	case sums[2] > 0:
		return Scores{metric.Unmeasured(), "the logits are not finite"}, nil
	}
	s.Scores, err = measuring.Measure(results)
	s.ValLoss = math.NaN()
	if w.Task.HasValidationLoss() {
		s.ValLoss = sums[0]
	}
	return s, err
}
