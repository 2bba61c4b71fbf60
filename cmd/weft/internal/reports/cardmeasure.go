package reports

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/train/task"
)

// cardRun is what a card measures of a run, in addition to what its page does.
type cardRun struct {
	*reportRun
	Facts      *dataFacts               // nil: the graph is gone
	groups     []map[string]groupScores // by column and name
	thresholds []atThreshold            // for two classes
}

// dataFacts are what a card says about a graph and its split.
type dataFacts struct {
	MadeBy, Written string
	Tables          []tableFacts // vertex types and relations
	Rule            string       // the split's rule; "": unknown
	Dates           []string     // of the parts of the split; nil: unknown
	Unlabelled      int
	Outside         int  // labelled rows that are in no part of the split
	Grown           bool // something was appended to the store after the run was trained
}

// tableFacts are what a card says about a vertex type or a relation.
type tableFacts struct {
	Name, Owner     string // Owner is the name without what it is the name of
	Count, Features int
	Weighted        string // "" or a remark
	Columns         []columnFacts
}

// columnFacts are a column, with the smallest and the largest of numbers and dates.
type columnFacts struct {
	*columns.Column
	Range string
}

// Columns reports whether a table has columns.
func (f *dataFacts) Columns() bool {
	return slices.ContainsFunc(f.Tables, func(t tableFacts) bool { return t.Columns != nil })
}

// RuleKind is what stands before the colon of a split's rule.
func (f *dataFacts) RuleKind() string {
	kind, _, _ := strings.Cut(f.Rule, ":")
	return kind
}

// atThreshold is what comes of rows if class 1 is predicted from a probability on.
type atThreshold struct {
	at                float64
	best              bool // it is the run's own threshold
	predicted         int
	precision, recall float64 // NaN if class 1 is never predicted, or no row has it
}

// study measures a run of the model of another one, as far as its graph is there: NotMeasured says why it is
// not. It refuses a run of another graph, and groups by columns that are not there.
func (r *cardRun) study(first *cardRun, by []string) error {
	switch isLink := r.Summary.Task == task.Link; {
	case r.GraphID != first.GraphID:
		return refusal.Errorf(
			"--card: %s and %s were trained on different states of %s; name the runs of one",
			first.Summary.RunDir, r.Summary.RunDir, first.Store,
		)
	case isLink && len(by) > 0:
		return refusal.Errorf("--groups %s: edges that are predicted have no groups; leave it out", by[0])
	case isLink:
		return nil
	}
	var wrong error // an error about what was asked
	err := r.predictions(func(p *predictions) error {
		wrong = r.measureAll(p, by)
		return nil
	})
	if err == nil || wrong != nil {
		return wrong
	}
	r.Facts = nil
	if len(by) > 0 {
		return refusal.Errorf("--groups %s: %w", by[0], err)
	}
	return nil
}

func (r *cardRun) measureAll(p *predictions, by []string) error {
	r.Facts = factsOf(r.reportRun, p)
	if r.GraphID != "" {
		_, same, err := graph.IsVersion(r.Store, r.GraphID)
		if err != nil {
			return err
		}
		r.Facts.Grown = !same
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
	f := &dataFacts{MadeBy: g.Provenance, Written: writtenOn(r.Store), Rule: r.Settings["split"]}
	typed := len(g.Types) != 1 || len(g.Relations) != 1
	for k := range g.Types {
		t := &g.Types[k]
		f.Tables = append(f.Tables, tableFacts{
			"vertices" + ui.When(typed, " of "+t.Name()), t.Name(),
			t.Count, t.Features.Columns, "", ofVertices(t).facts(int64(t.Count)),
		})
	}
	for k := range g.Relations {
		r := &g.Relations[k]
		_, name, _ := r.Ends()
		f.Tables = append(f.Tables, tableFacts{
			"edges" + ui.When(typed, " of "+r.FullName()), name,
			len(r.Sources), r.Features.Columns, ui.When(r.Weights != nil, ", weighted"),
			ofEdges(r).facts(int64(len(r.Sources))),
		})
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
	f.Unlabelled, f.Outside = p.count-labelled, labelled
	for _, part := range p.split.Parts() {
		f.Outside -= len(*part)
	}
	if _, err := strconv.Atoi(f.Rule); err == nil { // it is the number of a stored split
		f.Rule = ""
		if match := ruleGiven.FindStringSubmatch(f.MadeBy); match != nil {
			f.Rule = match[1]
		}
	}
	if p.edges == nil {
		return
	}
	by := p.edges.SplitBy
	if by == nil || by.Kind == graph.ByPart {
		return
	}
	f.Rule = cmp.Or(f.Rule, by.Rule)
	var dates [3]string
	for k, part := range p.split.Parts() {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range *part {
			if x := by.Values[row]; x == x {
				low, high = min(low, x), max(high, x)
			}
		}
		if low <= high {
			dates[k] = by.Column + " " + rangeOf(low, high, by.Kind == graph.ByDate)
		}
	}
	if dates != [3]string{} {
		f.Dates = dates[:]
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

// facts are those about the columns of a table.
func (t featureTable) facts(rows int64) (list []columnFacts) {
	place := 0
	for k := range t.columns {
		c, first, span := &t.columns[k], place, ""
		place += c.Width()
		if number := c.Kind != columns.Category && c.Kind != columns.Boolean; number && rows > 0 {
			low, high := math.Inf(1), math.Inf(-1)
			for row := range rows {
				x := float64(t.at(row, first)) + c.Offset
				low, high = min(low, x), max(high, x)
			}
			if c.Kind == columns.Date {
				const day = 86400 // seconds
				low, high = day*low, day*high
			}
			span = rangeOf(low, high, c.Kind == columns.Date)
		}
		list = append(list, columnFacts{c, span})
	}
	return list
}
