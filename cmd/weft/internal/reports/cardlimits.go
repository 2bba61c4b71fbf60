package reports

import (
	"fmt"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
)

// notTried says what the figures do not show.
func (c *modelCard) notTried() {
	c.heading(2, "What it was not tried on")
	r, rows := c.first(), c.rowsName()
	line := func(format string, args ...any) {
		fmt.Fprintf(&c.out, "- %s\n", plain(fmt.Sprintf(format, args...)))
	}
	splits := perRun(c, func(r *cardRun) string { return r.Settings["split"] + r.Settings["split-seed"] })
	switch slices.Sort(splits); {
	case len(c.runs) == 1:
		line("Other seeds: there is one run, and how far its figures are chance is not known.")
	case len(slices.Compact(splits)) == 1:
		line("Other splits: all runs have the same, and the intervals tell of the seed alone.")
	}
	if r.Settings["validate"] == "" {
		line("Another graph: test %s are of the graph that it was trained on.", rows)
	}
	f := r.facts
	if f == nil {
		if r.NotMeasured != "" {
			line("More is not known. %s.", r.NotMeasured)
		}
		return
	}
	switch kind, _, _ := strings.Cut(f.rule, ":"); kind {
	case "time":
		line("Later data: nothing is known of %s that come after those of the test%s.", rows,
			ui.When(f.dates[2] != "", ", "+f.dates[2]))
	case "random", "stratified":
		line("Later data: test %s are drawn from the same period as those that it was trained on.", rows)
	}
	if f.unlabelled > 0 {
		line("%s without a label.", ui.Counted(f.unlabelled, strings.TrimSuffix(rows, "s"), rows))
	}
	if f.outside > 0 {
		line("%s that have a label and are in no part of the split.", ui.Count(f.outside)+" "+rows)
	}
	for _, other := range f.others {
		line("Values that are none of the categories: those of column %s count as other.", other)
	}
	var few []string
	for k, class := range r.Classes {
		if most := slices.Max(perRun(c,
			func(r *cardRun) int { return r.Classes[k].Support })); most < fewRows {
			few = append(few, fmt.Sprintf("%s (%d)", class.Name, most))
		}
	}
	if few != nil {
		line("Classes with fewer than %d test %s: %s.", fewRows, rows, strings.Join(few, ", "))
	}
	pair, classes := c.classPair(), ""
	if pair != nil {
		classes = " of one of the classes"
	}
	for k, column := range c.by {
		few, unseen := []string{}, []string{}
		for _, g := range c.groupsOf(k) {
			if most, class := g.rarer(); pair != nil && most < fewRows {
				few = append(few, fmt.Sprintf("%s (%d %s)", g.name, most, pair[class]))
			} else if most := slices.Max(g.tests); pair == nil && most < fewRows {
				few = append(few, fmt.Sprintf("%s (%d)", g.name, most))
			}
			if slices.Max(g.train) == 0 {
				unseen = append(unseen, g.name)
			}
		}
		if len(few) > 0 {
			line("Groups of %s with fewer than %d test %s%s: %s.", column, fewRows, rows, classes,
				strings.Join(few, ", "))
		}
		if len(unseen) > 0 {
			line("Groups of %s without a training row: %s.", column, strings.Join(unseen, ", "))
		}
	}
}
