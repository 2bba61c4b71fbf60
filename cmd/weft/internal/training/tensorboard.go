package training

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"weft/internal/refusal"
	"weft/internal/tfevents"
	"weft/train"
)

// events are the event files of a run for TensorBoard. A nil events writes nothing.
type events struct {
	to     *tfevents.Writer
	failed bool
	warn   io.Writer
}

// newEvents begins the event file of the run, if --tensorboard asks for one. Each of several runs has a
// folder of its own.
func (t *trainCommand) newEvents(warn io.Writer) (*events, error) {
	if t.tensorboard == "" {
		return nil, nil
	}
	folder := t.tensorboard
	if t.group != nil {
		folder = filepath.Join(folder, filepath.Base(t.out))
	}
	w, err := tfevents.New(folder, time.Now())
	if err != nil {
		return nil, refusal.Errorf("--tensorboard %s: %w; name another folder", t.tensorboard, err)
	}
	return &events{to: w, warn: warn}, nil
}

// epoch writes the numbers of an epoch. If that fails the run goes on without the file.
func (e *events) epoch(x train.Epoch) {
	if e == nil || e.failed {
		return
	}
	scalars := []tfevents.Scalar{{Tag: "loss/train", Value: x.Loss}}
	add := func(tag string, value float64) {
		if !math.IsNaN(value) {
			scalars = append(scalars, tfevents.Scalar{Tag: tag, Value: value})
		}
	}
	if x.Evaluated {
		add("loss/validation", x.ValLoss)
		add(x.Metric+"/train", x.Train)
		add(x.Metric+"/validation", x.Val)
		add(x.Metric+"/test", x.Test)
	}
	add("lr", x.LR)
	add("seconds", x.Seconds)
	add("memory/live_bytes", float64(x.LiveBytes))
	add("memory/peak_bytes", float64(x.PeakBytes))
	if err := e.to.Write(time.Now(), x.Epoch, scalars...); err != nil {
		e.failed = true
		fmt.Fprintf(e.warn, "weft: warning: --tensorboard: %v; the run goes on without it\n", err)
	}
}

func (e *events) close() {
	if e == nil {
		return
	}
	if err := e.to.Close(); err != nil && !e.failed {
		fmt.Fprintf(e.warn, "weft: warning: --tensorboard: %v\n", err)
	}
}
