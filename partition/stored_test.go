package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/npy"
	"weft/internal/npy/npytest"
	"weft/internal/refusal"
	"weft/internal/require"
)

// What is wrong with partitions that are there: they are stale, cut, or damaged.

// Truncating a mapped share must give an error.
func TestShareCutInUse(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 5000, 9000, kinds["dense"], 3))
	name := write(t, store, g, divided(t, g, Options{K: 2, Method: Range}))
	s, err := Open(store, find(t, store, 2, ""), 0)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, os.Truncate(filepath.Join(store, "partitions", name, "0", "features.npy"), 128))
	err = s.Guard(func() error {
		sum := float32(0)
		for _, x := range s.Types[0].Features.Dense {
			sum += x
		}
		return fmt.Errorf("all was read: %v", sum)
	})
	if err == nil || !strings.Contains(err.Error(), "was cut") ||
		!strings.HasSuffix(err.Error(), "partition the graph again") {
		t.Errorf("error %v", err)
	}
}

// Truncating the edges of a graph while an assignment is measured must give an error.
func TestGraphCutWhileMeasured(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 5000, 9000, kinds["dense"], 3))
	a := divided(t, g, Options{K: 2, Method: Range})
	mapped, err := graph.Open(store)
	require.NoError(t, err)
	defer mapped.Close()
	require.NoError(t, os.Truncate(filepath.Join(store, "indices.npy"), 128))
	_, _, err = a.work(mapped)
	assert.ErrorContains(t, err, "was cut")
}

// Partitions of a store that has changed are refused; those of a copied store are not.
func TestStale(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
	features := filepath.Join(store, "features.npy")
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(features, later, later))
	find(t, store, 2, "")
	changed := slices.Clone(g.Types[0].Features.Dense)
	changed[7]++
	require.NoError(t, npytest.WriteFile(features, changed, 20, 5))
	_, _, err := Find(store, 2, "")
	var old *OutOfDate
	if want := features + " changed after it was cut; partition again"; !refusal.Is(err) ||
		!strings.HasSuffix(err.Error(), want) || !errors.As(err, &old) || old.K != 2 || old.Method != Random {
		t.Errorf("error %v; want %q", err, want)
	}
	if all, err := List(store); err != nil || len(all) != 1 {
		t.Errorf("listed %v, error %v", all, err)
	}
	aside := features + ".aside"
	require.NoError(t, os.Rename(features, aside))
	_, _, err = Find(store, 2, "")
	assert.EqualRefusal(t, err, features+": missing, though graph.json lists it; import it again")
	require.NoError(t, os.Rename(aside, features))
	other, err := graph.Open(store)
	require.NoError(t, err)
	defer other.Close()
	write(t, store, other, divided(t, other, Options{K: 2, Method: Random}))
	find(t, store, 2, "")
}

// TestStaleOfDGL: partitions that DGL made come from an import, not from weft partition.
func TestStaleOfDGL(t *testing.T) {
	old := OutOfDate{Store: "papers", Changed: "graph.json", Name: "dgl-4", K: 4, Method: DGL}
	assert.Equal(t, "papers/partitions/dgl-4: out of date, as papers/graph.json changed "+
		"after it was cut; import the graph again", old.Error())
}

// restorer copies a directory. The function that it returns restores it.
func restorer(t *testing.T, dir string) (restore func()) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	require.NoError(t, os.CopyFS(kept, os.DirFS(dir)))
	return func() {
		t.Helper()
		require.NoError(t, errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(kept))))
	}
}

// changes replaces partition.json by a changed JSON object.
func changes(change func(d map[string]any)) func(dir string) error {
	return func(dir string) error {
		path := filepath.Join(dir, descriptionFile)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var d map[string]any
		if err := json.Unmarshal(text, &d); err != nil {
			return err
		}
		change(d)
		if text, err = json.Marshal(d); err != nil {
			return err
		}
		return os.WriteFile(path, text, 0o666)
	}
}

func TestDamagedDescription(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	dir := filepath.Join(store, "partitions", write(t, store, g, divided(t, g, Options{K: 2, Method: Range})))
	d, restore := find(t, store, 2, ""), restorer(t, dir)
	for want, damage := range map[string]func(dir string) error{
		"no such file": func(dir string) error { return os.Remove(filepath.Join(dir, descriptionFile)) },
		"damaged": func(dir string) error {
			return os.Truncate(filepath.Join(dir, descriptionFile), 50)
		},
		"format version 9": changes(func(d map[string]any) { d["format"] = 9 }),
		`"mood"`:           changes(func(d map[string]any) { d["mood"] = 1 }),
		"0 partitions":     changes(func(d map[string]any) { d["k"] = 0 }),
		"one entry":        changes(func(d map[string]any) { d["vertices"] = []int{20} }),
		"for each":         changes(func(d map[string]any) { d["cut"] = [][]int{{1, 2}, {3}} }),
		"more than there":  changes(func(d map[string]any) { d["vertices"] = []int{20, 20} }),
		"-5 vertices":      changes(func(d map[string]any) { d["vertices"] = []int{-5, 25} }),
		"the graph 20":     changes(func(d map[string]any) { d["vertices"] = []int{5, 5} }),
		"to 99 rows":       changes(func(d map[string]any) { d["halo_rows"] = [][]int{{0, 99}, {1, 0}} }),
		"edges are cut":    changes(func(d map[string]any) { d["cut_edges"] = 1 }),
		"by their sources": changes(func(d map[string]any) { d["cut"] = [][]int{{1, 2}, {3, 4}} }),
		"come from 1":      changes(func(d map[string]any) { d["cut"] = [][]int{{1, -2}, {3, 4}} }),
		`"other"`:          changes(func(d map[string]any) { d["name"] = "other" }),
	} {
		restore()
		require.NoError(t, damage(dir))
		_, listed := List(store)
		_, _, found := Find(store, 2, "")
		_, opened := Open(store, d, 0)
		for _, err := range []error{listed, found, opened} {
			assert.Refused(t, err, filepath.Join(dir, descriptionFile))
			assert.Refused(t, err, want)
			assert.Refused(t, err, "partition the graph again")
		}
	}
}

// TestDamagedShare damages each file of a share in turn.
func TestDamagedShare(t *testing.T) {
	t.Parallel()
	nan := float32(math.NaN())
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	dir := filepath.Join(store, "partitions", write(t, store, g, divided(t, g, Options{K: 2, Method: Range})),
		"1")
	d, restore := find(t, store, 2, ""), restorer(t, dir)
	s, err := Open(store, d, 1)
	require.NoError(t, err)
	defer s.Close()
	edges, outs := len(s.Edges.Relations[0].In.Sources), len(s.Edges.Relations[0].Out.Sources)
	array := func(file string, data any, shape ...int) func() error {
		return func() error { return npytest.WriteFile(filepath.Join(dir, file), data, shape...) }
	}
	replaced := func(file string, ids []int32, at int, id int32) func() error {
		ids = slices.Clone(ids)
		ids[at] = id
		return array(file, ids)
	}
	text := func(old, changed string) func() error {
		return func() error {
			path := filepath.Join(dir, "graph.json")
			all, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(all), old) {
				err = fmt.Errorf("no %s in %s", old, all)
			}
			return errors.Join(err,
				os.WriteFile(path, []byte(strings.Replace(string(all), old, changed, 1)), 0o666))
		}
	}
	wide := func(change func(ids []int64)) []int64 {
		ids := make([]int64, len(s.Types[0].IDs))
		for r, id := range s.Types[0].IDs {
			ids[r] = int64(id)
		}
		change(ids)
		return ids
	}
	for _, test := range []struct {
		damage     func() error
		file, want string
	}{
		{array("vertices.npy", wide(func(ids []int64) {
			ids[9] = 20
		})), "vertices.npy", "id 20 is outside the range of 20"},
		{array("vertices.npy", wide(func(ids []int64) {
			ids[3] += 1 << 32
		})), "vertices.npy", "is outside the range of 20"},
		{array("vertices.npy", wide(func(ids []int64) { ids[3] = ids[4] })), "vertices.npy", "stands twice"},
		{array("vertices.npy", wide(func(ids []int64) {
			ids[3], ids[4] = ids[4], ids[3]
		})), "vertices.npy", "ids ascend"},
		{array("vertices.npy", wide(func([]int64) {})[:9]), "vertices.npy", "[9]"},
		{
			replaced("indices.npy", s.Edges.Relations[0].In.Sources, edges-1, 20), "indices.npy",
			"id 20 is outside the range of 20",
		},
		{replaced("indices.npy", s.Edges.Relations[0].In.Sources, 0, -1), "indices.npy", "id -1"},
		{array("indptr.npy", make([]int64, 11)), "indptr.npy", "ends at 0"},
		{array("edge_weight.npy", append(make([]float32, edges-1), nan)), "edge_weight.npy", "is NaN"},
		{array("edge_features.npy", make([]float32, edges), edges, 1), "edge_features.npy", "shape"},
		{
			replaced("out_indices.npy", s.Edges.Relations[0].Out.Sources, outs-1, 20), "out_indices.npy",
			"out-neighbours of vertex",
		},
		{array("out_indptr.npy", make([]int64, 11)), "out_indptr.npy", "ends at 0"},
		{array("out_weight.npy", append(make([]float32, outs-1), nan)), "out_weight.npy", "is NaN"},
		{
			array("features.npy", append(make([]float32, 49), nan), 10, 5), "features.npy",
			"vertex 9 has the value NaN",
		},
		{array("labels.npy", slices.Repeat([]int64{3}, 10)), "labels.npy", "class 3"},
		{array("train.npy", []int64{10}), "train.npy", "train.npy"},
		{func() error {
			return os.Remove(filepath.Join(dir, "out_indices.npy"))
		}, "out_indices.npy", "missing"},
		{func() error {
			return os.Truncate(filepath.Join(dir, "features.npy"), 200)
		}, "features.npy", "cut short"},
		{func() error { return os.Remove(filepath.Join(dir, "graph.json")) }, "graph.json", "missing"},
		{text(`"type": "whole"`, `"type": "half"`), "graph.json", "does not describe a share"},
		{
			text(`"source": "whole"`, `"source": "vertex"`), "graph.json",
			`relation "edge" joins "vertex" to "vertex", and the edges out "vertex" to "whole"`,
		},
		{text(`"count": 20`, `"count": 9`), "graph.json", `10 vertices "vertex" of 9 "whole"`},
		{text(`"count": 20`, `"count": 21`), "", "21 vertices in the whole graph, where " +
			"partition.json says 20"},
	} {
		restore()
		require.NoError(t, test.damage())
		got, err := Open(store, d, 1)
		if err == nil {
			t.Errorf("%s, %s: opened; closing it: %v", test.file, test.want, got.Close())
		} else if !refusal.Is(err) || !strings.HasPrefix(err.Error(), filepath.Join(dir, test.file)+": ") ||
			!strings.Contains(err.Error(), test.want) ||
			!strings.HasSuffix(err.Error(), "partition the graph again") {
			t.Errorf("%s: error %v; want %q", test.file, err, test.want)
		}
	}
}

// TestCheck: all stored files must be consistent, also the assignment, which no run reads.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, types := range []bool{false, true} {
		g := made(t, 20, 60, kinds["plain"], 3)
		if types {
			relation, err := graph.NewBipartite(5, 20,
				graph.Edges{Source: []int32{4, 0, 1}, Target: []int32{19, 3, 3}})
			require.NoError(t, err)
			relation.Source, relation.Name, relation.Target = "b", "to", "a"
			r := &g.Relations[0]
			r.Source, r.Name, r.Target = "a", "in", "a"
			g.Types[0].Type = "a"
			g.Types = append(g.Types, graph.VertexType{Type: "b", Frame: graph.Frame{Count: 5}})
			g.Relations = append(g.Relations, relation)
		}
		store, g := stored(t, g)
		name := write(t, store, g, divided(t, g, Options{K: 2, Method: Random}))
		require.NoError(t, Check(store, find(t, store, 2, ""), nil))
		dir := filepath.Join(store, "partitions", name)
		path := filepath.Join(dir, assignmentFile)
		mapped, err := npy.Map(path)
		require.NoError(t, err)
		defer mapped.Close()
		view, err := mapped.Int32s()
		require.NoError(t, err)
		right := slices.Clone(view)
		flipped := slices.Clone(right)
		flipped[3] = 1 - flipped[3]
		restore := restorer(t, dir)
		for want, damage := range map[string]func() error{
			"no such file or directory": func() error { return os.Remove(path) },
			"is not the assignment that the partitions were cut by": func() error {
				return npytest.WriteFile(path, flipped)
			},
			"not the assignment": func() error {
				return npytest.WriteFile(path, right[1:])
			},
			"it ends inside the .npy header": func() error {
				return os.WriteFile(path, []byte("junk"), 0o600)
			},
			"not an integer": func() error {
				return npytest.WriteFile(path, make([]float32, len(right)))
			},
		} {
			restore()
			if err := errors.Join(os.Remove(path), damage()); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := Check(store, find(t, store, 2, ""), nil); !refusal.Is(err) ||
				!strings.HasPrefix(err.Error(), path+": ") ||
				!strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), partitionAgain) {
				t.Errorf("error %v, want %q", err, want)
			}
			assert.RefusedFor(t, placesOf(t, store), path+": ", want, "places")
		}
		restore()
		require.NoError(t, placesOf(t, store))
		file := filepath.Join(dir, "0", "vertices.npy")
		if types {
			file = filepath.Join(dir, "0", "vertices", "b", "vertices.npy")
		}
		ids, err := npy.Map(file)
		require.NoError(t, err)
		defer ids.Close()
		moved, err := ids.Int64s()
		require.NoError(t, err)
		moved = slices.Clone(moved)
		for k := len(moved) - 1; ; k-- { // to the next vertex of the other partition
			if next := moved[k] + 1; int(next) < g.Types[len(g.Types)-1].Count &&
				!slices.Contains(moved, next) {
				moved[k] = next
				break
			}
		}
		require.NoError(t, errors.Join(os.Remove(file), npytest.WriteFile(file, moved)))
		assert.Refused(t, Check(store, find(t, store, 2, ""), nil),
			"which assignment.npy gives to another partition; "+partitionAgain)
	}
}

// TestCheckOfVertex0: a share that has vertex 0 of another partition is noticed.
func TestCheckOfVertex0(t *testing.T) {
	t.Parallel()
	store, g := stored(t, made(t, 20, 60, kinds["dense"], 3))
	name := write(t, store, g, divided(t, g, Options{K: 2, Method: Range}))
	path := filepath.Join(Directory(store, name), "1", "vertices.npy")
	ids := make([]int64, 10) // 0, 11, … 19 instead of 10, 11, … 19
	for i := 1; i < 10; i++ {
		ids[i] = int64(10 + i)
	}
	require.NoError(t, errors.Join(os.Remove(path), npytest.WriteFile(path, ids)))
	assert.Refused(t, Check(store, find(t, store, 2, ""), nil),
		"1: has vertex 0, which assignment.npy gives to another partition")
}
