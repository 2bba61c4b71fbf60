package reports

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/train"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// reportRun is a run on the page.
type reportRun struct {
	rundir.Run
	Name        string
	Color       int        // the number of its color; −1: the run is not drawn
	Scores      []scoreRow // for all metrics
	Classes     []metric.ClassScores
	Confusion   *heatTable   // true classes × predicted classes; nil: there is none, or it is too large
	NotMeasured string       // why there are no scores and classes
	Profile     *profileView // nil: the run has none
	Listed      *rundir.Listed
	roc, pr     []metric.Point // for two classes, over the test vertices
	// reliable compares how sure predictions of test vertices are with how often they are right: calibrated,
	// and as the model has them. The first is nil if the run is not calibrated, and both are nil without
	// classes.
	reliable    [2]*metric.Reliability
	evaluated   [3]metric.Evaluation // of training, validation and test vertices; zero: not measured
	sizes       [3]int               // how many vertices these are
	Given, Left []settingShown       // the settings that the model uses: chosen ones, and defaults
	curve       []train.Epoch
}

// Measured names what has classes: vertices, or edges.
func (r *reportRun) Measured() string {
	if r.Summary.Task == task.Edge {
		return "edges"
	}
	return "vertices"
}

// Ranked says which of two classes ranking metrics are about, and how many of the test rows have it; "":
// there are other classes, or no test rows.
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

// evaluate measures the run by all metrics, and the classes of the test vertices, if the graph of the run
// exists.
func (r *reportRun) evaluate() {
	const most = 64 // most rows of a confusion matrix that a page shows
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

// predictions are what a run has predicted, with the graph on which it was trained.
type predictions struct {
	whole *graph.Graph
	edges *graph.Relation // the relation whose labels are learned; nil: vertices' labels are
	frame *graph.Frame    // the labels that are learned
	count int             // of the frame's rows
	split *graph.Split
	rows  []float32 // of the model's outputs, for each vertex or edge
}

// predictions calls do with the run's predictions, while its graph is open.
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
	target := o.Target(g)
	frame, edges := g.Frame(target), g.Relation(target)
	// What was appended to the graph follows, and is in no stored split. New edges lie among the old ones.
	rest := g.Rows(target)*columns - len(rows)
	if edges != nil && rest > 0 {
		return fmt.Errorf("%s has edges that were appended since the run was trained, %s, and the "+
			"predictions are of those of before", r.Store, ui.Count(rest/max(1, columns)))
	}
	if columns != max(frame.Labels.Classes, frame.Labels.Columns) || rest < 0 ||
		rest > 0 && (r.GraphID == "" || o.Split.Rule != "") ||
		r.Summary.Split >= len(frame.Splits) {
		return fmt.Errorf("%s has changed since", r.Store)
	}
	if err := r.Fits(columns); err != nil {
		return err
	}
	return g.Guard(func() error {
		return do(&predictions{g, edges, frame, g.Rows(target), &frame.Splits[r.Summary.Split], rows})
	})
}

// measure compares the predictions with the labels of the parts of the run's split, and computes the curves
// of its test vertices.
func (r *reportRun) measure(p *predictions) (err error) {
	for k, part := range p.split.Parts() {
		r.sizes[k] = len(*part)
		r.evaluated[k], err = r.Evaluate(p.rows, &p.frame.Labels, *part, r.Summary.Metric)
		if err != nil {
			return err
		}
	}
	test, labels := p.split.Test, &p.frame.Labels
	r.roc, r.pr = metric.Curves(p.rows, labels, test)
	if labels.Class != nil && len(test) > 0 {
		r.reliable[1] = metric.ReliabilityOf(p.rows, labels, test)
		if r.Calibration != nil {
			r.reliable[0] = r.Calibration.Reliability(p.rows, labels, test)
		}
	}
	return nil
}
