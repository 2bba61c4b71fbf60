package graph

import (
	"fmt"
	"math"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// TestSplitsByTime: labelled edges before the first date train, those from then on validate, and those from
// the second one on test. Dates have zones and fractions of a second.
func TestSplitsByTime(t *testing.T) {
	var dates []float64
	for _, date := range []string{
		"2024-01-01", "2023-12-31 23:59:59.999999", "2024-01-31T12:00+14:00", "2024-02-01",
		"2024-02-01T00:30+01:00", "2023-06-01", "2024-03-01",
	} {
		x, ok := ByDate.Value([]byte(date), "")
		require.Equal(t, true, ok, date)
		dates = append(dates, x)
	}
	assert.Equal(t, 1704067200., dates[0])
	l := &Frame{
		Labels:  Labels{Column: "fraud", Classes: 2, Class: []int64{0, 1, 0, 1, 1, -1, 0}},
		SplitBy: &SplitBy{Column: "paid = when", Kind: ByDate, Values: dates},
	}
	require.NoError(t, l.MakeSplits("time:paid = when=2024-01-01,2024-02-01", 1, 0))
	assert.Equal(t, fmt.Sprint([]Split{{[]int64{1}, []int64{0, 2, 4}, []int64{3, 6}}}), fmt.Sprint(l.Splits))
	periods, err := l.Periods()
	require.NoError(t, err)
	assert.Equal(t, "[1 0 1 2 1 0 2]", fmt.Sprintf("%d", periods))
	require.NoError(t, l.MakeSplits("time:paid = when=2023-12-31T23:59:59.9999995,2024-02-01", 1, 0))
	assert.Equal(t, fmt.Sprint([]Split{{[]int64{1}, []int64{0, 2, 4}, []int64{3, 6}}}), fmt.Sprint(l.Splits))
	for rule, want := range map[string]string{
		"time:paid = when=2024-01-01,2025-02-01": "leaves no edge with a label for test: choose dates within those of " +
			"the edges, from 2023-06-01 to 2024-03-01",
		"time:paid = when=2020-01-01,2024-02-01": "leaves no edge with a label for training",
		"time:paid = when=3,4":                   `the column paid = when holds dates, and "3" is none`,
		"time:other=2024-01-01,2024-02-01":       "keeps no such column of its edges (it keeps paid = when): import it with",
		"column:paid = when":                     "keeps no such column",
	} {
		assert.Refused(t, l.MakeSplits(rule, 1, 0), want)
	}
	assert.Refused(t, l.MakeSplits("time:paid = when=2024-01-01,2024-02-01", 2, 0), "--splits 2: --split time:")

	values := []float64{1e15 + 1, 1e15, 1e15 + 3, 1e15 + 4, 1e15 + 2, 0, -1}
	l.SplitBy = &SplitBy{Column: "at", Kind: ByNumber, Values: values}
	require.NoError(t, l.MakeSplits("time:at=1000000000000001,1000000000000003", 1, 0))
	assert.Equal(t, fmt.Sprint([]Split{{[]int64{1, 6}, []int64{0, 4}, []int64{2, 3}}}), fmt.Sprint(l.Splits))
}

// TestSplitReplacesTime: a split by another rule in place of one by time keeps the column, and no rule of it.
// The labels from which it was copied keep theirs.
func TestSplitReplacesTime(t *testing.T) {
	const time = "time:day=2,3"
	for _, rule := range []string{"random:50/25/25", "stratified:50/25/25", "column:part"} {
		original := Frame{
			Labels:  Labels{Column: "fraud", Classes: 2, Class: []int64{0, 1, 0, 1, 0, 1, 0, 1}},
			SplitBy: &SplitBy{Column: "day", Kind: ByNumber, Values: []float64{1, 2, 3, 1, 1, 1, 1, 1}},
		}
		require.NoError(t, original.MakeSplits(time, 1, 0))
		assert.Equal(t, time, original.SplitBy.Rule)
		l := original
		if rule == "column:part" {
			parts := []float64{0, 0, 0, 0, 1, 1, 2, 2}
			l.SplitBy = &SplitBy{Column: "part", Kind: ByPart, Rule: time, Values: parts}
		}
		require.NoError(t, l.MakeSplits(rule, 1, 0))
		assert.Equal(t, "", l.SplitBy.Rule, rule)
		assert.Equal(t, time, original.SplitBy.Rule, rule)
		assert.Equal(t, 4, len(l.Splits[0].Train), rule)
	}
}

// TestSplitsOfRows: rows may have their edges in any order, some twice and some none, and the lists of a
// split are ascending.
func TestSplitsOfRows(t *testing.T) {
	l := &Frame{Splits: []Split{
		{Train: []int64{0, 3, 5}, Val: []int64{1, 4}, Test: []int64{2}},
		{Train: []int64{2, 4}, Test: []int64{0, 1, 3, 5}},
	}}
	// The edges of rows 0 to 7.
	assert.Equal(t, []Split{
		{Train: []int64{0, 3, 5, 7}, Val: []int64{2, 6}, Test: []int64{4}},
		{Train: []int64{2, 4}, Val: []int64{}, Test: []int64{0, 3, 5, 6, 7}},
	}, l.SplitsOfRows([]int64{5, -1, 4, 0, 2, 3, 1, 5}))
}

// TestSplitsByColumn: words name the parts of edges. One without a word is in none.
func TestSplitsByColumn(t *testing.T) {
	l := &Frame{
		Labels:  Labels{Column: "risk", Columns: 1, Values: []float32{1, 2, float32(math.NaN()), 4, 5}},
		SplitBy: &SplitBy{Column: "part", Kind: ByPart, Values: []float64{2, 0, 1, math.NaN(), 0}},
	}
	require.NoError(t, l.MakeSplits("column:part", 1, 0))
	assert.Equal(t, fmt.Sprint([]Split{{[]int64{1, 4}, nil, []int64{0}}}), fmt.Sprint(l.Splits))
	l.SplitBy.Values = []float64{2, 2, 1, 1, 2}
	assert.Refused(t, l.MakeSplits("column:part", 1, 0), "leaves no edge with a label for training: write train in some rows")
	for _, word := range []string{"Validation", "valid", "VAL"} {
		x, ok := ByPart.Value([]byte(word), "")
		assert.Equal(t, "1 true", fmt.Sprint(x, ok), word)
	}
}

// TestRefusesSplitsBy: rules of columns that say nothing, and of vertices.
func TestRefusesSplitsBy(t *testing.T) {
	for rule, want := range map[string]string{
		"time:when":                       "give a column and two dates, for instance time:paid=2024-01-01,2024-02-01",
		"time:=2024-01-01,2024-02-01":     "give a column and two dates",
		"time:when=2024-01-01":            "give two dates, the first of validation and the first of test",
		"time:when=2024-13-01,2024-02-01": `"2024-13-01" is no date and no number: write dates as 2024-01-31`,
		"time:when=2024-02-01,2024-01-01": "2024-01-01 does not come after 2024-02-01: give the first of validation",
		"time:when=2,2":                   "2 does not come after 2",
		"time:when=2024-01-01,5":          "is a date and the other a number: give two dates, or two numbers",
		"column:":                         "name a column, as in column:part",
	} {
		_, err := ParseSplit(rule)
		assert.Refused(t, err, want)
	}
	g := &Graph{Types: []VertexType{{Frame: Frame{Labels: Labels{Classes: 2, Class: []int64{0, 1}}}}}}
	assert.Refused(t, g.MakeSplits("time:when=1,2", 1, 0), "divides edges with labels; divide vertices by random:60/20/20")
}
