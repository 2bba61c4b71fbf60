// Command reproduce trains every configuration of configs/ whose data is there, with several seeds, and
// prints our test accuracy beside the published one. Where an experiment has a smoothing, it also smooths the
// predictions by weft smooth, and prints a row for them. It drives the built command and nothing else, as a
// user would:
//
//	go run ./scripts/reproduce --data FOLDER [--only cora-gcn,cora-gat] [--seeds N] \
//		[--with '--precision f32; --precision bf16'] [--json FILE]
//
// Graphs and runs are kept in a temporary folder until the end. The table goes to standard output, progress
// to standard error, and the figures of every run to the JSON file. The exit status says whether the runs
// worked, not how they compare.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var (
		job  = reproduction{stores: map[*dataset]string{}}
		only = flag.String("only", "", "configurations to run, separated by commas (default all)")
		with = flag.String("with", "", "flags of weft train that each configuration is run with, and "+
			"after a semicolon those that it is run with once more")
		file = flag.String("json", "runs/reproduce.json", "where the figures of every run are written")
	)
	flag.StringVar(&job.weft, "weft", "bin/weft", "the command to drive")
	flag.StringVar(&job.data, "data", "", "folder of the public graphs")
	flag.IntVar(&job.seeds, "seeds", 0, "runs of each configuration (default: 3 to 10)")
	flag.Parse()
	if flag.NArg() > 0 {
		fail(2, fmt.Errorf("%s: unexpected argument: everything is given by flags, see --help", flag.Arg(0)))
	}
	if job.seeds < 0 {
		fail(2, fmt.Errorf("--seeds %d: must be at least 1", job.seeds))
	}
	for flags := range strings.SplitSeq(*with, ";") {
		job.with = append(job.with, strings.Fields(flags))
	}
	chosen, err := choose(*only)
	if err != nil {
		fail(2, err)
	}
	if job.folder, err = os.MkdirTemp("", "weft-reproduce-"); err != nil {
		fail(1, err)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	started := time.Now()
	rows, runErr := job.run(ctx, chosen)
	stop()
	err = errors.Join(runErr, os.RemoveAll(job.folder))
	if len(rows) > 0 {
		err = errors.Join(err, writeTable(os.Stdout, rows), writeJSON(*file, started, runtime.NumCPU(), rows))
		fmt.Fprintf(os.Stderr, "the figures of every run: %s\n", *file)
	}
	if err != nil {
		fail(1, err)
	}
}

func fail(status int, err error) {
	fmt.Fprintf(os.Stderr, "reproduce: %v\n", err)
	os.Exit(status)
}

// choose is the experiments that a list of names separated by commas asks for, in the table's order; all for
// an empty list.
func choose(names string) ([]experiment, error) {
	if names == "" {
		return experiments, nil
	}
	var known []string
	for _, e := range experiments {
		known = append(known, e.config)
	}
	wanted := strings.Split(names, ",")
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--only %s: no such configuration; there are %s", name,
				strings.Join(known, " "))
		}
	}
	return slices.DeleteFunc(slices.Clone(experiments),
		func(e experiment) bool { return !slices.Contains(wanted, e.config) }), nil
}

// A reproduction is one run of this command.
type reproduction struct {
	weft   string
	data   string
	folder string // of stores and run directories
	seeds  int    // 0 stands for each experiment's own number
	stores map[*dataset]string
	// trained counts the runs
	trained int

	with [][]string // flags of weft train: each experiment runs with each of these
}

// run trains the chosen experiments. The rows of those that were finished come back with an error too.
func (p *reproduction) run(ctx context.Context, chosen []experiment) ([]row, error) {
	var rows []row
	for _, e := range chosen {
		if !e.dataset.found(p.data) {
			fmt.Fprintf(os.Stderr, "%s: left out: no %s\n", e.config,
				in(p.data, e.dataset.files))
			continue
		}
		for _, flags := range p.with {
			runs, smoothed, err := p.train(ctx, e, flags)
			if err != nil {
				return rows, fmt.Errorf("%s: %w", e.config, err)
			}
			rows = append(rows, summarise(e, flags, runs))
			if len(smoothed) > 0 {
				rows = append(rows, summarise(e.smoothed(smoothings[e.config]), flags, smoothed))
			}
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("no data for what was asked: name its folder by --data (WEFT_DATA=FOLDER " +
			"make reproduce)")
	}
	return rows, nil
}

// train runs one experiment with seeds 0, 1, 2, …, and smooths the predictions of each run where the
// experiment has a smoothing.
func (p *reproduction) train(ctx context.Context, e experiment,
	flags []string,
) (runs, smoothed []result, err error) {
	seeds := p.seeds
	if seeds == 0 {
		seeds = e.seeds
	}
	store, err := p.store(ctx, e.dataset)
	if err != nil {
		return nil, nil, err
	}
	smoothing, smooths := smoothings[e.config]
	for seed := range seeds {
		p.trained++
		out := filepath.Join(p.folder, fmt.Sprintf("run-%d", p.trained))
		args := []string{
			"train", store, "--config", filepath.Join("configs", e.config+".yaml"),
			"--seed", strconv.Itoa(seed), "--json", "--out", out,
		}
		args = append(args, flags...)
		if e.dataset.splits != provided {
			args = append(args, "--split", strconv.Itoa(seed))
		}
		begin := time.Now()
		text, err := p.call(ctx, args)
		if err != nil {
			return nil, nil, err
		}
		r := result{Seconds: time.Since(begin).Seconds()}
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, nil, fmt.Errorf("%s: what it printed is not JSON: %w", p.weft, err)
		}
		fmt.Fprintf(os.Stderr, "%s %s seed %d: test %.2f %% after %d epochs, %.1f s\n", e.config,
			strings.Join(flags, " "), seed, 100*r.Test, r.EpochsRun, r.Seconds)
		runs = append(runs, r)
		if smooths {
			s, err := p.smooth(ctx, out, smoothing.flags, r)
			if err != nil {
				return nil, nil, err
			}
			smoothed = append(smoothed, s)
		}
	}
	return runs, smoothed, nil
}

// smooth smooths the predictions of a run, in the folder dir. In the run's result it replaces the accuracies,
// and the seconds by those of its own command.
func (p *reproduction) smooth(ctx context.Context, dir string, flags []string, r result) (result, error) {
	begin := time.Now()
	text, err := p.call(ctx, append([]string{"smooth", dir, "--json"}, flags...))
	if err != nil {
		return r, err
	}
	type part struct {
		Accuracy float64 `json:"accuracy"`
	}
	var measured struct {
		After struct {
			Val  part `json:"val"`
			Test part `json:"test"`
		} `json:"after"`
	}
	if err := json.Unmarshal(text, &measured); err != nil {
		return r, fmt.Errorf("%s: what it printed is not JSON: %w", p.weft, err)
	}
	r.Val, r.Test, r.Seconds = measured.After.Val.Accuracy, measured.After.Test.Accuracy,
		time.Since(begin).Seconds()
	r.Communication.Halo.Bytes = 0
	return r, nil
}

// store imports a dataset, once.
func (p *reproduction) store(ctx context.Context, d *dataset) (string, error) {
	if store, ok := p.stores[d]; ok {
		return store, nil
	}
	splits := p.seeds
	for _, e := range experiments {
		if p.seeds == 0 && e.dataset == d {
			splits = max(splits, e.seeds)
		}
	}
	store := filepath.Join(p.folder, d.name)
	if _, err := p.call(ctx, d.importArgs(p.data, store, splits)); err != nil {
		return "", err
	}
	p.stores[d] = store
	return store, nil
}

// call runs weft and returns its standard output. What it said on standard error is shown only where it
// failed.
func (p *reproduction) call(ctx context.Context, args []string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, p.weft, args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	// An interrupted weft finishes its epoch first; it is killed only if it does not come back.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	if err := c.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
		return nil, fmt.Errorf("%s %s: %w: %s", p.weft, strings.Join(args, " "), err, lines[len(lines)-1])
	}
	return stdout.Bytes(), nil
}
