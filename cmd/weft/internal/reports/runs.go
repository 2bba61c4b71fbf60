package reports

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/internal/suggest"
	"weft/train/metric"
	"weft/train/rundir"
)

type runsCommand struct {
	sort     string
	repeated bool
	json     bool
	csv      bool
}

// runOrders are the orders of runs, the default first.
var runOrders = []struct {
	name    string
	compare func(a, b *rundir.Listed) int
}{
	{"validation", rundir.Better},
	{"test", func(a, b *rundir.Listed) int {
		return rundir.CompareMetric(a.Metric, float64(a.Test), float64(b.Test))
	}},
	{"started", func(a, b *rundir.Listed) int { return a.Started.Compare(b.Started) }},
	{"time", func(a, b *rundir.Listed) int {
		return cmp.Or(withResults(a, b), cmp.Compare(a.Seconds, b.Seconds))
	}},
	{"memory", func(a, b *rundir.Listed) int {
		return cmp.Or(withResults(a, b), cmp.Compare(a.TensorBytes, b.TensorBytes))
	}},
	{"path", func(a, b *rundir.Listed) int { return strings.Compare(a.RunDir, b.RunDir) }},
}

func orderNames() (names []string) {
	for _, o := range runOrders {
		names = append(names, o.name)
	}
	return names
}

// withResults puts a run without results behind one that has some.
func withResults(a, b *rundir.Listed) int {
	switch {
	case a.Results == b.Results:
		return 0
	case a.Results:
		return -1
	}
	return 1
}

// NewRuns makes the command runs.
func NewRuns() *cobra.Command {
	c := &runsCommand{}
	cmd := &cobra.Command{
		Use:   "runs [FOLDER]",
		Short: "compare runs: settings that differ, results, time, memory",
		Long: `runs finds the runs in a folder and below it, and prints a row for each: the settings in which they differ, the metric of validation
and test vertices at the best epoch, epochs, time and memory. The best run by validation comes first.

With --repeated runs that differ in seed and split alone share a row, with the mean and the sample standard deviation (n − 1). A run without
results, or one that failed, is not in them: the row then begins as in "4 of 5".`,
		Example: "  weft runs\n  weft runs runs/sweep --repeated\n  weft runs runs --sort " +
			"started --csv > runs.csv",
		ValidArgsFunction: cli.CompleteInOrder(cli.CompleteFolders),
		Args:              cli.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "runs"
			if len(args) == 1 {
				folder = args[0]
			}
			return c.run(cmd, folder)
		},
	}
	names := orderNames()
	cmd.Flags().StringVar(&c.sort, "sort", names[0], "`order`: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&c.repeated, "repeated", false, "one row for runs that differ in seed and split "+
		"alone, with mean and sample standard deviation (n − 1)")
	cmd.Flags().BoolVar(&c.json, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&c.csv, "csv", false, "print comma-separated values, metrics as numbers, times in "+
		"seconds, memory in bytes")
	return cmd
}

func (c *runsCommand) run(cmd *cobra.Command, folder string) error {
	if c.json && c.csv {
		return refusal.Errorf("--json --csv: give one of them")
	}
	order := slices.Index(orderNames(), c.sort)
	if order < 0 {
		return refusal.Errorf("--sort %s: unknown order; %s", c.sort, suggest.OneOf(c.sort, orderNames()))
	}
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return refusal.Errorf("%s: there is no such folder; name one with runs: weft runs FOLDER", folder)
	}
	listed, err := ListRuns(folder, cmd.ErrOrStderr(), runOrders[order].compare)
	if err != nil {
		return err
	}
	if len(listed.Runs) == 0 && !c.json && !c.csv {
		fmt.Fprintf(cmd.OutOrStdout(),
			"%s: no run is there; weft train DATASET begins one\n", ui.Printable(folder))
		return nil
	}
	switch {
	case c.repeated:
		listed.Repeat(order == 0)
	case listed.Runs == nil:
		listed.Runs = []*rundir.Listed{}
	}
	if c.csv {
		return listed.writeCSV(cmd.OutOrStdout())
	}
	return ui.Show(cmd.OutOrStdout(), listed, c.json)
}

// listedRuns are the runs of a folder, in order: the JSON object of `weft runs --json`.
type listedRuns struct {
	Differ   []string           `json:"differ"` // the settings in which the runs differ
	Runs     []*rundir.Listed   `json:"runs"`
	Repeated []*rundir.Repeated `json:"repeated,omitempty"`
	folder   string
}

// ListRuns lists the runs in a folder and below it.
func ListRuns(folder string, errs io.Writer, order func(a, b *rundir.Listed) int) (*listedRuns, error) {
	runs, err := rundir.List(folder, func(err error) { fmt.Fprintln(errs, ui.OneLine(err)) })
	slices.SortStableFunc(runs, order)
	return &listedRuns{Differ: rundir.Differ(runs), Runs: runs, folder: folder}, err
}

// Repeat groups the runs that differ only in seed and split.
func (l *listedRuns) Repeat(best bool) {
	l.Repeated = rundir.Repeat(l.Runs)
	if best {
		slices.SortStableFunc(l.Repeated, func(a, b *rundir.Repeated) int {
			x, y := a.Runs[0].Metric, b.Runs[0].Metric
			return cmp.Or(-strings.Compare(x, y),
				rundir.CompareMetric(x, float64(a.ValMean), float64(b.ValMean)))
		})
	}
	l.Differ = slices.DeleteFunc(l.Differ, func(name string) bool {
		return name == "seed" || name == "split"
	})
}

// figure is what a row says under one heading, for people and in comma-separated values. It is left out where
// it has no heading.
type figure struct{ title, key, shown, exact string }

// figures are the figures of a run.
func (l *listedRuns) figures(r *rundir.Listed) []figure {
	name := r.RunDir
	if below, err := filepath.Rel(l.folder, r.RunDir); err == nil {
		name = below
	}
	status := string(r.Status)
	return slices.Concat([]figure{{"run", "run", name, name}}, l.settings(r), []figure{
		{"metric", "metric", cmp.Or(r.Metric, "–"), r.Metric},
		{"", "train", "", number(r.Train)},
		{"validation", "val", ui.Measured(r.Metric, r.Val), number(r.Val)},
		{"test", "test", ui.Measured(r.Metric, r.Test), number(r.Test)},
		{"best", "best_epoch", ui.Count(r.BestEpoch), strconv.Itoa(r.BestEpoch)},
		{"epochs", "epochs_run", ui.Count(r.EpochsRun), strconv.Itoa(r.EpochsRun)},
		ofResults(r, "epoch", "epoch_seconds", ui.Duration(ui.Seconds(r.EpochSeconds)),
			number(r.EpochSeconds)),
		ofResults(r, "time", "seconds", ui.Duration(ui.Seconds(r.Seconds)), number(r.Seconds)),
		ofResults(r, "memory", "tensor_bytes", ui.Megabytes(r.TensorBytes), fmt.Sprint(r.TensorBytes)),
		{"status", "status", status + ui.When(len(r.Damaged) > 0, ", damaged"), status},
	})
}

// figuresOf are the figures of runs that share a row.
func (l *listedRuns) figuresOf(g *rundir.Repeated) []figure {
	r, all := g.Runs[0], ui.Count(len(g.Runs))
	runs := ui.When(g.Complete < len(g.Runs), ui.Count(g.Complete)+" of ") + all
	return slices.Concat([]figure{{"runs", "runs", runs, strconv.Itoa(len(g.Runs))}}, l.settings(r), []figure{
		{"metric", "metric", cmp.Or(r.Metric, "–"), r.Metric},
		{"validation", "val_mean", Spread(r.Metric, g.ValMean, g.ValDeviation), number(g.ValMean)},
		{"", "val_deviation", "", number(g.ValDeviation)},
		{"test", "test_mean", Spread(r.Metric, g.TestMean, g.TestDeviation), number(g.TestMean)},
		{"", "test_deviation", "", number(g.TestDeviation)},
		ofResults(r, "epoch", "epoch_seconds", ui.Duration(ui.Seconds(r.EpochSeconds)),
			number(r.EpochSeconds)),
		{"", "complete", "", strconv.Itoa(g.Complete)},
	})
}

// settings are the settings in which the runs differ.
func (l *listedRuns) settings(r *rundir.Listed) (all []figure) {
	for _, name := range l.Differ {
		all = append(all, figure{name, name, cmp.Or(r.Setting(name), "–"), r.Setting(name)})
	}
	return all
}

// ofResults is a figure that a run without results lacks.
func ofResults(r *rundir.Listed, title, key, shown, exact string) figure {
	if !r.Results {
		shown, exact = "–", ""
	}
	return figure{title, key, shown, exact}
}

// number writes a number with all its digits, and nothing for a number that was not measured.
func number[T ~float64](x T) string {
	return ui.When(x == x, strconv.FormatFloat(float64(x), 'g', -1, 64))
}

// lines are the headings and a line for each row, of the figures for which column returns a heading.
func (l *listedRuns) lines(column func(*figure) (heading, text string)) [][]string {
	rows := [][]figure{}
	for _, g := range l.Repeated {
		rows = append(rows, l.figuresOf(g))
	}
	for k := 0; k < len(l.Runs) && l.Repeated == nil; k++ {
		rows = append(rows, l.figures(l.Runs[k]))
	}
	if len(rows) == 0 {
		rows = [][]figure{l.figures(&rundir.Listed{Standing: &rundir.Standing{}})} // for its headings
	}
	lines := make([][]string, 1+len(rows))
	for k, row := range rows {
		for i := range row {
			if heading, text := column(&row[i]); heading != "" {
				lines[1+k] = append(lines[1+k], text)
				if k == 0 {
					lines[0] = append(lines[0], heading)
				}
			}
		}
	}
	if len(l.Runs) == 0 {
		return lines[:1]
	}
	return lines
}

// Print draws the runs for the eye.
func (l *listedRuns) Print(out io.Writer) {
	t := ui.NewTable(out)
	for _, line := range l.lines(func(f *figure) (heading, text string) { return f.title, f.shown }) {
		t.Row(line...)
	}
	t.LeaveOut("memory", "epoch", "best", "metric", "time")
	t.Flush()
}

// writeCSV writes the runs, or the groups that share a row, with a header.
func (l *listedRuns) writeCSV(out io.Writer) error {
	lines := l.lines(func(f *figure) (heading, text string) { return f.key, f.exact })
	return csv.NewWriter(out).WriteAll(lines)
}

// Spread writes a mean with its deviation, as papers do.
func Spread(name string, mean, deviation metric.Number) string {
	m, d := float64(mean), float64(deviation)
	switch share := metric.IsFraction(name); {
	case math.IsNaN(d):
		return ui.Measured(name, m)
	case share:
		return fmt.Sprintf("%.2f ± %.2f %%", 100*m, 100*d)
	}
	return fmt.Sprintf("%.4g ± %.2g", m, d)
}
