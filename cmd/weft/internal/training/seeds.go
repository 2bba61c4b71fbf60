package training

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/reports"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/setting"
	"weft/train/sweep"
	"weft/train/task"
)

const allSplits = "all"

// several are runs that differ in seed and split, one after the other on one graph.
type several struct {
	done []*rundir.Run // on the first rank
}

// severalResults is what several runs give together: the JSON object of `weft train --seeds`. Seeds, Splits,
// Tests and Runs have an entry for each run.
type severalResults struct {
	Seeds  []uint64 `json:"seeds"`
	Splits []int    `json:"splits"`
	Metric string   `json:"metric"`
	// ValMean and the like are means and sample deviations (n − 1) of the metric at the best epoch;
	// deviations are null for one run.
	ValMean       metric.Number   `json:"val_mean"`
	ValDeviation  metric.Number   `json:"val_deviation"`
	TestMean      metric.Number   `json:"test_mean"`
	TestDeviation metric.Number   `json:"test_deviation"`
	Tests         []metric.Number `json:"tests"`
	Runs          []string        `json:"runs"` // their directories
	RunDir        string          `json:"run_dir"`
}

// isSeveral reports whether the command asks for several runs.
func (t *trainCommand) isSeveral() bool { return t.seeds > 0 || t.splits != "" }

// checkSeveral refuses flags that are not for several runs.
func (t *trainCommand) checkSeveral(seeds bool) error {
	switch {
	case seeds && (t.seeds < 1 || t.seeds > sweep.MaxSeeds):
		return refusal.Errorf("--seeds %d: a number of runs from 1 to %s", t.seeds, ui.Count(sweep.MaxSeeds))
	case !t.isSeveral():
		return nil
	case t.splits != "" && t.splits != allSplits:
		return refusal.Errorf("--splits %s: the only value is all, which takes one stored split after the "+
			"other; --split %[1]s takes one", t.splits)
	case t.splits != "" && slices.Contains(t.settings.GivenNames(), "split"):
		return refusal.Errorf("--splits %s: trains on each split; leave --split out", t.splits)
	case t.trace != "":
		return refusal.Errorf("--trace %s: records one run; leave out --seeds and --splits", t.trace)
	case t.embeddings != "":
		return refusal.Errorf("--embeddings %s: belongs to one run; leave it out: weft predict RUN "+
			"--embeddings FILE computes it later", t.embeddings)
	case t.resume != "" && t.resume != resumeAuto:
		return refusal.Errorf("--resume %s: several runs continue with the command that began them and "+
			"--resume auto --out FOLDER", t.resume)
	case t.resume == resumeAuto && t.out == "":
		return refusal.Errorf("--resume auto: continues the runs in --out, or begins them; give --out FOLDER")
	}
	return nil
}

// trainSeveral trains with each seed on each split. It ends with the first run that does not reach its end.
func (t *trainCommand) trainSeveral(cmd *cobra.Command, r cli.Ranks, args []string,
	settings *setting.Resolved,
) error {
	if len(args) == 0 {
		return refusal.Errorf("several runs need a dataset; the command is: weft train " +
			"DATASET|STORE --seeds N")
	}
	show := ui.ProgressOf(cmd, t.json)
	opened, err := t.open(cmd, r, args[0], settings, show)
	if err != nil {
		return err
	}
	defer opened.Close()
	members, err := t.members(len(opened.Counts().Splits), settings)
	if err := r.Together(err); err != nil {
		return err
	}
	created := false // on the first rank
	folder, err := cli.Decided(r, func() (folder string, err error) {
		folder, created, err = rundir.MakeFolder(t.out, time.Now(), args[0], settings.Model,
			t.resume == resumeAuto)
		return folder, err
	})
	if created {
		defer func() { _ = os.Remove(folder) }() // this fails once a run has begun in it
	}
	if err != nil {
		return err
	}
	all := &several{}
	for k, o := range members {
		command := *t
		command.group, command.out = all, filepath.Join(folder, t.member(o))
		fmt.Fprintf(show, "run %d of %d: seed %d%s\n", k+1, len(members), o.Seed,
			ui.When(t.splits != "", fmt.Sprintf(", split %v", o.Split)))
		if err := command.trainMember(cmd, r, args, opened, o); err != nil {
			if errors.Is(err, launch.ErrInterrupted) {
				err = fmt.Errorf("%w; continue with the same command, --out %s and --resume auto", err,
					folder)
			}
			return err
		}
	}
	return r.OnFirst(func() error { return all.finish(cmd.OutOrStdout(), folder, t.json) })
}

// members are the settings of the runs on a graph with stored splits.
func (t *trainCommand) members(stored int, settings *setting.Resolved) (all []*setting.Resolved, err error) {
	splits := []task.Split{settings.Split}
	if t.splits != "" {
		if stored == 0 {
			return nil, refusal.Errorf("--splits %s: the graph has no stored splits", t.splits)
		}
		splits = nil
		for split := range stored {
			splits = append(splits, task.Split{Number: split})
		}
	}
	seeds := max(1, t.seeds)
	if settings.Seed > math.MaxUint64-uint64(seeds) {
		return nil, refusal.Errorf("--seed %d --seeds %d: the last seed would be above the largest that is "+
			"possible; give a smaller --seed", settings.Seed, seeds)
	}
	for _, split := range splits {
		for k := range seeds {
			o := settings.Options
			o.Seed, o.Split = settings.Seed+uint64(k), split
			resolved, err := o.Resolve()
			if err != nil {
				return nil, err
			}
			all = append(all, resolved)
		}
	}
	return all, nil
}

// member is the name of a run's folder.
func (t *trainCommand) member(o *setting.Resolved) string {
	name := fmt.Sprintf("seed-%d", o.Seed)
	switch {
	case t.splits == "":
		return name
	case t.seeds == 0:
		return fmt.Sprintf("split-%v", o.Split)
	}
	return fmt.Sprintf("split-%v-%s", o.Split, name)
}

// trainMember trains one of several runs, or continues it.
func (t *trainCommand) trainMember(
	cmd *cobra.Command, r cli.Ranks, args []string, opened *session.Session, settings *setting.Resolved,
) error {
	run, err := t.findRun(args)
	if err := r.Together(err); err != nil {
		return err
	}
	if err := run.agree(r); err != nil {
		return err
	}
	if run != nil {
		return t.resumeRun(cmd, r, run, settings, opened)
	}
	return t.train(cmd, r, args[0], settings, nil, opened)
}

// add takes a run that has ended, and says what it gave.
func (s *several) add(show io.Writer, run *rundir.Run) {
	s.done = append(s.done, run)
	fmt.Fprintf(show, "%s: %s\n", ui.Printable(run.Summary.RunDir), best(run))
}

// best says what the best epoch of a run gave.
func best(run *rundir.Run) string {
	s := &run.Summary
	return fmt.Sprintf("best epoch %s, %s %s", ui.Count(s.BestEpoch), s.Metric,
		ui.ValAndTest(s.Metric, s.Val, s.Test))
}

// finish writes and prints the results of all runs.
func (s *several) finish(out io.Writer, folder string, asJSON bool) error {
	results := s.results(folder)
	text, err := json.Marshal(results)
	if err != nil {
		return err
	}
	if err := rundir.WriteSeveral(folder, append(text, '\n')); err != nil {
		return err
	}
	return ui.Show(out, &results, asJSON)
}

func (r *severalResults) Print(out io.Writer) {
	t := ui.NewTable(out)
	t.Row("runs", fmt.Sprintf("%s, in %s", ui.Count(len(r.Runs)), r.RunDir))
	t.Row("validation "+r.Metric, reports.Spread(r.Metric, r.ValMean, r.ValDeviation))
	t.Row("test "+r.Metric, reports.Spread(r.Metric, r.TestMean, r.TestDeviation))
	t.Flush()
}

// results are the results of the runs that have ended.
func (s *several) results(folder string) severalResults {
	results := severalResults{RunDir: folder, Metric: s.done[0].Summary.Metric}
	var vals, tests []float64
	for _, run := range s.done {
		r := &run.Summary
		results.Seeds, results.Splits = append(results.Seeds, r.Seed), append(results.Splits, r.Split)
		results.Tests, results.Runs = append(results.Tests, r.Test), append(results.Runs, r.RunDir)
		vals, tests = append(vals, float64(r.Val)), append(tests, float64(r.Test))
	}
	results.ValMean, results.ValDeviation = rundir.MeanAndDeviation(vals)
	results.TestMean, results.TestDeviation = rundir.MeanAndDeviation(tests)
	return results
}
