package training

import (
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/train/setting"
	"weft/train/task"
)

// firstDay is 2024-01-01, in days since 1970.
const firstDay = 19_723

// TestLaterDates: of ten edges on ten days each has a label, or the first five have: the days from which on
// three and four fifths of these lie before. Edges without a label do not count.
func TestLaterDates(t *testing.T) {
	r := &graph.Relation{Sources: make([]int32, 10)}
	day := func(edge int) float64 { return float64(firstDay + edge) }
	for labelled, want := range map[int]string{
		10: "2024-01-07,2024-01-09", 5: "2024-01-04,2024-01-05", 1: "START,END", 0: "START,END",
	} {
		r.Labels.Class = make([]int64, 10)
		for k := labelled; k < 10; k++ {
			r.Labels.Class[k] = -1
		}
		assert.Equal(t, want, laterDates(r, day), "%d labels", labelled)
	}
}

// payments is a graph of ten payments, on ten days. Each has an amount, a date and a second date, years
// later, and the amount may be the edges' weight.
func payments(weighted bool, by *graph.SplitBy) *graph.Graph {
	r := graph.Relation{
		Sources: make([]int32, 10), Frame: graph.Frame{
			Features: graph.Features{Columns: 3},
			Labels:   graph.Labels{Column: "fraud", Class: make([]int64, 10), Classes: 2}, SplitBy: by,
		},
		NumberColumns: columns.List{
			{Name: "amount", Kind: columns.Number},
			{Name: "paid", Kind: columns.Date, Offset: 19_000},
			{Name: "booked", Kind: columns.Date},
		},
	}
	if weighted {
		r.Features.Columns, r.Weights = 2, make([]float32, 10)
	}
	for k := range 10 {
		if !weighted {
			r.Features.Dense = append(r.Features.Dense, 7)
		}
		r.Features.Dense = append(r.Features.Dense, float32(firstDay-19_000+k), float32(2*firstDay+k))
	}
	return &graph.Graph{
		Types: make([]graph.VertexType, 1), Relations: []graph.Relation{r}, Provenance: "edges pay.csv",
	}
}

// TestDated: the note names the first column of dates, with its days, also where a weight's column stands
// before the features; and the column by which the edges are divided where that holds dates, which is no
// feature. A split by a column needs no note.
func TestDated(t *testing.T) {
	const note = "the edges have dates, paid, and their split is drawn without these: test edges are as old as " +
		"training edges; to test on later ones import the list with --split time:paid=2024-01-07,2024-01-09"
	o := &setting.Options{}
	o.Task, o.EdgeLabel, o.Split = task.Edge, "fraud", task.Split{Rule: "random:60/20/20"}
	assert.Equal(t, note, dated(payments(false, nil), o, false))
	assert.Equal(t, note, dated(payments(true, nil), o, false))

	sent := &graph.SplitBy{Column: "sent", Kind: graph.ByDate, Rule: "time:sent=2024-03-01,2024-03-05"}
	numbers := &graph.SplitBy{Column: "step", Kind: graph.ByNumber}
	for k := range 10 {
		sent.Values = append(sent.Values, float64(firstDay+60+k)*24*60*60)
		numbers.Values = append(numbers.Values, float64(k))
	}
	assert.Equal(t, "the edges have dates, sent, and their split is drawn without these: test edges are as old as "+
		"training edges; to test on later ones give --split time:sent=2024-03-07,2024-03-09",
		dated(payments(false, sent), o, false))
	assert.Equal(t, note, dated(payments(false, numbers), o, false))
	for _, split := range []task.Split{{Rule: "time:sent=2024-03-02,2024-03-04"}, {}} {
		o.Split = split
		assert.Equal(t, "", dated(payments(false, sent), o, false))
	}
	o.Split = task.Split{Rule: "random:60/20/20"}
	o.PassMessages = task.PassEarlier
	assert.Equal(t, "", dated(payments(false, sent), o, false))
	o.PassMessages, o.EdgeLabel = task.PassAuto, "other"
	assert.Equal(t, "", dated(payments(false, sent), o, false))
	o.EdgeLabel, o.Task = "fraud", task.Vertex
	assert.Equal(t, "", dated(payments(false, sent), o, false))
}

// TestDateIsFeature: where a column divides the edges by time and is a feature of them, a warning says so,
// unless the import named the features, or another split is drawn.
func TestDateIsFeature(t *testing.T) {
	const warning = "paid divides the edges and is one of their features, so that the model learns the values of " +
		"paid themselves, which no later edge has: import the list with --edge-features booked"
	by := func(column, rule string) *graph.SplitBy {
		return &graph.SplitBy{Column: column, Kind: graph.ByDate, Rule: rule, Values: make([]float64, 10)}
	}
	const paid, sent = "time:paid=2024-01-07,2024-01-09", "time:sent=2024-01-07,2024-01-09"
	for _, c := range []struct {
		by         *graph.SplitBy
		split      string
		provenance string
		want       string
	}{
		{by("paid", paid), "", "edges pay.csv (--edge-label fraud --split " + paid + ")", warning},
		{by("paid", ""), paid, "edges pay.csv", warning},
		{by("paid", paid), "", "edges pay.csv (--edge-features amount,paid --edge-label fraud)", ""},
		{by("paid", paid), "random:60/20/20", "edges pay.csv", ""},
		{by("paid", ""), "", "edges pay.csv", ""},
		{by("sent", sent), "", "edges pay.csv", ""},
		{nil, "random:60/20/20", "edges pay.csv", ""},
	} {
		o := &setting.Options{}
		o.Task, o.EdgeLabel, o.Split = task.Edge, "fraud", task.Split{Rule: c.split}
		g := payments(true, c.by)
		g.Provenance = c.provenance
		assert.Equal(t, c.want, dateIsFeature(g, o), "%v %s %s", c.by, c.split, c.provenance)
	}
	alone := payments(true, by("paid", paid))
	alone.Relations[0].NumberColumns = alone.Relations[0].NumberColumns[:2]
	o := &setting.Options{}
	o.Task, o.EdgeLabel = task.Edge, "fraud"
	assert.Equal(t, strings.Replace(warning, "with --edge-features booked", "again, which leaves it out", 1),
		dateIsFeature(alone, o))
	alone.Relations[0].NumberColumns = columns.List{{Name: "paid", Kind: columns.Number}} // the weight
	assert.Equal(t, "", dateIsFeature(alone, o))
	alone.Relations[0].NumberColumns = nil // as of weights in arrays
	assert.Equal(t, "", dateIsFeature(alone, o))
	o.Task = task.Vertex
	assert.Equal(t, "", dateIsFeature(payments(false, by("paid", paid)), o))
}
