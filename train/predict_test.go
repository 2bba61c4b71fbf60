package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/graph"
)

// TestPredictWithoutLabels predicts on a graph that has neither labels nor a split: the weights know the
// number of classes.
func TestPredictWithoutLabels(t *testing.T) {
	g := tangled(t)
	for name, o := range networks() {
		t.Run(name, func(t *testing.T) {
			r := run(t, g, o)
			bare := *g
			bare.Labels, bare.Splits = graph.Labels{}, nil
			p, err := (&Job{Graph: &bare, Options: o}).Predict(context.Background(), r.Weights, WithEmbeddings)
			if err != nil {
				t.Fatal(err)
			}
			if p.Classes != g.Labels.Classes || !slices.Equal(p.Logits, r.Logits) {
				t.Errorf("%d classes, other logits than with labels", p.Classes)
			}
		})
	}
}

// TestPredictOverflows: predictions that are not finite are none, on any number of workers.
func TestPredictOverflows(t *testing.T) {
	g, o := tangled(t), networks()["gin"]
	o.Norm = "none"
	weights := run(t, g, o).Weights
	for _, w := range weights {
		for i := range w.Float32 {
			w.Float32[i] = 1e30
		}
	}
	for _, j := range []*Job{{Graph: g, Options: o}, divided(t, g, o, 2, nil)} {
		j.OnLogits = func(Rows) error { t.Error("logits are passed on"); return nil }
		_, err := j.Predict(context.Background(), weights, Logits)
		var common *Common
		if !errors.As(err, &common) || !strings.HasPrefix(err.Error(), "the weights give values that are not finite") {
			t.Errorf("got %v", err)
		}
	}
}

// TestFileCut truncates a file of the store while a run uses it.
func TestFileCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := tangled(t).Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"features.npy", "labels.npy", "indices.npy"} {
		t.Run(file, func(t *testing.T) {
			g, err := graph.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			path := filepath.Join(dir, file)
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { check(t, os.WriteFile(path, whole, 0o666)) })
			cut := func() { check(t, os.Truncate(path, 64)) }
			o := networks()["sage"]
			job := &Job{Graph: g, Options: o}
			if file == "labels.npy" { // read in every evaluation
				job.OnEpoch = func(Epoch) { cut() }
			} else {
				cut()
			}
			if _, err := job.Run(context.Background()); err == nil || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want an error that names the store", err)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
