package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weft/internal/refusal"
	"weft/internal/suggest"
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

func newRuns() *cobra.Command {
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
		ValidArgsFunction: completeInOrder(completeFolders),
		Args:              arguments(0, 1),
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
	runs, err := rundir.List(folder, func(err error) { fmt.Fprintln(cmd.ErrOrStderr(), oneLine(err)) })
	if err != nil {
		return err
	}
	if len(runs) == 0 && !c.json && !c.csv {
		fmt.Fprintf(cmd.OutOrStdout(),
			"%s: no run is there; weft train DATASET begins one\n", printable(folder))
		return nil
	}
	slices.SortStableFunc(runs, runOrders[order].compare)
	listed := &listedRuns{Differ: rundir.Differ(runs), Runs: runs, folder: folder}
	switch {
	case c.repeated:
		listed.repeat(order == 0)
	case runs == nil:
		listed.Runs = []*rundir.Listed{}
	}
	if c.csv {
		return listed.writeCSV(cmd.OutOrStdout())
	}
	return show(cmd.OutOrStdout(), listed, c.json)
}

// listedRuns are the runs of a folder, in order: the JSON object of `weft runs --json`.
type listedRuns struct {
	Differ   []string           `json:"differ"` // the settings that the runs do not share
	Runs     []*rundir.Listed   `json:"runs"`
	Repeated []*rundir.Repeated `json:"repeated,omitempty"`
	folder   string
}

// repeat gathers the runs that differ in seed and split alone.
func (l *listedRuns) repeat(best bool) {
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

// settings are the values of the settings that differ.
func (l *listedRuns) settings(r *rundir.Listed) (values []string) {
	for _, name := range l.Differ {
		values = append(values, r.Setting(name))
	}
	return values
}

// name is the path of a run below the folder.
func (l *listedRuns) name(r *rundir.Listed) string {
	if name, err := filepath.Rel(l.folder, r.RunDir); err == nil {
		return name
	}
	return r.RunDir
}

// print draws the runs for the eye.
func (l *listedRuns) print(out io.Writer) {
	t := newTable(out)
	settings := func(r *rundir.Listed) (cells []string) {
		for _, value := range l.settings(r) {
			cells = append(cells, cmp.Or(value, "–"))
		}
		return cells
	}
	if l.Repeated != nil {
		t.row(slices.Concat([]string{"runs"}, l.Differ, []string{"metric", "validation", "test", "epoch"})...)
		for _, g := range l.Repeated {
			r := g.Runs[0]
			runs := count(len(g.Runs))
			if g.Complete < len(g.Runs) {
				runs = count(g.Complete) + " of " + runs
			}
			t.row(slices.Concat([]string{runs}, settings(r), []string{
				cmp.Or(r.Metric, "–"), spread(r.Metric, g.ValMean, g.ValDeviation),
				spread(r.Metric, g.TestMean, g.TestDeviation), orDash(r, duration(seconds(r.EpochSeconds))),
			})...)
		}
		t.flush()
		return
	}
	t.row(slices.Concat([]string{"run"}, l.Differ, []string{
		"metric", "validation", "test", "best", "epochs",
		"epoch", "time", "memory", "status",
	})...)
	for _, r := range l.Runs {
		t.row(slices.Concat([]string{l.name(r)}, settings(r), []string{
			cmp.Or(r.Metric, "–"), measured(r.Metric, r.Val), measured(r.Metric, r.Test), count(r.BestEpoch),
			count(r.EpochsRun),
			orDash(r, duration(seconds(r.EpochSeconds))), orDash(r, duration(seconds(r.Seconds))),
			orDash(r, megabytes(r.TensorBytes)), string(r.Status) + when(len(r.Damaged) > 0, ", damaged"),
		})...)
	}
	t.flush()
}

// orDash is what the results of a run say; a dash where it has none.
func orDash(r *rundir.Listed, said string) string {
	if r.Results {
		return said
	}
	return "–"
}

// writeCSV writes the runs, or those that share a row, with a header.
func (l *listedRuns) writeCSV(out io.Writer) error {
	number := func(x float64) string {
		if x != x {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	known := func(r *rundir.Listed, text string) string { return when(r.Results, text) }
	w := csv.NewWriter(out)
	var lines [][]string
	if l.Repeated != nil {
		lines = append(lines,
			slices.Concat([]string{"runs"}, l.Differ,
				[]string{
					"metric", "val_mean", "val_deviation", "test_mean", "test_deviation",
					"epoch_seconds", "complete",
				}))
		for _, g := range l.Repeated {
			r := g.Runs[0]
			lines = append(lines, slices.Concat([]string{strconv.Itoa(len(g.Runs))}, l.settings(r), []string{
				r.Metric, number(float64(g.ValMean)), number(float64(g.ValDeviation)),
				number(float64(g.TestMean)), number(float64(g.TestDeviation)),
				known(r, number(r.EpochSeconds)), strconv.Itoa(g.Complete),
			}))
		}
	} else {
		lines = append(lines, slices.Concat([]string{"run"}, l.Differ,
			[]string{
				"metric", "train", "val", "test", "best_epoch", "epochs_run", "epoch_seconds", "seconds",
				"tensor_bytes", "status",
			}))
		for _, r := range l.Runs {
			lines = append(lines, slices.Concat([]string{l.name(r)}, l.settings(r), []string{
				r.Metric, number(float64(r.Train)), number(float64(r.Val)), number(float64(r.Test)),
				strconv.Itoa(r.BestEpoch), strconv.Itoa(r.EpochsRun),
				known(r, number(r.EpochSeconds)), known(r, number(r.Seconds)),
				known(r, strconv.FormatInt(r.TensorBytes, 10)), string(r.Status),
			}))
		}
	}
	return w.WriteAll(lines)
}
