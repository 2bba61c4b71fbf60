package graph

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"weft/internal/document"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Open maps the graph store in dir into memory and checks it, so that no later use of the graph can leave its
// arrays. It does not repeat the checks of values that the writer made, unless the size or time of a file has
// changed since. It refuses a damaged or inconsistent store by file and reason. The arrays of the graph are
// read-only; Close gives them back.
func Open(dir string) (*Graph, error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	m := &mappings{wayOut: importAgain}
	g := &Graph{Metric: d.Metric, Provenance: d.Provenance, Earlier: d.Earlier, path: dir, mapped: m}
	err = guard(dir, importAgain, func() error {
		if err := g.readTypes(m, dir, d); err != nil {
			return err
		}
		if err := g.readRelations(m, dir, d); err != nil {
			return err
		}
		return m.located(dir, g.check(m.depth(dir, g.Relations)))
	})
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	g.Unload()
	return g, nil
}

// VerticesIn is the number of vertices of all types of the store in dir, as its description says.
func VerticesIn(dir string) (n int, err error) {
	d, err := readDescription(dir)
	if err != nil {
		return 0, err
	}
	for i := range d.Vertices {
		n += d.Vertices[i].Count
	}
	return n, nil
}

// EdgesIn is the number of edges of all relations of the store in dir, as its description says.
func EdgesIn(dir string) (n int64, err error) {
	d, err := readDescription(dir)
	if err != nil {
		return 0, err
	}
	for i := range d.Relations {
		n += int64(d.Relations[i].Count)
	}
	return n, nil
}

// SplitByIn is what the edges with labels of that name, as HasLabel has it, are divided by in the store in
// dir, without values, as its description says; nil: nothing is kept.
func SplitByIn(dir, label string) (*SplitBy, error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	for i := range d.Relations {
		r := &d.Relations[i]
		if l := r.Frame; l != nil && NamesLabel(label, l.Column, fullName(r.Source, r.Name, r.Target)) {
			return l.By, nil
		}
	}
	return nil, nil
}

// RelationsIn are the full names of the relations of the store in dir, in their order, as its description
// says.
func RelationsIn(dir string) (names []string, err error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range d.Relations {
		names = append(names, fullName(r.Source, r.Name, r.Target))
	}
	return names, nil
}

// Stored reports whether the graph is one that Open opened, and not one made in memory.
func (g *Graph) Stored() bool { return g.path != "" }

// SameEdges reports whether both graphs are one that Open opened, or copies of it, with the arrays of its
// edges. False: unknown.
func (g *Graph) SameEdges(as *Graph) bool {
	return g.mapped != nil && g.mapped == as.mapped &&
		slices.EqualFunc(g.Relations, as.Relations, func(a, b Relation) bool {
			return sameArray(a.Indptr, b.Indptr) && sameArray(a.Sources, b.Sources) &&
				sameArray(a.Weights, b.Weights)
		})
}

func sameArray[T any](a, b []T) bool {
	return len(a) == len(b) && unsafe.SliceData(a) == unsafe.SliceData(b)
}

// CheckMade checks a graph made in memory; a stored one was checked when it was opened.
func (g *Graph) CheckMade() error {
	if g.Stored() {
		return nil
	}
	return g.Check()
}

// Guard runs f, which reads the graph's arrays, and turns a fault of their mapped files into an error.
func (g *Graph) Guard(f func() error) error {
	if g.mapped != nil {
		return guard(g.path, g.mapped.wayOut, f)
	}
	return guard(g.path, importAgain, f)
}

// Changed names a mapped file that is no longer the one that was opened, by its size, times and inode. Values
// that were read of the graph meanwhile may be wrong.
func (g *Graph) Changed() error {
	if g.mapped == nil {
		return nil
	}
	for _, a := range g.mapped.arrays {
		var is unix.Stat_t
		was := a.Info.Sys().(*syscall.Stat_t)
		if err := unix.Stat(a.Path, &is); err != nil {
			return refusal.Damaged("%s: it was opened, and is not there any more: %w", a.Path, err)
		}
		if is.Size != was.Size || is.Ino != was.Ino ||
			is.Mtim != unix.Timespec(was.Mtim) || is.Ctim != unix.Timespec(was.Ctim) {
			return refusal.Damaged("%s: it has changed since it was opened", a.Path)
		}
	}
	return nil
}

// guard runs f, which reads files mapped under path. If such a file is cut or cannot be read any more, f ends
// and guard returns an error that names the path; without guard the program would die. guard covers only f's
// own goroutine and Go code.
func guard(path, wayOut string, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if _, fault := r.(interface{ Addr() uintptr }); fault {
			err = fmt.Errorf("%s: a file was cut or became unreadable while it was in use; %s", path, wayOut)
		} else if r != nil {
			panic(r)
		}
	}()
	return f()
}

// readTypes maps the files of the vertex types.
func (g *Graph) readTypes(m *mappings, dir string, all *description) (err error) {
	l := all.layout()
	for i := range all.Vertices {
		d := &all.Vertices[i]
		at := filepath.Join(dir, l.vertices(d.Type))
		t := VertexType{Type: d.Type, Frame: Frame{Count: d.Count, Table: d.Table}}
		if d.Features != nil {
			t.Features.Columns = d.Features.Columns
		}
		t.Arrays = described(d.Arrays)
		if err := m.read(at,
			append(t.Features.stored(d.Features, d.Count),
				t.stored(d, all.Vertices[0].Graphs)...)); err != nil {
			return err
		}
		if d.Names {
			if t.Names, err = m.names(at, namesFile, d.Count); err != nil {
				return err
			}
		}
		if l == inStore && t.Type == VertexName {
			t.Type = ""
		}
		g.Types = append(g.Types, t)
		if i > 0 {
			continue
		}
		g.Graphs = d.Graphs
		if err := g.Types[0].Labels.read(m, at, d.Labels, d.Count); err != nil {
			return err
		}
		if g.Types[0].Splits, err = readSplits(m, at, splitFiles, d.Splits); err != nil {
			return err
		}
	}
	return nil
}

// readRelations maps the in-edges of the relations.
func (g *Graph) readRelations(m *mappings, dir string, all *description) error {
	l := all.layout()
	counts := map[string]int{}
	for _, t := range all.Vertices {
		counts[t.Type] = t.Count
	}
	g.Relations = make([]Relation, len(all.Relations))
	for i := range all.Relations {
		d, r := &all.Relations[i], &g.Relations[i]
		if l || d.Source != VertexName || d.Name != RelationName || d.Target != VertexName {
			r.Source, r.Name, r.Target = d.Source, d.Name, d.Target
		}
		if err := r.read(m, filepath.Join(dir, l.edges(d.Source, d.Name, d.Target)), inEdges, d,
			counts[d.Target]); err != nil {
			return err
		}
	}
	return nil
}

// read maps the files of a relation, which lie in dir and have a row for each of so many vertices.
func (r *Relation) read(m *mappings, dir string, files relationFiles, d *relationDescription,
	vertices int,
) (err error) {
	r.Features.Columns, r.EndColumns, r.NumberColumns = d.FeatureColumns, d.EndColumns, d.NumberColumns
	if r.EdgeSplit, err = readEdgeSplit(m, dir, d.EdgeSplit); err != nil {
		return err
	}
	labels, err := readFrame(m, dir, d.Frame)
	if err != nil {
		return err
	}
	r.SetLabels(labels)
	return m.read(dir, r.stored(files, d, vertices))
}

func (l *Labels) read(m *mappings, dir string, d *labelsDescription, vertices int) (err error) {
	if d == nil {
		return nil
	}
	l.describedBy(d)
	if err = m.read(dir, l.stored(d, vertices)); err == nil && d.Names {
		l.Names, err = m.names(dir, classNamesFile, d.Classes)
	}
	return err
}

// describedBy sets what a description says of labels.
func (l *Labels) describedBy(d *labelsDescription) { l.Classes, l.Columns = d.Classes, d.Columns }

func readSplits(m *mappings, dir string, files [3]string, d []SplitSizes) ([]Split, error) {
	if len(d) == 0 {
		return nil, nil
	}
	splits := make([]Split, len(d))
	for part, file := range files {
		width := 0
		for _, s := range d {
			width = max(width, s.sizes()[part])
		}
		shape := []int{len(d), width}
		if len(d) == 1 {
			shape = shape[1:]
		}
		ids, err := load[int64](m, dir, file, shape...)
		if err != nil {
			return nil, err
		}
		for k, s := range d {
			row := ids[k*width : (k+1)*width]
			size := s.sizes()[part]
			if slices.ContainsFunc(row[size:], func(id int64) bool { return id != -1 }) {
				return nil, m.located(dir, flawf(file, "split %d has more than the %d ids that %s says", k,
					size, descriptionFile))
			}
			*splits[k].Parts()[part] = row[:size:size]
		}
	}
	return splits, nil
}

// mappings are the mapped arrays of a graph.
type mappings struct {
	arrays []*npy.Mapped
	wayOut string // way out if a file is damaged
}

func (m *mappings) close() error {
	var errs []error
	for _, a := range m.arrays {
		errs = append(errs, a.Close())
	}
	m.arrays = nil
	return errors.Join(errs...)
}

// names reads a list of at most so many names.
func (m *mappings) names(dir, file string, most int) ([]string, error) {
	path := filepath.Join(dir, file)
	names, err := document.Strings(path, most)
	if err != nil {
		return nil, m.unreadable(path, err)
	}
	return names, nil
}

// unreadable returns the error that a file that graph.json lists is missing or cannot be read.
func (m *mappings) unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return refusal.Damaged("%s: missing, though %s lists it; %s", path, descriptionFile, m.wayOut)
	}
	return refusal.Advise(err, m.wayOut)
}

// located names the file of a flaw in the store dir, and the way out.
func (m *mappings) located(dir string, err error) error {
	var f flaw
	if errors.As(err, &f) {
		return refusal.Damaged("%s: %s; %s", filepath.Join(dir, f.file), f.reason, m.wayOut)
	}
	return err
}

// load maps a file that must have that element type and shape.
func load[T element](m *mappings, dir, file string, shape ...int) (slice []T, err error) {
	path := filepath.Join(dir, file)
	a, err := npy.Map(path)
	if err != nil {
		return nil, m.unreadable(path, err)
	}
	m.arrays = append(m.arrays, a)
	if a.Descr != npy.Descr[T]() || !slices.Equal(a.Shape, shape) || a.Fortran && len(shape) > 1 {
		order := ""
		if a.Fortran {
			order = " in Fortran order"
		}
		return nil, refusal.Damaged("%s: %q of shape %v%s, where %s asks for %q of shape %v; %s",
			path, a.Descr, a.Shape, order, descriptionFile, npy.Descr[T](), shape, m.wayOut)
	}
	return npy.Elements[T](&a.Array)
}
