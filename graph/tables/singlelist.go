package tables

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// alone is the vertices of a list of edges without a table. Their number comes from the list or an array
// beside it.
type alone struct {
	Beside
	*vertexTable // without rows
	list         *edgeList

	smallest, largest int32 // vertex of an edge; before the first edge MaxInt32 and −1
	largestAt         table.Position
	edge              [2]int32 // the ends of the first edge
	edgeAt            table.Position
	again             bool // an end of the first edge came again
}

// noTable are the vertices of a list without a table.
func (o *Options) noTable() ([]*vertexTable, error) {
	if len(o.Edges) > 1 {
		return nil, SeveralAlone(o.Edges[1])
	}
	return []*vertexTable{o.newTable(graph.VertexType{})}, o.check(o.Values && o.EdgeLabel == "")
}

// standsAlone says that a list has these vertices and no table.
func (o *Options) standsAlone(l *edgeList, vertices *vertexTable) {
	l.Path, l.alone = o.Edges[0], &alone{Beside: o.Beside, vertexTable: vertices, list: l}
	if !o.Strings {
		l.Separators = ",;" // between numbers a tab is a space
	}
}

// SeveralAlone refuses a second list of edges where there is no table of vertices.
func SeveralAlone(list string) error {
	return refusal.Errorf("%s: several lists of edges are read beside tables of vertices; give these with "+
		"--vertices-from, or one list", list)
}

// begin forgets the edges that were read.
func (a *alone) begin() {
	*a = alone{
		Beside: a.Beside, vertexTable: a.vertexTable, list: a.list, smallest: math.MaxInt32, largest: -1,
	}
	a.ids = names.NewTable()
	if !a.Strings {
		a.numbered, a.first = true, int64(a.FirstID)
		a.before = cmp.Or(a.Count, math.MaxInt32-a.FirstID)
	}
}

// isHeader reports whether the first line of text names the columns. If vertices may be names, the line must
// have known words, or a third column that is no weight.
func (a *alone) isHeader(first []table.Column) bool {
	switch {
	case len(first) < 2 || first[0].Name == "":
		return true
	case !a.Strings:
		return !isNumber(first[0].Name) && !isNumber(first[1].Name)
	case len(first) > 2 && !isNumber(first[2].Name):
		return true
	}
	return !slices.ContainsFunc(first[:2], func(c table.Column) bool {
		_, known := endOf(c.Name)
		return isNumber(c.Name) || !known && !strings.EqualFold(c.Name, weightName)
	})
}

// add takes note of the ends of an edge, in a row of the list.
func (a *alone) add(ends [2]int32, r *table.Row) {
	a.smallest = min(a.smallest, ends[0], ends[1])
	if top := max(ends[0], ends[1]); top > a.largest {
		a.largest, a.largestAt = top, r.Position
	}
	if a.list.rows == 1 {
		a.edge, a.edgeAt = ends, r.Position
	} else {
		a.again = a.again || slices.Contains(a.edge[:], ends[0]) || slices.Contains(a.edge[:], ends[1])
	}
}

// checkFirst refuses a first edge whose two names do not come again in a list of names: a header of unknown
// words looks like that.
func (a *alone) checkFirst() error {
	const fewest = 3 // fewer edges show nothing
	if !a.Strings || a.list.order != nil || a.list.rows < fewest || a.again {
		return nil
	}
	return refusal.Columns.Of(a.edgeAt.Errorf("%.40q and %.40q do not come back, as in a header: name the "+
		"columns source and target, or put a line with these words before it if it is an edge",
		a.ids.Names[a.edge[0]], a.ids.Names[a.edge[1]]))
}

// noVertex refuses an id that is not the number of a vertex.
func (a *alone) noVertex(id []byte) error {
	number, ok := numberOf(id)
	vertex := number - a.first
	switch {
	case !ok || number == math.MaxInt32:
		err := refusal.Errorf("%.40q is not a vertex id below %d: if ids are names, import the list with weft import edges "+
			"--string-ids", id,
			math.MaxInt32)
		if a.list.order != nil { // the columns have names
			err = refusal.Columns.Of(err)
		}
		return err
	case vertex < 0:
		return refusal.Errorf("%d is not a vertex id from --first-id %d on", number, a.FirstID)
	}
	err := refusal.Errorf("vertex %d is out of the range of --vertices %d", number, a.Count)
	if vertex == int64(a.Count) {
		return a.perhapsFrom1(err)
	}
	return err
}

// perhapsFrom1 adds to an error about vertices, whose ids count from 0, that ids may count from 1, if no edge
// so far has vertex 0.
func (a *alone) perhapsFrom1(err error) error {
	if err == nil || !a.countsFrom1() {
		return err
	}
	return fmt.Errorf("%w; vertex 0 has no edge: where ids count from 1, give --first-id 1", err)
}

// countsFrom1 reports whether ids are taken to count from 0, and the edges begin with vertex 1.
func (a *alone) countsFrom1() bool { return a.FirstID == 0 && !a.Strings && a.smallest == 1 }

// allNumbers reports whether all names are ids that would be read as numbers.
func (a *alone) allNumbers() bool {
	most := arrays.MaxVertices(a.list.rows)
	return !slices.ContainsFunc(a.ids.Names, func(name string) bool {
		id, ok := numberOf([]byte(name))
		return !ok || id >= most
	})
}

// texts returns the ids of so many vertices; nil if they are numbers from 0.
func (a *alone) texts(vertices int) ([]string, error) {
	switch {
	case a.Strings:
		return a.ids.Names, nil
	case a.FirstID == 0:
		return nil, nil
	}
	const bytes = 32 // a string and its text
	if err := memory.Need(bytes * int64(vertices)); err != nil {
		return nil, err
	}
	texts := make([]string, vertices)
	for v := range texts {
		texts[v] = strconv.Itoa(a.FirstID + v)
	}
	return texts, nil
}

// most bounds the rows of text that are read beside the edges: a short gzip file may hold very many.
func (a *alone) most() int64 { return cmp.Or(int64(a.Count), arrays.MaxVertices(a.list.rows)) }

// key says how tables beside the list name its vertices: as the list does. A name that no edge has is a
// further vertex.
func (a *alone) key() *arrays.Key {
	if a.Strings {
		return &arrays.Key{
			Vertex: func(id []byte) (int32, error) {
				if err := checkID(id); err != nil {
					return 0, err
				}
				return a.ids.Number(id)
			},
			Name:     func(v int32) string { return fmt.Sprintf("%.40q", a.ids.Names[v]) },
			Vertices: func() int { return len(a.ids.Names) },
		}
	}
	return &arrays.Key{
		Vertex: func(id []byte) (int32, error) {
			v, there := a.find(id)
			if !there || int64(v) >= a.most() {
				return 0, refusal.Errorf("%.40q is not the id of a vertex, from %d and below %d; if ids "+
					"are names, import the list with weft import edges --string-ids", id, a.FirstID, a.first+a.most())
			}
			return v, nil
		},
		Name:     func(v int32) string { return strconv.Itoa(int(v) + a.FirstID) },
		Vertices: func() int { return max(a.Count, int(a.largest)+1) },
		NoFirst:  a.perhapsFrom1,
	}
}
