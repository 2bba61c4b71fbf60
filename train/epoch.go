package train

import (
	"encoding/json"

	"weft/train/metric"
)

// Epoch is the result of an epoch. Only evaluated epochs have scores.
type Epoch struct {
	Epoch, Epochs int // counted from 1
	Loss          float64
	LR            float64 // the learning rate
	Metric        string  // the metric's name
	metric.Scores
	Evaluated            bool
	Seconds              float64 // without evaluation
	LiveBytes, PeakBytes int64   // tensors of one worker
}

// epochLine is an Epoch as a line of metrics.jsonl. Lines of epochs that are not evaluated have no scores.
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

// UnmarshalJSON implements json.Unmarshaler. Epochs and Metric, which no line has, keep their values. If a
// line has some scores, the others become NaN.
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
	e.Evaluated = line.Numbers != nil
	if e.Evaluated {
		e.Scores = line.Scores()
	}
	return nil
}
