package ogb

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// archives is the layout of .npz archives. If a folder has one type of vertices, one archive has the labels,
// and another all other arrays. If it has several types, there is one archive for each kind of array, with a
// key for each type or relation.
type archives struct {
	raw   string
	typed bool
	open  map[string]*arrays.Archive // by the name of the file without .npz; nil: it may be missing, and is
}

// Names of archives and of their arrays.
const (
	oneArchive   = "data"
	nodeLabels   = "node-label"
	edgeIndex    = "edge_index" // edges, 2 × E
	kindSuffix   = "_dict"      // of the archive of a kind of array
	vertexCounts = "num_nodes_dict"
	edgeCounts   = "num_edges_dict"
	edgeLists    = "edge_index_dict"
	ofVertices   = "node_feat_dict"
	ofEdges      = "edge_feat_dict"
)

// openArchives opens the archives of a folder of one type. A split of edges comes without labels.
func openArchives(raw string) (*archives, error) {
	f := &archives{raw: raw, open: map[string]*arrays.Archive{}}
	for _, name := range []string{oneArchive, nodeLabels} {
		if name == nodeLabels && !has(raw, name+".npz") {
			continue
		}
		if err := f.add(name); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// openTypedArchives opens the archives of a folder of several types.
func openTypedArchives(raw string) (*archives, error) {
	f := &archives{raw: raw, typed: true, open: map[string]*arrays.Archive{}}
	names := []string{vertexCounts, edgeCounts, edgeLists, nodeLabels}
	for _, file := range entries(raw) {
		name, isArchive := strings.CutSuffix(file, ".npz")
		kind, isKind := strings.CutSuffix(name, kindSuffix)
		if isArchive && isKind && (name == ofVertices || name == ofEdges || arrayName(kind) == kind) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if err := f.add(name); err != nil {
			return nil, refusal.Advise(err, fetchAgain)
		}
	}
	return f, nil
}

// add opens an archive. If it fails, it closes all.
func (f *archives) add(name string) error {
	a, err := arrays.OpenArchive(filepath.Join(f.raw, name+".npz"))
	if err != nil {
		f.close()
		return err
	}
	f.open[name] = a
	return nil
}

func (f *archives) name() string { return f.raw }

func (f *archives) close() {
	for _, a := range f.open {
		a.Close()
	}
}

// place is the archive and the key of a kind of array of the type or relation of that name; nil: there is no
// such archive.
func (f *archives) place(kind, name string) (a *arrays.Archive, key string) {
	if f.typed {
		return f.open[kind+kindSuffix], name
	}
	return f.open[oneArchive], kind
}

// need refuses an archive without the array of a key.
func need(a *arrays.Archive, key string) error {
	if !a.Has(key) {
		return refusal.Errorf("%s: has no array %q (it has %s); %s", a.Path, key, a.Keys(), fetchAgain)
	}
	return nil
}

// numbers reads the integers of the array of a key, which must be there.
func numbers(a *arrays.Archive, key string) ([]int64, error) {
	if err := need(a, key); err != nil {
		return nil, err
	}
	list, _, err := arrays.Elements(a.Fields, key, (*npy.Array).Int64s)
	return list, err
}

// countsOf reads the numbers of vertices (element "node"), or of edges ("edge"), of a folder of one type.
func (f *archives) countsOf(element string) ([]int64, error) {
	return numbers(f.open[oneArchive], "num_"+element+"s_list")
}

// count reads a number of vertices or edges of a folder of several types.
func (f *archives) count(archive, key string) (int64, error) {
	a := f.open[archive]
	values, err := numbers(a, key)
	if err != nil {
		return 0, err
	}
	if len(values) != 1 || values[0] < 0 {
		return 0, a.Refuse(key, refusal.Errorf("holds %d values, where one count is expected; %s",
			len(values), fetchAgain))
	}
	return values[0], nil
}

func (f *archives) types() (types []graph.VertexType, err error) {
	if !f.typed {
		return oneType(f.raw, f.countsOf)
	}
	a := f.open[vertexCounts]
	for _, name := range a.Names() {
		if err := checkName(a.Path, name); err != nil {
			return nil, err
		}
		count, err := f.count(vertexCounts, name)
		if err != nil {
			return nil, err
		}
		types = append(types, graph.VertexType{Type: name, Frame: graph.Frame{Count: int(count)}})
	}
	return types, nil
}

func (f *archives) relations() (list []triplet, err error) {
	if !f.typed {
		return []triplet{{}}, nil
	}
	a := f.open[edgeLists]
	for _, key := range a.Names() {
		names := strings.Split(key, "___")
		if len(names) != 3 {
			return nil, refusal.Errorf("%s: %.100q is no relation, HEAD___NAME___TAIL; %s", a.Path, key,
				fetchAgain)
		}
		list = append(list, triplet(names))
	}
	return list, nil
}

func (f *archives) edges(r triplet, within ends) (list edges, count int64, err error) {
	if f.typed {
		count, err = f.count(edgeCounts, r.String())
	} else {
		count, err = onlyCount(f.raw, "edge", f.countsOf)
	}
	if err != nil {
		return nil, 0, err
	}
	a, key := f.place(edgeIndex, r.String())
	if err := need(a, key); err != nil {
		return nil, 0, err
	}
	h, err := a.Header(key)
	if err != nil {
		return nil, 0, err
	}
	if len(h.Shape) != 2 || h.Shape[0] != 2 {
		return nil, 0, a.Refuse(key, fmt.Errorf("has shape %v: it must be 2 × E, sources and targets; %s",
			h.Shape, fetchAgain))
	}
	ids, err := arrays.OpenEnds(arrays.EndsOptions{
		Open: func() (*arrays.Entry, error) { return a.Open(key) }, ByEnd: true,
		High: [2]int64{int64(within.source), int64(within.target)},
		Outside: func(element int, id, high int64) error {
			return fmt.Errorf("element %d, %d, is out of the range of %d vertices; %s", element,
				id, high, fetchAgain)
		},
	})
	if err != nil {
		return nil, 0, a.Refuse(key, err)
	}
	return &storedEdges{ids, a, key}, count, nil
}

// storedEdges reads an array 2 × E.
type storedEdges struct {
	*arrays.Ends
	archive *arrays.Archive
	key     string
}

func (e *storedEdges) name() string { return fmt.Sprintf("%s: array %q", e.archive.Path, e.key) }

// Next implements arrays.EndsReader.
func (e *storedEdges) Next() (source, target []int32, err error) {
	source, target, err = e.Ends.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = e.archive.Refuse(e.key, err)
	}
	return source, target, err
}

func (f *archives) matrix(name, vertexType string) (matrix, error) {
	return openStored(f.place(strings.ReplaceAll(name, "-", "_"), vertexType))
}

func (f *archives) edgeFeatures(r triplet) (matrix, error) {
	return openStored(f.place("edge_feat", r.String()))
}

func (f *archives) labelled() ([]string, error) {
	if !f.typed {
		return []string{""}, nil
	}
	return f.open[nodeLabels].Names(), nil
}

func (f *archives) labels(vertexType string) (matrix, error) {
	a := f.open[nodeLabels]
	if f.typed {
		return openStored(a, vertexType)
	}
	if a == nil {
		return nil, refusal.Errorf("%s: no such file, and the split is one of vertices; %s",
			filepath.Join(f.raw, nodeLabels+".npz"), fetchAgain)
	}
	if err := need(a, "node_label"); err != nil {
		return nil, err
	}
	return openStored(a, "node_label")
}

func (f *archives) more(vertexType string) (names []string) {
	if !f.typed {
		return slices.DeleteFunc(f.others(), func(name string) bool { return arrayName(name) == "" })
	}
	for name, a := range f.open {
		kind := strings.TrimSuffix(name, kindSuffix)
		if name != ofVertices && arrayName(kind) == kind && a.Has(vertexType) {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	return names
}

// others lists what the archive of a folder of one type has in addition to features and edges.
func (f *archives) others() []string {
	return without(f.open[oneArchive].Names(), edgeIndex, "node_feat", "edge_feat",
		"num_nodes_list", "num_edges_list")
}

func (f *archives) checkLists(types []string, relations []triplet) error {
	for _, name := range slices.Sorted(maps.Keys(f.open)) {
		a, list, listed := f.open[name], vertexCounts, types
		switch name {
		case edgeCounts, ofEdges:
			list = edgeLists
			listed = namesOf(relations)
		case vertexCounts, edgeLists, nodeLabels, oneArchive:
			continue
		}
		if err := checkListed(a.Path, a.Names(), listed, f.open[list].Path); err != nil {
			return err
		}
	}
	return nil
}

func (f *archives) unread([]string, []triplet) (names []string) {
	for _, a := range f.open {
		names = append(names, a.Others()...)
	}
	for _, file := range entries(f.raw) {
		if name, ok := strings.CutSuffix(file, ".npz"); ok && f.open[name] != nil {
			continue
		}
		if f.typed {
			file = strings.TrimSuffix(file, kindSuffix+".npz")
		}
		names = append(names, file)
	}
	if f.typed {
		return names
	}
	names = append(names, without(f.others(), f.more("")...)...)
	if a := f.open[nodeLabels]; a != nil {
		names = append(names, a.Names()...)
	}
	return without(names, "node_label")
}

// stored is a matrix in an archive.
type stored struct {
	*arrays.Rows
	archive *arrays.Archive
	key     string
}

// openStored opens the matrix of a key; nil: there is none. A vector is a matrix of one column.
func openStored(a *arrays.Archive, key string) (matrix, error) {
	if a == nil || !a.Has(key) {
		return nil, nil
	}
	rows, err := arrays.OpenRows(func() (*arrays.Entry, error) { return a.Open(key) })
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	if len(rows.Shape) < 1 || len(rows.Shape) > 2 || rows.Columns == 0 {
		rows.Close()
		return nil, a.Refuse(key, fmt.Errorf("has shape %v, where a matrix is expected; %s",
			rows.Shape, fetchAgain))
	}
	return &stored{rows, a, key}, nil
}

func (m *stored) width() int { return m.Columns }

// Next implements arrays.RowReader.
func (m *stored) Next() ([]float32, error) {
	rows, err := m.Rows.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, m.archive.Refuse(m.key, err)
	}
	return rows, err
}

func (m *stored) where(row int64) string {
	return fmt.Sprintf("%s: array %q: row %d", m.archive.Path, m.key, row)
}
