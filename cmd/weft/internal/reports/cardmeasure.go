package reports

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/columns"
)

// cardRun is what a card measures of a run, in addition to what its page does.
type cardRun struct {
	*reportRun
	facts      *dataFacts      // nil: the graph is gone
	groups     [][]groupScores // by column
	thresholds []atThreshold   // for two classes
}

// dataFacts are what a card says about a graph and its split.
type dataFacts struct {
	madeBy, written string
	counts          [][2]string // counts of vertex types, relations and labels
	columns         [][]string  // name, of what, kind, values, missing
	rule            string      // the split's rule; "": unknown
	dates           [3]string   // the dates of the parts of the split; "": unknown
	sizes           [3]int
	unlabelled      int
	outside         int      // labelled rows that are in no part of the split
	others          []string // columns with values that are not among their categories
	grown           bool     // something was appended to the store after the run was trained
}

// atThreshold is what comes of rows if class 1 is predicted from a probability on.
type atThreshold struct {
	at                float64
	best              bool // it is the run's own threshold
	predicted         int
	precision, recall float64 // NaN if class 1 is never predicted, or no row has it
}

// study measures what the card of a run has in addition to its page.
func (r *cardRun) study(p *predictions, by []string) error {
	r.facts = factsOf(r.reportRun, p)
	if r.GraphID != "" {
		_, same, err := graph.IsVersion(r.Store, r.GraphID)
		if err != nil {
			return err
		}
		r.facts.grown = !same
	}
	for _, column := range by {
		scores, err := r.measureGroups(p, column)
		if err != nil {
			return err
		}
		r.groups = append(r.groups, scores)
	}
	r.takeThresholds(p)
	return nil
}

// takeThresholds measures class 1, of two, at some thresholds and at the run's.
func (r *cardRun) takeThresholds(p *predictions) {
	l := &p.frame.Labels
	if l.Class == nil || l.Classes != 2 {
		return
	}
	for _, at := range []float64{.1, .25, .5, .75, .9} {
		r.thresholds = append(r.thresholds, atThreshold{at: at})
	}
	if t := r.Threshold; t != nil {
		r.thresholds = append(r.thresholds, atThreshold{at: t.At, best: true})
	}
	for k := range r.thresholds {
		t, hit, is, probs := &r.thresholds[k], 0, 0, make([]float64, 2)
		for _, row := range p.split.Test {
			r.Calibration.Apply(probs, p.rows[2*row:][:2], false)
			yes, predicted := l.Class[row] == 1, probs[1] >= t.at
			is, t.predicted, hit = is+toInt(yes), t.predicted+toInt(predicted), hit+toInt(yes && predicted)
		}
		t.precision, t.recall = float64(hit)/float64(t.predicted), float64(hit)/float64(is)
	}
}

func toInt(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ruleGiven finds the rule of a split in the command that made a store.
var ruleGiven = regexp.MustCompile(`--split[ =]'?([a-z-]+[:=][^ ']+)`)

// factsOf are the facts about a run's graph.
func factsOf(r *reportRun, p *predictions) *dataFacts {
	g := p.whole
	f := &dataFacts{madeBy: g.Provenance, written: writtenOn(r.Store), rule: r.Settings["split"]}
	untyped := len(g.Types) == 1 && len(g.Relations) == 1
	for k := range g.Types {
		t := &g.Types[k]
		f.counts = append(f.counts, [2]string{"vertices" + ui.When(!untyped, " of "+t.Name()), fmt.Sprintf(
			"%s, %s", ui.Count(t.Count), ui.Counted(t.Features.Columns, "feature", "features"))})
		f.addColumns(ofVertices(t), int64(t.Count), t.Name())
	}
	for k := range g.Relations {
		rel := &g.Relations[k]
		f.counts = append(f.counts, [2]string{"edges" + ui.When(!untyped, " of "+rel.FullName()), fmt.Sprintf(
			"%s, %s%s", ui.Count(len(rel.Sources)), ui.Counted(rel.Features.Columns, "feature", "features"),
			ui.When(rel.Weights != nil, ", weighted"))})
		_, name, _ := rel.Ends()
		f.addColumns(ofEdges(rel), int64(len(rel.Sources)), name)
	}
	f.divided(p)
	return f
}

// divided adds how rows are divided.
func (f *dataFacts) divided(p *predictions) {
	labelled := 0
	for row := range int64(p.count) {
		labelled += toInt(p.frame.Labels.Labelled(row))
	}
	f.unlabelled, f.outside = p.count-labelled, labelled
	for k, part := range p.split.Parts() {
		f.sizes[k] = len(*part)
		f.outside -= len(*part)
	}
	if _, err := strconv.Atoi(f.rule); err == nil { // it is the number of a stored split
		f.rule = ""
		if match := ruleGiven.FindStringSubmatch(f.madeBy); match != nil {
			f.rule = match[1]
		}
	}
	if p.edges == nil {
		return
	}
	by := p.edges.SplitBy
	if by == nil || by.Kind == graph.ByPart {
		return
	}
	f.rule = cmp.Or(f.rule, by.Rule)
	for k, part := range p.split.Parts() {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range *part {
			if x := by.Values[row]; x == x {
				low, high = min(low, x), max(high, x)
			}
		}
		if low <= high {
			f.dates[k] = fmt.Sprintf("%s %s", by.Column, rangeOf(low, high, by.Kind == graph.ByDate))
		}
	}
}

// rangeOf writes the smallest and the largest of numbers, or of seconds since 1970.
func rangeOf(low, high float64, dates bool) string {
	write := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	if dates {
		write = func(x float64) string {
			return time.Unix(int64(math.Floor(x)), 0).UTC().Format(time.DateOnly)
		}
	}
	if first, last := write(low), write(high); first != last {
		return first + " to " + last
	}
	return write(low)
}

// addColumns adds the columns of a table.
func (f *dataFacts) addColumns(t featureTable, rows int64, owner string) {
	const most = 8 // most categories that are named
	place := 0
	for k := range t.columns {
		c, first := &t.columns[k], place
		place += c.Width()
		values := ""
		switch c.Kind {
		case columns.Category:
			values = fmt.Sprintf("%s: %s", ui.Counted(len(c.Categories), "category", "categories"),
				listed(c.Categories, most))
		case columns.Boolean:
			values = "yes, no"
		default:
			low, high := math.Inf(1), math.Inf(-1)
			for row := range rows {
				x := float64(t.at(row, first)) + c.Offset
				low, high = min(low, x), max(high, x)
			}
			const day = 86400 // seconds
			if date := c.Kind == columns.Date; date && rows > 0 {
				values = rangeOf(day*low, day*high, true)
			} else if rows > 0 {
				values = rangeOf(low, high, false)
			}
		}
		if c.Other > 0 {
			f.others = append(
				f.others,
				fmt.Sprintf("%s of %s (%s)", c.Name, owner, ui.Counted(c.Other, "row", "rows")),
			)
		}
		f.columns = append(f.columns, []string{c.Name, owner, string(c.Kind), values, ui.Count(c.Missing)})
	}
}

// listed names the first of names, and says how many more there are.
func listed(names []string, most int) string {
	text := ""
	for k, name := range names[:min(most, len(names))] {
		text += ui.When(k > 0, ", ") + name
	}
	return text + ui.When(len(names) > most, fmt.Sprintf(" and %s more", ui.Count(len(names)-most)))
}

// spanOf writes a count of several runs: the same for all, or the smallest and the largest.
func spanOf(counts []int) string {
	least, most := slices.Min(counts), slices.Max(counts)
	return ui.Count(least) + ui.When(least < most, " to "+ui.Count(most))
}
