package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/rundir"
)

// TestSplitOfARun: evaluate and smooth measure a run on its own split, and on the one that --split names,
// also where that is the first and the run's is not.
func TestSplitOfARun(t *testing.T) {
	o := generate.Default(generate.SBM)
	o.Vertices, o.Degree, o.Features, o.Classes = 120, 4, 5, 3
	g, err := generate.Graph(o)
	require.NoError(t, err)
	require.NoError(t, g.MakeSplits("random:30/30/40", 2, 5))
	store, run := filepath.Join(t.TempDir(), "g"), filepath.Join(t.TempDir(), "run")
	require.NoError(t, g.Write(store))
	runWeft(t, "train", store, "--split", "1", "--epochs", "2", "--threads", "1", "--out", run)
	rows, _, err := rundir.ReadPredictions(run)
	require.NoError(t, err)
	var want [2]map[string]map[string]any
	for split := range want {
		want[split] = map[string]map[string]any{}
		for part, vertices := range g.Types[0].Splits[split].Parts() {
			e, err := metric.Evaluate(rows, &g.Types[0].Labels, *vertices)
			require.NoError(t, err)
			want[split][[]string{"train", "val", "test"}[part]] = asJSON[map[string]any](t, &e)
		}
	}
	if cmp.Equal(want[0], want[1]) {
		t.Fatal("both splits measure the same")
	}
	for flags, split := range map[string]int{"": 1, "--split=0": 0, "--split=1": 1} {
		evaluated := printed[map[string]map[string]any](t,
			append([]string{"evaluate", run, "--json"}, strings.Fields(flags)...)...)
		assert.Equal(t, want[split], evaluated, "evaluate %s", flags)
		smoothed := printed[map[string]map[string]map[string]any](t,
			append([]string{
				"smooth", run, "--smooth-rounds", "1", "--json",
				"--method", "label-propagation", "--smooth-alpha", "0.5",
			}, strings.Fields(flags)...)...)
		assert.Equal(t, want[split], smoothed["before"], "smooth %s, before", flags)
		// Half of the label that is spread to a vertex is its own.
		assert.Equal(t, any(1.0), smoothed["after"]["train"]["accuracy"], "smooth %s, known labels", flags)
	}
}

// printed is the JSON that a command prints, which must work.
func printed[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	root, started := newRoot()
	var out bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(os.Stderr)
	require.Equal(t, 0, execute(root, started), "weft %q: status", args)
	require.NoError(t, json.Unmarshal(out.Bytes(), &v), "weft %q printed %s", args, &out)
	return v
}

// asJSON returns a value as it is read from its JSON.
func asJSON[T any](t *testing.T, value any) (v T) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	require.NoError(t, err)
	return v
}
