package axis

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"weft/internal/number"
)

// WireSchedule says how many columns of halo rows are sent in each epoch: variable communication rates
// (VARCO; Cerviño et al., arXiv 2406.17611). The zero value sends all in every epoch.
//
// Epoch k of K (from 0) sends ⌈d/c(k)⌉ of d columns. The compression ratio c falls from From to 1 in K/Slope
// epochs: c(k) = max(From − Slope·(From − 1)·k/K, 1). With a slope of 0 it does not change: the publication
// compares with that.
type WireSchedule struct{ Slope, From float64 }

// The names of the schedules, and the ratio with which published runs begin. Their slopes are 2 to 7.
const (
	noSchedule   = "none"
	varco        = "varco"
	usualSlope   = 5
	usualFrom    = 128
	mostFrom     = 1 << 20
	scheduleForm = "must be none, or varco, varco:slope=A, varco:from=C or varco:slope=A,from=C, for A of " +
		"0 or more and C above 1"
)

// UnmarshalText implements encoding.TextUnmarshaler. It reads "none", "varco" or "varco:slope=5,from=128".
func (s *WireSchedule) UnmarshalText(text []byte) error {
	name, list, some := strings.Cut(strings.ToLower(string(text)), ":")
	if name == noSchedule && !some {
		*s = WireSchedule{}
		return nil
	}
	if name != varco {
		return errors.New(scheduleForm)
	}
	read := WireSchedule{Slope: usualSlope, From: usualFrom}
	if !some {
		*s = read
		return nil
	}
	seen := map[string]bool{}
	for part := range strings.SplitSeq(list, ",") {
		name, text, _ := strings.Cut(part, "=")
		value, err := number.Parse(text, 64)
		switch {
		case err != nil || seen[name]:
		case name == "slope" && value >= 0 && !math.IsInf(value, 1):
			read.Slope = value
			seen[name] = true
			continue
		case name == "from" && value > 1 && value <= mostFrom:
			read.From = value
			seen[name] = true
			continue
		}
		return errors.New(scheduleForm)
	}
	*s = read
	return nil
}

func (s WireSchedule) String() string {
	switch s {
	case WireSchedule{}:
		return noSchedule
	case WireSchedule{usualSlope, usualFrom}:
		return varco
	}
	return fmt.Sprintf("%s:slope=%g,from=%g", varco, s.Slope, s.From)
}

// Sent is how many of the columns an epoch sends. Epochs count from 1.
func (s WireSchedule) Sent(columns, epoch, epochs int) int {
	if s == (WireSchedule{}) {
		return columns
	}
	return int(math.Ceil(float64(columns) / s.Ratio(epoch, epochs)))
}

// Mean is the mean share of the columns, if there are many, that a run of so many epochs sends.
func (s WireSchedule) Mean(epochs int) (share float64) {
	for epoch := range epochs {
		share += 1 / s.Ratio(epoch+1, epochs) / float64(epochs)
	}
	return share
}

// Ratio is the compression ratio c in an epoch, from 1, of epochs.
func (s WireSchedule) Ratio(epoch, epochs int) float64 {
	return max(1, s.From-s.Slope*(s.From-1)*float64(epoch-1)/float64(epochs))
}
