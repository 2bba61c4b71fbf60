package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/planning"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
)

// undivided are the settings of a run with --partitions auto before partitions are chosen: it has none. A run
// that continues keeps its own. run is nil for a run that begins.
func (t *trainCommand) undivided(o setting.Options, run *resumption) (*setting.Resolved, error) {
	if run != nil {
		chosen := &run.before
		if o.Partitions = chosen.Partitions; o.Offload == "" || chosen.OffloadFolder() == "" {
			o.Offload = chosen.Offload
		}
		o.MemoryLimit = cmp.Or(o.MemoryLimit, chosen.MemoryLimit)
		return o.Resolve()
	}
	if o.Parallel == setting.Auto {
		return nil, refusal.Errorf("--partitions %s: one of both is chosen for the other; give a --parallel, as "+
			"in graph=4, or leave that out", o.Partitions)
	}
	t.turns, t.offload = true, o.Offload
	o.Partitions, o.Offload = 0, ""
	return o.Resolve()
}

// chosenTurns is what chooseTurns chooses.
type chosenTurns struct {
	Partitions  int
	Offload     string
	MemoryLimit int64
}

// chooseTurns takes the smallest number of partitions with which the run has room in memory, none if it has
// room without them, and says so. All ranks call it together.
func (t *trainCommand) chooseTurns(cmd *cobra.Command, r cli.Ranks, dataset string, s *setting.Resolved,
) (*setting.Resolved, error) {
	chosen, err := cli.Decided(r, func() (chosenTurns, error) { return t.fewestTurns(cmd, dataset, s) })
	if err != nil {
		return nil, err
	}
	o := s.Options
	o.Partitions, o.Offload = setting.Partitions(chosen.Partitions), chosen.Offload
	o.MemoryLimit = setting.Bytes(chosen.MemoryLimit)
	s, err = o.Resolve()
	return s, r.Together(err)
}

func (t *trainCommand) fewestTurns(cmd *cobra.Command, dataset string, s *setting.Resolved) (c chosenTurns,
	err error,
) {
	c.MemoryLimit = int64(s.MemoryLimit)
	show := cmd.ErrOrStderr()
	g, _, err := data.OpenDataset(cmd.Context(), t.source(dataset), show, nil)
	if err != nil {
		return c, err
	}
	defer g.Close()
	if err := s.Divide(g); err != nil {
		return c, data.About(t.source(dataset), err)
	}
	job := &train.Job{Dataset: dataset, Options: s.Options, Graph: g, Checkpoints: &train.Checkpoints{}}
	if s.Validate != "" {
		other, _, err := data.OpenDataset(cmd.Context(), data.Source{Name: s.Validate}, io.Discard, nil)
		if err != nil {
			return c, err
		}
		defer other.Close()
		job.Validate = &train.Job{Dataset: s.Validate, Options: s.Options, Graph: other}
	}
	divided := *job
	if err := session.DivideOnce(cmd.Context(), s, &divided, divided.Validate); err != nil {
		return c, err
	}
	made, err := divided.PlanWith(cmd.Context(), plan.Asks{})
	if err != nil {
		return c, data.About(t.source(dataset), err)
	}
	limit := limitOf(s, 0)
	if made.CheckLimit(limit) == nil {
		fmt.Fprintf(show, "--partitions %s: none take turns, as all fits into memory\n", setting.Auto)
		return c, nil
	}
	fit, err := fitting(cmd, job, s, &made, t.offload, planning.MostTurns)
	switch {
	case err != nil:
		return c, data.About(t.source(dataset), err)
	case fit == nil:
		made.Advice = plan.NoPartitions
		return c, refusal.Errorf("--partitions %s: none suffice; %w", setting.Auto, made.CheckLimit(limit))
	}
	if made.Cards != nil {
		switch err := fit.Predict(made.Cards, show); {
		case errors.Is(err, context.Canceled):
			return c, err
		case err != nil: // these partitions fit; their time is unknown
			fmt.Fprintf(show, "their epoch is not predicted: %v\n", err)
		}
	}
	fmt.Fprintf(show, "%s: the fewest partitions that fit, with %s\n", fit.Flags(), fit.Takes())
	o := &fit.Settings.Options
	return chosenTurns{int(o.Partitions), o.Offload, int64(o.MemoryLimit)}, nil
}

// limitOf is how much of the memory a worker may have, if here workers are on this machine (0: all); 0:
// unknown.
func limitOf(s *setting.Resolved, here int) setting.Bytes {
	if s.MemoryLimit > 0 || s.OnCard() {
		return s.MemoryLimit
	}
	return setting.Bytes(cli.MachineMemory()) / setting.Bytes(cmp.Or(here, s.Workers))
}

// fitting is planning.Fitting for a job on its whole graphs, for whose plan, made, there was no room.
func fitting(cmd *cobra.Command, job *train.Job, s *setting.Resolved, made *plan.Plan, folder string,
	most int,
) (*planning.Fit, error) {
	return planning.Fitting(cmd.Context(), wanted(job, s, made), limitOf(s, job.LocalWorkers), folder, most,
		ui.NewPhases(ui.BesideResults(cmd)))
}

// wanted is a job that was planned as made, on the same cards.
func wanted(job *train.Job, s *setting.Resolved, made *plan.Plan) planning.Wanted {
	clone := *job
	clone.Cards = made.Cards
	return planning.Wanted{Job: &clone, Settings: s}
}

// mostEdges is the largest number of edges for which the streamed partitions of wayOut take seconds.
const mostEdges = 20_000_000

// mostTurns bounds the partitions that wayOut plans, by the layers of each, so that a refusal comes soon.
func mostTurns(s *setting.Resolved) int {
	const layers = 48
	return max(2, layers/max(1, s.Depth()))
}

// wayOut adds to the refusal of a run for which there is no room a number of partitions with which there is,
// if one is found soon. For a large graph on cards it plans by counts.
func wayOut(cmd *cobra.Command, job *train.Job, s *setting.Resolved, opened *session.Session, made *plan.Plan,
	exceeds error,
) error {
	if job.Comm != nil && job.Comm.Size() > 1 {
		return exceeds
	}
	whole, err := wholeOf(job, opened)
	if err != nil {
		return exceeds
	}
	show := ui.BesideResults(cmd)
	var fit *planning.Fit
	switch large := edgesOf(whole) > mostEdges; {
	case !large:
		fit, err = fitting(cmd, whole, s, made, cmp.Or(s.Offload, "DIR"), mostTurns(s))
		if fit != nil && made.Cards != nil {
			err = fit.Predict(made.Cards, show)
		}
	case made.Cards != nil && whole.Validate == nil:
		fit, err = planning.FittingByCounts(cmd.Context(), wanted(whole, s, made), show)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case fit == nil: // the refusal is right without a way out, and the way out without a time
		return exceeds
	}
	return refusal.Errorf("%w; %s fits, with %s", exceeds, fit.Flags(), fit.Takes())
}

// edgesOf is the number of edges of a job on whole graphs, with those of the validation graph.
func edgesOf(job *train.Job) int64 {
	if job.Validate == nil {
		return job.Graph.Edges()
	}
	return job.Graph.Edges() + edgesOf(job.Validate)
}

// wholeOf is a job on the whole graphs of a session that was opened for it.
func wholeOf(job *train.Job, opened *session.Session) (*train.Job, error) {
	whole := *job
	var err error
	if whole.Graph == nil {
		whole.Graph, err = opened.Graph()
	}
	if err == nil && job.Validate != nil {
		whole.Validate, err = wholeOf(job.Validate, opened.Validated)
	}
	return &whole, err
}
