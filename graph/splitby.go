package graph

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/graph/columns"
	"weft/internal/number"
	"weft/internal/refusal"
)

// SplitBy is a column of the edges that rules divide them by: time:COLUMN=… and column:NAME of ParseSplit.
type SplitBy struct {
	Column string        `json:"column"`
	Kind   SplitByKind   `json:"kind"`
	Order  columns.Order `json:"order,omitempty"` // order of dates, as in columns.Column
	// Rule is the rule time:… of the splits; empty: another rule made them.
	Rule   string    `json:"rule,omitempty"`
	Values []float64 `json:"-"` // value of each edge; NaN: it is in no part
}

// SplitByKind says what the values are.
type SplitByKind string

// The kinds of values are seconds since 1970, numbers, and parts of a split: 0 for training, 1 for
// validation, 2 for test.
const (
	ByDate   SplitByKind = "date"
	ByNumber SplitByKind = "number"
	ByPart   SplitByKind = "part"
)

// partWords are the words of a column that names the part of each edge.
var partWords = map[string]float64{
	"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "test": 2,
}

// Value reads a value of a column of that kind. order is the order of dates.
func (k SplitByKind) Value(field []byte, order columns.Order) (x float64, ok bool) {
	switch k {
	case ByPart:
		x, ok = partWords[strings.ToLower(string(field))]
	case ByDate:
		var at time.Time
		at, ok = columns.ParseDate(field, order)
		x = float64(at.Unix()) + float64(at.Nanosecond())/1e9
	default:
		var err error
		x, err = number.Parse(string(field), 64)
		ok = err == nil && !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return x, ok
}

// text writes a value as Value reads it.
func (k SplitByKind) text(x float64) string {
	if k != ByDate {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	whole := math.Floor(x)
	at := time.Unix(int64(whole), int64(math.Round((x-whole)*1e9))).UTC()
	return strings.TrimSuffix(at.Format("2006-01-02T15:04:05.999999999"), "T00:00:00")
}

// With returns the column with other values; nil: there is none.
func (b *SplitBy) With(values []float64) *SplitBy {
	if b == nil {
		return nil
	}
	made := *b
	made.Values = values
	return &made
}

// check refuses values that do not fit so many edges.
func (b *SplitBy) check(edges int) error {
	switch {
	case b == nil:
		return nil
	case len(b.Values) != edges:
		return flawf(edgeSplitByFile, "%d values of %d edges", len(b.Values), edges)
	}
	for k, x := range b.Values {
		part := x == 0 || x == 1 || x == 2 || math.IsNaN(x)
		if b.Kind == ByPart && !part || b.Kind != ByPart && (math.IsNaN(x) || math.IsInf(x, 0)) {
			return flawf(edgeSplitByFile, "edge %d has the value %v, which is no %s", k, x, b.Kind)
		}
	}
	return nil
}

// OfRows returns the values of the edges with these numbers, a row for each. The number −1 gets NaN.
func (b *SplitBy) OfRows(numbers []int64) *SplitBy {
	if b == nil {
		return nil
	}
	picked := *b
	picked.Values = make([]float64, len(numbers))
	for row, k := range numbers {
		picked.Values[row] = math.NaN()
		if k >= 0 {
			picked.Values[row] = b.Values[k]
		}
	}
	return &picked
}

// parseSplitBy reads the rules time:COLUMN=A,B and column:NAME. found is false for others.
func parseSplitBy(spec string) (rule SplitRule, found bool, err error) {
	if column, ok := strings.CutPrefix(spec, "column:"); ok {
		if column == "" {
			err = refusal.Errorf("--split %s: name a column, as in column:part", spec)
		}
		return SplitRule{spec: spec, kind: splitColumn, column: column}, true, err
	}
	list, ok := strings.CutPrefix(spec, "time:")
	if !ok {
		return rule, false, nil
	}
	const example = "time:paid=2024-01-01,2024-02-01"
	at := strings.LastIndexByte(list, '=')
	if at < 1 {
		return rule, true, refusal.Errorf("--split %s: give a column and two dates, for instance %s", spec, example)
	}
	rule = SplitRule{spec: spec, kind: splitTime, column: list[:at]}
	cuts := strings.Split(list[at+1:], ",")
	if len(cuts) != len(rule.cuts) {
		return rule, true, refusal.Errorf("--split %s: give two dates, the first of validation and the first of "+
			"test, for instance %s", spec, example)
	}
	copy(rule.cuts[:], cuts)
	for _, kind := range []SplitByKind{ByNumber, ByDate} {
		_, first := kind.Value([]byte(cuts[0]), "")
		if _, second := kind.Value([]byte(cuts[1]), ""); first && second {
			_, err = rule.limits(kind)
			return rule, true, err
		}
	}
	for _, cut := range cuts {
		_, date := ByDate.Value([]byte(cut), "")
		if _, n := ByNumber.Value([]byte(cut), ""); !date && !n {
			return rule, true, refusal.Errorf("--split %s: %q is no date and no number: write dates as 2024-01-31 "+
				"or 2024-01-31T12:00", spec, cut)
		}
	}
	return rule, true, refusal.Errorf("--split %s: one of %s is a date and the other a number: give two dates, "+
		"or two numbers", spec, strings.Join(cuts, " and "))
}

// limits returns the first values of validation and of test.
func (r *SplitRule) limits(kind SplitByKind) (at [2]float64, err error) {
	for i, cut := range r.cuts {
		x, ok := kind.Value([]byte(cut), "")
		if !ok {
			return at, refusal.Errorf("--split %s: the column %s holds %ss, and %q is none", r.spec, r.column, kind,
				cut)
		}
		at[i] = x
	}
	if at[0] >= at[1] {
		return at, refusal.Errorf("--split %s: %s does not come after %s: give the first of validation, and then "+
			"the first of test", r.spec, r.cuts[1], r.cuts[0])
	}
	return at, nil
}

// By returns the column of the edges that the rule divides them by. It has no values, and no kind unless it
// names the edges' parts. Without a name there is no such column.
func (r *SplitRule) By() SplitBy {
	if r.kind == splitColumn {
		return SplitBy{Column: r.column, Kind: ByPart}
	}
	return SplitBy{Column: r.column}
}

// Trains returns a function that reports whether a value of a column of that kind is in the training part. By
// has the rule's column.
func (r *SplitRule) Trains(kind SplitByKind) (func(x float64) bool, error) {
	if r.kind == splitColumn {
		return func(x float64) bool { return x == 0 }, nil
	}
	limits, err := r.limits(kind)
	return func(x float64) bool { return x < limits[0] }, err
}

// Periods returns the part of each edge, labelled or not, by the rule time:… of the splits: 0 before the
// rule's first value, 1 from the first value on, 2 from the second on.
func (l *Frame) Periods() ([]uint8, error) {
	rule, err := ParseSplit(l.SplitBy.Rule)
	if err != nil {
		return nil, err
	}
	return l.periods(&rule)
}

// outside is the part of an edge in no part.
const outside = 3

// periods returns the parts of all edges by a rule with a column.
func (l *Frame) periods(rule *SplitRule) ([]uint8, error) {
	b, parts := l.SplitBy, rule.kind == splitColumn
	if b == nil || b.Column != rule.column || parts != (b.Kind == ByPart) {
		kept := "none"
		if b != nil {
			kept = b.Column
		}
		return nil, refusal.Errorf("--split %s: the graph keeps no such column of its edges (it keeps %s): import "+
			"it with --split %[1]s", rule.spec, kept)
	}
	periods := make([]uint8, len(b.Values))
	var limits [2]float64
	var err error
	if !parts {
		if limits, err = rule.limits(b.Kind); err != nil {
			return nil, err
		}
	}
	for k, x := range b.Values {
		switch {
		case math.IsNaN(x):
			periods[k] = outside
		case parts:
			periods[k] = uint8(x)
		case x >= limits[1]:
			periods[k] = 2
		case x >= limits[0]:
			periods[k] = 1
		}
	}
	return periods, nil
}

// splitBy divides the labelled edges by a rule with a column.
func (l *Frame) splitBy(rule *SplitRule) (s Split, err error) {
	periods, err := l.periods(rule)
	if err != nil {
		return s, err
	}
	for k, part := range periods {
		if part != outside && l.Labels.Labelled(int64(k)) {
			list := s.Parts()[part]
			*list = append(*list, int64(k))
		}
	}
	for part, list := range s.Parts() {
		if len(*list) > 0 || rule.kind == splitColumn && part > 0 {
			continue
		}
		name := [...]string{"training", "validation", "test"}[part]
		if rule.kind == splitColumn {
			return s, refusal.Errorf("--split %s: leaves no edge with a label for %s: write train in some rows",
				rule.spec, name)
		}
		least, most := slices.Min(l.SplitBy.Values), slices.Max(l.SplitBy.Values)
		return s, refusal.Errorf("--split %s: leaves no edge with a label for %s: choose dates within those of the "+
			"edges, from %s to %s", rule.spec, name, l.SplitBy.Kind.text(least), l.SplitBy.Kind.text(most))
	}
	return s, nil
}
