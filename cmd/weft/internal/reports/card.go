package reports

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/internal/refusal"
	"weft/train/calibrate"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/task"
)

// fewRows is below how many test rows a class or a group has few: its figures may be chance.
const fewRows = 30

// card says in Markdown what a model is made of, how good it is, and what it was not tried on (Mitchell et
// al. 2019, "Model Cards for Model Reporting"), by runs that differ in seed and split alone.
type card struct {
	title string
	by    []string // the columns of groups
	runs  []*cardRun
	left  int // runs that diverged, and are in no figure
	out   strings.Builder
}

// newCard reads the runs. It refuses runs that are of several models or graphs.
func newCard(dirs []string, title string, by []string) (*card, error) {
	c := &card{title: title, by: by}
	var listed []*rundir.Listed
	for _, dir := range dirs {
		r, err := readReportRun(dir)
		if err != nil {
			return nil, err
		}
		listed = append(listed, r.Listed)
		if r.Diverged {
			c.left++
			continue
		}
		c.runs = append(c.runs, &cardRun{reportRun: r})
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
	if len(c.runs) == 0 {
		return nil, refusal.Errorf("--card: all runs diverged; train the model again, with a smaller --lr")
	}
	first := c.runs[0]
	for _, r := range c.runs {
		if r.GraphID != first.GraphID {
			return nil, refusal.Errorf(
				"--card: %s and %s were trained on different states of %s; name the runs of one",
				first.Summary.RunDir,
				r.Summary.RunDir,
				first.Store,
			)
		}
		if r.Summary.Task == task.Link {
			if len(by) > 0 {
				return nil, refusal.Errorf(
					"--groups %s: edges that are predicted have no groups; leave it out",
					by[0],
				)
			}
			continue
		}
		var wrong error // with what is asked
		err := r.predictions(func(p *predictions) error {
			wrong = r.study(p, by)
			return nil
		})
		switch {
		case wrong != nil:
			return nil, wrong
		case err != nil && len(by) > 0:
			return nil, refusal.Errorf("--groups %s: %w", by[0], err)
		case err != nil:
			r.facts = nil // NotMeasured says why
		}
	}
	if k := slices.IndexFunc(c.runs, func(r *cardRun) bool { return r.facts == nil }); k >= 0 {
		for _, r := range c.runs { // means are of all runs
			r.facts, r.groups, r.thresholds = nil, nil, nil
			r.NotMeasured = cmp.Or(r.NotMeasured, c.runs[k].NotMeasured)
		}
	}
	if c.title == "" {
		c.title = fmt.Sprintf("%s on %s", first.Summary.Model, first.dataset())
	}
	c.write()
	return c, nil
}

func (c *card) write() {
	c.heading(1, "Model card: "+c.title)
	c.about()
	c.data()
	c.division()
	c.settings()
	c.metrics()
	c.classes()
	c.groups()
	c.confusion()
	c.calibration()
	c.thresholds()
	c.cost()
	c.notTried()
}

// inMarkdown escapes what Markdown and HTML read as marks.
var inMarkdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`,
	"`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`)

// plain writes a text as it is, in one line.
func plain(text string) string { return inMarkdown.Replace(ui.Printable(text)) }

func (c *card) heading(level int, text string) {
	fmt.Fprintf(&c.out, "%s %s\n\n", strings.Repeat("#", level), plain(text))
}

// say writes a paragraph, of this text as it is.
func (c *card) say(text string) { fmt.Fprintf(&c.out, "%s\n\n", plain(text)) }

// table writes rows under a heading. The columns behind the first so many hold numbers.
func (c *card) table(words int, head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	line := func(cells []string) {
		for _, cell := range cells {
			fmt.Fprintf(&c.out, "| %s ", plain(cell))
		}
		c.out.WriteString("|\n")
	}
	line(head)
	for k := range head {
		c.out.WriteString("|" + ui.When(k < words, "---") + ui.When(k >= words, "---:"))
	}
	c.out.WriteString("|\n")
	for _, row := range rows {
		line(row)
	}
	c.out.WriteString("\n")
}

// first is the run that says what all runs share.
func (c *card) first() *cardRun { return c.runs[0] }

// rowsName is what is learned: vertices or edges.
func (c *card) rowsName() string {
	if c.first().Summary.Task == task.Link {
		return "edges"
	}
	return c.first().Measured()
}

// of are a value of all runs.
func of[T any](c *card, value func(*cardRun) T) (all []T) {
	for _, r := range c.runs {
		all = append(all, value(r))
	}
	return all
}

// headOfMean are the headings of mean.
func (c *card) headOfMean(what string) []string {
	if len(c.runs) == 1 {
		return []string{what}
	}
	return []string{what, "deviation", "95 % interval"}
}

// mean writes the mean of a metric over the runs and, of several, the sample deviation and the interval of
// the mean. Values that are not defined do not count.
func (c *card) mean(name string, values []float64) []string {
	values = slices.DeleteFunc(slices.Clone(values), func(x float64) bool { return math.IsNaN(x) })
	mean, deviation := rundir.MeanAndDeviation(values)
	if len(values) == 0 {
		mean = metric.Number(math.NaN())
	}
	shown := []string{ui.Measured(name, mean)}
	if len(c.runs) == 1 {
		return shown
	}
	if len(values) < 2 {
		return append(shown, "–", "–")
	}
	half := rundir.Interval(values)
	low, high := float64(mean)-half, float64(mean)+half
	if metric.IsFraction(name) {
		low, high = max(0, low), min(1, high)
	}
	return append(shown, ui.Measured(name, float64(deviation)),
		ui.Measured(name, low)+" to "+ui.Measured(name, high))
}

// about says in a line how good the model is, on what, and since when.
func (c *card) about() {
	r := c.first()
	s := &r.Summary
	on := "the test " + c.rowsName()
	if r.NotMeasured == "" && s.Task != task.Link {
		on = spanOf(of(c, func(r *cardRun) int { return r.testRows() })) + " test " + c.rowsName()
	}
	figures := c.mean(s.Metric, of(c, func(r *cardRun) float64 { return float64(r.Summary.Test) }))
	text := fmt.Sprintf("Test %s %s on %s of %s", s.Metric, figures[0], on, r.dataset())
	if len(figures) > 1 {
		text = fmt.Sprintf("Test %s %s (95 %% interval over %d runs: %s) on %s of %s", s.Metric, figures[0],
			len(c.runs), figures[2], on, r.dataset())
	}
	began := slices.MinFunc(c.runs, func(a, b *cardRun) int { return a.Started.Compare(b.Started) }).Started
	c.say(fmt.Sprintf("%s. Trained on %s by weft %s.", text, began.Local().Format(time.DateOnly),
		r.Versions.Weft))
	if c.left > 0 {
		c.say(fmt.Sprintf("%s diverged, and is in no figure.",
			ui.Counted(c.left, "further run", "further runs")))
	}
}

// dataset is the name of the dataset, without its folder.
func (r *cardRun) dataset() string { return datasetName(r.Summary.Dataset) }

// datasetName is the name of a dataset without its folder, that of a store that was made of a file the
// file's.
func datasetName(dataset string) string {
	name := filepath.Base(dataset)
	store, is := strings.CutSuffix(name, ".weft")
	if file, keyed := datasets.WithoutKey(store); is && keyed {
		return file
	}
	return name
}

// testRows is how many test rows are measured.
func (r *cardRun) testRows() int {
	if r.facts == nil {
		return 0
	}
	return r.facts.sizes[2]
}

func (c *card) data() {
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
	if f := r.facts; f != nil && len(f.columns) > 0 {
		c.table(4, []string{"column", "of", "kind", "values", "missing"}, f.columns)
	}
}

func (c *card) division() {
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
		row := []string{part, spanOf(of(c, func(r *cardRun) int { return r.facts.sizes[k] }))}
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

func (c *card) settings() {
	c.heading(2, "Settings")
	r := c.first()
	var rows [][]string
	for _, s := range r.Given {
		if s.Name != "seed" && s.Name != "split" {
			rows = append(rows, []string{s.Name, s.Value})
		}
	}
	each := func(name string) string {
		return strings.Join(slices.Compact(of(c, func(r *cardRun) string { return r.Settings[name] })), ", ")
	}
	rows = append(rows, []string{"seed", each("seed")}, []string{"split", each("split")})
	rows = append(rows, []string{"epochs until the best", spanOf(of(c,
		func(r *cardRun) int { return r.Summary.BestEpoch }))})
	c.say("Those that differ from the defaults of weft " + r.Versions.Weft + ", with seed and split.")
	c.table(2, []string{"setting", "value"}, rows)
}

// measured reports whether all runs have evaluations.
func (c *card) measured() bool {
	return !slices.ContainsFunc(c.runs, func(r *cardRun) bool { return r.facts == nil })
}

func (c *card) metrics() {
	c.heading(2, "Metrics")
	if n := len(c.runs); n > 1 {
		c.say(fmt.Sprintf("Means over %d runs, which differ in seed and split alone, with the sample deviation "+
			"(n − 1) and the 95 %% interval of the mean by Student's t.", n))
	}
	r := c.first()
	head := slices.Concat([]string{"metric", "training", "validation"}, c.headOfMean("test"))
	rows := [][]string{}
	add := func(name string, value func(r *cardRun, part int) float64) {
		row := []string{name}
		for part := range 2 {
			row = append(row, c.mean(name, of(c, func(r *cardRun) float64 { return value(r, part) }))[0])
		}
		rows = append(rows, append(row, c.mean(name, of(c,
			func(r *cardRun) float64 { return value(r, 2) }))...))
	}
	switch {
	case r.Summary.Links != nil:
		for _, l := range ui.LinkRows(r.Summary.Links.Val, r.Summary.Links.Test) {
			add(l.Name, func(r *cardRun, part int) float64 {
				of := r.Summary.Links
				return float64(
					[]metric.Number{metric.Number(math.NaN()), of.Val[l.Name], of.Test[l.Name]}[part],
				)
			})
		}
	case c.measured():
		for _, name := range slices.Sorted(maps.Keys(r.evaluated[2].Scores)) {
			add(name, func(r *cardRun, part int) float64 { return r.evaluated[part].Scores[name] })
		}
	default:
		add(r.Summary.Metric, func(r *cardRun, part int) float64 {
			s := &r.Summary
			return float64([]metric.Number{s.Train, s.Val, s.Test}[part])
		})
	}
	c.table(1, head, rows)
}

func (c *card) classes() {
	if !c.measured() || c.first().Classes == nil {
		return
	}
	c.heading(2, "Classes")
	var rows [][]string
	for k, class := range c.first().Classes {
		at := func(value func(*metric.ClassScores) float64) []string {
			return c.mean(metric.Accuracy, of(c, func(r *cardRun) float64 { return value(&r.Classes[k]) }))
		}
		rows = append(rows, slices.Concat([]string{
			class.Name, spanOf(of(c, func(r *cardRun) int { return r.Classes[k].Support })),
			at(func(s *metric.ClassScores) float64 { return s.Precision })[0],
			at(func(s *metric.ClassScores) float64 { return s.Recall })[0],
		}, at(func(s *metric.ClassScores) float64 { return s.F1 })))
	}
	c.table(1,
		slices.Concat([]string{"class", "test " + c.rowsName(), "precision", "recall"}, c.headOfMean("F1")),
		rows)
}

// groupRow is a group of a column, over the runs.
type groupRow struct {
	name                    string
	train, tests, positives []int // of each run
	scores                  []float64
}

// rarer is the largest count, of a run, of test rows of the rarer of two classes, and its number.
func (g *groupRow) rarer() (most, class int) {
	most = -1
	for k, positives := range g.positives {
		n, of := positives, 1
		if others := g.tests[k] - positives; others < n {
			n, of = others, 0
		}
		if n > most {
			most, class = n, of
		}
	}
	return most, class
}

// classPair are the names of two classes that rows have one of; nil: they are otherwise.
func (c *card) classPair() []string {
	if all := c.first().Classes; c.first().thresholds != nil && len(all) == 2 {
		return []string{all[0].Name, all[1].Name}
	}
	return nil
}

// groupsOf are the groups of the k-th column, ascending by name.
func (c *card) groupsOf(k int) (rows []*groupRow) {
	find := map[string]*groupRow{}
	for i, r := range c.runs {
		for _, g := range r.groups[k] {
			if find[g.name] == nil {
				// One that another split has no rows of
				counts := func() []int { return make([]int, len(c.runs)) }
				find[g.name] = &groupRow{g.name, counts(), counts(), counts(), nil}
				rows = append(rows, find[g.name])
			}
			of := find[g.name]
			of.train[i], of.tests[i], of.positives[i] = g.train, g.tests, g.positives
			of.scores = append(of.scores, g.score)
		}
	}
	slices.SortFunc(rows, func(a, b *groupRow) int { return strings.Compare(a.name, b.name) })
	return rows
}

func (c *card) groups() {
	name, pair := c.first().Summary.Metric, c.classPair()
	for k, column := range c.by {
		c.heading(2, "Groups: "+column)
		head := []string{column, "training " + c.rowsName(), "test " + c.rowsName()}
		if pair != nil {
			head = append(head, "of class "+pair[1])
		}
		var rows [][]string
		for _, g := range c.groupsOf(k) {
			row := []string{g.name, spanOf(g.train), spanOf(g.tests)}
			if pair != nil {
				row = append(row, spanOf(g.positives))
			}
			rows = append(rows, slices.Concat(row, c.mean(name, g.scores)))
		}
		c.table(1, slices.Concat(head, c.headOfMean("test "+name)), rows)
	}
}

func (c *card) confusion() {
	first := c.first().evaluated[2]
	if !c.measured() || first.Confusion == nil {
		return
	}
	c.heading(2, "Confusion")
	sum := make([][]int, len(first.Confusion))
	for k := range sum {
		sum[k] = make([]int, len(sum))
		for _, r := range c.runs {
			for i, n := range r.evaluated[2].Confusion[k] {
				sum[k][i] += n
			}
		}
	}
	together := ui.When(len(c.runs) > 1, ", of all runs together")
	const wide = 12 // more classes than a table has room for
	if len(sum) <= wide {
		c.say(
			"Test " + c.rowsName() + " by their class (row) and the class with the largest output (column)" +
				together + ".",
		)
		head, rows := []string{""}, [][]string{}
		for k, counts := range sum {
			head = append(head, first.Classes[k].Name)
			row := []string{first.Classes[k].Name}
			for _, n := range counts {
				row = append(row, ui.Count(n))
			}
			rows = append(rows, row)
		}
		c.table(1, head, rows)
		return
	}
	c.say("The most frequent mistakes among test " + c.rowsName() + together + ".")
	type mistake struct{ class, said, count int }
	var all []mistake
	for k, counts := range sum {
		for i, n := range counts {
			if i != k && n > 0 {
				all = append(all, mistake{k, i, n})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mistake) int { return b.count - a.count })
	var rows [][]string
	for _, m := range all[:min(wide, len(all))] {
		rows = append(
			rows,
			[]string{first.Classes[m.class].Name, first.Classes[m.said].Name, ui.Count(m.count)},
		)
	}
	c.table(2, []string{"class", "predicted", c.rowsName()}, rows)
}

func (c *card) calibration() {
	r := c.first()
	if !c.measured() || r.reliable[1] == nil {
		return
	}
	c.heading(2, "Calibration")
	of := 1
	if r.Calibration != nil {
		of = 0
		c.say(
			"Probabilities are calibrated on validation " + c.rowsName() + ": " + r.Calibration.Method + "." +
				ui.When(r.Calibration.Method == calibrate.Isotonic, " It gives many "+c.rowsName()+
					" one probability: ranking metrics, and the order of predict, are by the model's own."),
		)
	} else {
		c.say("Probabilities are the model's own.")
	}
	var bins metric.Reliability
	for _, r := range c.runs {
		for k, b := range r.reliable[of] {
			sum := &bins[k]
			sum.Sure, sum.Right, sum.Count = sum.Sure+b.Sure, sum.Right+b.Right, sum.Count+b.Count
		}
	}
	var rows [][]string
	for k, b := range bins {
		if b.Count > 0 {
			n, parts := float64(b.Count), float64(len(bins))
			rows = append(rows, []string{
				fmt.Sprintf("%.3f to %.3f", float64(k)/parts, float64(k+1)/parts),
				ui.Count(b.Count), ui.Percent(b.Sure / n), ui.Percent(b.Right / n),
			})
		}
	}
	c.table(1, []string{
		"probability of the predicted class",
		"test " + c.rowsName() + ui.When(len(c.runs) > 1, " of all runs"),
		"mean probability",
		"right",
	}, rows)
}

func (c *card) thresholds() {
	r := c.first()
	if !c.measured() || r.thresholds == nil {
		return
	}
	class := r.Classes[1].Name
	c.heading(2, "Thresholds")
	calibrated, beside := "", ""
	if r.Calibration != nil {
		calibrated = "calibrated "
		beside = ", where the confusion above counts the largest output before calibration"
	}
	c.say("If class " + class + " is predicted from a " + calibrated + "probability on, of test " +
		c.rowsName() + beside + ":")
	var rows [][]string
	for k, t := range r.thresholds {
		share := func(value func(*atThreshold) float64) []string {
			all := of(c, func(r *cardRun) float64 { return value(&r.thresholds[k]) })
			return c.mean(metric.Accuracy, all)[:1]
		}
		at := fmt.Sprintf("%.4g", t.at)
		if t.best {
			if slices.ContainsFunc(c.runs, func(r *cardRun) bool { return len(r.thresholds) <= k }) {
				continue // a run has none
			}
			at = "that with the best F1 of validation"
			if len(c.runs) == 1 {
				at = fmt.Sprintf("%.4g, with the best F1 of validation", t.at)
			}
		}
		rows = append(
			rows,
			slices.Concat([]string{at, spanOf(of(c, func(r *cardRun) int { return r.thresholds[k].said }))},
				share(func(t *atThreshold) float64 { return t.precision }),
				share(func(t *atThreshold) float64 { return t.recall })),
		)
	}
	c.table(1, []string{"from", "predicted " + class, "precision", "recall"}, rows)
}

func (c *card) cost() {
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

func showTime(s float64) string  { return ui.Duration(ui.Seconds(s)) }
func showBytes(n float64) string { return ui.Megabytes(int64(n)) }

// spread writes the least and the most of the runs.
func (c *card) spread(value func(*cardRun) float64, show func(float64) string) string {
	all := of(c, value)
	least, most := show(slices.Min(all)), show(slices.Max(all))
	return least + ui.When(least != most, " to "+most)
}

// notTried says what the figures do not tell.
func (c *card) notTried() {
	c.heading(2, "What it was not tried on")
	r, rows := c.first(), c.rowsName()
	line := func(format string, args ...any) {
		fmt.Fprintf(&c.out, "- %s\n", plain(fmt.Sprintf(format, args...)))
	}
	splits := of(c, func(r *cardRun) string { return r.Settings["split"] + r.Settings["split-seed"] })
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
		if most := slices.Max(of(c, func(r *cardRun) int { return r.Classes[k].Support })); most < fewRows {
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

func (c *card) writeTo(out io.Writer) error {
	_, err := io.WriteString(out, c.out.String())
	return err
}
