package reports

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/task"
)

// fewRows is the number of test rows below which the figures of a class or a group may be chance.
const fewRows = 30

// modelCard says in Markdown what a model is made of, how good it is, and on what it was not tried (Mitchell
// et al. 2019, "Model Cards for Model Reporting"), from runs that differ only in seed and split.
type modelCard struct {
	title string
	by    []string // the columns by which rows are grouped
	runs  []*cardRun
	left  int // how many runs diverged; they are in no figure
	out   strings.Builder
}

// newCard reads the runs. It refuses runs of several models or graphs.
func newCard(dirs []string, title string, by []string) (*modelCard, error) {
	c := &modelCard{title: title, by: by}
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
		var wrong error // an error about what was asked
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
		for _, r := range c.runs { // means are over all runs
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

func (c *modelCard) write() {
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

// inMarkdown escapes characters that Markdown and HTML read as marks.
var inMarkdown = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "&", "&amp;", "*", `\*`, "_", `\_`,
	"`", "\\`", "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`)

// plain escapes a text so that it shows as it is, in one line.
func plain(text string) string { return inMarkdown.Replace(ui.Printable(text)) }

func (c *modelCard) heading(level int, text string) {
	fmt.Fprintf(&c.out, "%s %s\n\n", strings.Repeat("#", level), plain(text))
}

// say writes a paragraph with this text.
func (c *modelCard) say(text string) { fmt.Fprintf(&c.out, "%s\n\n", plain(text)) }

// table writes rows under a heading. The first words columns hold words, and the others numbers.
func (c *modelCard) table(words int, head []string, rows [][]string) {
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

// first is the run from which the card takes what all runs share.
func (c *modelCard) first() *cardRun { return c.runs[0] }

// rowsName is what is learned: "vertices" or "edges".
func (c *modelCard) rowsName() string {
	if c.first().Summary.Task == task.Link {
		return "edges"
	}
	return c.first().Measured()
}

// perRun returns a value of each run.
func perRun[T any](c *modelCard, value func(*cardRun) T) (all []T) {
	for _, r := range c.runs {
		all = append(all, value(r))
	}
	return all
}

// headOfMean are the headings of the columns of mean.
func (c *modelCard) headOfMean(what string) []string {
	if len(c.runs) == 1 {
		return []string{what}
	}
	return []string{what, "deviation", "95 % interval"}
}

// mean writes the mean of a metric over the runs and, if there are several, the sample deviation and the
// interval of the mean. Undefined values do not count.
func (c *modelCard) mean(name string, values []float64) []string {
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
func (c *modelCard) about() {
	r := c.first()
	s := &r.Summary
	on := "the test " + c.rowsName()
	if r.NotMeasured == "" && s.Task != task.Link {
		on = spanOf(perRun(c, func(r *cardRun) int { return r.testRows() })) + " test " + c.rowsName()
	}
	figures := c.mean(s.Metric, perRun(c, func(r *cardRun) float64 { return float64(r.Summary.Test) }))
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

// testRows is how many test rows are measured.
func (r *cardRun) testRows() int {
	if r.facts == nil {
		return 0
	}
	return r.facts.sizes[2]
}

func (c *modelCard) writeTo(out io.Writer) error {
	_, err := io.WriteString(out, c.out.String())
	return err
}
