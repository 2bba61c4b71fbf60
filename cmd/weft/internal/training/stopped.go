package training

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"weft/checkpoint"
	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/ui"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
)

// How a run ends if a signal stops it, or if it fails: what is said, and what is left of it.

// UntilStopped is the context of a run, which the first signal ends after its epoch. made is nil on ranks
// other than 0, and until the directory exists.
func UntilStopped(parent context.Context, r cli.Ranks, made *atomic.Pointer[rundir.Dir], store string,
	progress *ui.Progress,
) (ctx context.Context, stop func()) {
	return cli.UntilSignal(parent, func(s os.Signal) {
		r.SayWaiting(parent, s, unfinished(made.Load()))
		progress.Say("weft: %s: finishing the epoch and keeping the results; interrupt again to stop at once",
			s)
	}, func() {
		progress.End()
		switch dir := made.Load(); {
		case dir != nil:
			fmt.Fprintln(os.Stderr, ui.OneLine(abandoned(dir, store)))
		case r.First():
			fmt.Fprintln(os.Stderr, ui.OneLine(launch.ErrInterrupted))
		}
	})
}

// unfinished says what a signal may leave of a run. dir is nil on ranks other than 0.
func unfinished(dir *rundir.Dir) string {
	if dir == nil {
		return ""
	}
	return fmt.Sprintf("; %s is incomplete until it has a run.json", dir.Path)
}

// abandoned says what is left of a run that a second interrupt ended: everything, if the first came too late
// to matter.
func abandoned(dir *rundir.Dir, store string) error {
	if _, err := os.Stat(filepath.Join(dir.Path, "run.json")); err == nil {
		return fmt.Errorf("%w; the results are in %s", launch.ErrInterrupted, dir.Path)
	}
	return incomplete(dir, store, launch.ErrInterrupted)
}

// interrupted is the error of a run that stopped before its end and has results.
func (t *trainCommand) interrupted(result *train.Result, o *setting.Options) error {
	err := fmt.Errorf("%w after epoch %d; the results so far are in %s", launch.ErrInterrupted,
		result.Epochs, t.out)
	if result.Ended == train.EndedTime {
		err = fmt.Errorf("--max-time %s: %w", o.MaxTime, err)
	}
	if o.CheckpointEvery != (setting.Interval{}) && t.group == nil {
		err = fmt.Errorf("%w; continue with weft train --resume %s", err, t.out)
	}
	return err
}

// failed is the error of a run without a result. dir is nil on ranks other than 0.
func (t *trainCommand) failed(dataset, store string, dir *rundir.Dir, err error) error {
	switch {
	case dir == nil:
	case !dir.Worked() && (refusal.Is(err) || errors.Is(err, launch.ErrInterrupted)):
		dir.Discard()
		err = data.About(t.source(dataset), err)
	default:
		if !dir.Gone() {
			err = errors.Join(err, dir.Fail(err))
		}
		err = incomplete(dir, store, err)
		if refusal.Is(err) { // the work has failed, whatever the error is about
			err = errors.New(err.Error())
		}
	}
	return err
}

// incomplete says what is left of a run that failed, and what can be done with it.
func incomplete(dir *rundir.Dir, store string, err error) error {
	kept := dir.Results()
	epochs, unread := checkpoint.Epochs(filepath.Join(dir.Path, rundir.Checkpoints))
	continues := len(epochs) > 0 || unread != nil
	switch {
	case dir.Gone():
		return fmt.Errorf("%w; nothing of the run is kept", err)
	case len(kept) > 0:
		err = fmt.Errorf("%w; %s is incomplete, but has %s of the best epoch: weft predict --init "+
			"%[2]s/%[4]s --config %[2]s/run.yaml %[5]s --out FILE",
			err, dir.Path, strings.Join(kept, " and "), kept[0], store)
	case continues:
	case errors.As(err, new(*train.Diverged)):
		err = fmt.Errorf("%w; %s is incomplete: remove it, or name another folder with --out", err, dir.Path)
	default:
		err = fmt.Errorf("%w; %s is incomplete: begin the run again with weft train --resume %[2]s, "+
			"or remove it", err, dir.Path)
	}
	if continues {
		err = fmt.Errorf("%w; continue the run with weft train --resume %s", err, dir.Path)
	}
	return err
}
