package train_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/checkpoint"
	"weft/graph"
	"weft/graph/generate"
	"weft/graph/npz"
	"weft/graph/pyg"
	"weft/graph/streamed/streamedtest"
	"weft/graph/tables"
	"weft/internal/require"
	"weft/nn"
	"weft/partition"
	"weft/train"
	"weft/train/rundir"
	"weft/train/setting"
)

// TestDamaged cuts each file of a store, of its partitions, of a run and of its checkpoint in half, and files
// of other programs. Whoever reads it says that a file is damaged. A request for a file that is not there is
// refused as well, and nothing is damaged.
func TestDamaged(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	store, run := filepath.Join(dir, "store"), filepath.Join(dir, "run")
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 300, Degree: 6, Features: 5, Classes: 3, Seed: 3,
	})
	require.NoError(t, err)
	a, err := partition.Assign(ctx, g, partition.Options{K: 2, Method: "random"})
	if err == nil {
		err = g.Write(store)
	}
	require.NoError(t, err)
	stored, err := graph.Open(store)
	require.NoError(t, err)
	defer stored.Close()
	_, err = partition.Write(store, stored, a, nil)
	require.NoError(t, err)
	d, found, err := partition.Find(store, 2, "random")
	if err != nil || !found {
		t.Fatal(found, err)
	}
	job := train.Job{
		Graph: g, Options: train.Defaults(),
		Checkpoints: &train.Checkpoints{Path: filepath.Join(run, rundir.Checkpoints)},
	}
	job.Options.Model, job.Options.Epochs, job.Options.CheckpointEvery = "gcn", 2, setting.Interval{Epochs: 1}
	record, err := rundir.New(run, time.Now(), &job, "v1", store)
	require.NoError(t, err)
	result, err := record.Record(ctx, &job, nil, "v1")
	require.NoError(t, err)
	r := rundir.NewRun("v1", store, time.Now(), &job, result)
	require.NoError(t, record.Finish(&r))
	for name, content := range map[string]string{
		"e.csv": "0,1\n1,2\n", "y.npy": "\x93NUMPY\x01\x00v\x00{'descr': '<i8', ",
		"e.csv.gz": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
		"g.npz":    "PK\x03\x04" + strings.Repeat("\x00", 60), "g.pt": "PK\x03\x04" +
			strings.Repeat("\x00", 60),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	opened := func(g *graph.Graph, err error) error {
		if err == nil {
			err = g.Close()
		}
		return err
	}
	list := func(path, labels string) (*graph.Graph, error) {
		s, err := tables.Open(tables.Options{Edges: []string{path}, Beside: tables.Beside{Labels: labels}})
		require.NoError(t, err)
		return s.Read()
	}
	read := func(path string) error {
		switch {
		case strings.HasPrefix(path, filepath.Join(store, partition.Folder)):
			return partition.Check(store, d, nil)
		case strings.HasPrefix(path, store):
			return opened(graph.Open(store))
		case strings.HasPrefix(path, job.Checkpoints.Path):
			epoch := 1
			if strings.HasSuffix(filepath.Dir(path), "2") {
				epoch = 2
			}
			c, err := checkpoint.Read(job.Checkpoints.Path, epoch)
			if err == nil {
				err = c.Verify(0, 1)
			}
			return err
		}
		switch filepath.Base(path) {
		case "model.safetensors":
			_, err := nn.ReadState(path)
			return err
		case "predictions.npy":
			_, _, err := rundir.ReadPredictions(run)
			return err
		case "state.json":
			_, err := rundir.ReadState(run)
			return err
		case "run.json":
			_, _, _, err := rundir.Read(run)
			return err
		case "profile.json":
			_, err := rundir.ReadProfile(run)
			return err
		case "y.npy":
			return opened(list(in("e.csv"), path))
		case "e.csv.gz":
			return opened(list(path, ""))
		case "g.npz":
			return opened(streamedtest.Read(npz.Open(path, npz.Options{})))
		case "g.pt":
			return opened(streamedtest.Read(pyg.Open(path, pyg.Options{})))
		}
		return nil
	}
	tried := 0
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch name := e.Name(); {
		case err != nil || e.IsDir() || name == "e.csv" || name == "run.yaml" || name == "metrics.jsonl" ||
			name == "checked.json":
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text[:len(text)*2/3], 0o666); err != nil {
			return err
		}
		if err := read(path); !train.Damaged(err) || !train.Refused(err) {
			t.Errorf("%s is cut: %v", path, err)
		}
		tried++
		return os.WriteFile(path, text, 0o666)
	})
	if err != nil || tried < 20 {
		t.Errorf("%d files, %v", tried, err)
	}
	if _, err := rundir.DecodeCurve(strings.NewReader("{}\n{\"epoch\":\n")); !train.Damaged(err) {
		t.Errorf("a curve: %v", err)
	}
	_, _, _, missing := rundir.Read(in("nosuch"))
	for name, err := range map[string]error{
		"a store":         opened(graph.Open(in("nosuch"))),
		"a list of edges": opened(list(in("nosuch"), "")), "a run": missing,
		"an option": func() error {
			_, err := (&train.Job{Graph: g}).Run(ctx)
			return err
		}(),
		"another error": errors.New("damaged"),
	} {
		if train.Damaged(err) || err == nil {
			t.Errorf("%s: %v is of a damaged file", name, err)
		}
	}
}
