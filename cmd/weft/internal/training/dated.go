package training

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/train/setting"
	"weft/train/task"
)

// dated notes that edges have dates which their split does not use, so that the model is tested on edges as
// old as those on which it was trained. "": a column divides the edges, or they have no dates. imports says
// that the command imports the graph itself.
func dated(g *graph.Graph, o *setting.Options, imports bool) string {
	if o.Task != task.Edge || o.PassMessages == task.PassEarlier { // this is refused without dates
		return ""
	}
	r := g.Relation(o.Target(g))
	if r == nil || dividedBy(r, o) != "" {
		return ""
	}
	name, day := datesOf(r)
	if day == nil {
		return ""
	}
	how := "import the list with"
	if by := r.SplitBy; imports || by != nil && by.Column == name {
		how = "give"
	}
	return fmt.Sprintf("the edges have dates, %[1]s, and their split is drawn without these: test edges are as old as "+
		"training edges; to test on later ones %[2]s --split time:%[1]s=%[3]s", ui.Printable(name), how,
		laterDates(r, day))
}

// dateIsFeature warns that the column by which edges are divided by time is a feature of them, though the
// import was not asked for it by name; "": there is no such column.
func dateIsFeature(g *graph.Graph, o *setting.Options) string {
	if o.Task != task.Edge || data.ImportedWith(g.Provenance, "edge-features") {
		return ""
	}
	r := g.Relation(o.Target(g))
	if r == nil {
		return ""
	}
	name, found := dividedBy(r, o), false
	var others []string
	for _, c := range r.NumberColumns[min(len(r.Weights), len(r.NumberColumns), 1):] { // behind the weight
		if c.Name == name {
			found = true
		} else {
			others = append(others, c.Name)
		}
	}
	if !found || r.SplitBy.Kind == graph.ByPart {
		return ""
	}
	way := "import the list again, which leaves it out"
	if others != nil {
		way = "import the list with --edge-features " + refusal.ShellWord(strings.Join(others, ","))
	}
	return fmt.Sprintf("%[1]s divides the edges and is one of their features, so that the model learns the values of "+
		"%[1]s themselves, which no later edge has: %[2]s", ui.Printable(name), way)
}

// dividedBy is the name of the column by which a run divides the edges; "": its split is drawn.
func dividedBy(r *graph.Relation, o *setting.Options) string {
	if rule, err := graph.ParseSplit(o.Split.Rule); err == nil && o.Split.Rule != "" {
		return rule.By().Column
	}
	if by := r.SplitBy; by != nil && (by.Rule != "" || by.Kind == graph.ByPart) {
		return by.Column
	}
	return ""
}

// datesOf is the name of a column of the edges' dates, and the days since 1970 of an edge: of the column that
// the graph keeps to divide them, else of their first feature of dates. nil: they have none.
func datesOf(r *graph.Relation) (name string, day func(edge int) float64) {
	if by := r.SplitBy; by != nil && by.Kind == graph.ByDate {
		return by.Column, func(edge int) float64 { return by.Values[edge] / (24 * 60 * 60) }
	}
	place := r.Features.Columns - r.NumberColumns.Width() // of a column's first feature: weights are none
	for _, c := range r.NumberColumns {
		if c.Kind == columns.Date && place >= 0 {
			return c.Name, func(edge int) float64 {
				return float64(r.Features.Dense[edge*r.Features.Columns+place]) + c.Offset
			}
		}
		place += c.Width()
	}
	return "", nil
}

// laterDates are the days from which on a fifth of the labelled edges validates, and the last fifth tests, as
// in a split by time. They are "START,END" if these are the same day, or no edge has a label.
func laterDates(r *graph.Relation, dayOf func(edge int) float64) string {
	const most = 1 << 16 // most edges that are looked at
	edges := len(r.Sources)
	var days []float64
	for k := 0; k < edges; k += 1 + edges/most {
		if r.Labels.Labelled(int64(k)) {
			days = append(days, dayOf(k))
		}
	}
	const none = "START,END"
	if len(days) == 0 {
		return none
	}
	slices.Sort(days)
	day := func(share int) string {
		return time.Unix(int64(days[len(days)*share/5])*24*60*60, 0).UTC().Format(time.DateOnly)
	}
	if first, start, end := day(0), day(3), day(4); first != start && start != end {
		return start + "," + end
	}
	return none
}
