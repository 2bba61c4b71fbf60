package reports

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/train/task"
)

// dataset is the name of the dataset, without its folder.
func (r *cardRun) dataset() string { return datasetName(r.Summary.Dataset) }

// datasetName is the name of a dataset without its folder. For a store that was made from a file it is the
// file's.
func datasetName(dataset string) string {
	name := filepath.Base(dataset)
	store, is := strings.CutSuffix(name, ".weft")
	if file, keyed := datasets.WithoutKey(store); is && keyed {
		return file
	}
	return name
}

func (c *modelCard) data() {
	r := c.first()
	c.heading(2, "Data")
	rows := [][]string{{"dataset", r.Summary.Dataset}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("store", r.Store)
	add("digest of the store", r.GraphID)
	if f := r.facts; f != nil {
		add("made by", f.madeBy)
		add("written", f.written)
		for _, count := range f.counts {
			add(count[0], count[1])
		}
	} else {
		g := &r.Summary.Graph
		add(
			"vertices",
			fmt.Sprintf("%s, %s", ui.Count(g.Vertices), ui.Counted(g.Features, "feature", "features")),
		)
		add("edges", ui.Count(g.Edges))
		add("types", strings.Join(g.Types, ", "))
		add("relations", strings.Join(g.Relations, ", "))
	}
	switch g := &r.Summary.Graph; {
	case r.Summary.Task == task.Link:
		add("learned", "which edges there are")
	case g.Values > 0:
		add("learned", ui.Counted(g.Values, "value", "values")+" of "+c.rowsName())
	case g.Several:
		add("learned", ui.Counted(g.Classes, "label", "labels")+" of "+c.rowsName()+", several to one")
	case g.Classes > 0:
		add("learned", ui.Counted(g.Classes, "class", "classes")+" of "+c.rowsName())
	}
	c.table(2, []string{"", ""}, rows)
	if r.facts != nil && r.facts.grown {
		g := &r.Summary.Graph
		c.say(fmt.Sprintf("The store was appended to since: the model was trained on %s and %s, and counts, columns "+
			"and dates here are those of the store as it is now.",
			ui.Counted(g.Vertices, "vertex", "vertices"), ui.Count(g.Edges)+" edges"))
	}
	if f := r.facts; f != nil && len(f.columns) > 0 {
		c.table(4, []string{"column", "of", "kind", "values", "missing"}, f.columns)
	}
}

func (c *modelCard) division() {
	r := c.first()
	c.heading(2, "Split")
	if l := r.Summary.Links; l != nil {
		c.table(1, []string{"part", "edges"}, [][]string{
			{"validation", ui.Count(l.ValEdges)}, {"test", ui.Count(l.TestEdges)},
		})
		return
	}
	if validate := r.Settings["validate"]; validate != "" {
		c.say(fmt.Sprintf("Validation and test %s are those of another graph, %s.", c.rowsName(), validate))
	}
	f := r.facts
	if f == nil {
		c.say(cmp.Or(r.NotMeasured, "The sizes of its parts are not known."))
		return
	}
	c.say("Rule: " + cmp.Or(f.rule, "the split that was stored with the data") + ".")
	head, rows := []string{"part", c.rowsName()}, [][]string{}
	for k, part := range []string{"training", "validation", "test"} {
		row := []string{part, spanOf(perRun(c, func(r *cardRun) int { return r.facts.sizes[k] }))}
		if f.dates != [3]string{} {
			row = append(row, f.dates[k])
		}
		rows = append(rows, row)
	}
	if f.dates != [3]string{} {
		head = append(head, "from, to")
	}
	c.table(1, head, rows)
}

func (c *modelCard) settings() {
	c.heading(2, "Settings")
	r := c.first()
	var rows [][]string
	for _, s := range r.Given {
		if s.Name != "seed" && s.Name != "split" {
			rows = append(rows, []string{s.Name, s.Value})
		}
	}
	each := func(name string) string {
		return strings.Join(slices.Compact(perRun(c, func(r *cardRun) string { return r.Settings[name] })),
			", ")
	}
	rows = append(rows, []string{"seed", each("seed")}, []string{"split", each("split")})
	rows = append(rows, []string{"epochs until the best", spanOf(perRun(c,
		func(r *cardRun) int { return r.Summary.BestEpoch }))})
	c.say("Those that differ from the defaults of weft " + r.Versions.Weft + ", with seed and split.")
	c.table(2, []string{"setting", "value"}, rows)
}

func (c *modelCard) cost() {
	c.heading(2, "Cost of training")
	r := c.first()
	s, v := &r.Summary, &r.Versions
	where := "the CPU, with " + v.SIMD + " kernels"
	if s.Device != nil {
		where = s.Device.Name
	}
	rows := [][]string{
		{"computed by", ui.Counted(s.Workers, "worker", "workers") + " on " + where},
		{"time", c.spread(func(r *cardRun) float64 { return r.Finished.Sub(r.Started).Seconds() }, showTime)},
		{"an epoch", c.spread(func(r *cardRun) float64 { return r.Summary.EpochSecondsMedian }, showTime)},
		{"tensors at the peak, of the largest worker", c.spread(func(r *cardRun) float64 {
			return float64(slices.Max(append(r.Summary.PeakTensorBytes, 0)))
		}, showBytes)},
		{"memory of the largest process", c.spread(func(r *cardRun) float64 {
			return float64(r.Summary.PeakRSSBytes)
		}, showBytes)},
	}
	if s.Device != nil {
		rows = append(rows, []string{"memory of the card", c.spread(func(r *cardRun) float64 {
			return float64(r.Summary.Device.PeakBytes)
		}, showBytes)})
	}
	c.table(2, []string{"", ui.When(len(c.runs) > 1, "of a run")}, rows)
}

func showTime(s float64) string { return ui.Duration(ui.Seconds(s)) }

func showBytes(n float64) string { return ui.Megabytes(int64(n)) }

// spread writes the smallest and the largest value of the runs.
func (c *modelCard) spread(value func(*cardRun) float64, show func(float64) string) string {
	all := perRun(c, value)
	least, most := show(slices.Min(all)), show(slices.Max(all))
	return least + ui.When(least != most, " to "+most)
}
