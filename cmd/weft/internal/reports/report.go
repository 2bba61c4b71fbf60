// Package reports compares runs: the commands runs and report.
package reports

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/atomicfile"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// The page of a report, and uPlot, which draws its curves.
var (
	//go:embed page/report.html
	reportPage string
	//go:embed page/report.css
	reportStyle template.CSS
	//go:embed page/report.js
	reportScript template.JS
	//go:embed page/charts.js
	chartsScript template.JS
	//go:embed page/uPlot.iife.min.js
	chartScript template.JS
	//go:embed page/uPlot.min.css
	chartStyle template.CSS
)

// parts are the style and the scripts of a page that draws curves.
type parts struct {
	Style, ChartStyle     template.CSS
	Script, Charts, Chart template.JS
}

// PartsWith are those of a page whose own script is this one.
func PartsWith(script template.JS) parts {
	return parts{reportStyle, chartStyle, script, chartsScript, chartScript}
}

type reportCommand struct {
	out    string
	title  string
	card   bool
	groups []string
}

// NewReport makes the command report.
func NewReport() *cobra.Command {
	c := &reportCommand{}
	cmd := &cobra.Command{
		Use:   "report RUN|FOLDER…",
		Short: "write a page about runs: curves, classes, memory, messages, settings that differ",
		Long: `report writes one HTML file about runs, or about all runs below folders. It holds their results, their settings and those in which they differ,
the curves of loss, metrics, learning rate, seconds and memory, precision, recall and the confusion matrix of each class, what each worker
took, sent and waited, the memory over an epoch, and where its time went by layer and worker. The file needs no network, and opens in any browser, light or dark.

With --card it writes a model card in Markdown, of runs that differ in seed and split alone: data, split, settings, metrics with 95 % intervals
over the runs, classes, groups (--groups), confusion, calibration, thresholds, cost, and what the model was not tried on.`,
		Example: "  weft report runs/first --out first.html\n  weft report runs/seeds " +
			"runs/other --out both.html\n  weft report runs/seeds --card --groups city --out card.md",
		ValidArgsFunction: cli.CompleteRun,
		Args:              cli.Arguments(1, math.MaxInt),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	cmd.Flags().StringVar(
		&c.out,
		"out",
		"",
		"`file` for the page, .html or .htm, or for the card, .md (default: "+
			"standard output); an existing file is overwritten",
	)
	cmd.Flags().StringVar(&c.title, "title", "", "`text` of its heading (default: that it is about "+
		"training runs)")
	cmd.Flags().BoolVar(&c.card, "card", false, "write a model card in Markdown, in the place of the page")
	cmd.Flags().StringSliceVar(
		&c.groups,
		"groups",
		nil,
		"`columns` of categories of the table of vertices or edges, "+
			"for whose groups the card has the metric; END.COLUMN is that of an end of the edges",
	)
	return cmd
}

// checkOut refuses a file that cannot be written, or whose ending is of something else, and flags of the card
// without one.
func (c *reportCommand) checkOut() error {
	switch {
	case !c.card && len(c.groups) > 0:
		return refusal.Errorf(
			"--groups %s: groups are those of a card; give --card, too",
			strings.Join(c.groups, ","),
		)
	case !c.card:
		return CheckPage(c.out)
	case c.out == "":
		return nil
	case isPage(c.out):
		return refusal.Errorf("--out %s: the card is Markdown; name a file that ends in .md", c.out)
	}
	return cli.CheckFile("out", c.out)
}

func (c *reportCommand) run(cmd *cobra.Command, args []string) error {
	if err := c.checkOut(); err != nil {
		return err
	}
	say := func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), ui.OneLine(err)) }
	var dirs, without []string
	var damaged []error
	for _, arg := range args {
		runs, err := rundir.List(arg, func(err error) { damaged = append(damaged, err) })
		if err != nil {
			return refusal.Errorf("%s: %w; name a run or a folder of runs", arg, err)
		}
		for _, r := range runs {
			if dir := filepath.Clean(r.RunDir); !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
		if len(runs) == 0 {
			without = append(without, arg)
		}
	}
	if len(dirs) == 0 && len(damaged) == 1 {
		return refusal.Errorf("%w", damaged[0])
	}
	for _, err := range damaged {
		say(err)
	}
	if len(dirs) == 0 {
		return refusal.Errorf("%s: no run is there; weft train DATASET begins one",
			strings.Join(without, ", "))
	}
	for _, arg := range without {
		if !rundir.IsBeside(arg) {
			say(fmt.Errorf("%s: no run is there; it is left out", arg))
		}
	}
	if c.card {
		return c.writeCard(cmd, dirs, say)
	}
	page, err := newReportPage(dirs, c.title, time.Now(), say)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(c.out, page.write); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: a page about %s\n", ui.Printable(c.out),
		ui.Counted(len(page.Runs), "run", "runs"))
	sayNotMeasured(page.Runs, say)
	return nil
}

// sayNotMeasured says of the runs whose predictions are not measured why, once for each reason.
func sayNotMeasured(runs []*reportRun, say func(error)) {
	said := map[string]bool{}
	for _, r := range runs {
		if why := r.NotMeasured; why != "" && !said[why] {
			said[why] = true
			say(fmt.Errorf("%s: %s%s", r.Summary.RunDir, strings.ToLower(why[:1]), why[1:]))
		}
	}
}

// writeCard writes a model card.
func (c *reportCommand) writeCard(cmd *cobra.Command, dirs []string, say func(error)) error {
	card, err := newCard(dirs, c.title, c.groups)
	switch {
	case err != nil:
		return err
	case c.out == "":
		return card.writeTo(cmd.OutOrStdout())
	}
	if err := atomicfile.Write(c.out, card.writeTo); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: a model card of %s\n", ui.Printable(c.out),
		ui.Counted(len(card.runs), "run", "runs"))
	for _, r := range card.runs[:1] { // what is said of one is said of all
		sayNotMeasured([]*reportRun{r.reportRun}, say)
	}
	return nil
}

// CheckPage refuses a file of --out that a page cannot be written to, or whose ending is not of one.
func CheckPage(out string) error {
	if err := cli.CheckFile("out", out); err != nil {
		return err
	}
	if info, err := os.Stat(out); !isPage(out) && (err != nil || info.Mode().IsRegular()) {
		return refusal.Errorf("--out %s: the page is HTML; name a file that ends in .html or .htm", out)
	}
	return nil
}

// isPage reports whether a file has an ending of HTML.
func isPage(path string) bool {
	end := strings.ToLower(filepath.Ext(path))
	return end == ".html" || end == ".htm"
}

// reportRun is a run on the page.
type reportRun struct {
	rundir.Run
	Name        string
	Color       int        // its number among the page's colors; −1: the run is not drawn
	Scores      []scoreRow // of all metrics
	Classes     []metric.ClassScores
	Confusion   *heatTable   // true classes × predicted classes; nil: there is none, or it is too large
	NotMeasured string       // why there are no scores and classes
	Profile     *profileView // nil: the run has none
	Listed      *rundir.Listed
	roc, pr     []metric.Point // of two classes, over the test vertices
	// reliable are how sure predictions of test vertices are, calibrated and as the model has them; the first
	// is nil of a run that is not calibrated, both are without classes
	reliable    [2]*metric.Reliability
	evaluated   [3]metric.Evaluation // of training, validation and test vertices; zero: not measured
	sizes       [3]int               // the numbers of these
	Given, Left []settingShown       // those that the model uses: chosen, and left at their defaults
	curve       []train.Epoch
}

// Measured is what has classes: vertices, or edges.
func (r *reportRun) Measured() string {
	if r.Summary.Task == task.Edge {
		return "edges"
	}
	return "vertices"
}

// Ranked says which of two classes ranking metrics are of, and how many of the test rows are; "": there are
// others, or no test row.
func (r *reportRun) Ranked() string {
	if e := &r.evaluated[2]; len(e.Classes) != 2 || e.Confusion == nil || r.sizes[2] == 0 {
		return ""
	}
	second := &r.evaluated[2].Classes[1]
	return fmt.Sprintf("average-precision, precision@K and recall@fpr=RATE that name no class, and the threshold, "+
		"are of the second class, %s, which %s of the test %s are of: by chance that is the average precision.",
		ui.Printable(second.Name), ui.Percent(float64(second.Support)/float64(r.sizes[2])), r.Measured())
}

type settingShown struct{ Name, Value string }

// chart is a chart of the page, with the keys that its script reads.
type chart struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Series []series `json:"series"`
	Best   []mark   `json:"best"` // the best epochs of the runs, if it has curves of validation
	// Log has a logarithmic axis, as all values are above 0. X is what the x axis has, in place of epochs.
	Log bool   `json:"log"`
	X   string `json:"x,omitempty"`
}

// mark is a best epoch, and the value of the curve of validation there.
type mark struct {
	X     int           `json:"x"`
	Y     metric.Number `json:"y"`
	Color int           `json:"color"`
}

// series is a curve: a part of what the chart has of the run of that name.
type series struct {
	Name  string          `json:"name"`
	Part  string          `json:"part"`
	Color int             `json:"color"`
	Dash  []int           `json:"dash"`
	X     []metric.Number `json:"x"`
	Y     []metric.Number `json:"y"`
	// Counts are how many predictions each point is of; nil: it is of all
	Counts []int `json:"counts,omitempty"`
}

// reportContents is what the page's template shows.
type reportContents struct {
	Title, Version, Made string
	parts
	Answers []answer
	Runs    []*reportRun
	Differ  []string
	Metrics bool   // the runs have several
	Ended   bool   // one has ended otherwise than by its last epoch
	Drawn   string // which runs have curves; "": all
	Curves  []chart
	Level   []string       // what charts would say in which no curve changes
	Memory  []*memoryChart // in the order of the runs that have one
}

// mostDrawn is how many runs have curves. The page's style has a color for each, which differ on light and
// dark pages, also for those who see fewer colors.
const mostDrawn = 12

// newReportPage reads the runs. What is missing of one is told to unread.
func newReportPage(dirs []string, title string, now time.Time, unread func(error)) (*reportContents, error) {
	p := &reportContents{
		Title: title, Version: cli.Version, Made: now.Format(time.DateTime),
		parts: PartsWith(reportScript),
	}
	if title == "" {
		p.Title = "Training runs"
	}
	var listed []*rundir.Listed
	var tests []float64
	for k, dir := range dirs {
		r, err := readReportRun(dir)
		if err != nil && k == len(dirs)-1 && len(p.Runs) == 0 {
			return nil, err // no run is left
		}
		if err != nil {
			unread(err)
			continue
		}
		p.Runs = append(p.Runs, r)
		listed = append(listed, r.Listed)
		if !r.Diverged {
			tests = append(tests, float64(r.Summary.Test))
		}
	}
	p.sort()
	p.nameRuns(dirs)
	p.Differ = rundir.Differ(listed)
	p.answer(tests)
	p.draw()
	return p, nil
}

// sort puts the runs of a metric together, the best by validation first, and gives them colors.
func (p *reportContents) sort() {
	slices.SortStableFunc(p.Runs, func(a, b *reportRun) int {
		s, t := &a.Summary, &b.Summary
		return cmp.Or(cmp.Compare(s.Metric, t.Metric),
			rundir.CompareMetric(s.Metric, float64(s.Val), float64(t.Val)))
	})
	for k, r := range p.Runs {
		if r.Color = k; k >= mostDrawn {
			r.Color = -1
		}
		if r.Profile != nil && r.Profile.Chart != nil {
			p.Memory = append(p.Memory, r.Profile.Chart)
		}
	}
}

// nameRuns names the runs by what their paths do not share.
func (p *reportContents) nameRuns(dirs []string) {
	shared := filepath.Dir(filepath.Clean(dirs[0]))
	for _, r := range p.Runs {
		for {
			rel, err := filepath.Rel(shared, r.Summary.RunDir)
			if err == nil && filepath.IsLocal(rel) && rel != "." || shared == filepath.Dir(shared) {
				break
			}
			shared = filepath.Dir(shared)
		}
	}
	for _, r := range p.Runs {
		r.Name = r.Summary.RunDir
		if rel, err := filepath.Rel(shared, r.Summary.RunDir); err == nil {
			r.Name = rel
		}
	}
}

// readReportRun reads a run that has ended.
func readReportRun(dir string) (*reportRun, error) {
	run, _, _, err := rundir.Read(dir)
	if err != nil {
		return nil, err
	}
	run.Summary.RunDir = filepath.Clean(dir) // it may have been moved
	r := &reportRun{Run: run, Listed: &rundir.Listed{
		Standing: &rundir.Standing{Dataset: run.Summary.Dataset}, Settings: run.Settings,
	}}
	defaults := setting.Defaults()
	for _, s := range setting.All() {
		to := &r.Given
		if r.Settings[s.Name] == s.Text(&defaults) {
			to = &r.Left
		}
		if value := r.Listed.Setting(s.Name); value != "" {
			*to = append(*to, settingShown{s.Name, value})
		}
	}
	if r.curve, err = rundir.ReadCurve(dir); err != nil {
		return nil, err
	}
	profile, err := rundir.ReadProfile(dir)
	if err != nil {
		return nil, err
	}
	r.Profile = viewProfile(profile, run.Summary.SentBytes)
	r.evaluate()
	return r, nil
}

// traffic is what all workers sent for a purpose.
type traffic struct {
	Name string
	worker.Traffic
}

// Traffic is what the workers sent, by purpose.
func (r *reportRun) Traffic() []traffic {
	c := &r.Summary.Communication
	return slices.DeleteFunc([]traffic{
		{"rows between partitions", c.Halo},
		{"rows between layouts", c.Layout},
		{"rows between stages", c.Stage},
		{"gradients of weights", c.Gradient},
		{"rows at the ends of scored edges", c.Links},
		{"losses, norms, counts", c.Statistics},
	}, func(t traffic) bool { return t.Messages == 0 })
}

// scoreRow is a metric of the parts of the split.
type scoreRow struct {
	Name             string
	Train, Val, Test float64
}

// evaluate measures the run by all metrics, and the classes of the test vertices, where the graph of the run
// is there.
func (r *reportRun) evaluate() {
	const most = 64 // rows of a confusion matrix that a page shows
	s := &r.Summary
	if s.Task == task.Link {
		return
	}
	err := r.predictions(func(p *predictions) error { return r.measure(p) })
	if err != nil {
		r.NotMeasured = "The predictions are not measured: " + err.Error()
		return
	}
	parts := r.evaluated
	e := parts[2]
	for _, name := range slices.Sorted(maps.Keys(e.Scores)) {
		r.Scores = append(r.Scores,
			scoreRow{name, parts[0].Scores[name], parts[1].Scores[name], e.Scores[name]})
	}
	r.Classes = e.Classes
	if len(e.Confusion) == 0 || len(e.Confusion) > most {
		return
	}
	r.Confusion = &heatTable{}
	for k, row := range e.Confusion {
		shown := heatRow{Name: e.Classes[k].Name}
		for _, n := range row {
			shown.Cells = append(shown.Cells,
				heatCell{ui.Count(n), float64(n) / float64(max(1, e.Classes[k].Support))})
		}
		r.Confusion.Columns, r.Confusion.Rows = append(r.Confusion.Columns, shown.Name),
			append(r.Confusion.Rows, shown)
	}
}

// predictions are what a run has predicted, and the graph that it was trained on.
type predictions struct {
	whole *graph.Graph
	edges *graph.Relation // whose labels are learned; nil: those of vertices
	of    *graph.Graph    // whole, or one with the edges in the place of vertices
	split *graph.Split
	rows  []float32 // of the model's outputs, for each vertex or edge
}

// predictions has do work with the run's predictions, while its graph is open.
func (r *reportRun) predictions(do func(*predictions) error) error {
	if r.Settings["validate"] != "" {
		return fmt.Errorf("the test vertices are those of %s", r.Settings["validate"])
	}
	g, err := graph.Open(r.Store)
	if err != nil {
		return err
	}
	defer g.Close()
	if replaced, err := session.Replaced(r.Store, r.GraphID); err != nil || replaced {
		return cmp.Or(
			err,
			fmt.Errorf("%s is another graph than the one that the run was trained on; restore that",
				r.Store),
		)
	}
	o, err := setting.FromTexts(r.Settings)
	if err == nil {
		err = o.Divide(g)
	}
	if err != nil {
		return err
	}
	rows, columns, err := rundir.ReadPredictions(r.Summary.RunDir)
	if err != nil {
		return err
	}
	whole := g
	g, edges := g.LearnsEdges(o.EdgeLabel)
	// What was appended to the graph follows, and is in no stored split. Edges lie among those of before
	rest := g.Types[0].Count*columns - len(rows)
	if edges != nil && rest > 0 {
		return fmt.Errorf("%s has edges that were appended since the run was trained, %s, and the "+
			"predictions are of those of before", r.Store, ui.Count(rest/max(1, columns)))
	}
	if columns != max(g.Labels.Classes, g.Labels.Columns) || rest < 0 ||
		rest > 0 && (r.GraphID == "" || o.Split.Rule != "") ||
		r.Summary.Split >= len(g.Splits) {
		return fmt.Errorf("%s has changed since", r.Store)
	}
	if err := r.Fits(columns); err != nil {
		return err
	}
	return g.Guard(func() error {
		return do(&predictions{whole, edges, g, &g.Splits[r.Summary.Split], rows})
	})
}

// measure compares the predictions with the labels of the parts of the run's split, and takes the curves of
// the last, its test vertices.
func (r *reportRun) measure(p *predictions) (err error) {
	for k, part := range p.split.Parts() {
		r.sizes[k] = len(*part)
		r.evaluated[k], err = r.Evaluate(p.rows, &p.of.Labels, *part, r.Summary.Metric)
		if err != nil {
			return err
		}
	}
	test, labels := p.split.Test, &p.of.Labels
	r.roc, r.pr = metric.Curves(p.rows, labels, test)
	if labels.Class != nil && len(test) > 0 {
		r.reliable[1] = metric.ReliabilityOf(p.rows, labels, test)
		if r.Calibration != nil {
			r.reliable[0] = r.Calibration.Reliability(p.rows, labels, test)
		}
	}
	return nil
}

// stroke is how a curve is drawn. color is that of a run alone.
type stroke struct {
	dash  []int
	color int
}

var solid, dashed, dotted = stroke{}, stroke{[]int{6, 4}, 1}, stroke{[]int{2, 3}, 2}

// drawn are the runs that have curves.
func (p *reportContents) drawn() []*reportRun { return p.Runs[:min(mostDrawn, len(p.Runs))] }

// draw makes the charts.
func (p *reportContents) draw() {
	if len(p.Runs) > mostDrawn {
		p.Drawn = fmt.Sprintf("Curves are those of the best %d runs.", mostDrawn)
	}
	of := func(title, unit string, parts ...func(*reportRun) series) {
		c := chart{Title: title, Unit: unit}
		for _, r := range p.drawn() {
			for _, part := range parts {
				s := part(r)
				if len(s.X) == 0 {
					continue
				}
				c.Series = append(c.Series, s)
				at := slices.Index(s.X, metric.Number(r.Summary.BestEpoch))
				if s.Part == validationPart && at >= 0 {
					c.Best = append(c.Best, mark{r.Summary.BestEpoch, s.Y[at], s.Color})
				}
			}
		}
		c.Log = title == "loss" &&
			!slices.ContainsFunc(c.Series, func(s series) bool { return slices.Min(s.Y) <= 0 })
		if said := c.level(); said != "" {
			p.Level = append(p.Level, said)
		} else if len(c.Series) > 0 {
			p.Curves = append(p.Curves, c)
		}
	}
	line := func(part string, drawn stroke, scale float64,
		value func(*train.Epoch) float64,
	) func(*reportRun) series {
		return func(r *reportRun) series {
			s := r.series(part, drawn, scale, value)
			if len(p.Runs) == 1 {
				s.Color = drawn.color
			}
			return s
		}
	}
	// evaluated is a value of the epochs that have an evaluation
	evaluated := func(value func(*train.Epoch) float64) func(*train.Epoch) float64 {
		return func(e *train.Epoch) float64 {
			if !e.Evaluated {
				return math.NaN()
			}
			return value(e)
		}
	}
	of("loss", "", line("training", solid, 1, func(e *train.Epoch) float64 { return e.Loss }),
		line(validationPart, dashed, 1, evaluated(func(e *train.Epoch) float64 { return e.ValLoss })))
	for _, name := range p.metrics() {
		scale, unit := 1., ""
		if metric.IsFraction(name) {
			scale, unit = 100, " %"
		}
		measured := func(part string, drawn stroke,
			value func(*train.Epoch) float64,
		) func(*reportRun) series {
			return func(r *reportRun) (s series) {
				if r.Summary.Metric == name {
					s = line(part, drawn, scale, evaluated(value))(r)
				}
				return s
			}
		}
		of(name, unit, measured("training", solid, func(e *train.Epoch) float64 { return e.Train }),
			measured(validationPart, dashed, func(e *train.Epoch) float64 { return e.Val }),
			measured("test", dotted, func(e *train.Epoch) float64 { return e.Test }))
	}
	p.thresholds()
	of("learning rate", "", line("", solid, 1, func(e *train.Epoch) float64 { return e.LR }))
	of("seconds of an epoch", " s", line("", solid, 1, func(e *train.Epoch) float64 { return e.Seconds }))
	of("tensors of worker 0", " MB",
		line("at the peak", solid, 1e-6, func(e *train.Epoch) float64 { return float64(e.PeakBytes) }),
		line("after the epoch", dashed, 1e-6,
			func(e *train.Epoch) float64 { return float64(e.LiveBytes) }))
}

// thresholds draws the curves of all thresholds, of runs with two classes.
func (p *reportContents) thresholds() {
	draw := func(title, x, unit string, of func(*reportRun) (points []metric.Point, counts []int)) {
		c := chart{Title: title, X: x, Unit: unit}
		for _, r := range p.drawn() {
			points, counts := of(r)
			s := series{Name: r.Name, Color: r.Color, Dash: []int{}, Counts: counts}
			for _, at := range thinned(points) { // fewer have counts
				s.X, s.Y = append(s.X, written(100*at.X)), append(s.Y, written(100*at.Y))
			}
			if len(s.X) > 0 {
				c.Series = append(c.Series, s)
			}
		}
		if len(c.Series) > 0 {
			p.Curves = append(p.Curves, c)
		}
	}
	draw("ROC of the test set: true positives", "false positives", " %",
		func(r *reportRun) ([]metric.Point, []int) { return r.roc, nil })
	draw("precision of the test set, by recall", "recall", " %",
		func(r *reportRun) ([]metric.Point, []int) { return r.pr, nil })
	draw("share of the test set that is right, by how sure its predictions are", "mean probability", " %",
		func(r *reportRun) ([]metric.Point, []int) {
			if r.reliable[0] != nil {
				return r.reliable[0].Curve()
			}
			if len(r.Classes) == 2 && r.reliable[1] != nil {
				return r.reliable[1].Curve()
			}
			return nil, nil
		})
	draw("the same before calibration", "mean probability", " %", func(r *reportRun) ([]metric.Point, []int) {
		if r.reliable[0] != nil {
			return r.reliable[1].Curve()
		}
		return nil, nil
	})
}

// metrics are those of the runs, each once.
func (p *reportContents) metrics() (names []string) {
	for _, r := range p.Runs {
		if !slices.Contains(names, r.Summary.Metric) {
			names = append(names, r.Summary.Metric)
		}
	}
	return names
}

// level says what the chart would, if none of its curves changes; "" if one does.
func (c *chart) level() string {
	var parts, said []string
	of := map[string][]metric.Number{}
	for _, s := range c.Series {
		if len(s.Y) == 1 || slices.Min(s.Y) != slices.Max(s.Y) {
			return ""
		}
		if of[s.Part] == nil {
			parts = append(parts, s.Part)
		}
		of[s.Part] = append(of[s.Part], s.Y[0])
	}
	for _, part := range parts {
		least, most := float64(slices.Min(of[part])), float64(slices.Max(of[part]))
		said = append(said, fmt.Sprintf("%s %.4g%s%s", ui.When(part != "", " ")+part, least,
			ui.When(least < most, fmt.Sprintf(" to %.4g", most)), c.Unit))
	}
	return ui.When(said != nil, c.Title+":"+strings.Join(said, ","))
}

// mostPoints is how many points a curve shows: two for each pixel of its width.
const mostPoints = 1000

// validationPart is the part of a chart that best epochs are marked on.
const validationPart = "validation"

// written is a number with the digits that a page shows.
func written(x float64) metric.Number {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil { // it is not finite
		return metric.Number(x)
	}
	return metric.Number(short)
}

// series is a curve of a run, of the epochs that have the value.
func (r *reportRun) series(part string, drawn stroke, scale float64,
	value func(*train.Epoch) float64,
) series {
	s := series{
		Name: r.Name, Part: part, Color: r.Color, Dash: append([]int{}, drawn.dash...),
		X: []metric.Number{}, Y: []metric.Number{},
	}
	for k := range r.curve {
		e := &r.curve[k]
		if y := value(e) * scale; !math.IsNaN(y) && !math.IsInf(y, 0) {
			s.X, s.Y = append(s.X, metric.Number(e.Epoch)), append(s.Y, written(y))
		}
	}
	s.thin(r.Summary.BestEpoch)
	return s
}

// thin leaves of a long curve the least and the most of each pixel's width, its ends, and its best epoch.
func (s *series) thin(best int) {
	n := len(s.X)
	if n <= mostPoints {
		return
	}
	keep := make([]bool, n)
	keep[0], keep[n-1] = true, true
	if at := slices.Index(s.X, metric.Number(best)); at >= 0 {
		keep[at] = true
	}
	const pixels = mostPoints / 2
	for pixel := range pixels {
		least := pixel * n / pixels
		most := least
		for k := least; k < (pixel+1)*n/pixels; k++ {
			if s.Y[k] < s.Y[least] {
				least = k
			}
			if s.Y[k] > s.Y[most] {
				most = k
			}
		}
		keep[least], keep[most] = true, true
	}
	x, y := s.X[:0], s.Y[:0]
	for k, kept := range keep {
		if kept {
			x, y = append(x, s.X[k]), append(y, s.Y[k])
		}
	}
	s.X, s.Y = x, y
}

// thinned are about half of mostPoints of a list at most, evenly, with the first and the last.
func thinned[T any](all []T) (some []T) {
	step := max(1, (2*len(all)+mostPoints-1)/mostPoints)
	some = all[:0:0]
	for k := range all {
		if k%step == 0 || k == len(all)-1 {
			some = append(some, all[k])
		}
	}
	return some
}

// onPage are the functions of the page's template.
var onPage = template.FuncMap{
	"percent": ui.Percent, "measured": ui.Measured[metric.Number], "score": ui.Measured[float64],
	"megabytes": ui.Megabytes,
	"count":     ui.Count[int64],
	"duration":  ui.Duration, "seconds": ui.Seconds, "brief": ui.Brief, "linkRows": ui.LinkRows,
	"used":      ui.Used,
	"words":     words,
	"largest":   func(bytes []int64) int64 { return slices.Max(append(bytes, 0)) },
	"bytesAt":   at(ui.Megabytes),
	"countAt":   at(ui.Count[int64]),
	"secondsAt": at(func(s float64) string { return ui.Duration(ui.Seconds(s)) }),
}

// words divides a name where a line may break: behind each mark of a path, a list or a setting.
func words(name string) (parts []string) {
	for {
		at := strings.IndexAny(name, "/_-=,.") + 1
		if at == 0 {
			return append(parts, name)
		}
		parts, name = append(parts, name[:at]), name[at:]
	}
}

// at writes an entry of a list; a dash where it has none.
func at[T any](write func(T) string) func(list []T, k int) string {
	return func(list []T, k int) string {
		if k < len(list) {
			return write(list[k])
		}
		return "–"
	}
}

// write writes the page.
func (p *reportContents) write(to io.Writer) error {
	page, err := template.New("report").Funcs(onPage).Parse(reportPage)
	if err != nil {
		return err
	}
	return page.Execute(to, p)
}
