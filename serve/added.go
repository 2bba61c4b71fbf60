package serve

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// newVertex is a vertex that a request adds to the graph, for its own answer alone.
type newVertex struct {
	ID       id                         `json:"id"`
	Type     string                     `json:"type"`     // empty: the first
	Columns  map[string]json.RawMessage `json:"columns"`  // those of the table, null where a value is missing
	Features []float32                  `json:"features"` // where the graph was made of no table
	Edges    struct {
		Out []end `json:"out"` // to these
		In  []end `json:"in"`  // from these
	} `json:"edges"`
}

// end is the other end of a new edge: an id, or an object.
type end struct {
	ID       id        `json:"id"`
	Relation string    `json:"relation"` // empty: the only one that can be meant
	Weight   *float32  `json:"weight"`   // nil: 1
	Features []float32 `json:"features"` // of the edge
}

// UnmarshalJSON takes an id or an object.
func (e *end) UnmarshalJSON(text []byte) error {
	if text[0] != '{' {
		return e.ID.UnmarshalJSON(text)
	}
	type plain end
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode((*plain)(e))
}

// addition adds new vertices and edges to the graph.
type addition struct {
	appended.Addition
	types   []graph.VertexType
	ids     []*ids             // by vertex type
	added   []map[string]int32 // by vertex type: the new vertices
	predict []int32            // the new vertices of the first type, in order
}

// add makes the addition of a request's new vertices.
func (s *Server) add(list []newVertex) (a *addition, err error) {
	g := s.model.Graph
	a = &addition{types: g.Types(), ids: s.ids}
	a.Types, a.Edges = make([]appended.Rows, len(a.types)), make([]graph.Edges, len(g.Relations))
	for i := range a.types {
		f := &a.types[i].Features
		rows := graph.Features{Columns: f.Columns}
		if f.Sparse() {
			rows.Indptr = []int64{0}
		}
		a.Types[i].Features = rows
		a.added = append(a.added, map[string]int32{})
	}
	for i := range g.Relations {
		a.Edges[i].FeatureColumns = g.Relations[i].EdgeColumns
	}
	kinds := make([]int, len(list))
	for i := range list {
		v := &list[i]
		kind, err := a.typeOf(v)
		if err == nil {
			err = a.vertex(kind, v)
		}
		if err != nil {
			return nil, refusal.Errorf("new vertex %d: %w", i+1, err)
		}
		kinds[i] = kind
	}
	for i := range list {
		v := &list[i]
		at := a.added[kinds[i]][v.ID.text]
		for _, e := range v.Edges.Out {
			if err := a.edge(g, kinds[i], at, &e, true); err != nil {
				return nil, refusal.Errorf("new vertex %.40q: %w", v.ID.text, err)
			}
		}
		for _, e := range v.Edges.In {
			if err := a.edge(g, kinds[i], at, &e, false); err != nil {
				return nil, refusal.Errorf("new vertex %.40q: %w", v.ID.text, err)
			}
		}
	}
	return a, nil
}

// typeOf is the vertex type of a new vertex.
func (a *addition) typeOf(v *newVertex) (kind int, err error) {
	if v.Type == "" {
		return 0, nil
	}
	kind = slices.IndexFunc(a.types, func(t graph.VertexType) bool { return t.Type == v.Type })
	if kind < 0 {
		var known []string
		for _, t := range a.types {
			known = append(known, t.Type)
		}
		return 0, refusal.Errorf("there is no vertex type %.40q; types are %s", v.Type,
			strings.Join(known, ", "))
	}
	return kind, nil
}

// vertex adds a vertex with its features.
func (a *addition) vertex(kind int, v *newVertex) error {
	t, rows := &a.types[kind], &a.Types[kind]
	if v.ID.text == "" {
		return refusal.Errorf("it has no id; give one that no other vertex has")
	}
	_, twice := a.added[kind][v.ID.text]
	if _, err := a.ids[kind].find(v.ID); err == nil || twice {
		return refusal.Errorf("the id %.40q is another vertex's; give one that no vertex has", v.ID.text)
	}
	row, err := featuresOf(t, v)
	if err != nil {
		return err
	}
	f := &rows.Features
	if f.Sparse() {
		for k, x := range row {
			if x != 0 {
				f.Indices, f.Data = append(f.Indices, int32(k)), append(f.Data, x)
			}
		}
		f.Indptr = append(f.Indptr, int64(len(f.Data)))
	} else {
		f.Dense = append(f.Dense, row...)
	}
	at := int32(t.Count + rows.Count)
	rows.Count++
	if a.added[kind][v.ID.text] = at; kind == 0 {
		a.predict = append(a.predict, at)
	}
	return nil
}

// featuresOf are the features of a new vertex, as those of the graph's table were made.
func featuresOf(t *graph.VertexType, v *newVertex) (row []float32, err error) {
	switch {
	case t.Table == nil && v.Columns != nil:
		return nil, refusal.Errorf("the graph was made of no table, whose columns one could give; give %d "+
			"features", t.Features.Columns)
	case t.Table == nil && len(v.Features) != t.Features.Columns:
		return nil, refusal.Errorf("it has %d features, and the graph's vertices have %d; give as many",
			len(v.Features), t.Features.Columns)
	case t.Table == nil:
		return v.Features, nil
	case v.Features != nil:
		return nil, refusal.Errorf("the features are made of columns; give columns in place of features")
	}
	list := t.Table.Columns
	for name := range v.Columns {
		if list.Index(name) < 0 {
			return nil, refusal.Errorf("there is no column %.40q; columns are %s", name, named(list))
		}
	}
	for i := range list {
		value, there := v.Columns[list[i].Name]
		if !there {
			return nil, refusal.Errorf("column %s is not given; give null where its value is not known",
				list[i].Name)
		}
		field := []byte(value)
		switch value[0] {
		case '"':
			var text string
			err = json.Unmarshal(value, &text)
			field = []byte(text)
		case '{', '[':
			err = refusal.Errorf("%.40s is no value of a table; give a number, a text, true, false or null",
				value)
		}
		if err == nil {
			row, _, err = list[i].Append(row, field)
		}
		if err != nil {
			return nil, refusal.Errorf("column %s: %w", list[i].Name, err)
		}
	}
	return row, nil
}

func named(list columns.List) string {
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return strings.Join(names, ", ")
}

// edge adds an edge from a new vertex to another one or, unless out, from that one.
func (a *addition) edge(g *graph.Graph, kind int, at int32, e *end, out bool) error {
	relation, other, err := relationOf(g, kind, e.Relation, out)
	if err != nil {
		return err
	}
	far, is := a.added[other][e.ID.text]
	if !is {
		if far, err = a.ids[other].find(e.ID); err != nil {
			return err
		}
	}
	r, to := &g.Relations[relation], &a.Edges[relation]
	if !out {
		at, far = far, at
	}
	to.Source, to.Target = append(to.Source, at), append(to.Target, far)
	switch weight := float32(1); {
	case r.Weights == nil && e.Weight != nil:
		return refusal.Errorf("the edge to or from %.40q has a weight, and the graph's have none; "+
			"leave it out",
			e.ID.text)
	case r.Weights != nil:
		if e.Weight != nil {
			weight = *e.Weight
		}
		to.Weights = append(to.Weights, weight)
	}
	if len(e.Features) != r.EdgeColumns {
		return refusal.Errorf("the edge to or from %.40q has %d features, and the graph's have %d; "+
			"give as many",
			e.ID.text, len(e.Features), r.EdgeColumns)
	}
	to.Features = append(to.Features, e.Features...)
	return nil
}

// relationOf is the relation of that name, empty: the only one, from or into vertices of a type, and the type
// of its other end.
func relationOf(g *graph.Graph, kind int, name string, out bool) (relation, other int, err error) {
	var known []string
	for i := range g.Relations {
		r := &g.Relations[i]
		from, to, err := g.Joins(r)
		if err != nil {
			return 0, 0, err
		}
		if !out {
			from, to = to, from
		}
		if _, short, _ := r.Ends(); from == kind && (name == "" || name == short || name == r.FullName()) {
			known, relation, other = append(known, r.FullName()), i, to
		}
	}
	switch {
	case len(known) == 0:
		return 0, 0, refusal.Errorf("no relation %.40q joins such vertices in this direction; see "+
			"weft inspect",
			name)
	case len(known) > 1:
		return 0, 0, refusal.Errorf("an edge may be of several relations; give it as an object with id and "+
			"relation: one of %s", strings.Join(known, ", "))
	}
	return relation, other, nil
}
