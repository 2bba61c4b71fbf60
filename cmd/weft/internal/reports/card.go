package reports

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"text/template"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/train/metric"
	"weft/train/rundir"
)

const (
	fewRows     = 30 // with fewer test rows the figures of a class or a group may be chance
	mostClasses = 12 // for how many a table of confusion has room, and for how many mistakes
)

// cardText is the template of a modelCard.
//
//go:embed page/card.md
var cardText string

// modelCard says in Markdown what a model is made of, how good it is, and on what it was not tried (Mitchell
// et al. 2019, "Model Cards for Model Reporting"), from runs that differ only in seed and split.
type modelCard struct {
	Title string
	by    []string   // the columns by which rows are grouped
	Runs  []*cardRun // all of them are measured, or none is
	Left  int        // how many runs diverged; they are in no figure
}

// newCard reads the runs. It refuses runs of several models or graphs.
func newCard(dirs []string, title string, by []string) (*modelCard, error) {
	c := &modelCard{Title: title, by: by}
	var listed []*rundir.Listed
	for _, dir := range dirs {
		r, err := readReportRun(dir)
		if err != nil {
			return nil, err
		}
		listed = append(listed, r.Listed)
		if r.Diverged {
			c.Left++
		} else {
			c.Runs = append(c.Runs, &cardRun{reportRun: r})
		}
	}
	differ := slices.DeleteFunc(
		rundir.Differ(listed),
		func(s string) bool { return s == "seed" || s == "split" },
	)
	if len(differ) > 0 {
		return nil, refusal.Errorf(
			"--card: the runs differ in %s, and a card is about one model; name the runs of one",
			strings.Join(differ, ", "),
		)
	}
	if len(c.Runs) == 0 {
		return nil, refusal.Errorf("--card: all runs diverged; train the model again, with a smaller --lr")
	}
	for _, r := range c.Runs {
		if err := r.study(c.Runs[0], by); err != nil {
			return nil, err
		}
	}
	if k := slices.IndexFunc(c.Runs, func(r *cardRun) bool { return r.Facts == nil }); k >= 0 {
		for _, r := range c.Runs { // means are over all runs
			r.Facts, r.NotMeasured = nil, cmp.Or(r.NotMeasured, c.Runs[k].NotMeasured)
		}
	}
	return c, nil
}

// writeTo writes the card by its template.
func (c *modelCard) writeTo(out io.Writer) error {
	text, err := template.New("card").Funcs(onCard).Parse(cardText)
	if err != nil {
		return err
	}
	return text.Execute(out, c)
}

// onCard are the functions of the card's template.
var onCard = template.FuncMap{
	"plain": plain, "row": row, "cells": func(cells []string) string { return row(cells...) },
	"dataset": datasetName, "join": strings.Join, "one": one,
	"parts": func() []string { return []string{"training", "validation", "test"} },
	"count": func(n any) string { return ui.Count(reflect.ValueOf(n).Int()) },
	"counted": func(n any, one, many string) string {
		return ui.Counted(reflect.ValueOf(n).Int(), one, many)
	},
	"listed": listed,
	"few":    fewOf,
	"least":  func() int { return fewRows },
	"most":   func() int { return mostClasses },
}

// one is a row, as texts call several.
func one(rows string) string {
	if rows == graph.EdgeNoun.Many {
		return graph.EdgeNoun.One
	}
	return graph.VertexNoun.One
}

// inMarkdown escapes characters that Markdown and HTML read as marks.
var inMarkdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`,
	"`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`)

// plain escapes a text so that it shows as it is, in one line.
func plain(text string) string { return inMarkdown.Replace(ui.Printable(text)) }

// row is a row of a table. It begins a line, and does not end it.
func row(cells ...string) string {
	line := "\n"
	for _, cell := range cells {
		line += "| " + plain(cell) + " "
	}
	return line + "|"
}

// listed names the first of names, and says how many more there are.
func listed(names []string) string {
	const most = 8
	text := strings.Join(names[:min(most, len(names))], ", ")
	return text + ui.When(len(names) > most, fmt.Sprintf(" and %s more", ui.Count(len(names)-most)))
}

// cardRow is a row of a class or a group.
type cardRow struct {
	Cells []string // the first is its name
	most  int      // most test rows that a run has
	class string   // of which of two classes these are, after a blank; "": of all
}

// fewOf lists rows with few test rows, and how many these are.
func fewOf(rows []cardRow) string {
	var few []string
	for _, r := range rows {
		if r.most < fewRows {
			few = append(few, fmt.Sprintf("%s (%d%s)", r.Cells[0], r.most, r.class))
		}
	}
	return strings.Join(few, ", ")
}

// perRun returns a value of each run.
func perRun[T any](c *modelCard, value func(*cardRun) T) (all []T) {
	for _, r := range c.Runs {
		all = append(all, value(r))
	}
	return all
}

// span writes a value of the runs: the same for all, or the smallest and the largest.
func span[T cmp.Ordered](c *modelCard, show func(T) string, value func(*cardRun) T) string {
	all := perRun(c, value)
	least, most := show(slices.Min(all)), show(slices.Max(all))
	return least + ui.When(least != most, " to "+most)
}

// counts writes a count of the runs, and what it is at most.
func (c *modelCard) counts(count func(*cardRun) int) (shown string, most int) {
	return span(c, ui.Count[int], count), slices.Max(perRun(c, count))
}

// estimate writes the mean of a metric over the runs and, if there are several, the sample deviation and the
// interval of the mean. NaN does not count.
func (c *modelCard) estimate(name string, value func(*cardRun) float64) []string {
	values := slices.DeleteFunc(perRun(c, value), math.IsNaN)
	mean, deviation := rundir.MeanAndDeviation(values)
	shown := []string{ui.Measured(name, mean), "–", "–"}
	if len(values) > 1 {
		half := rundir.Interval(values)
		low, high := float64(mean)-half, float64(mean)+half
		if metric.IsFraction(name) {
			low, high = max(0, low), min(1, high)
		}
		shown[1] = ui.Measured(name, deviation)
		shown[2] = ui.Measured(name, low) + " to " + ui.Measured(name, high)
	}
	if len(c.Runs) == 1 {
		return shown[:1]
	}
	return shown
}

// Test is the run's metric of the test rows.
func (c *modelCard) Test() []string {
	return c.estimate(c.Runs[0].Summary.Metric, func(r *cardRun) float64 { return float64(r.Summary.Test) })
}

// Size is how many rows are in the k-th part of the split.
func (c *modelCard) Size(k int) string {
	return span(c, ui.Count[int], func(r *cardRun) int { return r.sizes[k] })
}

func (c *modelCard) BestEpoch() string {
	return span(c, ui.Count[int], func(r *cardRun) int { return r.Summary.BestEpoch })
}

// Setting are the values of a setting in the runs.
func (c *modelCard) Setting(name string) string {
	values := perRun(c, func(r *cardRun) string { return r.Settings[name] })
	return strings.Join(slices.Compact(values), ", ")
}

// Costs are what a run took, each with its name.
func (c *modelCard) Costs() [][]string {
	seconds := func(s float64) string { return ui.Duration(ui.Seconds(s)) }
	costs := [][]string{
		{"time", span(c, seconds, func(r *cardRun) float64 { return r.Finished.Sub(r.Started).Seconds() })},
		{"an epoch", span(c, seconds, func(r *cardRun) float64 { return r.Summary.EpochSecondsMedian })},
		{"tensors at the peak, of the largest worker", span(c, ui.Megabytes, func(r *cardRun) int64 {
			return slices.Max(append(r.Summary.PeakTensorBytes, 0))
		})},
		{"memory of the largest process", span(c, ui.Megabytes, func(r *cardRun) int64 {
			return r.Summary.PeakRSSBytes
		})},
	}
	if c.Runs[0].Summary.Device != nil {
		costs = append(costs, []string{"memory of the card", span(c, ui.Megabytes, func(r *cardRun) int64 {
			return r.Summary.Device.PeakBytes
		})})
	}
	return costs
}
