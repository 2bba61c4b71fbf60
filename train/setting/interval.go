package setting

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Interval is how often something is done: after a number of epochs, or after a time. The zero value is
// never.
type Interval struct {
	Epochs int
	Time   time.Duration
}

// UnmarshalText implements encoding.TextUnmarshaler. It reads "20", "10m" or "never".
func (i *Interval) UnmarshalText(bytes []byte) error {
	text := string(bytes)
	epochs, notNumber := strconv.Atoi(text)
	span, notTime := time.ParseDuration(text)
	switch {
	case text == "never" || text == "0":
		*i = Interval{}
	case notNumber == nil && epochs > 0:
		*i = Interval{Epochs: epochs}
	case notTime == nil && span > 0:
		*i = Interval{Time: span}
	default:
		return errors.New("must be a number of epochs, a time with its unit as in 30m, or 0 for never")
	}
	return nil
}

// Every is the number of epochs from one evaluation to the next.
type Every int

// AutoEvery evaluates every epoch. If OwnPass allows it, the forward pass of the next epoch evaluates it.
const AutoEvery Every = 0

// UnmarshalText implements encoding.TextUnmarshaler. It reads "5" or "auto".
func (e *Every) UnmarshalText(text []byte) error {
	if strings.EqualFold(string(text), AutoEvery.String()) {
		*e = AutoEvery
		return nil
	}
	n, err := Count(string(text))
	if err != nil || n < 1 || n > 1e9 {
		return errors.New("must be a whole number from 1 to 1000000000, or auto")
	}
	*e = Every(n)
	return nil
}

// String writes the number so that UnmarshalText reads it.
func (e Every) String() string {
	if e == AutoEvery {
		return "auto"
	}
	return strconv.Itoa(int(e))
}

// Due reports whether any of the epochs after after and up to until is evaluated.
func (e Every) Due(after, until int) bool { return e == AutoEvery || until/int(e) > after/int(e) }

// slurmTime is a time as Slurm writes its limits: hours:minutes:seconds, or days and then hours, minutes and
// seconds. Slurm's forms minutes and minutes:seconds are left out, as others read them as seconds or hours.
var slurmTime = regexp.MustCompile(
	`^(?:([0-9]{1,4})-([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2}))?)?|([0-9]{1,4}):([0-9]{1,2}):([0-9]{1,2}))$`)

// unitsTime is a time with its units, however long.
var unitsTime = regexp.MustCompile(`^\+?(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+$`)

// errTime refuses what is no time.
var errTime = errors.New("must be a time above 0 with its units, as in 60s, 5m or 3h50m")

// ParseTime reads a time, not below 0, with its units, as in 90s or 3h50m, or as Slurm writes its limits, as
// in 3:50:00 or 1-02:00:00.
func ParseTime(text string) (d time.Duration, err error) {
	if m := slurmTime.FindStringSubmatch(text); m != nil {
		for i, unit := range []time.Duration{
			24 * time.Hour, time.Hour, time.Minute, time.Second, time.Hour,
			time.Minute, time.Second,
		} {
			n, _ := strconv.Atoi(m[1+i]) // "" gives 0
			d += time.Duration(n) * unit
		}
	} else if d, err = time.ParseDuration(text); err != nil && strings.Contains(text, ":") {
		return 0, errors.New("must be hours:minutes:seconds as in 3:50:00, with days as in 1-02:00:00, or " +
			"have units as in 3h50m")
	}
	switch {
	case err != nil && unitsTime.MatchString(text):
		return 0, fmt.Errorf("must be at most %s", time.Duration(math.MaxInt64).Truncate(time.Hour))
	case err != nil || d < 0:
		return 0, errTime
	}
	return d, nil
}

// String writes the interval so that UnmarshalText reads it.
func (i Interval) String() string {
	if i.Time > 0 {
		return i.Time.String()
	}
	return strconv.Itoa(i.Epochs)
}

// Due reports whether it is time again at the end of an epoch, when since has passed since the last time.
func (i Interval) Due(epoch int, since time.Duration) bool {
	return i.Epochs > 0 && epoch%i.Epochs == 0 || i.Time > 0 && since >= i.Time
}
