package arrays

import (
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// idColumns are the names, in lower case, of a first column that says to which vertex a row belongs.
var idColumns = []string{"id", "ids", "node", "node_id", "nodeid", "vertex", "vertex_id", "vertexid"}

// IsIDColumn reports whether a column of that name has the ids of vertices.
func IsIDColumn(name string) bool {
	return slices.Contains(idColumns, strings.ToLower(strings.TrimSpace(name)))
}

// Key is how a table names vertices.
type Key struct {
	Vertex   func(id []byte) (int32, error) // the vertex of an id
	Name     func(vertex int32) string      // for people
	Vertices func() int                     // how many vertices are known to exist: the first ones
	NoFirst  func(error) error              // adds a way out if only the first vertex has no row; nil: none
}

// RowIDs are the vertices of the rows of a table, which come in any order.
type RowIDs struct {
	key  *Key
	rows []int32 // the vertex of each row
	at   []int64 // by vertex: the line or row, from 1; 0: none yet
}

// NewRowIDs begins with the first row.
func NewRowIDs(key *Key) *RowIDs { return &RowIDs{key: key} }

// Add adds the next row, which is line or row at of the file. It refuses an id that came before.
func (r *RowIDs) Add(id []byte, at int64) error {
	v, err := r.key.Vertex(id)
	if err != nil {
		return err
	}
	if more := int(v) + 1 - len(r.at); more > 0 {
		if r.at, err = memory.Grow(r.at, more); err != nil {
			return err
		}
		r.at = append(r.at, make([]int64, more)...)
	}
	if r.at[v] > 0 {
		return refusal.Errorf("the id %s stands in %d as well: give each vertex one row", r.key.Name(v),
			r.at[v])
	}
	r.at[v] = at
	r.rows, err = memory.Append(r.rows, v)
	return err
}

// Check refuses ids that leave a vertex out, after the last row.
func (r *RowIDs) Check() error {
	vertices := max(len(r.at), r.key.Vertices())
	missing := vertices - len(r.rows)
	if missing == 0 {
		return nil
	}
	first := slices.Index(append(r.at, 0), 0)
	others := ""
	if missing > 1 {
		others = fmt.Sprintf(" and %d more", missing-1)
	}
	err := refusal.Errorf("has no row for the id %s%s: give each vertex one row", r.key.Name(int32(first)),
		others)
	if first == 0 && missing == 1 && r.key.NoFirst != nil {
		return r.key.NoFirst(err)
	}
	return err
}

// inOrder returns values, so many for each row, in the order of the vertices. It copies them.
func inOrder[T any](r *RowIDs, values []T, columns int) ([]T, error) {
	var sorted []T
	sorted, err := memory.Grow(sorted, len(values))
	if err != nil {
		return nil, err
	}
	sorted = sorted[:len(values)]
	for row, v := range r.rows {
		copy(sorted[int(v)*columns:(int(v)+1)*columns], values[row*columns:])
	}
	return sorted, nil
}

// features returns features in the order of the vertices.
func (r *RowIDs) features(f *graph.Features) (err error) {
	if !f.Sparse() {
		f.Dense, err = inOrder(r, f.Dense, f.Columns)
		return err
	}
	row := make([]int, len(r.rows)) // of each vertex
	for k, v := range r.rows {
		row[v] = k
	}
	sorted := graph.Features{Columns: f.Columns, Indptr: make([]int64, 1, len(f.Indptr))}
	if sorted.Indices, err = memory.Grow(sorted.Indices, len(f.Indices)); err != nil {
		return err
	}
	if sorted.Data, err = memory.Grow(sorted.Data, len(f.Data)); err != nil {
		return err
	}
	for _, k := range row {
		from, to := f.Indptr[k], f.Indptr[k+1]
		sorted.Indices, sorted.Data = append(sorted.Indices, f.Indices[from:to]...),
			append(sorted.Data, f.Data[from:to]...)
		sorted.Indptr = append(sorted.Indptr, int64(len(sorted.Data)))
	}
	*f = sorted
	return nil
}
