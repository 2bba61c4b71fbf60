package ogb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// binaryFolder is the layout of two archives, one of labels and one of all other arrays.
type binaryFolder struct {
	raw               string
	data, labelsOfAll *arrays.Archive
}

// nodeLabels is the archive of labels.
const nodeLabels = "node-label.npz"

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
	known := []string{"edge_index", "node_feat", "edge_feat", "num_nodes_list", "num_edges_list"}
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
	archive *arrays.Archive
	key     string
	columns int
	file    io.Closer
	pump    *pump[[]float32]
}

// openStored opens the matrix of a key that exists. A vector is a matrix of one column.
func openStored(a *arrays.Archive, key string) (*stored, error) {
	entry, err := a.Open(key)
	if err != nil {
		return nil, err
	}
	blocks, err := npy.NewBlocks(entry, entry.Size)
	if err != nil {
		_ = entry.Close()
		return nil, a.Refuse(key, err)
	}
	m := &stored{archive: a, key: key, columns: 1, file: entry}
	if len(blocks.Shape) == 2 {
		m.columns = blocks.Shape[1]
	}
	if len(blocks.Shape) < 1 || len(blocks.Shape) > 2 || m.columns == 0 {
		_ = entry.Close()
		return nil, a.Refuse(key, fmt.Errorf("has shape %v, where a matrix is expected; %s", blocks.Shape, fetchAgain))
	}
	m.pump = newPump(func(buffer []float32) ([]float32, error) {
		block, err := blocks.Next()
		if err != nil {
			return nil, cmp.Or(sumAtEnd(entry, err), err)
		}
		rows, err := block.Float32s()
		if err != nil {
			return nil, err
		}
		if buffer, err = memory.Grow(buffer[:0], len(rows)); err != nil {
			return nil, err
		}
		return append(buffer, rows...), nil
	})
	return m, nil
}

func (m *stored) width() int { return m.columns }

func (m *stored) rows() ([]float32, error) {
	rows, err := m.pump.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, m.archive.Refuse(m.key, err)
	}
	return rows, err
}

func (m *stored) where(row int64) string {
	return fmt.Sprintf("%s: array %q: row %d", m.archive.Path, m.key, row)
}

func (m *stored) close() {
	m.pump.close()
	_ = m.file.Close()
}

// sumAtEnd compares the checksum of an entry if err says that it has come to its end.
func sumAtEnd(e *arrays.Entry, err error) error {
	if !errors.Is(err, io.EOF) {
		return nil
	}
	return e.Sum()
}

// storedEdges reads an array 2 × E. The sources lie before the targets, so that the entry is read twice side
// by side; in an array in Fortran order the two ends of an edge lie together.
type storedEdges struct {
	archive *arrays.Archive
	key     string
	files   []*arrays.Entry
	ends    []*pump[[]int32] // of sources and of targets, or of both together
	last    pairs            // edges whose ends lay together
}

const edgeIndex = "edge_index"

func (f *binaryFolder) edges(within ends) (edges, error) {
	return openStoredEdges(f.data, edgeIndex, within)
}

// openStoredEdges opens the edges of a key, which must be there.
func openStoredEdges(a *arrays.Archive, key string, within ends) (edges, error) {
	if err := need(a, key); err != nil {
		return nil, err
	}
	e := &storedEdges{archive: a, key: key}
	if err := e.open(within); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *storedEdges) open(within ends) error {
	first, err := e.once()
	if err != nil {
		return err
	}
	together, edges := first.Fortran, first.Shape[1]
	first.Flat()
	if together {
		e.pump(first, 0, within)
		return nil
	}
	second, err := e.once()
	if err != nil {
		return err
	}
	second.Flat()
	first.Keep(edges)
	e.pump(first, 0, ends{within.source, within.source})
	e.pump(second, edges, ends{within.target, within.target})
	return nil
}

// reading is the array, read once.
type reading struct {
	*npy.Blocks
	entry *arrays.Entry
}

// once opens the array once more.
func (e *storedEdges) once() (*reading, error) {
	entry, err := e.archive.Open(e.key)
	if err != nil {
		return nil, err
	}
	e.files = append(e.files, entry)
	blocks, err := npy.NewBlocks(entry, entry.Size)
	if err != nil {
		return nil, e.archive.Refuse(e.key, err)
	}
	if len(blocks.Shape) != 2 || blocks.Shape[0] != 2 {
		return nil, e.archive.Refuse(e.key, fmt.Errorf("has shape %v: it must be 2 × E, sources and targets; %s", blocks.Shape, fetchAgain))
	}
	return &reading{blocks, entry}, nil
}

// pump begins to read the ids, but for the first of them. Those of even and of odd place have limits of their
// own.
func (e *storedEdges) pump(blocks *reading, skip int, within ends) {
	at, limits := 0, [2]int64{int64(within.source), int64(within.target)}
	e.ends = append(e.ends, newPump(func(buffer []int32) ([]int32, error) {
		if at < skip {
			if err := blocks.Skip(skip); err != nil {
				return nil, err
			}
			at = skip
		}
		block, err := blocks.Next()
		if err != nil {
			return nil, cmp.Or(sumAtEnd(blocks.entry, err), err)
		}
		ids, err := block.Int64s()
		if err != nil {
			return nil, err
		}
		if buffer, err = memory.Grow(buffer[:0], len(ids)); err != nil {
			return nil, err
		}
		for k, id := range ids {
			if limit := limits[k%2]; id < 0 || id >= limit {
				return nil, fmt.Errorf("element %d, %d, is out of the range of %d vertices; %s", at+k, id, limit, fetchAgain)
			}
			buffer = append(buffer, int32(id))
		}
		at += len(ids)
		return buffer, nil
	}))
}

func (e *storedEdges) name() string { return fmt.Sprintf("%s: array %q", e.archive.Path, e.key) }

func (e *storedEdges) next() (pairs, error) {
	var ids [2][]int32
	var end error
	for k, p := range e.ends {
		var err error
		if ids[k], err = p.next(); err != nil && !errors.Is(err, io.EOF) {
			return pairs{}, e.archive.Refuse(e.key, err)
		}
		end = cmp.Or(end, err)
	}
	if end != nil {
		return pairs{}, end
	}
	if len(e.ends) == 2 { // blocks of as many elements
		return pairs{ids[0], ids[1]}, nil
	}
	e.last = pairs{e.last.source[:0], e.last.target[:0]}
	for k := 0; k+1 < len(ids[0]); k += 2 {
		e.last.source, e.last.target = append(e.last.source, ids[0][k]), append(e.last.target, ids[0][k+1])
	}
	return e.last, nil
}

func (e *storedEdges) close() {
	for _, p := range e.ends {
		p.close()
	}
	for _, f := range e.files {
		_ = f.Close()
	}
}
