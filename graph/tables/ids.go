package tables

import (
	"errors"
	"math"
	"slices"
	"strings"

	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
)

// vertexIDs numbers the vertices of a type by their ids. Vertices of a graph to which a table adds come
// first, then the table's rows, then vertices that only edges name.
type vertexIDs struct {
	ids      *names.Table
	before   int   // vertices of the graph to which the table adds
	numbered bool  // the graph's ids are numbers, and ids lacks them
	first    int64 // the first of these numbers
	fixed    bool  // edges may name no further vertex
}

// checkID refuses an id that names no vertex.
func checkID(id []byte) error {
	if len(id) == 0 {
		return errors.New("the id is empty: give one, or leave the row out")
	}
	return arrays.CheckUTF8("id", id)
}

// find returns the vertex of an id.
func (t *vertexIDs) find(id []byte) (v int32, there bool) {
	if !t.numbered {
		return t.ids.Find(id)
	}
	n, ok := numberOf(id)
	v, there = t.numbers(n)
	return v, ok && there
}

// numbers returns the vertex of an id that is a number.
func (t *vertexIDs) numbers(id int64) (v int32, there bool) {
	id -= t.first
	return int32(id), id >= 0 && id < int64(t.before)
}

// numberOf is the number of 31 bits that an id is.
func numberOf(id []byte) (n int64, ok bool) {
	for _, c := range id {
		n = n*10 + int64(c-'0')
		if c < '0' || c > '9' || n > math.MaxInt32 {
			return 0, false
		}
	}
	return n, len(id) > 0
}

// alike returns the id of a row that differs from another id only in case, in zeros before it or in a .0
// behind it; empty: there is none.
func (t *vertexTable) alike(id string) string {
	bare := func(id string) string {
		return strings.ToLower(strings.TrimLeft(strings.TrimSuffix(id, ".0"), "0"))
	}
	rows := t.ids.Names[:t.rows]
	at := slices.IndexFunc(rows, func(known string) bool { return bare(known) == bare(id) })
	if at < 0 {
		return ""
	}
	return rows[at]
}

// has reports whether a vertex is the graph's, or has a row.
func (t *vertexTable) has(v int32) bool { return int(v) < t.before+t.rows }

// all returns how many vertices there are, with the vertices that only edges name.
func (t *vertexIDs) all() int { return max(t.before, len(t.ids.Names)) }
