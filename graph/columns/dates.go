package columns

import (
	"bytes"
	"time"
)

// Cycle is a period of dates.
type Cycle string

// The periods of dates.
const (
	Year Cycle = "year"
	Week Cycle = "week"
	Day  Cycle = "day"
)

const secondsOfDay = 24 * 60 * 60

// part is the part of the period that has passed, in [0, 1). A week begins on Monday.
func (c Cycle) part(t time.Time) float64 {
	day := float64(t.Hour()*60*60+t.Minute()*60+t.Second()) / secondsOfDay
	switch c {
	case Year:
		first := time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		days := first.AddDate(1, 0, 0).Sub(first).Hours() / 24
		return (float64(t.YearDay()-1) + day) / days
	case Week:
		const monday = 6 // so many days turn a week that begins on Sunday into one that begins on Monday
		return (float64((int(t.Weekday())+monday)%7) + day) / 7
	}
	return day
}

// Order is the order of day and month in dates that do not begin with the year.
type Order string

// The orders of day and month.
const (
	DayFirst   Order = "day"
	MonthFirst Order = "month"
)

// ParseDate reads a date, with or without a time, in UTC if it names no other zone. It reads the forms of ISO
// 8601 and RFC 3339, what SQL, pandas and polars write, and 2023/01/31. In the given order it reads
// 31.1.2023, 31/01/2023, 31-01-2023, 31.1.23 and 31/01/23. Without an order it reads these if only one order
// makes a date of them, or both the same. A year of two digits is in 1969 to 2068.
func ParseDate(field []byte, order Order) (at time.Time, ok bool) {
	if order != "" || !isOrdered(field) {
		return parseDate(field, order)
	}
	at, ok = parseDate(field, DayFirst)
	month, is := parseDate(field, MonthFirst)
	if !ok {
		return month, is
	}
	return at, !is || at.Equal(month)
}

// parseDate is ParseDate, but without an order it only reads dates that begin with the year.
func parseDate(field []byte, order Order) (at time.Time, ok bool) {
	const date, longest = len(time.DateOnly), len("2006-01-02T15:04:05.999999999+00:00")
	var room [longest]byte
	text := yearFirst(room[:0], field[:min(len(field), longest+1)], order)
	if len(text) < date || len(text) > longest {
		return at, false
	}
	layout := time.DateOnly
	if len(text) > date {
		if text[date] != ' ' && text[date] != 'T' {
			return at, false
		}
		clock, zone := text[date+1:], 0
		if i := bytes.IndexAny(clock, "+-Z"); i >= 0 {
			clock, zone = clock[:i], len(clock)-i
		}
		text[date] = 'T'
		layout = "2006-01-02T15:04:05"
		if bytes.Count(clock, []byte(":")) == 1 {
			layout = "2006-01-02T15:04"
		}
		switch zone {
		case 0:
		case len("+00"):
			layout += "Z07"
		case len("+0000"):
			layout += "Z0700"
		default:
			layout += "Z07:00"
		}
	}
	at, err := time.Parse(layout, string(text))
	return at.UTC(), err == nil
}

// yearFirst appends a date, and what follows it, to text in the form 2023-01-31. It appends nothing if the
// field does not begin with numbers as a date does.
func yearFirst(text, field []byte, order Order) []byte {
	var parts [3][]byte
	var separator byte
	rest := field
	for i := range parts {
		n := 0
		for n < len(rest) && rest[n]-'0' <= 9 {
			n++
		}
		parts[i], rest = rest[:n], rest[n:]
		if i == len(parts)-1 {
			break
		}
		if n == 0 || len(rest) == 0 || i > 0 && rest[0] != separator {
			return text
		}
		separator, rest = rest[0], rest[1:]
	}
	const two, four = len("23"), len("2023")
	year, month, day := parts[0], parts[1], parts[2]
	switch {
	case len(year) == four && len(month) == two && len(day) == two && (separator == '-' || separator == '/'):
	case order != "" && len(parts[0]) <= two && len(parts[1]) <= two && (len(parts[2]) == four ||
		len(parts[2]) == two && separator != '-') && bytes.IndexByte([]byte("./-"), separator) >= 0:
		day, month, year = parts[0], parts[1], parts[2]
		if order == MonthFirst {
			day, month = month, day
		}
	default:
		return text
	}
	if len(year) == two {
		century := "20"
		if string(year) >= "69" {
			century = "19"
		}
		text = append(text, century...)
	}
	text = append(text, year...)
	for _, part := range [][]byte{month, day} {
		text = append(append(text, "-0"[:1+two-len(part)]...), part...)
	}
	return append(text, rest...)
}

// isOrdered reports whether a date has its year last.
func isOrdered(date []byte) bool {
	return bytes.ContainsAny(date[:min(len(date), len("23-"))], "./-")
}
