package setting

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// Thousands are the factors of the letters behind a number, in lower case.
var Thousands = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}

var countText = regexp.MustCompile(`(?i)^((?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9][0-9_]*)(?:\.[0-9]+)?(?:e[0-9]+)?) ?([kmgbt]?)$`)

var ungrouped = strings.NewReplacer("_", "", ",", "")

// ErrCount refuses a text that is no number of things.
var ErrCount = errors.New("must be a whole number, as in 5000, 200k or 2M")

// errLarge refuses a number of things that no int holds.
var errLarge = errors.New("must be a whole number below 9.2e18")

// Count reads a number of things as people write it: 5000, 10,000, 200k, 2M, 1.5B or 1e7.
func Count(text string) (int, error) {
	m := countText.FindStringSubmatch(text)
	if m == nil {
		return 0, ErrCount
	}
	x, err := strconv.ParseFloat(ungrouped.Replace(m[1]), 64)
	x *= Thousands[strings.ToLower(m[2])]
	switch whole := math.Round(x); {
	case err != nil || !(x < math.MaxInt64):
		return 0, errLarge
	case math.Abs(x-whole) > 1e-3: // the tolerance is for 1.1M, which may be rounded
		return 0, ErrCount
	default:
		return int(whole), nil
	}
}

// Integer reads what Count reads, and numbers below 0.
func Integer(text string) (int, error) {
	n, err := Count(text)
	if below, failed := strconv.Atoi(text); errors.Is(err, ErrCount) && failed == nil {
		return below, nil
	}
	return n, err
}
