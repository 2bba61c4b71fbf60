package reports

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/cmd/weft/internal/ui"
	"weft/graph/datasets"
	"weft/train"
	"weft/train/rundir"
)

// answer is the first thing that a page says.
type answer struct {
	Question, Answer string
	Path             string // the path of what the answer names; "": it names nothing
	Lines            []string
}

// answer says how good the runs are, on what, and since when. tests are the scores of runs that did not
// diverge.
func (p *reportContents) answer(tests []float64) {
	first := p.Runs[0]
	s := &first.Summary
	p.Metrics = len(p.metrics()) > 1
	p.Ended = slices.ContainsFunc(p.Runs, func(r *reportRun) bool { return r.Ended != train.EndedEpochs })

	good := answer{Question: "How good: test " + s.Metric, Answer: ui.Measured(s.Metric, s.Test)}
	scores := fmt.Sprintf("validation %s, training %s", ui.Measured(s.Metric, s.Val),
		ui.Measured(s.Metric, s.Train))
	switch {
	case len(p.Runs) > 1 && !slices.ContainsFunc(p.Differ, func(name string) bool {
		return name != "seed" && name != "split"
	}):
		mean, deviation := rundir.MeanAndDeviation(tests)
		good.Answer = Spread(s.Metric, mean, deviation)
		good.Lines = []string{
			fmt.Sprintf(
				"mean and sample deviation of %d runs%s",
				len(tests),
				ui.When(len(tests) < len(p.Runs),
					fmt.Sprintf(", without %d that diverged", len(p.Runs)-len(tests))),
			),
			"of " + first.Name + ", the best by validation: " + ui.Measured(s.Metric, s.Test),
		}
	case len(p.Runs) > 1:
		rank := "best of %d runs by validation"
		if p.Metrics || p.datasets() > 1 { // the scores of the runs do not compare
			rank = "first of %d runs"
		}
		good.Lines = []string{fmt.Sprintf("of %s, the "+rank, first.Name, len(p.Runs)), scores}
	default:
		good.Lines = []string{fmt.Sprintf("%s, best epoch %s of %s", s.Model, ui.Count(s.BestEpoch),
			ui.Count(s.EpochsRun)), scores}
	}

	on := answer{Question: "On what", Answer: datasetName(s.Dataset), Path: s.Dataset}
	if sets := p.datasets(); sets > 1 {
		on.Lines = append(on.Lines, fmt.Sprintf("the first of %d datasets", sets))
	}
	switch {
	case s.Links != nil:
		on.Lines = append(
			on.Lines,
			fmt.Sprintf("%s test edges, %s of validation", ui.Count(s.Links.TestEdges),
				ui.Count(s.Links.ValEdges)),
		)
	case first.NotMeasured == "":
		on.Lines = append(on.Lines, fmt.Sprintf("%s test %s, %s of validation, %s of training",
			ui.Count(first.sizes[2]), first.Measured(), ui.Count(first.sizes[1]), ui.Count(first.sizes[0])))
	}
	g := &s.Graph
	on.Lines = append(on.Lines, fmt.Sprintf("%s%s, %s", ui.Counted(g.Vertices, "vertex", "vertices"),
		ui.When(len(g.Types) > 1, " ("+strings.Join(g.Types, ", ")+")"),
		ui.Counted(g.Edges, "edge", "edges")))

	began, spent := first.Started, time.Duration(0)
	for _, r := range p.Runs {
		if spent += r.Finished.Sub(r.Started); r.Started.After(began) {
			began = r.Started
		}
	}
	since := answer{Question: "Since when", Answer: began.Local().Format(time.DateOnly)}
	since.Lines = append(since.Lines, fmt.Sprintf("trained in %s%s, by weft %s", ui.Duration(spent),
		ui.When(len(p.Runs) > 1, " together"), first.Versions.Weft))
	if written := writtenOn(first.Store); written != "" {
		since.Lines = append(since.Lines, "data stored on "+written)
	}
	p.Answers = []answer{good, on, since}
}

// datasets is how many datasets the runs have.
func (p *reportContents) datasets() int {
	sets := map[string]bool{}
	for _, r := range p.Runs {
		sets[r.Summary.Dataset] = true
	}
	return len(sets)
}

// writtenOn is the day on which a store was written; "": it is gone.
func writtenOn(store string) string {
	info, err := os.Stat(filepath.Join(store, "graph.json"))
	if err != nil {
		return ""
	}
	return info.ModTime().Local().Format(time.DateOnly)
}

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
