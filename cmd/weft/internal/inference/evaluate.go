// Package inference computes with trained weights: the commands predict, serve, evaluate and smooth.
package inference

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/train"
	"weft/train/calibrate"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/task"
)

type evaluateCommand struct {
	settings cli.SettingFlags
	split    storedSplit // −1: the split of the run
	json     bool
	tables   data.TablesGiven
}

// NewEvaluate makes the command evaluate.
func NewEvaluate() *cobra.Command {
	e := &evaluateCommand{split: -1}
	cmd := &cobra.Command{
		Use:   "evaluate RUN [STORE]",
		Short: "measure the predictions of a run by every metric, for each class",
		Long: `evaluate compares the predictions of a run with the labels of its graph, for training, validation and test vertices. Of classes it
prints all metrics, precision, recall and F1 of each class, and which class is taken for which. A class counts as predicted where
the model finds it likeliest, before the fit and the threshold of a run that is calibrated. Beside accuracy stands that of always
saying the most frequent class. Of values it prints rmse, mae and r2.
For a run of link prediction (--task link) it measures validation and test edges by all metrics.

With a STORE it predicts there with the weights of the run first, on one worker. Edges that are held out pass no messages. Labels of
edges are divided by the run's dates or column where the store keeps this, so that edges that were appended are measured. --device
says where it predicts, and where it ranks edges.`,
		Example: `  weft evaluate runs/first
  weft evaluate runs/first stores/newer --split 1 --json
  weft evaluate runs/first stores/newer --device cuda`,
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteRun, cli.CompleteGraph),
		Args:              e.tables.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := e.evaluate(cmd, args)
			if err != nil {
				return err
			}
			return ui.Show(cmd.OutOrStdout(), found, e.json)
		},
	}
	e.tables.Add(cmd, false)
	e.settings.AddThose(cmd.Flags(), func(option setting.Setting) bool { return option.Name == "device" })
	cmd.Flags().Var(&e.split, "split", "which stored split, from 0 (default: that of the run)")
	cmd.Flags().BoolVar(&e.json, "json", false, "print one JSON object")
	return cmd
}

// storedSplit is the number of a stored split.
type storedSplit int

func (s *storedSplit) String() string {
	if *s < 0 {
		return ""
	}
	return strconv.Itoa(int(*s))
}

// Type is the word for the value in help texts.
func (s *storedSplit) Type() string { return "number" }

// Set accepts a number from 0.
func (s *storedSplit) Set(text string) error {
	number, err := strconv.Atoi(text)
	switch {
	case err == nil && number >= 0:
		*s = storedSplit(number)
		return nil
	case err == nil:
		return errors.New("splits count from 0")
	}
	return errors.New("is no number of a stored split; weft import edges LIST STORE --columns-of RUN --split RULE " +
		"stores one, whose number is 0")
}

// evaluations are how good the predictions of a run are on the parts of a split.
type evaluations struct {
	Train metric.Evaluation `json:"train"`
	Val   metric.Evaluation `json:"val"`
	Test  metric.Evaluation `json:"test"`

	rows string // what the rows are
}

// evaluated is what a run is measured on.
type evaluated struct {
	pass
	counts    rundir.Counts // counts of the graph on which the run was trained
	elsewhere bool          // the run is measured on another graph
}

func (e *evaluateCommand) evaluate(cmd *cobra.Command, args []string) (ui.Result, error) {
	asked, o, run, err := session.RequestOf(args)
	if err != nil {
		return nil, err
	}
	asked.Tables = e.tables
	eval := &evaluated{counts: run.Summary.Graph, elsewhere: len(args) == 2}
	var weights nn.State
	if eval.elsewhere || o.Task == task.Link {
		weights, err = asked.ReadWeights()
	}
	if err == nil {
		err = asked.HasGraph("evaluate", args)
	}
	if err != nil {
		return nil, err
	}
	if o.Task == task.Link && e.split > 0 {
		return nil, refusal.Errorf("--split %d: a graph has one split of edges; leave it out", e.split)
	}
	g, store, err := data.OpenDataset(cmd.Context(), asked.Source(), cmd.ErrOrStderr(), nil)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	if !eval.elsewhere {
		wayOut := "weft evaluate " + refusal.ShellWord(asked.Run) + " " + refusal.ShellWord(asked.Graph) +
			" predicts on it as it is, and measures that"
		if err := checkGraph(store, run.GraphID, asked.Run, wayOut); err != nil {
			return nil, err
		}
	}
	if asked.Changed && !eval.elsewhere {
		return nil, refusal.Errorf("%s has other %s than the graph that %s was trained on, and the "+
			"split of the run does not fit them: weft evaluate %s %s measures all its labelled %[2]s, "+
			"training %[2]s too", asked.Graph, asked.Rows(), asked.Run,
			refusal.ShellWord(asked.Run), refusal.ShellWord(asked.Graph))
	}
	if e.split >= 0 {
		o.Split = task.Split{Number: int(e.split)}
	} else if eval.elsewhere && o.Task == task.Edge {
		if err := divide(cmd.ErrOrStderr(), &asked, &o, store); err != nil {
			return nil, err
		}
	}
	if eval.elsewhere || o.Task == task.Link {
		o.Parallel, o.Partitions, o.Offload = "", 0, ""
		o.ResetOtherAxes(func(string) bool { return false })
	}
	if err := e.chooseDevice(cmd, eval.elsewhere, asked.Run, &o); err != nil {
		return nil, err
	}
	o.ClassWeights = task.NoClassWeights // the loss's weights, whose file may be gone
	o.Calibrate = calibrate.None         // the run keeps its fit, and no new one is made
	if asked.Options, err = o.Resolve(); err == nil && eval.elsewhere {
		err = asked.MatchRelations(store)
	}
	if err != nil {
		return nil, err
	}
	if err := o.Divide(g); err != nil {
		if asked.Tables.Source(asked.Graph).Given("vertices-from") {
			err = refusal.Errorf("%w; or give a list that has the days of the run, too, whose edges pass messages to later "+
				"ones", err)
		}
		return nil, data.About(asked.Source(), err)
	}
	opened := &session.Session{Source: asked.Source(), Store: store, Job: &train.Job{
		Graph: g, Dataset: asked.Graph, Options: asked.Options.Options, HeldOut: true,
	}}
	if eval.pass, err = newPass(&asked, opened, weights, false); err != nil {
		return nil, err
	}
	if o.Task == task.Link {
		return eval.edges(cmd.Context(), cmd.ErrOrStderr())
	}
	if eval.elsewhere && o.Split.Rule == "" && len(eval.frame().Splits) == 0 && e.split <= 0 {
		if err := eval.testAll(cmd.ErrOrStderr()); err != nil {
			return nil, err
		}
	}
	return eval.labels(cmd.Context(), cmd.ErrOrStderr())
}

// divide divides a store by the dates of the run, and says where the store has others.
func divide(notes io.Writer, asked *session.Request, o *setting.Options, store string) error {
	if err := asked.DivideStore(o, store); err != nil {
		return err
	}
	note, err := asked.Divided(o, store)
	if note != "" {
		fmt.Fprintf(notes, "weft: note: %s\n", ui.Printable(note))
	}
	return err
}

// chooseDevice sets where the predictions are computed, if any are.
func (e *evaluateCommand) chooseDevice(cmd *cobra.Command, elsewhere bool, run string, o *setting.Options,
) error {
	if elsewhere || o.Task == task.Link {
		if err := e.settings.Override(o); err != nil {
			return err
		}
		e.settings.SayDevice(cmd.ErrOrStderr())
		return nil
	}
	if asked := setting.Device(cmd.Flags().Lookup("device").Value.String()); asked.IsCard() {
		return refusal.Errorf("--device %s: the predictions of %s are there, and none is computed; leave it out, "+
			"or name a store to predict on", asked, run)
	}
	return nil
}

// checkGraph refuses a store with another graph than the one on which a run was trained. A later version of
// the store, with additions, passes: callers compare the numbers of vertices.
func checkGraph(store, id, run, wayOut string) error {
	replaced, err := session.Replaced(store, id)
	if replaced {
		err = refusal.Errorf("%s: is another graph than the one that %s was trained on; restore that, or %s", store,
			run, wayOut)
	}
	return err
}

// frame has the rows that the run predicts.
func (e *evaluated) frame() *graph.Frame { return e.graph.Frame(e.target) }

// testAll makes all labelled vertices, or edges, of a graph without a split test ones.
func (e *evaluated) testAll(notes io.Writer) error {
	return e.graph.Guard(func() error {
		var all []int64
		for v := range int64(e.graph.Rows(e.target)) {
			if l := &e.frame().Labels; l.There() && l.Labelled(v) {
				all = append(all, v)
			}
		}
		if len(all) > 0 {
			row := e.target.Kind.Noun()
			fmt.Fprintf(notes, "weft: note: %s has no split: its %s are test %s\n",
				ui.Printable(e.asked.Graph), ui.Counted(len(all), "labelled "+row.One, "labelled "+row.Many),
				row.Many)
			e.frame().Splits = []graph.Split{{Test: all}}
		}
		return nil
	})
}

// labels measures predictions of labels.
func (e *evaluated) labels(ctx context.Context, warnings io.Writer) (ui.Result, error) {
	g, r, l := e.graph, e.asked.Options, &e.frame().Labels
	if !l.There() {
		return nil, refusal.Errorf("%s has no labels to compare predictions with", e.asked.Graph)
	}
	check := r.Kind.Check
	if e.elsewhere { // it may have no training vertices
		warnOfWeights(warnings, r, e.asked.Run, e.asked.Weighted, e.asked.Graph, g)
		check = r.Kind.CheckMeasured
		if e.counts.Values == 0 && !l.Continuous() {
			if err := e.asked.Learned.Warn(warnings, e.asked.Graph, g, e.target); err != nil {
				return nil, err
			}
		}
	}
	whole := partition.WholeOf(g)
	if err := check(&whole); err != nil {
		return nil, data.About(e.asked.Source(), err)
	}
	rows, columns, err := e.predictions(ctx, warnings)
	if err != nil {
		return nil, err
	}
	if e.elsewhere && l.Class != nil && l.Names == nil && e.counts.Values == 0 {
		l.Classes = max(l.Classes, columns) // no vertex there may have the last classes
	}
	learned, there := outputs(columns, e.counts.Values > 0),
		outputs(max(l.Classes, l.Columns), l.Continuous())
	if learned != there || len(rows) != g.Rows(e.target)*columns {
		row, wayOut := e.target.Kind.Noun(), "give the store that it was trained on"
		if r.Task == task.Edge || !e.elsewhere { // the graph has grown
			wayOut = fmt.Sprintf("weft evaluate %s %s predicts on it as it is, and measures that",
				refusal.ShellWord(e.asked.Run), refusal.ShellWord(e.asked.Graph))
		}
		return nil, refusal.Errorf("%s predicts %s of %s, and %s has labels of %s of %s: %s",
			e.asked.Run, learned, ui.Counted(len(rows)/max(1, columns), row.One, row.Many), e.asked.Graph,
			there, ui.Counted(g.Rows(e.target), row.One, row.Many), wayOut)
	}
	parts := &evaluations{rows: e.target.Kind.Noun().Many}
	err = g.Guard(func() error {
		return parts.measure(e.asked, rows, e.frame(), r.Split.Number, r.Metric)
	})
	if refusal.IsDamaged(err) {
		err = fmt.Errorf("%s: %w", e.asked.Run, err)
	}
	return parts, err
}

// edgeEvaluations are the metrics of held-out edges.
type edgeEvaluations struct {
	Val  map[string]metric.Number `json:"val"`
	Test map[string]metric.Number `json:"test"`

	counts [2]int // of validation and test edges
}

// edges measures embeddings by the edges that they should predict.
func (e *evaluated) edges(ctx context.Context, warnings io.Writer) (ui.Result, error) {
	rows, columns, err := e.predictions(ctx, warnings)
	if err != nil {
		return nil, err
	}
	all := partition.All(e.graph)
	kinds, err := e.asked.Options.Kind.Types(all)
	if err != nil {
		return nil, data.About(e.asked.Source(), err)
	}
	numbering := all.Whole.Number(kinds)
	if has := numbering.Vertices(); len(rows) != has*columns {
		return nil, refusal.Errorf("%s has embeddings of %s, and %s has %s: give the store that it "+
			"was trained on", e.asked.Run, ui.Counted(len(rows)/max(1, columns), "vertex", "vertices"),
			e.asked.Graph, ui.Count(has))
	}
	l, err := e.opened.Job.MeasureLinks(ctx, rows, e.weights)
	if err != nil {
		return nil, failed(e.asked, e.opened, err, err)
	}
	return &edgeEvaluations{l.Val, l.Test, [2]int{l.ValEdges, l.TestEdges}}, nil
}

// Print draws the metrics of both parts for the eye.
func (e *edgeEvaluations) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("", "validation", "test")
	t.Row("edges", ui.Count(e.counts[0]), ui.Count(e.counts[1]))
	for _, r := range ui.LinkRows(e.Val, e.Test) {
		t.Row(r.Name, ui.Measured(r.Name, r.Val), ui.Measured(r.Name, r.Test))
	}
	t.Flush()
}

// outputs says what columns of predictions stand for.
func outputs(columns int, values bool) string {
	if values {
		return ui.Counted(columns, "value", "values")
	}
	return ui.Counted(columns, "class", "classes")
}

// predictions are the predictions of the run or, with a store of its own, new ones made with its weights.
func (e *evaluated) predictions(ctx context.Context, notes io.Writer,
) (rows []float32, columns int, err error) {
	if !e.elsewhere {
		if rows, columns, err = rundir.ReadPredictions(e.asked.Run); err != nil {
			way := "give the store to predict again"
			if e.asked.Options.Task == task.Edge {
				way = "weft predict predicts the edges again"
			}
			err = refusal.Errorf("%w; %s", err, way)
		}
		return rows, columns, err
	}
	if err := e.asked.Fits(e.opened.Job, e.weights, notes); err != nil {
		return nil, 0, err
	}
	p, err := e.opened.Job.Predict(ctx, e.weights, train.Logits)
	if err != nil {
		return nil, 0, failed(e.asked, e.opened, err, err)
	}
	return p.Logits, p.Classes, nil
}

func (e *evaluations) parts() []*metric.Evaluation {
	return []*metric.Evaluation{&e.Train, &e.Val, &e.Test}
}

// measure measures predictions on the parts of a split, also by named metrics. run has its calibration and
// its threshold.
func (e *evaluations) measure(run *session.Request, predictions []float32, frame *graph.Frame, split int,
	named ...string,
) (err error) {
	s := &frame.Splits[split]
	for part, to := range e.parts() {
		*to, err = run.Evaluate(predictions, &frame.Labels, *s.Parts()[part], named...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Print draws the metrics of all parts, and the classes of the test vertices, for the eye.
func (e *evaluations) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("", "train", "validation", "test")
	for _, name := range slices.Sorted(maps.Keys(e.Test.Scores)) {
		t.Row(name, ui.Measured(name, e.Train.Scores[name]), ui.Measured(name, e.Val.Scores[name]),
			ui.Measured(name, e.Test.Scores[name]))
		if name == metric.Accuracy {
			t.Row("always the most frequent class", ui.Percent(e.Train.MostFrequent), ui.Percent(e.Val.MostFrequent),
				ui.Percent(e.Test.MostFrequent))
		}
	}
	t.Flush()
	if e.Test.Classes == nil {
		return
	}
	fmt.Fprintln(out, "\nclasses of the test "+e.rows)
	t = ui.NewTable(out)
	t.Row("class", "precision", "recall", "F1", e.rows)
	for _, c := range e.Test.Classes {
		t.Row(c.Name, ui.Percent(c.Precision), ui.Percent(c.Recall), ui.Percent(c.F1), ui.Count(c.Support))
	}
	t.Flush()
	const wide = 16 // a line has no room for more columns
	if n := len(e.Test.Confusion); n == 0 || n > wide {
		return
	}
	fmt.Fprintln(out, "\ntest "+e.rows+" by their class (row) and the predicted class (column)")
	t = ui.NewTable(out)
	head := []string{""}
	for k := range e.Test.Confusion {
		head = append(head, strconv.Itoa(k))
	}
	t.Row(head...)
	for k, row := range e.Test.Confusion {
		cells := []string{
			ui.Joined(strconv.Itoa(k),
				ui.When(e.Test.Classes[k].Name != strconv.Itoa(k), e.Test.Classes[k].Name)),
		}
		for _, n := range row {
			cells = append(cells, ui.Count(n))
		}
		t.Row(cells...)
	}
	t.Flush()
}
