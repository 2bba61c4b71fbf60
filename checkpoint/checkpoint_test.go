package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/autograd"
	"weft/internal/alloctest"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// save writes a checkpoint with a file for each list of arrays.
func save(t *testing.T, path string, epoch int, workers ...[]Array) {
	t.Helper()
	f, err := OpenFolder(path)
	require.NoError(t, err)
	defer f.Close()
	var files []File
	for k, arrays := range workers {
		file, err := f.Write(epoch, k, arrays, map[string]string{"of": "test"})
		require.NoError(t, err)
		files = append(files, file)
	}
	require.NoError(t, f.Commit(epoch, files, map[string]int{"epoch": epoch}))
}

func open(t *testing.T, path string, epoch int) *Checkpoint {
	t.Helper()
	c, err := Read(path, epoch)
	if err == nil {
		err = errors.Join(c.Verify(0, 1), c.Open())
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, c.Close())
	})
	return c
}

// TestRowsOfAllVertices: a table of all vertices has more rows than are read at a time. Each row comes to its
// vertex.
func TestRowsOfAllVertices(t *testing.T) {
	const n = 5000
	want := make([]float32, n)
	for v := range want {
		want[v] = float32(v)
	}
	table := func(floats []float32) []Array {
		return []Array{{Name: "table", Shape: []int{n, 1}, Floats: floats, Rows: autograd.AllHere(n)}}
	}
	path := filepath.Join(t.TempDir(), "checkpoints")
	save(t, path, 1, table(want))
	got := make([]float32, n)
	require.NoError(t, open(t, path, 1).Load(table(got)))
	assert.Equal(t, want, got)
}

// TestRowsOfAnyDivision: the rows of two tables for vertices 0 … 4 have the value 10·table + vertex. They
// are written by two workers, and read by one, by two that divide them otherwise, and by one with none.
func TestRowsOfAnyDivision(t *testing.T) {
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	rows := func(ids ...int32) *autograd.RowSet { return autograd.RowsOf(team, ids, len(ids), 5, nil) }
	values := func(ids ...int32) (all []float32) {
		for table := range 2 {
			for _, v := range ids {
				all = append(all, float32(10*table)+float32(v), -1)
			}
		}
		return all
	}
	array := func(r *autograd.RowSet, floats []float32) []Array {
		return []Array{{Name: "table", Shape: []int{2, r.Here, 2}, Floats: floats, Rows: r}}
	}
	path := filepath.Join(t.TempDir(), "checkpoints")
	save(t, path, 3, array(rows(1, 4), values(1, 4)), array(rows(0, 2, 3), values(0, 2, 3)))
	c := open(t, path, 3)
	for _, ids := range [][]int32{nil, {0, 4}, {1, 2, 3}, {}} {
		r, want := rows(ids...), values(ids...)
		if ids == nil {
			r, want = autograd.AllHere(5), values(0, 1, 2, 3, 4)
		}
		got := array(r, make([]float32, 4*r.Here))
		if err := c.Load(got); err != nil || !slices.Equal(got[0].Floats, want) {
			t.Errorf("vertices %v: %v, %v, want %v", ids, got[0].Floats, err, want)
		}
	}
	r := autograd.RowsOf(team, []int32{3, 7}, 2, 8, nil)
	if err := c.Load(array(r, make([]float32, 8))); err == nil ||
		!strings.Contains(err.Error(), "1 of the 2 rows") {
		t.Errorf("a vertex that nobody wrote: %v", err)
	}
	wide := []Array{{
		Name: "table", Shape: []int{2, 5, 3}, Floats: make([]float32, 30),
		Rows: autograd.AllHere(5),
	}}
	if err := c.Load(wide); err == nil || !strings.Contains(err.Error(), "[2 2 2]") {
		t.Errorf("other columns: %v", err)
	}
}

// TestLoadingTakesLittle: loading rows of listed vertices from several files takes memory only for the lists
// of the files, and none for a table of the rows that this worker needs.
func TestLoadingTakesLittle(t *testing.T) {
	const n, files = 1 << 16, 4
	team := kernel.NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	var all []int32
	var workers [][]Array
	for k := range files {
		var ids []int32
		for v := int32(k); v < n; v += files {
			ids = append(ids, v)
		}
		values := make([]float32, len(ids))
		for i, v := range ids {
			values[i] = float32(v)
		}
		workers = append(workers,
			[]Array{
				{
					Name: "table", Shape: []int{len(ids), 1}, Floats: values,
					Rows: autograd.RowsOf(team, ids, len(ids), n, nil),
				},
			})
	}
	for v := range int32(n) {
		all = append(all, v)
	}
	path := filepath.Join(t.TempDir(), "checkpoints")
	save(t, path, 1, workers...)
	c, got := open(t, path, 1), make([]float32, n)
	into := []Array{
		{Name: "table", Shape: []int{n, 1}, Floats: got, Rows: autograd.RowsOf(team, all, n, n, nil)},
	}
	took := alloctest.Bytes(func() {
		require.NoError(t, c.Load(into))
	})
	for v, x := range got {
		if x != float32(v) {
			t.Fatalf("row %d is %v", v, x)
		}
	}
	if took > 40*n {
		t.Errorf("%d bytes were allocated for %d rows of 4 bytes", took, n)
	}
}

// TestArrays: a matrix and a count are loaded, whichever worker wrote them. Arrays of that name with another
// shape or kind are refused.
func TestArrays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	seven := int64(7)
	save(t, path, 12, []Array{{Name: "m", Shape: []int{1, 2}, Floats: []float32{3, 4}}},
		[]Array{{Name: "n", Count: &seven}})
	c, n, m := open(t, path, 12), int64(0), make([]float32, 2)
	if err := c.Load([]Array{
		{Name: "m", Shape: []int{1, 2}, Floats: m},
		{Name: "n", Count: &n},
	}); err != nil || n != 7 || m[0] != 3 || m[1] != 4 {
		t.Errorf("%v, %v, %v", m, n, err)
	}
	if c.Metadata(1)["of"] != "test" || c.Metadata(2) != nil {
		t.Errorf("metadata %v, %v", c.Metadata(1), c.Metadata(2))
	}
	if names := c.Names("m"); !slices.Equal(names, []string{"m"}) || c.Shape("m")[1] != 2 ||
		c.Shape("x") != nil {
		t.Errorf("names %v", names)
	}
	for want, a := range map[string]Array{
		"holds no x": {Name: "x", Shape: []int{1, 2}, Floats: m},
		"[1 2]":      {Name: "m", Shape: []int{2, 1}, Floats: m}, `"m"`: {Name: "m", Count: &n},
	} {
		if err := c.Load([]Array{a}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestOddBFloat16s: an odd number of bfloat16s keeps its last one, in a snapshot and in a file, and so does
// the array after it.
func TestOddBFloat16s(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	var s Snapshot
	copies := s.Take(memory, []Array{
		{Name: "a", Shape: []int{1, 3}, BFloat16s: []uint16{0x3f80, 0x4000, 0x4040}},
		{Name: "b", Shape: []int{1, 1}, BFloat16s: []uint16{0x4080}},
		{Name: "c", Shape: []int{2}, Floats: []float32{5, 6}},
	})
	if s.Bytes() != 4*(2+1+2) {
		t.Errorf("a snapshot of %d bytes, want 20", s.Bytes())
	}
	path := filepath.Join(t.TempDir(), "checkpoints")
	save(t, path, 1, copies)
	got := []Array{
		{Name: "a", Shape: []int{1, 3}, BFloat16s: make([]uint16, 3)},
		{Name: "b", Shape: []int{1, 1}, BFloat16s: make([]uint16, 1)},
		{Name: "c", Shape: []int{2}, Floats: make([]float32, 2)},
	}
	require.NoError(t, open(t, path, 1).Load(got))
	if a, b, c := got[0].BFloat16s, got[1].BFloat16s, got[2].Floats; !slices.Equal(a,
		[]uint16{0x3f80, 0x4000, 0x4040}) || b[0] != 0x4080 || !slices.Equal(c, []float32{5, 6}) {
		t.Errorf("%x, %x, %v", a, b, c)
	}
	s.Release()
}

// TestSnapshot: a snapshot stays as it was when the arrays change, and its memory is used again.
func TestSnapshot(t *testing.T) {
	memory := tensor.NewMeter()
	defer memory.Close()
	n, arrays := int64(1), []Array{
		{Name: "m", Shape: []int{2}, Floats: []float32{1, 2}},
		{Name: "e", Shape: []int{0}},
		{Name: "n"},
	}
	arrays[2].Count = &n
	var s Snapshot
	copies := s.Take(memory, arrays)
	n, arrays[0].Floats[0] = 5, 5
	if *copies[2].Count != 1 || copies[0].Floats[0] != 1 || len(copies[1].Floats) != 0 || s.Bytes() != 8 {
		t.Errorf("%v of %d bytes", copies, s.Bytes())
	}
	taken := memory.LiveTensors()
	if s.Take(memory, arrays); memory.LiveTensors() != taken {
		t.Error("a second snapshot takes memory")
	}
	if s.Release(); memory.LiveTensors() != 0 {
		t.Error("the snapshot is not released")
	}
}

// TestFolder: the last two checkpoints stay. An unfinished one does not count, and is removed when the run
// continues.
func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "checkpoints")
	arrays := []Array{{Name: "m", Shape: []int{1}, Floats: []float32{1}}}
	for epoch := 1; epoch <= 4; epoch++ {
		save(t, path, epoch, arrays)
	}
	f, err := OpenFolder(path)
	require.NoError(t, err)
	defer f.Close()
	file, err := f.Write(5, 0, arrays, nil)
	require.NoError(t, err)
	if got, err := Epochs(path); err != nil || !slices.Equal(got, []int{4, 3}) {
		t.Errorf("checkpoints %d, %v", got, err)
	}
	missing := File{Name: fileName(1), Bytes: 3}
	if err := f.Commit(5, []File{file, missing}, nil); err == nil ||
		!strings.Contains(err.Error(), "shared file system") {
		t.Errorf("a file that is not there: %v", err)
	}
	require.NoError(t, f.ContinueFrom(4))
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 2 || entries[0].Name() != "epoch-000000003" {
		t.Errorf("left %v, %v", entries, err)
	}
	save(t, path, 3, arrays) // takes the place of a damaged one
	if got, err := Epochs(path); err != nil || !slices.Equal(got, []int{4, 3}) {
		t.Errorf("checkpoints %d, %v", got, err)
	}
	if got, err := Epochs(filepath.Join(path, "nosuch")); err != nil || len(got) != 0 {
		t.Errorf("checkpoints %d of no folder, %v", got, err)
	}
	file.Name = filepath.Join(path, "file")
	require.NoError(t, os.WriteFile(file.Name, nil, 0o666))
	if got, err := Epochs(file.Name); err == nil {
		t.Errorf("checkpoints %d of what cannot be listed", got)
	}
}
