package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"weft/graph/generate"
	"weft/internal/require"
	"weft/train"
	"weft/train/metric"
)

// BenchmarkLive: the processor time of an epoch with the live page, which another process reads, and without.
// Epochs of one run have it and do not have it in turns of 64, so that what else the machine does falls on
// both: cpu-ms/epoch is the median of the turns without, %more that of the differences between neighbours,
// and %lower and %upper are their quartiles.
func BenchmarkLive(b *testing.B) {
	const turn = 64
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 3000, Degree: 10, Features: 100, Classes: 7, Seed: 3,
	})
	require.NoError(b, err)
	l, err := newLive(0)
	require.NoError(b, err)
	l.begin("run")
	reader := exec.Command("curl", "--silent", "--no-buffer", l.url()+"events")
	if err := reader.Start(); err != nil {
		l.close()
		b.Skip(err)
	}
	defer func() { l.close(); _ = reader.Wait() }()
	spent := func() time.Duration {
		var use syscall.Rusage
		require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
		return time.Duration(use.Utime.Nano() + use.Stime.Nano())
	}
	var turns []float64 // milliseconds an epoch; without and with
	before := spent()
	job := &train.Job{Graph: g, Dataset: "sbm", Options: train.Defaults()}
	job.Options.Epochs, job.Options.Threads = (2*b.N+2)*turn, 1
	job.OnEpoch = func(e train.Epoch) {
		if e.Epoch/turn%2 == 1 {
			l.epoch(e)
		}
		if e.Epoch%turn == turn-1 {
			now := spent()
			turns, before = append(turns, (now-before).Seconds()*1e3/turn), now
		}
	}
	_, err = job.Run(b.Context())
	require.NoError(b, err)
	var without, more []float64
	for k := 2; k+1 < len(turns); k += 2 { // the first ones warm up
		without, more = append(without, turns[k]), append(more, 100*(turns[k+1]/turns[k]-1))
	}
	slices.Sort(without)
	slices.Sort(more)
	b.ReportMetric(without[len(without)/2], "cpu-ms/epoch")
	for k, unit := range []string{"%lower", "%more", "%upper"} {
		b.ReportMetric(more[len(more)*(k+1)/4], unit)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkLiveEpoch: what an epoch adds to the live page, and its text for one browser.
func BenchmarkLiveEpoch(b *testing.B) {
	l, err := newLive(0)
	require.NoError(b, err)
	defer l.close()
	l.begin("run")
	e := train.Epoch{
		Epochs: 1 << 30, Loss: .51234, LR: .01, Metric: "accuracy", Evaluated: true,
		Scores: metric.Scores{Train: .7, Val: .5, Test: .6, ValLoss: 1.5}, Seconds: .25,
	}
	for b.Loop() {
		e.Epoch++
		l.epoch(e)
		_, err := json.Marshal(e)
		require.NoError(b, err)
	}
}
