package predictions

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/train/calibrate"
)

// TestRead: a calibration has the probabilities and the class, a threshold the class of two alone, and the
// margin is that of the probabilities, whichever class is predicted.
func TestRead(t *testing.T) {
	type reading struct {
		top            int
		p, margin, sum float64 // to six places
	}
	read := func(table Table, row ...float32) reading {
		var o Outcome
		table.Read(&o, row)
		sum := 0.
		for _, p := range o.Probabilities {
			sum += p
		}
		round := func(x float64) float64 { return math.Round(1e6*x) / 1e6 }
		return reading{
			o.Top, round(float64(o.Number(Probability))), round(float64(o.Number(Margin))), round(sum),
		}
	}
	steps := func(from, to float64) calibrate.Steps {
		return calibrate.Steps{From: []float64{0, from, 1}, To: []float64{0, to, 1}}
	}
	row := []float32{0, -1.0986123} // probabilities .75 and .25
	assert.Equal(t, reading{0, .75, .5, 1}, read(Table{}, row...))
	up := &calibrate.Calibration{Method: calibrate.Isotonic, Steps: []calibrate.Steps{steps(.25, .625)}}
	assert.Equal(t, reading{1, .625, .25, 1}, read(Table{Calibration: up}, row...))
	half := calibrate.Steps{From: []float64{0}, To: []float64{.5}}
	level := &calibrate.Calibration{Method: calibrate.Isotonic, Steps: []calibrate.Steps{half}}
	assert.Equal(t, reading{0, .5, 0, 1}, read(Table{Calibration: level}, row...), "the model's own class of two alike")
	low, middle, high := .2499, .5, .7501
	assert.Equal(t, reading{1, .25, .5, 1}, read(Table{Threshold: &low}, row...))
	assert.Equal(t, reading{0, .75, .5, 1}, read(Table{Threshold: &middle}, row...))
	assert.Equal(t, reading{0, .25, .5, 1}, read(Table{Threshold: &high}, -1.0986123, 0))
	labels := read(Table{Columns: LabelLogits, Calibration: &calibrate.Calibration{
		Method: calibrate.Temperature, T: 2,
	}}, 2, -2)
	assert.Equal(t, reading{0, .731059, .462117, 1}, labels, "σ(1) and σ(−1)")
	predicted := func(table Table) []int {
		table.Columns = LabelLogits
		var outcome Outcome
		table.Read(&outcome, []float32{2, 0, -2}) // probabilities .88, .5 and .12
		return table.Said(&outcome)
	}
	assert.Equal(t, []int{0}, predicted(Table{}))
	assert.Equal(t, []int{1, 2}, predicted(Table{Thresholds: []float64{.9, .5, .1}}))
}
