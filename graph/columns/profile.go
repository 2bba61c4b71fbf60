package columns

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"weft/internal/refusal"
)

// Choices say what is made of columns.
type Choices struct {
	// Most is how many values a column of text may have that becomes a Category.
	Most int
	// Cyclic adds the Cycles to dates.
	Cyclic bool
}

// Profile finds out what a column of a table holds, in one pass over its fields and in memory that depends on
// Choices.Most alone.
type Profile struct {
	Name    string
	choices Choices

	present, missing int64
	candidates       [len(parsed)]candidate
	timed            bool // a date has a time of the day
	counts           map[string]int64
	many             bool   // more than Most values
	first            string // of the fields
	text             string // the first field behind numbers that is none
	infinite         string // the first number that float32 does not hold, with its row
	points, commas   bool   // numbers have decimal points, or decimal commas
	unordered        bool   // all fields are dates whose day may be their month
	invalid          bool   // a field is not UTF-8
	long             bool   // a field is too long for a category
}

// longest is how many bytes a category may have.
const longest = 256

// parsed are the kinds whose values are numbers, in the order in which they are tried.
var parsed = [...]Kind{Number, Boolean, Date}

// candidate is one of the kinds that a column may be of.
type candidate struct {
	fails bool    // a field is not of the kind
	sum   float64 // of the fields
}

// NewProfile begins the profile of a column.
func NewProfile(name string, choices Choices) *Profile {
	return &Profile{Name: name, choices: choices, counts: map[string]int64{}}
}

// unordered are dates of which some people write the day first, and others the month.
var unordered = regexp.MustCompile(`^\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})([ T].*)?$`)

// Add adds a field. One for which IsMissing holds is a missing value. number is the field, with a decimal
// point where it has a decimal comma.
func (p *Profile) Add(field, number []byte) {
	if IsMissing(field) {
		p.missing++
		return
	}
	if p.present++; p.present == 1 {
		p.first, p.unordered = string(field), true
	}
	p.unordered = p.unordered && unordered.Match(field)
	for i, kind := range parsed {
		c := &p.candidates[i]
		if c.fails {
			continue
		}
		value := field
		if kind == Number {
			value = number
			p.commas = p.commas || !bytes.Equal(field, number)
			p.points = p.points || bytes.IndexByte(field, '.') >= 0
		}
		x, at, ok := kind.parse(value)
		if kind == Number && (!ok || p.points && p.commas) {
			ok, p.text = false, string(field)
		}
		if kind == Number && p.infinite == "" && math.IsInf(float64(float32(x)), 0) {
			p.infinite = fmt.Sprintf("%s in row %d", quote(string(field)), p.present+p.missing)
		}
		c.fails, c.sum = !ok, c.sum+x
		p.timed = p.timed || ok && kind == Date && at.Unix()%secondsOfDay != 0
	}
	if p.many {
		return
	}
	p.invalid = p.invalid || !utf8.Valid(field)
	if p.long = p.long || len(field) > longest; p.long {
		return
	}
	if _, known := p.counts[string(field)]; known || len(p.counts) < p.choices.Most {
		p.counts[string(field)]++
	} else {
		p.many = true
	}
}

// Column is what is made of the column. Where nothing can be made of it, why says so.
func (p *Profile) Column() (c Column, why string) {
	c = Column{Name: p.Name, Missing: p.missing, Gaps: p.missing > 0}
	if p.present == 0 {
		return c, "it has no value"
	}
	for i, kind := range parsed {
		if p.candidates[i].fails {
			continue
		}
		if kind == Number && p.infinite != "" {
			return c, p.infinite + " is not finite in float32: leave the field empty"
		}
		c.Kind, c.Mean = kind, float32(p.candidates[i].sum/float64(p.present))
		if kind == Date && p.choices.Cyclic {
			if c.Cycles = []Cycle{Year, Week}; p.timed {
				c.Cycles = append(c.Cycles, Day)
			}
		}
		return c, ""
	}
	const few = 10 // rows, of which each may have a value of its own
	switch {
	case p.invalid:
		return c, "its text is not UTF-8"
	case p.unordered:
		return c, "it has dates as " + quote(p.first) +
			", whose day may be the month: write them as 2023-01-31"
	case p.long:
		return c, fmt.Sprintf("it is text of more than %d bytes, as %s", longest, p.examples())
	case p.many:
		return c, fmt.Sprintf("it is text of more than %d values, as %s; %s takes more",
			p.choices.Most, p.examples(), refusal.Setting("categories"))
	case len(p.counts) == int(p.present) && p.present > few:
		return c, "it is text that no two rows share, as " + p.examples()
	}
	c.Kind, c.Categories = Category, slices.Sorted(maps.Keys(p.counts))
	for _, value := range c.Categories {
		c.Counts = append(c.Counts, p.counts[value])
	}
	return c, ""
}

// examples are the first field, and where that is a number the first that is none.
func (p *Profile) examples() string {
	if p.text == p.first {
		return quote(p.first)
	}
	return quote(p.first) + " and " + quote(p.text)
}

// quote is the begin of a field, for people.
func quote(field string) string {
	const longest = 30
	if len(field) > longest {
		field = field[:longest] + "…"
	}
	return "“" + strings.ToValidUTF8(field, "") + "”"
}
