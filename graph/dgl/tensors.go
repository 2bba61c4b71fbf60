package dgl

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// tensorFiles are the partitions' files of tensors, of vertices or of edges. Each file has, for each type, a
// row for each vertex or edge that the partition owns.
type tensorFiles struct {
	types []string
	file  func(files *partFiles) string
	rows  func(t, p int) int // number of rows of type t in partition p
	order [][]location       // of the rows of each type; nil: the partitions' rows follow each other
}

// columns returns the columns of each type, put together from the files, which stay open.
func (d *divided) columns(f *tensorFiles) ([]map[string]column, error) {
	byType := make([]map[string][]tensor, len(f.types)) // then by name and by partition
	for t := range byType {
		byType[t] = map[string][]tensor{}
	}
	for p := range d.parts {
		file := f.file(&d.parts[p])
		c, err := d.openFile(file)
		if err != nil {
			return nil, err
		}
		path := d.path(file)
		d.open = append(d.open, c)
		tensors, err := c.readTensors()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for key, from := range tensors {
			t, name := f.column(key)
			if t < 0 {
				return nil, refusal.Errorf("%s: the tensor %.80q is of none of the types %s", path, key,
					arrays.Listed(f.types))
			}
			if byType[t][name] == nil {
				byType[t][name] = make([]tensor, len(d.parts))
			}
			byType[t][name][p] = from
		}
	}
	all := make([]map[string]column, len(f.types))
	for t := range all {
		all[t] = map[string]column{}
		for _, name := range slices.Sorted(maps.Keys(byType[t])) {
			c, p, err := f.join(t, byType[t][name])
			if err != nil {
				return nil, refusal.Errorf("%s: the tensor %.80q of %.40q: %w", d.path(f.file(&d.parts[p])),
					name, f.types[t], err)
			}
			all[t][name] = c
		}
	}
	return all, nil
}

// column returns the type (−1: none) and the name in a tensor's key: TYPE/NAME, or NAME in old files of one
// type.
func (f *tensorFiles) column(key string) (t int, name string) {
	for t, typ := range f.types {
		if name, ours := strings.CutPrefix(key, typ+"/"); ours {
			return t, name
		}
	}
	if len(f.types) > 1 {
		return -1, key
	}
	return 0, key
}

// join makes one column from the partitions' tensors. An error is about the tensor of partition p.
func (f *tensorFiles) join(t int, parts []tensor) (all column, p int, err error) {
	total := 0
	rows := make([]tensor, len(parts)) // of the partitions that have rows
	for p, from := range parts {
		n := f.rows(t, p)
		total += n
		if n == 0 {
			continue
		}
		switch {
		case from.Descr == "":
			return all, p, errors.New("is not there, and other partitions have it")
		case len(from.Shape) == 0 || from.Shape[0] != n:
			return all, p, fmt.Errorf("has shape %v, where it has a row for each of the partition's %d",
				from.Shape, n)
		case all.Shape == nil:
			all.Header = npy.Header{Descr: from.Descr, Shape: slices.Clone(from.Shape)}
		case from.Descr != all.Descr || !slices.Equal(from.Shape[1:], all.Shape[1:]):
			return all, p,
				fmt.Errorf("has %s of shape %v, where other partitions have rows of %s of shape %v",
					from.Descr, from.Shape, all.Descr, all.Shape[1:])
		}
		rows[p] = from
		all.size += from.size
	}
	if total == 0 {
		all.Header = npy.Header{Descr: "<f4", Shape: []int{0}}
	}
	all.Shape[0] = total
	if f.order == nil {
		all.rows = func() io.Reader {
			readers := make([]io.Reader, len(rows))
			for p := range rows {
				readers[p] = rows[p].data()
			}
			return io.MultiReader(readers...)
		}
		return all, 0, nil
	}
	width := all.size / int64(max(total, 1))
	all.rows = func() io.Reader { return &gathered{parts: rows, row: make([]byte, width), order: f.order[t]} }
	return all, 0, nil
}

// gathered reads rows of several matrices in a given order.
type gathered struct {
	parts []tensor
	order []location // of rows to come
	row   []byte     // has room for one row
	left  []byte     // the part of the last row that has not been read
}

// Read implements io.Reader.
func (g *gathered) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(g.left) == 0 {
			if len(g.order) == 0 || len(g.row) == 0 {
				break
			}
			at := g.order[0]
			from := &g.parts[at.part]
			if _, err := from.file.ReadAt(g.row, from.at+int64(at.row)*int64(len(g.row))); err != nil {
				return n, err
			}
			g.order, g.left = g.order[1:], g.row
		}
		copied := copy(b[n:], g.left)
		g.left, n = g.left[copied:], n+copied
	}
	if n == 0 && len(b) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
