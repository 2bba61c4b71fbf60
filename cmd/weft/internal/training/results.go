package training

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/ui"
	"weft/tensor"
	"weft/train/rundir"
	"weft/train/worker"
)

// printRun prints the results of a run: for programs, or for the eye.
func (t *trainCommand) printRun(out, show io.Writer, run *rundir.Run) error {
	if t.group != nil {
		t.group.add(show, run)
		return nil
	}
	if !t.json {
		printResults(out, run)
		return nil
	}
	if err := ui.PrintJSON(out, run.Summary); err != nil {
		return fmt.Errorf("%w; the results are in %s", err, t.out)
	}
	return nil
}

// eachWorker is the largest of the workers' amounts.
func eachWorker(bytes []int64) string {
	if len(bytes) == 1 {
		return ui.Megabytes(bytes[0])
	}
	return fmt.Sprintf("at most %s on each of %d workers", ui.Megabytes(slices.Max(bytes)), len(bytes))
}

// printResults draws the results for the eye.
func printResults(out io.Writer, run *rundir.Run) {
	s := &run.Summary
	t := ui.NewTable(out)
	vertices, features := ui.Counted(s.Graph.Vertices, "vertex", "vertices"),
		ui.Counted(s.Graph.Features, "feature", "features")
	if others := s.Graph.Others; others > 0 {
		vertices += fmt.Sprintf(" of %s types", ui.Count(1+others))
	}
	if s.Graph.Features == 0 {
		features = "no features"
	}
	labels := ui.Counted(s.Graph.Classes, "class", "classes")
	if s.Graph.Values > 0 {
		labels = data.ValuesToPredict(s.Graph.Values)
	}
	t.Row("model", fmt.Sprintf("%s on %s: %s, %s, %s, %s", s.Model, s.Dataset,
		vertices, ui.Counted(s.Graph.Edges, "edge", "edges"), features, labels))
	if v := s.Validation; v != nil {
		t.Row("validated", fmt.Sprintf("on %s: %s, %s", run.Settings["validate"],
			ui.Counted(v.Vertices, "vertex", "vertices"), ui.Counted(v.Edges, "edge", "edges")))
	}
	t.Row("epochs", fmt.Sprintf("%s, best %s; ended: %s", ui.Count(s.EpochsRun), ui.Count(s.BestEpoch),
		run.Reason))
	if l := s.Links; l != nil {
		t.Row("edges", data.Sizes(l.TrainEdges, l.ValEdges, l.TestEdges))
		for _, r := range ui.LinkRows(l.Val, l.Test) {
			t.Row(r.Name, ui.ValAndTest(r.Name, r.Val, r.Test))
		}
	} else {
		t.Row(s.Metric, fmt.Sprintf("train %s  %s", ui.Measured(s.Metric, s.Train),
			ui.ValAndTest(s.Metric, s.Val, s.Test)))
	}
	t.Row("time", fmt.Sprintf("%s an epoch, %s in all", ui.Duration(ui.Seconds(s.EpochSecondsMedian)),
		ui.Duration(run.Finished.Sub(run.Started))))
	t.Row("memory", fmt.Sprintf("%s tensors, %s graph, %s resident at the peak",
		ui.Megabytes(slices.Max(s.PeakTensorBytes)), ui.Megabytes(slices.Max(s.GraphBytes)),
		ui.Megabytes(s.PeakRSSBytes)))
	if s.Device != nil {
		t.Row("device", ui.Used(s.Device))
	}
	if moved := s.Disk; moved != (tensor.Moved{}) {
		t.Row("disk", fmt.Sprintf("%s written and %s read an epoch", ui.Megabytes(moved.Written),
			ui.Megabytes(moved.Read)))
	}
	if s.Workers > 1 {
		t.Row("workers", fmt.Sprintf("%d (%s): %s of rows and gradients between them an epoch, each "+
			"waiting at most %s of it",
			s.Workers, s.Parallel, ui.Megabytes(s.Communication.Halo.Bytes+s.Communication.Layout.Bytes+
				s.Communication.Stage.Bytes+s.Communication.Links.Bytes),
			ui.Percent(s.WaitShare)))
		busiest := []string{fmt.Sprintf("sends %.2f", worker.Imbalance(s.SentBytes))}
		if slices.Max(s.EdgeColumns) > 0 {
			busiest = slices.Insert(busiest, 0,
				fmt.Sprintf("aggregates %.2f", worker.Imbalance(s.EdgeColumns)))
		}
		t.Row("balance", fmt.Sprintf("the busiest worker %s times the mean", strings.Join(busiest, " and ")))
	}
	if len(s.Stages) > 0 {
		bubble, waited, all := 0.0, 0.0, 0.0
		for _, stage := range s.Stages {
			bubble, waited = bubble+stage.Bubble, waited+stage.Wait
			all += stage.Compute + stage.Bubble + stage.Wait
		}
		all = max(all, 1e-9)
		t.Row("stages", fmt.Sprintf("the busiest computes %.2f times the mean; %s of their time goes by "+
			"while the pipeline fills and drains, %s in other waits",
			s.StageImbalance, ui.Percent(bubble/all), ui.Percent(waited/all)))
		for k, stage := range s.Stages {
			t.Row(fmt.Sprintf("stage %d", k), fmt.Sprintf("%s: computes %s, idle %s while it fills and "+
				"drains and %s otherwise, sends %s",
				planning.Who(&stage.Stage), ui.Duration(ui.Seconds(stage.Compute)),
				ui.Duration(ui.Seconds(stage.Bubble)),
				ui.Duration(ui.Seconds(stage.Wait)), ui.Megabytes(stage.Sent)))
		}
	}
	t.Row("run", filepath.Clean(s.RunDir))
	t.Flush()
}
