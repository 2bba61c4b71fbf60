package training

import (
	"errors"

	"weft/cmd/weft/internal/session"
	"weft/internal/npy"
	"weft/train/calibrate"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

// calibrated fits the probabilities of a finished run and finds its best thresholds, on the validation rows.
// predictions is the file with its predictions.
func calibrated(run *rundir.Run, predictions string, stored *session.Stored, o *setting.Options) (err error) {
	if o.Task == task.Link || o.Validate != "" {
		return nil
	}
	g, frame, err := stored.Learned(o)
	if err != nil {
		return err
	}
	return g.Guard(func() error {
		l := &frame.Labels
		if l.Continuous() || !l.There() || len(frame.Splits) <= o.Split.Number {
			return nil
		}
		m, err := npy.Map(predictions)
		if err != nil {
			return err
		}
		logits, err := m.Float32s()
		if err != nil {
			return errors.Join(err, m.Close())
		}
		if o.Calibrate != calibrate.None {
			run.Calibration, err = calibrate.Fit(o.Calibrate, logits, l, frame.Splits[o.Split.Number].Val)
		}
		if err == nil {
			val := frame.Splits[o.Split.Number].Val
			run.Threshold = calibrate.BestThreshold(run.Calibration, logits, l, val)
			run.Thresholds = calibrate.BestThresholds(run.Calibration, logits, l, val)
		}
		return errors.Join(err, m.Close())
	})
}
