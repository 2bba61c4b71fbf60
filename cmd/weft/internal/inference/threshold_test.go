package inference

import (
	"testing"

	"weft/cmd/weft/internal/session"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/calibrate"
	"weft/train/predictions"
)

// TestBestThresholdsOfLabels: each of several labels has the threshold of its own that the run found, and a
// half where it found none. A number is that of all.
func TestBestThresholdsOfLabels(t *testing.T) {
	decided := func(threshold string) *pass {
		d := &pass{asked: &session.Request{}, numbers: 3}
		d.Columns = predictions.LabelLogits
		d.asked.Thresholds = []*calibrate.Threshold{{At: .25}, nil, {At: 0}}
		require.NoError(t, d.decide(threshold))
		assert.Equal(t, true, d.Threshold == nil)
		return d
	}
	assert.Equal(t, []float64{.25, .5, 0}, decided(bestThreshold).Thresholds)
	assert.Equal(t, []float64{.3, .3, .3}, decided("0.3").Thresholds)
	assert.Empty(t, decided("").Thresholds)
	d := &pass{asked: &session.Request{}, numbers: 3}
	d.Columns = predictions.LabelLogits
	assert.Refused(t, d.decide(bestThreshold), "the run has none; give a probability, as in --threshold 0.3")
	for _, wrong := range []string{"-0.1", "1.1", "nan", "much"} {
		assert.Refused(t, d.decide(wrong), "is a probability, from 0 to 1, or best")
	}
	d.Columns = predictions.Logits
	assert.Refused(t, d.decide("0.3"), "is for two classes or several labels")
}

// TestNoBestThreshold: the refusal names the class that the threshold would be of.
func TestNoBestThreshold(t *testing.T) {
	d := &pass{asked: &session.Request{}, numbers: 2}
	d.Columns, d.Classes = predictions.Logits, []string{"churned", "stays"}
	assert.Refused(t, d.decide(bestThreshold), "no validation row is of class stays, the second of the two")
	d.Classes = nil
	assert.Refused(t, d.decide(bestThreshold), "no validation row is of class 1, the second of the two")
}
