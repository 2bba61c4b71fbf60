// Package columns says how the columns of a table of vertices become features, and brings the features of one
// table into the form of another's.
//
//	number     the number
//	boolean    1 for true and yes, 0 for false and no
//	date       days since 1970, of UTC; where asked, sine and cosine of the part of a year, a week and a day
//	category   for each value of the column a feature, which is 1 in the rows that have this value
//
// The mean of a column is subtracted from its numbers or dates if float32 would round them much more than it
// rounds the differences, as for seconds since 1970.
//
// A missing value becomes the mean of the others, and 0 in the features of a category. If the table has rows
// with missing values, a further feature of the column is 1 in these rows.
//
// Readers of tables make these decisions at an import, and read further rows by them.
package columns

import (
	"math"
	"slices"
	"strings"
	"time"

	"weft/internal/number"
	"weft/internal/refusal"
)

// Blank are the characters that are removed from both ends of a value.
const Blank = " \t\r\n"

// Kind is the kind of a column's values.
type Kind string

// The kinds of columns.
const (
	Number   Kind = "number"
	Boolean  Kind = "boolean"
	Date     Kind = "date"
	Category Kind = "category"
)

// Column is a column of a table, with what is made of its values.
type Column struct {
	Name string `json:"name"`
	Kind Kind   `json:"kind"`
	// Offset is subtracted from the values in float64, before they become a feature. It is their mean if
	// float32 would round them much more than it rounds the differences; else 0.
	Offset float64 `json:"offset,omitempty"`
	// Mean is the mean of the values, minus Offset, for all kinds but Category.
	Mean float32 `json:"mean,omitempty"`
	// Order is the order of day and month in the column's dates; "": all dates begin with the year.
	Order Order `json:"order,omitempty"`
	// Cycles are periods of dates that become features: Year, Week, Day.
	Cycles []Cycle `json:"cycles,omitempty"`
	// Categories are the values of a Category that have features, ascending.
	Categories []string `json:"categories,omitempty"`
	// Gaps says that a feature marks the rows whose value is missing.
	Gaps bool `json:"gaps,omitempty"`

	// What the table has, which does not change its features:

	// Missing is how many rows have no value.
	Missing int64 `json:"missing,omitempty"`
	// Counts has, for each of the Categories, the number of its rows.
	Counts []int64 `json:"counts,omitempty"`
	// Other is the number of rows with a value that is not in Categories, and 0 in all their features.
	Other int64 `json:"other,omitempty"`
}

// List is the columns of which the features of a vertex type are made, in their order.
type List []Column

// Width is the number of features of the column.
func (c *Column) Width() int {
	n := 1 + 2*len(c.Cycles)
	if c.Kind == Category {
		n = len(c.Categories)
	}
	if c.Gaps {
		n++
	}
	return n
}

// missing has the words, in lower case, that stand for no value, as in pandas.read_csv.
var missing = map[string]bool{
	"": true, "na": true, "n/a": true, "#n/a": true, "#na": true, "#n/a n/a": true, "<na>": true, "nan": true,
	"-nan": true, "1.#ind": true, "-1.#ind": true, "1.#qnan": true, "-1.#qnan": true,
	"null": true, "none": true,
}

// IsMissing reports whether the text of a field stands for no value.
func IsMissing(field []byte) bool {
	var lower [len("-1.#qnan")]byte
	if n := len(field); n > len(lower) || n > 0 && field[n-1]-'0' <= 9 { // no word ends with a digit
		return false
	}
	for i, c := range field {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return missing[string(lower[:len(field)])]
}

// Append appends the features of a value to a row, and reports whether its category is unknown. A field for
// which IsMissing is true is a missing value. Append refuses any other field that is not of the column's
// kind.
func (c *Column) Append(to []float32, field []byte) (row []float32, unknown bool, err error) {
	begin := len(to)
	to = slices.Grow(to, c.Width())[:begin+c.Width()]
	features := to[begin:]
	clear(features)
	switch {
	case IsMissing(field):
		if c.Kind != Category {
			features[0] = c.Mean
		}
		if c.Gaps {
			features[len(features)-1] = 1
		}
	case c.Kind == Category:
		k, found := slices.BinarySearchFunc(c.Categories, field, func(value string, field []byte) int {
			return strings.Compare(value, string(field))
		})
		if !found {
			return to, true, nil
		}
		features[k] = 1
	default:
		x, at, ok := c.parse(field)
		if !ok {
			return to[:begin], false, refusal.Errorf("%.40q is no %s: %s", field, c.Kind, c.remedy())
		}
		features[0] = float32(x - c.Offset)
		if math.IsInf(float64(features[0]), 0) {
			return to[:begin], false, refusal.Errorf("%.40q is not finite in float32: leave the field empty",
				field)
		}
		for i, cycle := range c.Cycles {
			sin, cos := math.Sincos(2 * math.Pi * cycle.part(at))
			features[1+2*i], features[2+2*i] = float32(sin), float32(cos)
		}
	}
	return to, false, nil
}

// Append appends the features of a row to others. field gives the value of a column, by its place. seen,
// which may be nil, is called with the value and whether its category is unknown. Append refuses, with the
// column's name, what field refuses, and a value that is not of its column's kind.
func (l List) Append(to []float32, field func(column int) ([]byte, error),
	seen func(column int, field []byte, unknown bool),
) ([]float32, error) {
	for i := range l {
		value, err := field(i)
		var unknown bool
		if err == nil {
			to, unknown, err = l[i].Append(to, value)
		}
		if err != nil {
			return to, refusal.Errorf("column %s: %w", l[i].Name, err)
		}
		if seen != nil {
			seen(i, value, unknown)
		}
	}
	return to, nil
}

// parse is the number for which a field stands in a column that is no Category, and for a date also the time.
func (c *Column) parse(field []byte) (x float64, at time.Time, ok bool) {
	switch c.Kind {
	case Number:
		x, err := number.Parse(string(field), 64)
		ok := err == nil || math.IsInf(x, 0) // too large for float64
		return x, at, ok && !math.IsNaN(x)
	case Boolean:
		switch strings.ToLower(string(field)) {
		case "true", "yes":
			return 1, at, true
		case "false", "no":
			return 0, at, true
		}
		return 0, at, false
	}
	at, ok = ParseDate(field, c.Order)
	return float64(at.Unix()) / secondsOfDay, at, ok
}

// remedy says what to do about a value that is not of the column's kind.
func (c *Column) remedy() string {
	how := "correct it"
	switch c.Kind {
	case Boolean:
		how = "write true or false"
	case Date:
		how = "write it as 2023-01-31" + map[Order]string{
			DayFirst: " or 31/01/2023", MonthFirst: " or 01/31/2023",
			"": ", as the column had it when it became a feature",
		}[c.Order]
	}
	return how + ", or leave the field empty"
}

// Width is the number of features of all columns.
func (l List) Width() (n int) {
	for i := range l {
		n += l[i].Width()
	}
	return n
}

// Features are the names of the features, made from the columns' names: city=Rome for a category,
// date.year.sin and date.year.cos for the cycles of a date. date.missing marks rows without a value.
func (l List) Features() (names []string) {
	for i := range l {
		c := &l[i]
		if c.Kind == Category {
			for _, value := range c.Categories {
				names = append(names, c.Name+"="+value)
			}
		} else {
			names = append(names, c.Name)
		}
		for _, cycle := range c.Cycles {
			names = append(names, c.Name+"."+string(cycle)+".sin", c.Name+"."+string(cycle)+".cos")
		}
		if c.Gaps {
			names = append(names, c.Name+".missing")
		}
	}
	return names
}

// Places are the places of the columns, by their names.
func (l List) Places() map[string]int {
	places := make(map[string]int, len(l))
	for i := range l {
		places[l[i].Name] = i
	}
	return places
}

// Scaled says of each feature whether its scale depends on a unit of the table. It does for numbers and
// dates. It does not for 0 and 1, nor for values between −1 and 1.
func (l List) Scaled() (scaled []bool) {
	for i := range l {
		flags := make([]bool, l[i].Width())
		flags[0] = l[i].Kind == Number || l[i].Kind == Date
		scaled = append(scaled, flags...)
	}
	return scaled
}

// Check refuses a list that no table gives, as a damaged file may have, or one with another number of
// features.
func (l List) Check(features int) error {
	if n := l.Width(); n != features {
		return refusal.Errorf("the columns have %d features, and %d are there", n, features)
	}
	places := l.Places()
	for i := range l {
		c := &l[i]
		known := slices.Contains([]Kind{Number, Boolean, Date, Category}, c.Kind)
		cycles := len(c.Cycles) == 0 || c.Kind == Date && !slices.ContainsFunc(c.Cycles, func(p Cycle) bool {
			return !slices.Contains([]Cycle{Year, Week, Day}, p)
		})
		ordered := c.Order == "" || c.Kind == Date && (c.Order == DayFirst || c.Order == MonthFirst)
		mean := float64(c.Mean) + c.Offset
		switch {
		case places[c.Name] != i:
			return refusal.Errorf("two columns are called %.40q", c.Name)
		case !known || !cycles || !ordered || math.IsNaN(mean) || math.IsInf(mean, 0) || c.Width() == 0:
			return refusal.Errorf("column %.40q of kind %.20q is not possible", c.Name, string(c.Kind))
		case (c.Kind == Category) != (len(c.Categories) > 0), !ascend(c.Categories),
			len(c.Counts) != 0 && len(c.Counts) != len(c.Categories):
			return refusal.Errorf("the categories of column %.40q are not possible", c.Name)
		}
	}
	return nil
}

// ascend reports whether each value is after the one before it.
func ascend(values []string) bool {
	for i := 1; i < len(values); i++ {
		if values[i-1] >= values[i] {
			return false
		}
	}
	return true
}

// Table is a table of vertices, with what became of its columns.
type Table struct {
	Path    string    `json:"path"`
	ID      string    `json:"id"`              // the column of the vertices' ids
	Label   string    `json:"label,omitempty"` // the column that is learned
	Columns List      `json:"columns"`
	LeftOut []LeftOut `json:"left_out,omitempty"`
}

// LeftOut is a column from which no feature is made.
type LeftOut struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}
