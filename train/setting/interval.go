package setting

import (
	"errors"
	"strconv"
	"time"
)

// Interval is how often something is done: after so many epochs, or after so much time. The zero value is
// never.
type Interval struct {
	Epochs int
	Time   time.Duration
}

// parseInterval reads "20", "10m" or "never".
func parseInterval(text string) (i Interval, err error) {
	if text == "never" || text == "0" {
		return i, nil
	}
	if i.Epochs, err = strconv.Atoi(text); err == nil && i.Epochs > 0 {
		return i, nil
	}
	if i.Time, err = time.ParseDuration(text); err != nil || i.Time <= 0 {
		return Interval{}, errors.New("must be a number of epochs, a time with its unit as in 30m, or 0 for never")
	}
	return i, nil
}

// String writes the interval so that parseInterval reads it.
func (i Interval) String() string {
	if i.Time > 0 {
		return i.Time.String()
	}
	return strconv.Itoa(i.Epochs)
}

// Due reports whether it is time again at the end of an epoch, so long after the last time.
func (i Interval) Due(epoch int, since time.Duration) bool {
	return i.Epochs > 0 && epoch%i.Epochs == 0 || i.Time > 0 && since >= i.Time
}
