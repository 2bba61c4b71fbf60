package optim

import "math"

// Schedules are the names of the schedules. The factor of constant is 1. That of cosine falls from 1 to 0
// along half a cosine, that of step is halved after each tenth of the run, and that of plateau falls when a
// measure stops improving.
var Schedules = []string{"constant", "cosine", "step", PlateauSchedule}

// PlateauSchedule is the name of the schedule that depends on a measure.
const PlateauSchedule = "plateau"

// Schedule determines the learning rate of each epoch of a run.
type Schedule struct {
	Name    string // one of Schedules
	Epochs  int    // of the run
	Warmup  int    // the first epochs, in which the rate rises linearly before the schedule begins
	Plateau Plateau
	// Factors has a factor for each epoch, and takes the place of Name. Epochs beyond its end have the last
	// one. nil: Name counts.
	Factors []float64
}

// Factor returns the factor of the learning rate at an epoch, counted from 1. In w epochs of
// warm-up it is 1/(w+1), 2/(w+1), ... w/(w+1). Then the schedule goes over the other epochs.
func (s *Schedule) Factor(epoch int) float64 {
	if n := len(s.Factors); n > 0 {
		return s.Factors[min(epoch, n)-1]
	}
	if epoch <= s.Warmup {
		return float64(epoch) / float64(s.Warmup+1)
	}
	done := float64(epoch-s.Warmup-1) / float64(s.Epochs-s.Warmup)
	switch s.Name {
	case "cosine":
		return (1 + math.Cos(math.Pi*done)) / 2
	case "step":
		return math.Pow(0.5, math.Floor(10*done))
	case PlateauSchedule:
		return math.Pow(s.Plateau.Factor, float64(s.Plateau.falls))
	}
	return 1
}

// Observe takes the measure of an epoch, in the order of the epochs. Measures of the warm-up do not count.
func (s *Schedule) Observe(epoch int, measure float64) {
	if epoch > s.Warmup {
		s.Plateau.observe(measure)
	}
}

// Plateau multiplies the learning rate by Factor after more than Patience measures in a row that are not
// better than the best by a ten-thousandth of it, like PyTorch's ReduceLROnPlateau with its defaults. NaN is
// not better than anything. Unlike there, any change of the rate counts, however small.
type Plateau struct {
	Factor   float64
	Patience int
	Highest  bool // the highest measure is the best, not the lowest

	falls int
	seen  bool    // whether any measure was a number
	best  float64 // the best measure so far
	bad   int     // number of measures since the best, or since the last fall
}

func (p *Plateau) observe(measure float64) {
	const threshold = 1e-4
	better := measure < p.best*(1-threshold)
	if p.Highest {
		better = measure > p.best*(1+threshold)
	}
	if better || !p.seen && !math.IsNaN(measure) {
		p.seen, p.best, p.bad = true, measure, 0
		return
	}
	p.bad++
	if p.bad > p.Patience {
		p.falls, p.bad = p.falls+1, 0
	}
}
