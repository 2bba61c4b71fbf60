package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
)

// standIn, set in the environment, makes this test binary play weft.
const standIn = "REPRODUCE_TEST_STAND_IN"

func TestMain(m *testing.M) {
	log := os.Getenv(standIn)
	if log == "" {
		os.Exit(m.Run())
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, strings.Join(os.Args[1:], " "))
	}
	if err != nil {
		panic(err)
	}
	if os.Args[1] == "import" && strings.Contains(os.Args[3], "broken") {
		fmt.Fprintln(os.Stderr, "ind.broken: damaged")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "train":
		fmt.Println(
			`{"test": 0.81, "val": 0.8, "seed": 0, "epochs_run": 7, "peak_tensor_bytes": [5], "communication": {"halo": {"bytes": 2.5e6}}}`)
	case "smooth":
		fmt.Println(
			`{"before": {"test": {"accuracy": 0.81}}, "after": {"val": {"accuracy": 0.9}, "test": {"accuracy": 0.88}}}`)
	}
	os.Exit(0)
}

// TestConfigs holds configs/ and the table of experiments together: the same names, and the published figures
// and the flags of weft smooth in the comment.
func TestConfigs(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	require.NoError(t, err)
	want := map[string]experiment{}
	for _, e := range experiments {
		want[e.config] = e
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		e, ok := want[name]
		if !ok {
			t.Errorf("%s: no experiment runs it", file)
			continue
		}
		delete(want, name)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		phrases := []string{"No published figure"}
		if e.published > 0 {
			phrases[0] = figure("Published", e)
		}
		if s, ok := smoothings[name]; ok {
			phrases = append(phrases, "weft smooth", strings.Join(s.flags, " "))
			if s.published > 0 {
				phrases = append(phrases, figure("Correct & Smooth", e.smoothed(s)))
			}
		}
		for _, what := range phrases {
			assert.Contains(t, string(text), what, "%s: its comment does not say", file)
		}
	}
	for name := range want {
		t.Errorf("configs/%s.yaml: missing", name)
	}
	for name := range smoothings {
		if !slices.ContainsFunc(experiments, func(e experiment) bool { return e.config == name }) {
			t.Errorf("%s: a smoothing of no experiment", name)
		}
	}
}

// figure is how the comment of a configuration gives the published figure of e.
func figure(word string, e experiment) string {
	s := fmt.Sprintf("%s: %.1f", word, e.published)
	if e.deviation > 0 {
		s += fmt.Sprintf(" ± %.1f", e.deviation)
	}
	return s
}

func TestTable(t *testing.T) {
	gat := experiment{config: "cora-gat", dataset: cora, model: "GAT", published: 83, deviation: 0.7}
	mlp := experiment{config: "debian-mlp", dataset: debian, model: "perceptron"}
	rows := []row{
		summarise(gat, []string{"--precision", "bf16"},
			[]result{{Test: 0.82, Seconds: 1}, {Test: 0.84, Seconds: 2}}),
		summarise(mlp, nil, []result{{Test: 0.625, Seconds: 30}}),
	}
	var got bytes.Buffer
	require.NoError(t, writeTable(&got, rows))
	want := `dataset           model        test %, ours       published    difference   s/run   halo, MB   flags
Cora              GAT          83.00 ± 1.41 (2)   83.0 ± 0.7   +0.00        1.5     -          --precision bf16
Debian packages   perceptron   62.50 (1)          -            -            30.0    -          -
`
	assert.Equal(t, want, got.String())
	if text, err := json.Marshal(rows[1]); err != nil ||
		!strings.Contains(string(text), `"published":null,`) {
		t.Errorf("JSON of a row without a published figure: %s, %v", text, err)
	}
}

func TestChoose(t *testing.T) {
	chosen, err := choose("cora-gat,cora-gcn")
	if err != nil || len(chosen) != 2 || chosen[0].config != "cora-gcn" {
		t.Errorf("got %v, %v", chosen, err)
	}
	_, err = choose("cora-gcm")
	assert.ErrorContains(t, err, "cora-gcn", "an unknown name")
}

// TestCommands checks what weft is asked: one import for two models, one split for each seed.
func TestCommands(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "log")
	t.Setenv(standIn, log)
	touch(t, filepath.Join(folder, "npz", "coauthor_physics.npz"))
	p := &reproduction{
		weft: os.Args[0], data: folder, folder: "/tmp/w", seeds: 2,
		stores: map[*dataset]string{}, with: [][]string{nil, {"--parallel", "graph=2"}},
	}
	chosen, err := choose("cora-gcn,physics-gcn,physics-sage")
	require.NoError(t, err)
	rows, err := p.run(t.Context(), chosen)
	require.NoError(t, err)
	require.Len(t, rows, 4)
	if r := rows[3]; r.Flags != "--parallel graph=2" || r.HaloMegabytes != 2.5 || r.Mean < 80.99 ||
		r.Mean > 81.01 || r.Runs[1].EpochsRun != 7 || r.Runs[0].PeakTensorBytes[0] != 5 {
		t.Errorf("row %+v", r)
	}
	got, err := os.ReadFile(log)
	require.NoError(t, err)
	want := fmt.Sprintf(
		`import npz %s/npz/coauthor_physics.npz /tmp/w/Coauthor Physics --symmetrize --largest-component --split per-class=20,30 --splits 2
train /tmp/w/Coauthor Physics --config configs/physics-gcn.yaml --seed 0 --json --out /tmp/w/run-1 --split 0
train /tmp/w/Coauthor Physics --config configs/physics-gcn.yaml --seed 1 --json --out /tmp/w/run-2 --split 1
train /tmp/w/Coauthor Physics --config configs/physics-gcn.yaml --seed 0 --json --out /tmp/w/run-3 --parallel graph=2 --split 0
train /tmp/w/Coauthor Physics --config configs/physics-gcn.yaml --seed 1 --json --out /tmp/w/run-4 --parallel graph=2 --split 1
train /tmp/w/Coauthor Physics --config configs/physics-sage.yaml --seed 0 --json --out /tmp/w/run-5 --split 0
train /tmp/w/Coauthor Physics --config configs/physics-sage.yaml --seed 1 --json --out /tmp/w/run-6 --split 1
train /tmp/w/Coauthor Physics --config configs/physics-sage.yaml --seed 0 --json --out /tmp/w/run-7 --parallel graph=2 --split 0
train /tmp/w/Coauthor Physics --config configs/physics-sage.yaml --seed 1 --json --out /tmp/w/run-8 --parallel graph=2 --split 1
`, folder)
	assert.Equal(t, want, string(got))
}

// TestSmoothing: each run is smoothed after it was trained, and gives the figures of a row of its own.
func TestSmoothing(t *testing.T) {
	folder := t.TempDir()
	log := filepath.Join(folder, "log")
	t.Setenv(standIn, log)
	touch(t, filepath.Join(folder, "ogbn_products", "raw", "edge.csv.gz"))
	p := &reproduction{
		weft: os.Args[0], data: folder, folder: "/tmp/w", seeds: 2,
		stores: map[*dataset]string{}, with: [][]string{nil},
	}
	chosen, err := choose("ogbn-products-linear")
	require.NoError(t, err)
	rows, err := p.run(t.Context(), chosen)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	var got bytes.Buffer
	for i := range rows {
		rows[i].SecondsPerRun = 1
	}
	require.NoError(t, writeTable(&got, rows))
	table := `dataset         model                      test %, ours       published    difference   s/run   halo, MB   flags
ogbn-products   linear                     81.00 ± 0.00 (2)   47.7         +33.27       1.0     2.5        -
ogbn-products   linear, Correct & Smooth   88.00 ± 0.00 (2)   82.5 ± 0.0   +5.46        1.0     -          -
`
	assert.Equal(t, table, got.String())
	assert.Equal(t, .8, rows[0].Runs[1].Val, "validation: %v and smoothed %v", rows[0].Runs, rows[1].Runs)
	assert.Equal(t, .9, rows[1].Runs[1].Val, "validation: %v and smoothed %v", rows[0].Runs, rows[1].Runs)
	asked, err := os.ReadFile(log)
	require.NoError(t, err)
	want := fmt.Sprintf(`import ogb %s/ogbn_products /tmp/w/ogbn-products
train /tmp/w/ogbn-products --config configs/ogbn-products-linear.yaml --seed 0 --json --out /tmp/w/run-1
smooth /tmp/w/run-1 --json --correct-alpha 1 --scale 20 --smooth-alpha 0.9
train /tmp/w/ogbn-products --config configs/ogbn-products-linear.yaml --seed 1 --json --out /tmp/w/run-2
smooth /tmp/w/run-2 --json --correct-alpha 1 --scale 20 --smooth-alpha 0.9
`, folder)
	assert.Equal(t, want, string(asked))
}

func TestFailure(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(standIn, filepath.Join(folder, "log"))
	data := &dataset{"x", "DATA/log", "planetoid DATA/broken STORE", provided}
	broken := experiment{config: "x", dataset: data, seeds: 1}
	touch(t, filepath.Join(folder, "log"))
	p := &reproduction{
		weft: os.Args[0], data: folder, folder: folder, stores: map[*dataset]string{}, with: [][]string{nil},
	}
	_, err := p.run(t.Context(), []experiment{broken})
	if err == nil || !strings.HasPrefix(err.Error(), "x: ") ||
		!strings.HasSuffix(err.Error(), "exit status 2: ind.broken: damaged") {
		t.Errorf("got %v", err)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
}
