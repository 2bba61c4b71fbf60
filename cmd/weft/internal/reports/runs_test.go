package reports

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/train/metric"
)

// Shares are percent, with their deviation; other metrics have four digits, and their deviation two.
func TestSpread(t *testing.T) {
	nan := metric.Number(math.NaN())
	for _, c := range []struct {
		name            string
		mean, deviation metric.Number
		want            string
	}{
		{"rmse", 123.456, 1.23, "123.5 ± 1.2"},
		{"rmse", 123.456, nan, "123.5"},
		{"accuracy", .81534, .00421, "81.53 ± 0.42 %"},
		{"accuracy", 1, 0, "100.00 ± 0.00 %"},
		{"roc-auc", .5, .125, "50.00 ± 12.50 %"},
		{"accuracy", .81534, nan, "81.53 %"},
		{"accuracy", nan, nan, "–"},
	} {
		assert.Equal(t, c.want, Spread(c.name, c.mean, c.deviation))
	}
}
