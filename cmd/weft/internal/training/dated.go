package training

import (
	"fmt"
	"slices"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/columns"
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
	_, r := g.LearnsEdges(o.EdgeLabel)
	if r == nil {
		return ""
	}
	by := r.EdgeLabels.By
	byColumn := by != nil && (by.Rule != "" || by.Kind == graph.ByPart)
	if rule, err := graph.ParseSplit(o.Split.Rule); err == nil && o.Split.Rule != "" {
		byColumn = rule.By().Column != ""
	}
	if byColumn {
		return ""
	}
	place := r.EdgeColumns - r.NumberColumns.Width() // of a column's first feature: weights are none
	for _, c := range r.NumberColumns {
		if c.Kind == columns.Date && place >= 0 {
			how := "import the list with"
			if imports || by != nil && by.Column == c.Name {
				how = "give"
			}
			return fmt.Sprintf("the edges have dates, %[1]s, and their split is drawn without these: test edges are as old as "+
				"training edges; to test on later ones %[2]s --split time:%[1]s=%[3]s", ui.Printable(c.Name), how,
				laterDates(r, place, c.Offset))
		}
		place += c.Width()
	}
	return ""
}

// laterDates are the days from which on a fifth of the labelled edges validates, and the last fifth tests, as
// in a split by time. They are "START,END" if these are the same day, or no edge has a label.
func laterDates(r *graph.Relation, place int, offset float64) string {
	const most = 1 << 16 // most edges that are looked at
	edges := len(r.Sources)
	var days []float64
	for k := 0; k < edges; k += 1 + edges/most {
		if r.EdgeLabels.Labelled(int64(k)) {
			days = append(days, float64(r.EdgeFeatures[k*r.EdgeColumns+place])+offset)
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
