package columns

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Choices say what is made of columns.
type Choices struct {
	// Most is the largest number of values of a column of text that becomes a Category.
	Most int
	// Cyclic adds the Cycles to dates.
	Cyclic bool
}

// Profile finds out what a column of a table holds, in one pass over its fields. Its memory depends only on
// Choices.Most.
type Profile struct {
	Name    string
	choices Choices

	present, missing int64
	candidates       [len(parsed)]candidate
	ordered          bool // a date has its year last
	timed            bool // a date has a time of day
	counts           map[string]int64
	many             bool   // there are more than Most values
	first            string // of the fields
	infinite         string // the first number that float32 cannot hold, with its row
	points, commas   bool   // numbers have decimal points, or decimal commas
	invalid          bool   // a field is not UTF-8
	long             bool   // a field is too long for a category
}

// longest is how many bytes a category may have.
const longest = 256

// parsed are the columns whose values are numbers, in the order in which they are tried.
var parsed = [...]Column{
	{Kind: Number},
	{Kind: Boolean},
	{Kind: Date, Order: DayFirst},
	{Kind: Date, Order: MonthFirst},
}

// The places of dates in parsed.
const dayFirst, monthFirst = 2, 3

// candidate is what a column may be.
type candidate struct {
	odd   Odd
	fails bool // it is given up, because most fields are odd
	// Of the good fields:
	good             int64
	sum, least, most float64
	rounded          bool // float32 rounds one of them
}

// offset is the mean, if it is to be subtracted from the fields; else 0. It is if float32 rounds them, and
// its steps at the largest field are many times those at the largest distance from the mean.
func (c *candidate) offset() float64 {
	const many = 16
	mean := c.sum / float64(c.good)
	distance := max(c.most-mean, mean-c.least)
	if c.rounded && c.least < c.most && max(-c.least, c.most) >= many*distance {
		return mean
	}
	return 0
}

// Odd counts the fields of a column that are not of its kind.
type Odd struct {
	Rows  int64
	field string // the first odd field
	row   int64  // its row, from 1
}

// Add adds the field of a row; rows count from 1.
func (o *Odd) Add(field []byte, row int64) {
	o.Rows++
	if o.Rows == 1 {
		o.field = quote(string(field))
		o.row = row
	}
}

// Few reports whether so few rows with a value are odd that their values count as mistakes, and missing: one
// of at least ten, or one in a hundred.
func (o *Odd) Few(rows int64) bool {
	const least, share = 10, 100
	return o.Rows == 0 || o.Rows == 1 && rows >= least || o.Rows <= rows/share
}

// Note says which odd values of a column of that kind count as missing; "": none.
func (o *Odd) Note(kind Kind) string {
	if o.Rows == 0 {
		return ""
	}
	note := fmt.Sprintf("%s in row %d is no %s, and counts as missing", o.field, o.row, kind)
	if o.Rows > 1 {
		note += fmt.Sprintf(", as do %d more that are none", o.Rows-1)
	}
	return note
}

// NewProfile begins the profile of a column.
func NewProfile(name string, choices Choices) *Profile {
	return &Profile{Name: name, choices: choices, counts: map[string]int64{}}
}

// Add adds a field. A field for which IsMissing is true is a missing value. number is the field with a
// decimal point in place of a decimal comma.
func (p *Profile) Add(field, number []byte) {
	if IsMissing(field) {
		p.missing++
		return
	}
	p.present++
	if p.present == 1 {
		p.first = string(field)
	}
	var x float64
	var at time.Time
	var ok bool
	for i := range parsed {
		c := &p.candidates[i]
		if c.fails {
			continue
		}
		kind, value := parsed[i].Kind, field
		if kind == Number {
			value = number
			p.commas = p.commas || !bytes.Equal(field, number)
			p.points = p.points || bytes.IndexByte(field, '.') >= 0
		}
		if i != monthFirst || p.candidates[dayFirst].fails || isOrdered(field) {
			x, at, ok = parsed[i].parse(value)
		}
		switch {
		case kind == Number && p.points && p.commas:
			ok = false
		case kind == Number && p.infinite == "" && math.IsInf(float64(float32(x)), 0):
			p.infinite = fmt.Sprintf("%s in row %d", quote(string(field)), p.present+p.missing)
		}
		if !ok {
			const most = 10 // most odd fields before a kind is given up
			c.odd.Add(field, p.present+p.missing)
			c.fails = c.odd.Rows > max(most, c.good)
			continue
		}
		c.good++
		if c.good == 1 {
			c.least, c.most = x, x
		}
		c.sum, c.least, c.most = c.sum+x, min(c.least, x), max(c.most, x)
		c.rounded = c.rounded || float64(float32(x)) != x
		if kind == Date {
			p.ordered, p.timed = p.ordered || isOrdered(field), p.timed || at.Unix()%secondsOfDay != 0
		}
	}
	if p.many {
		return
	}
	p.invalid = p.invalid || !utf8.Valid(field)
	p.long = p.long || len(field) > longest
	if p.long {
		return
	}
	if _, known := p.counts[string(field)]; known || len(p.counts) < p.choices.Most {
		p.counts[string(field)]++
	} else {
		p.many = true
	}
}

// Column is the column that is made. If nothing can be made, it has no kind, and the note says why. Otherwise
// the note says what was assumed, if anything.
func (p *Profile) Column() (c Column, note string) {
	c = Column{Name: p.Name, Missing: p.missing, Gaps: p.missing > 0}
	if p.present == 0 {
		return c, "it has no value"
	}
	for i := range parsed {
		form, month := &p.candidates[i], &p.candidates[monthFirst]
		fails := form.fails || !form.odd.Few(p.present) || parsed[i].Kind == Boolean && form.odd.Rows > 0
		if !fails && (i != dayFirst || month.fails || form.odd.Rows <= month.odd.Rows) {
			return p.number(i)
		}
	}
	const few = 10 // with so few rows, each may have a value of its own
	switch {
	case p.invalid:
		return c, "its text is not UTF-8"
	case p.long:
		return c, fmt.Sprintf("it is text of more than %d bytes, as %s", longest, p.examples())
	case p.many && likeNumber(p.first):
		return c, fmt.Sprintf("it is text of more than %d values, as %s; if they are numbers, write each as "+
			"1234.5, and nothing where one is missing", p.choices.Most, p.examples())
	case p.many:
		return c, fmt.Sprintf("it is text of more than %d values, as %s; --categories takes more",
			p.choices.Most, p.examples())
	case len(p.counts) == int(p.present) && p.present > few:
		return c, "it is text that no two rows share, as " + p.examples()
	}
	c.Kind, c.Categories = Category, slices.Sorted(maps.Keys(p.counts))
	for _, value := range c.Categories {
		c.Counts = append(c.Counts, p.counts[value])
	}
	return c, ""
}

// number is the column with the kind of parsed[i].
func (p *Profile) number(i int) (c Column, note string) {
	form := &p.candidates[i]
	c = parsed[i]
	c.Name, c.Missing = p.Name, p.missing+form.odd.Rows
	c.Gaps = c.Missing > 0
	if c.Kind == Number && p.infinite != "" {
		return Column{Name: p.Name}, p.infinite + " is not finite in float32: leave the field empty"
	}
	c.Offset = form.offset()
	c.Mean = float32(form.sum/float64(form.good) - c.Offset)
	note = form.odd.Note(c.Kind)
	if c.Kind != Date {
		return c, note
	}
	if !p.ordered {
		c.Order = ""
	}
	if p.choices.Cyclic {
		c.Cycles = []Cycle{Year, Week}
		if p.timed {
			c.Cycles = append(c.Cycles, Day)
		}
	}
	return c, note
}

// Doubt says what a column of dates assumes if no date tells whether the day or the month comes first; "":
// one does, or there are no dates.
func (p *Profile) Doubt(c *Column) string {
	day, month := &p.candidates[dayFirst], &p.candidates[monthFirst]
	if c.Kind != Date || c.Order != DayFirst || month.fails || month.odd.Rows != day.odd.Rows {
		return ""
	}
	return fmt.Sprintf("dates as %s do not say which number is the day: the first one is taken for it; write "+
		"them as 2023-01-31 if it is the month", quote(p.first))
}

// examples are the first field and, if that is a number, the first field that is none.
func (p *Profile) examples() string {
	if text := p.candidates[0].odd.field; text != "" && text != quote(p.first) {
		return quote(p.first) + " and " + text
	}
	return quote(p.first)
}

// likeNumber reports whether a field is digits with what may stand beside them in a number: separators of
// thousands, a sign, a currency or percent.
func likeNumber(field string) bool {
	digits := strings.TrimFunc(field, func(r rune) bool {
		return unicode.Is(unicode.Sc, r) || unicode.IsSpace(r) || strings.ContainsRune("+-%", r)
	})
	return digits != "" && !strings.ContainsFunc(digits, func(r rune) bool {
		return !unicode.IsDigit(r) && !unicode.IsSpace(r) && !strings.ContainsRune(".,'’", r)
	})
}

// quote is the beginning of a field, for people.
func quote(field string) string {
	const longest = 30
	if len(field) > longest {
		field = field[:longest] + "…"
	}
	return "“" + strings.ToValidUTF8(field, "") + "”"
}
