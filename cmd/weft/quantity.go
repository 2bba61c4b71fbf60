package main

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// quantity is a number of things as people write it: 200k, 10M, 1.5B, 10,000,000 or 1e7.
type quantity int64

var thousands = map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}

var quantityText = regexp.MustCompile(`(?i)^([0-9][0-9_,]*(?:\.[0-9]+)?(?:e[0-9]+)?) ?([kmgbt]?)$`)

// Set implements pflag.Value.
func (q *quantity) Set(text string) error {
	m := quantityText.FindStringSubmatch(text)
	if m == nil {
		return errors.New("must be a number as in 5000, 200k, 10M or 1.5B")
	}
	x, err := strconv.ParseFloat(strings.NewReplacer("_", "", ",", "").Replace(m[1]), 64)
	x *= thousands[strings.ToLower(m[2])]
	switch whole := math.Round(x); {
	case err != nil || !(x < math.MaxInt64):
		return errors.New("must be below 2^63")
	case math.Abs(x-whole) > 1e-3: // 1.1M may be off by rounding
		return errors.New("must be a whole number")
	default:
		*q = quantity(whole)
	}
	return nil
}

func (q *quantity) String() string { return strconv.FormatInt(int64(*q), 10) }

// Type is the placeholder of the flag's value.
func (q *quantity) Type() string { return "number" }

// linkRate is a rate with its unit. What is before the second is bits, but for a capital B.
var linkRate = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT]?)((?i:bit/s|bit)|bps|b/s|Bps|B/s)$`)

// bytesPerSecond reads a rate as people write it: 100mbit, 10gbps, 25Gb/s or 12.5GB/s. is says whether it is
// one, and more than nothing.
func bytesPerSecond(text string) (rate float64, is bool) {
	m := linkRate.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	rate, err := strconv.ParseFloat(m[1], 64)
	rate *= thousands[strings.ToLower(m[2])]
	if !strings.HasPrefix(m[3], "B") || strings.HasPrefix(strings.ToLower(m[3]), "bit") {
		rate /= 8
	}
	return rate, err == nil && rate > 0
}
