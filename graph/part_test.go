package graph

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/atomicfile"
	"weft/internal/require"
)

// part makes a Part of a larger graph from dense() or sparse(). Its edges have sources that are not its own
// vertices.
func part(g *Graph) *Part {
	g.Types[0].Names = nil
	n := g.Vertices()
	sources := make([]int32, len(g.Relations[0].Sources))
	for v := range n {
		for k := g.Relations[0].Indptr[v]; k < g.Relations[0].Indptr[v+1]; k++ {
			sources[k] = 10 + g.Relations[0].Sources[k]
		}
	}
	g.Relations[0].Sources = sources
	p := &Part{
		Graph: g, Whole: []int{20},
		Out: []Relation{{Indptr: make([]int64, n+1), Sources: []int32{0, 19, 19}}}, IDs: [][]int32{{}},
	}
	p.Out[0].Indptr[n] = 3
	if g.Relations[0].Weights != nil {
		p.Out[0].Weights = []float32{1, 2, 3}
	}
	for v := range int32(n) {
		p.IDs[0] = append(p.IDs[0], 3*v+1)
	}
	return p
}

// addPart writes a part into a directory of that name.
func addPart(f *Folder, name string, p *Part) error {
	g := *p.Graph
	g.Types, g.Relations = []VertexType{{Frame: Frame{
		Count: p.Graph.Vertices(), Labels: p.Graph.Types[0].Labels, Splits: p.Graph.Types[0].Splits,
	}}}, nil
	for i := range p.Graph.Relations {
		r := &p.Graph.Relations[i]
		g.Relations = append(g.Relations, Relation{
			Source: r.Source, Name: r.Name, Target: r.Target, Symmetric: r.Symmetric,
		})
	}
	w, err := f.CreatePart(name, &Part{Graph: &g, IDs: p.IDs, Whole: p.Whole})
	if err != nil {
		return err
	}
	if x := &p.Graph.Types[0].Features; x.Columns > 0 {
		stored := -1
		if x.Sparse() {
			stored = len(x.Data)
		}
		if err := w.Features(0, x.Columns, stored, func(write func(*Features) error) error {
			return write(x)
		}); err != nil {
			return err
		}
	}
	for i := range p.Out {
		in, out := &p.Graph.Relations[i], &p.Out[i]
		err := w.In(i, int64(len(in.Sources)), in, func(write func(*Relation) error) error {
			return write(in)
		})
		if err == nil {
			err = w.Out(i, int64(len(out.Sources)), in, func(write func(*Relation) error) error {
				return write(out)
			})
		}
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// folder writes parts to a new directory.
func folder(t testing.TB, dir string, parts map[string]*Part) {
	t.Helper()
	f, err := CreateFolder(filepath.Dir(dir), filepath.Base(dir))
	require.NoError(t, err)
	defer f.Abort()
	for name, p := range parts {
		require.NoError(t, addPart(f, name, p))
	}
	require.NoError(t, f.AddInt32s("ids.npy", []int32{1, 2}))
	require.NoError(t, f.Commit())
}

// TestFolderIsThere: where the folder above cannot be brought to disk once a new one has its name, the error
// says that it is there; also in place of another one.
func TestFolderIsThere(t *testing.T) {
	above, fails, named := t.TempDir(), errors.New("the disk is gone"), false
	path := filepath.Join(above, "parts")
	defer func() { atomicfile.Fsync = (*os.File).Sync }()
	atomicfile.Fsync = func(f *os.File) error {
		if filepath.Clean(f.Name()) == above {
			named = true
			return fails
		}
		return f.Sync()
	}
	for number := range 2 {
		f, err := CreateFolder(above, "parts")
		require.NoError(t, err)
		named = false
		require.NoError(t, f.AddJSON("number.json", number))
		err = f.Commit()
		if !errors.Is(err, fails) || !atomicfile.IsThere(err) || !named {
			t.Errorf("%v", err)
		}
		require.NoError(t, f.Abort())
		text, err := os.ReadFile(filepath.Join(path, "number.json"))
		assert.Equal(t, fmt.Sprint(number), strings.TrimSpace(string(text)), "%v", err)
	}
	left, err := os.ReadDir(above)
	assert.Len(t, left, 1, "left, %v", err)
}

func TestPartRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parts")
	parts := map[string]*Part{
		"0": part(dense()), "1": part(sparse()),
		"2": part(Of(Relation{Indptr: []int64{0, 0}})),
	}
	folder(t, dir, parts)
	for name, want := range parts {
		got, err := OpenPart(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.EqualBy(t, want, got, cmpopts.IgnoreUnexported(Graph{}), cmpopts.EquateEmpty(),
			cmpopts.EquateNaNs())
		assert.NoError(t, got.Graph.Close())
		_, err = Open(filepath.Join(dir, name))
		assert.Refused(t, err, "one share", "a part opened as a store")
	}
	store := stored(t, dense())
	_, err := OpenPart(store)
	assert.Refused(t, err, "does not describe a share", "a store opened as a part")
}

func TestFolderReplaces(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "parts")
	folder(t, dir, map[string]*Part{"old": part(dense())})
	f, err := CreateFolder(filepath.Dir(dir), filepath.Base(dir))
	require.NoError(t, err)
	require.NoError(t, addPart(f, "new", part(sparse())))
	assert.Equal(t, []string{"ids.npy", "old"}, left(t, dir), "before")
	require.NoError(t, f.Commit())
	assert.Equal(t, []string{"new"}, left(t, dir), "after")
	assert.NoError(t, f.Abort())
	assert.Equal(t, []string{"parts"}, left(t, parent))
}

// TestFolderBehindALink: CreateFolder follows no symbolic link, even if it leads below the same directory.
func TestFolderBehindALink(t *testing.T) {
	parent := t.TempDir()
	require.NoError(t, errors.Join(os.MkdirAll(filepath.Join(parent, "real", "parts"), 0o777),
		os.Symlink("real", filepath.Join(parent, "link")),
		os.Symlink("parts", filepath.Join(parent, "real", "alias")),
		os.WriteFile(filepath.Join(parent, "file"), nil, 0o666)))
	for name, want := range map[string]string{
		"link/parts": "link: a symbolic link", "real/alias": "alias: a symbolic link",
		"file/parts": "file: not a folder", "file": "file: not a folder",
	} {
		_, err := CreateFolder(parent, name)
		assert.Refused(t, err, want, name)
	}
	assert.Equal(t, []string{"alias", "parts"}, left(t, filepath.Join(parent, "real")))
}

// TestFolderKeepsItsError: after a part whose name is too long, every later call returns that error.
func TestFolderKeepsItsError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parts")
	f, err := CreateFolder(filepath.Dir(dir), filepath.Base(dir))
	require.NoError(t, err)
	tooLong := strings.Repeat("x", 300)
	assert.ErrorContains(t, addPart(f, tooLong, part(dense())), dir)
	for _, err := range []error{
		addPart(f, "0", part(dense())), f.AddInt32s("a.npy", nil),
		f.AddJSON("a.json", 1), f.Commit(),
	} {
		assert.ErrorContains(t, err, tooLong)
	}
	assert.NoError(t, f.Abort())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("something is there: %v", err)
	}
}

func TestLabelsAndSplitsOf(t *testing.T) {
	g, ids := dense(), []int32{1, 3}
	assert.Equal(t, Labels{
		Classes: 2, Class: []int64{1, 1}, Names: g.Types[0].Labels.Names,
	}, g.Types[0].Labels.Select(ids))
	assert.Equal(t, []Split{
		{Train: []int64{}, Val: []int64{0}, Test: []int64{1}},
	}, SplitsOf(g.Types[0].Splits, ids))
}

func TestFilesAndCheckStored(t *testing.T) {
	for _, g := range []*Graph{
		dense(), sparse(),
		{Types: []VertexType{{Frame: Frame{Count: 1}}}, Relations: []Relation{{Indptr: []int64{0, 0}}}},
	} {
		dir := stored(t, g)
		files, err := Files(dir)
		require.NoError(t, err)
		assert.EqualBy(t, left(t, dir), files, cmpopts.SortSlices(func(a, b string) bool {
			return a < b
		}))
		opened, err := Open(dir)
		require.NoError(t, err)
		assert.NoError(t, opened.CheckStored(dir))
		assert.Refused(t, must(opened.AddSelfLoops()).CheckStored(dir), "", "a changed graph")
		assert.NoError(t, opened.Close())
	}
}

// FuzzOpenPart is FuzzOpen for a part.
func FuzzOpenPart(f *testing.F) {
	files := []string{descriptionFile, idsFile, outEdges.indptr, outEdges.indices, indicesFile}
	good := filepath.Join(f.TempDir(), "parts")
	folder(f, good, map[string]*Part{"0": part(dense())})
	for k, file := range files {
		b, err := os.ReadFile(filepath.Join(good, "0", file))
		require.NoError(f, err)
		f.Add(uint8(k), b)
		f.Add(uint8(k), b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, which uint8, content []byte) {
		dir := t.TempDir()
		require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(good, "0"))))
		require.NoError(t, os.WriteFile(filepath.Join(dir, files[int(which)%len(files)]), content, 0o644))
		p, err := OpenPart(dir)
		if err != nil {
			assert.Refused(t, err, dir)
			return
		}
		defer p.Graph.Close()
		for _, r := range []*Relation{&p.Graph.Relations[0], &p.Out[0]} {
			for v := range p.IDs[0] {
				for _, u := range r.Sources[r.Indptr[v]:r.Indptr[v+1]] {
					if u < 0 || int(u) >= p.Whole[0] {
						t.Fatalf("vertex %d: %d of %d", v, u, p.Whole[0])
					}
				}
			}
		}
	})
}
