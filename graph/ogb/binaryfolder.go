package ogb

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/internal/refusal"
)

// binaryFolder is the layout of two archives, one of labels and one of all other arrays.
type binaryFolder struct {
	raw               string
	data, labelsOfAll *arrays.Archive
}

const (
	nodeLabels = "node-label.npz" // the archive of labels
	edgeIndex  = "edge_index"     // the array of edges, 2 × E
)

func openBinary(raw string) (*binaryFolder, error) {
	data, err := arrays.OpenArchive(filepath.Join(raw, "data.npz"))
	if err != nil {
		return nil, err
	}
	f := &binaryFolder{raw: raw, data: data}
	if !has(raw, nodeLabels) { // as for link prediction
		return f, nil
	}
	if f.labelsOfAll, err = arrays.OpenArchive(filepath.Join(raw, nodeLabels)); err != nil {
		data.Close()
		return nil, err
	}
	return f, nil
}

func (f *binaryFolder) name() string { return f.raw }

func (f *binaryFolder) close() {
	f.data.Close()
	if f.labelsOfAll != nil {
		f.labelsOfAll.Close()
	}
}

// need refuses an archive without the array of a key.
func need(a *arrays.Archive, key string) error {
	if !a.Has(key) {
		return refusal.Errorf("%s: has no array %q (it has %s); %s", a.Path, key, a.Keys(), fetchAgain)
	}
	return nil
}

func (f *binaryFolder) count(of string) ([]int64, error) {
	key := "num_" + of + "s_list"
	if err := need(f.data, key); err != nil {
		return nil, err
	}
	array, err := f.data.Array(key)
	if err != nil {
		return nil, err
	}
	list, err := array.Int64s()
	if err != nil {
		return nil, f.data.Refuse(key, err)
	}
	return list, nil
}

func (f *binaryFolder) matrix(name string) (matrix, error) {
	key := strings.ReplaceAll(name, "-", "_")
	if !f.data.Has(key) {
		return nil, nil
	}
	return openStored(f.data, key)
}

func (f *binaryFolder) labels() (matrix, error) {
	if f.labelsOfAll == nil {
		return nil, refusal.Errorf("%s: no such file, and the split is one of vertices; %s", filepath.Join(f.raw, nodeLabels), fetchAgain)
	}
	if err := need(f.labelsOfAll, "node_label"); err != nil {
		return nil, err
	}
	return openStored(f.labelsOfAll, "node_label")
}

func (f *binaryFolder) more() []string {
	known := []string{edgeIndex, "node_feat", "edge_feat", "num_nodes_list", "num_edges_list"}
	return slices.DeleteFunc(f.data.Names(), func(key string) bool { return slices.Contains(known, key) })
}

func (f *binaryFolder) unknown() (names []string) {
	names = slices.Concat(f.data.Others(), entries(f.raw))
	if f.labelsOfAll != nil {
		names = slices.Concat(names, f.labelsOfAll.Others(), f.labelsOfAll.Names())
	}
	known := []string{"data.npz", nodeLabels, "node_label"}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(known, name) })
}

// stored is a matrix in an archive.
type stored struct {
	*arrays.Rows
	archive *arrays.Archive
	key     string
}

// openStored opens the matrix of a key that exists. A vector is a matrix of one column.
func openStored(a *arrays.Archive, key string) (*stored, error) {
	entry, err := a.Open(key)
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	rows, err := arrays.OpenRows(entry)
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	if len(rows.Shape) < 1 || len(rows.Shape) > 2 || rows.Columns == 0 {
		rows.Close()
		return nil, a.Refuse(key, fmt.Errorf("has shape %v, where a matrix is expected; %s", rows.Shape, fetchAgain))
	}
	return &stored{rows, a, key}, nil
}

func (m *stored) width() int { return m.Columns }

func (m *stored) rows() ([]float32, error) {
	rows, err := m.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, m.archive.Refuse(m.key, err)
	}
	return rows, err
}

func (m *stored) where(row int64) string {
	return fmt.Sprintf("%s: array %q: row %d", m.archive.Path, m.key, row)
}

func (m *stored) close() { m.Close() }

// storedEdges reads an array 2 × E.
type storedEdges struct {
	*arrays.Ends
	archive *arrays.Archive
	key     string
}

func (f *binaryFolder) edges(within ends) (edges, error) {
	return openStoredEdges(f.data, edgeIndex, within)
}

// openStoredEdges opens the edges of a key, which must be there.
func openStoredEdges(a *arrays.Archive, key string, within ends) (edges, error) {
	if err := need(a, key); err != nil {
		return nil, err
	}
	h, err := a.Header(key)
	if err != nil {
		return nil, err
	}
	if len(h.Shape) != 2 || h.Shape[0] != 2 {
		return nil, a.Refuse(key, fmt.Errorf("has shape %v: it must be 2 × E, sources and targets; %s", h.Shape, fetchAgain))
	}
	list, err := arrays.OpenEnds(arrays.EndsOptions{
		Open: func() (*arrays.Entry, error) { return a.Open(key) }, ByEnd: true, High: [2]int64{int64(within.source), int64(within.target)},
		Outside: func(element int, id, high int64) error {
			return fmt.Errorf("element %d, %d, is out of the range of %d vertices; %s", element, id, high, fetchAgain)
		},
	})
	if err != nil {
		return nil, a.Refuse(key, err)
	}
	return &storedEdges{list, a, key}, nil
}

func (e *storedEdges) name() string { return fmt.Sprintf("%s: array %q", e.archive.Path, e.key) }

func (e *storedEdges) next() (p pairs, err error) {
	if p.source, p.target, err = e.Next(); err != nil && !errors.Is(err, io.EOF) {
		err = e.archive.Refuse(e.key, err)
	}
	return p, err
}

func (e *storedEdges) close() { e.Close() }
