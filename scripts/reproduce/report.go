package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// A result is what one training run reported. The first fields are keys of `weft train --json`.
type result struct {
	Seed            int     `json:"seed"`
	Metric          string  `json:"metric"`
	Test            float64 `json:"test"` // accuracy at the best epoch, in 0..1
	Val             float64 `json:"val"`
	EpochsRun       int     `json:"epochs_run"`
	BestEpoch       int     `json:"best_epoch"`
	PeakTensorBytes []int64 `json:"peak_tensor_bytes"`
	Communication   struct {
		Halo struct {
			Bytes float64 `json:"bytes"` // sent by all workers in the last epoch
		} `json:"halo"`
	} `json:"communication"`

	Seconds float64 `json:"seconds"` // of the whole command
}

// A row is one experiment with its runs. Figures are percent, null in JSON where there is none.
type row struct {
	Config             string   `json:"config"`
	Dataset            string   `json:"dataset"`
	Model              string   `json:"model"`
	Flags              string   `json:"flags"`
	Mean               float64  `json:"mean"`
	Deviation          float64  `json:"deviation"` // of a sample: divided by n-1; 0 for one run
	Published          *float64 `json:"published"`
	PublishedDeviation *float64 `json:"published_deviation"`
	Difference         *float64 `json:"difference"` // mean - published
	SecondsPerRun      float64  `json:"seconds_per_run"`
	HaloMegabytes      float64  `json:"halo_mb"` // between partitions in the last epoch: mean of the runs
	Runs               []result `json:"runs"`
}

// summarise is the row of an experiment after at least one run.
func summarise(e experiment, flags []string, runs []result) row {
	r := row{
		Config: e.config, Dataset: e.dataset.name, Model: e.model,
		Flags: strings.Join(flags, " "), Runs: runs,
	}
	n := float64(len(runs))
	for _, run := range runs {
		r.Mean += 100 * run.Test / n
		r.SecondsPerRun += run.Seconds / n
		r.HaloMegabytes += run.Communication.Halo.Bytes / 1e6 / n
	}
	if len(runs) > 1 {
		var squares float64
		for _, run := range runs {
			squares += (100*run.Test - r.Mean) * (100*run.Test - r.Mean)
		}
		r.Deviation = math.Sqrt(squares / (n - 1))
	}
	if e.published > 0 {
		difference := r.Mean - e.published
		r.Published, r.Difference = &e.published, &difference
	}
	if e.deviation > 0 {
		r.PublishedDeviation = &e.deviation
	}
	return r
}

// writeTable prints rows for a person, one line each.
func writeTable(w io.Writer, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "dataset\tmodel\ttest %, ours\tpublished\tdifference\ts/run\thalo, MB\tflags")
	for _, r := range rows {
		ours := fmt.Sprintf("%.2f (1)", r.Mean)
		if len(r.Runs) > 1 {
			ours = fmt.Sprintf("%.2f ± %.2f (%d)", r.Mean, r.Deviation, len(r.Runs))
		}
		published, difference := "-", "-"
		if r.Published != nil {
			published, difference = fmt.Sprintf("%.1f", *r.Published), fmt.Sprintf("%+.2f", *r.Difference)
		}
		if r.PublishedDeviation != nil {
			published += fmt.Sprintf(" ± %.1f", *r.PublishedDeviation)
		}
		halo := "-"
		if r.HaloMegabytes > 0 {
			halo = fmt.Sprintf("%.3g", r.HaloMegabytes)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.1f\t%s\t%s\n", r.Dataset, r.Model, ours, published, difference,
			r.SecondsPerRun, halo, cmp.Or(r.Flags, "-"))
	}
	return t.Flush()
}

// writeJSON writes rows for a program to path, whose folder is made if need be.
func writeJSON(path string, started time.Time, cpus int, rows []row) error {
	text, err := json.MarshalIndent(struct {
		Started time.Time `json:"started"`
		CPUs    int       `json:"cpus"`
		Rows    []row     `json:"rows"`
	}{started, cpus, rows}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
