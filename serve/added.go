package serve

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// newVertex is a vertex that a request adds to the graph for its own answer.
type newVertex struct {
	ID       id                         `json:"id"`
	Type     string                     `json:"type"`     // empty: the first
	Columns  map[string]json.RawMessage `json:"columns"`  // null: missing; others are ignored
	Features []float32                  `json:"features"` // only where the graph was made of no table
	Edges    struct {
		Out []end `json:"out"` // edges to these vertices
		In  []end `json:"in"`  // edges from these vertices
	} `json:"edges"`
}

// end is the other end of a new edge: an id, or an object.
type end struct {
	ID       id        `json:"id"`
	Relation string    `json:"relation"` // empty: the only possible relation
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
	*appended.Addition
	server  *Server
	added   []map[string]int32 // by vertex type: the new vertices
	names   [][]string         // by vertex type: their ids, in order
	unknown map[string]int     // by column: new vertices whose category the model does not know
}

// featureBytes is the memory of a feature of a new vertex while its list grows.
const featureBytes = 8

// add makes the addition of a request's new vertices, whose memory it counts; nil: there are none.
func (s *Server) add(list []newVertex, h *holding) (a *addition, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	a = &addition{Addition: s.model.Predictor.Base().Nothing(), server: s, unknown: map[string]int{}}
	a.added, a.names = make([]map[string]int32, len(s.types)), make([][]string, len(s.types))
	for i := range a.added {
		a.added[i] = map[string]int32{}
	}
	kinds := make([]int, len(list))
	for i := range list {
		v := &list[i]
		if kinds[i], err = s.typeOf(v); err == nil {
			err = a.vertex(kinds[i], v)
		}
		if err == nil {
			err = h.take(featureBytes * a.Types[kinds[i]].Features.Columns)
		}
		if refusal.Is(err) {
			err = refusal.Errorf("new vertex %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range list {
		v := &list[i]
		for k, e := range slices.Concat(v.Edges.Out, v.Edges.In) {
			if err := a.edge(kinds[i], v.ID, &e, k < len(v.Edges.Out)); err != nil {
				return nil, refusal.Errorf("new vertex %.40q: %w", v.ID.trimmed(), err)
			}
		}
	}
	a.AddReverses(s.model.Graph, -1)
	return a, nil
}

// typeOf is the vertex type of a new vertex.
func (s *Server) typeOf(v *newVertex) (kind int, err error) {
	if v.Type == "" {
		return 0, nil
	}
	if kind, is := s.kinds[v.Type]; is {
		return kind, nil
	}
	var known []string
	for _, t := range s.types {
		known = append(known, t.Name())
	}
	return 0, refusal.Errorf("there is no vertex type %.40q; types are %s", v.Type, strings.Join(known, ", "))
}

// vertex adds a vertex with its features.
func (a *addition) vertex(kind int, v *newVertex) error {
	t, rows := &a.server.types[kind], &a.Types[kind]
	if v.ID.trimmed() == "" {
		return refusal.Errorf("it has no id; give one that no other vertex has")
	}
	if _, err := a.find(kind, v.ID); err == nil {
		return refusal.Errorf("the id %.40q is another vertex's; give one that no vertex has", v.ID.trimmed())
	}
	row, err := a.features(a.server.columns[t.Name()], rows.Features.Columns, v)
	if err != nil {
		return err
	}
	at := int32(t.Count + rows.Count)
	rows.Append(row)
	a.added[kind][v.ID.trimmed()] = at
	a.names[kind] = append(a.names[kind], v.ID.trimmed())
	return nil
}

// find returns the vertex of an id, which may be new.
func (a *addition) find(kind int, i id) (int32, error) {
	if v, is := a.added[kind][i.trimmed()]; is {
		return v, nil
	}
	return a.server.ids[kind].find(i)
}

// features makes the features of a new vertex from columns, as the features were made that the model was
// trained on. If there are no columns, it takes the given features.
func (a *addition) features(list columns.List, width int, v *newVertex) ([]float32, error) {
	switch {
	case list == nil && v.Columns != nil:
		return nil, refusal.Errorf("the graph was made of no table, whose columns one could give; give %d "+
			"features", width)
	case list == nil && len(v.Features) != width:
		return nil, refusal.Errorf("it has %d features, and the graph's vertices have %d; give as many",
			len(v.Features), width)
	case list == nil:
		return v.Features, nil
	case v.Features != nil:
		return nil, refusal.Errorf("the features are made of columns; give columns in place of features")
	}
	return list.Append(nil, func(i int) ([]byte, error) { return fieldOf(v.Columns[list[i].Name]) },
		func(i int, _ []byte, unknown bool) {
			if unknown {
				a.unknown[list[i].Name]++
			}
		})
}

// fieldOf returns the value of a column as a table would have it.
func fieldOf(value json.RawMessage) (field []byte, err error) {
	switch {
	case value == nil:
		return nil, refusal.Errorf("it is not given; give null where its value is not known")
	case value[0] == '{', value[0] == '[':
		return nil, refusal.Errorf("%.40s is no value of a table; give a number, a text, true, false or null",
			value)
	case value[0] == '"':
		var text string
		err = json.Unmarshal(value, &text)
		return []byte(strings.Trim(text, columns.Blank)), err
	}
	return value, nil
}

// edge adds an edge from a new vertex to another one if out, else from the other one.
func (a *addition) edge(kind int, near id, e *end, out bool) error {
	joint, err := a.server.relationOf(way{kind, out, e.Relation})
	if err == nil {
		err = a.server.learned.refuse(a.server.model.Graph, joint.relation)
	}
	if err != nil {
		return err
	}
	far, err := a.find(joint.other, e.ID)
	if err != nil {
		return err
	}
	source, target := a.added[kind][near.trimmed()], far
	if !out {
		source, target = target, source
	}
	to, r := &a.Edges[joint.relation], &a.server.model.Graph.Relations[joint.relation]
	to.Source, to.Target = append(to.Source, source), append(to.Target, target)
	switch {
	case e.Weight != nil:
		to.Weights = append(to.Weights, *e.Weight)
	case r.Weights != nil:
		to.Weights = append(to.Weights, 1)
	}
	if len(e.Features) != r.Features.Columns {
		return refusal.Errorf("the edge to or from %.40q has %d features, and the graph's have %d; give as "+
			"many", e.ID.trimmed(), len(e.Features), r.Features.Columns)
	}
	to.Features = append(to.Features, e.Features...)
	return nil
}

// way is how a request names the relations in a direction of vertices of a type. An empty name stands for
// all.
type way struct {
	kind int
	out  bool
	name string
}

// joined is a relation, and the type of its other end.
type joined struct{ relation, other int }

// ways finds the relations that edges of new vertices may be of.
func ways(g *appended.Base) map[way][]joined {
	ways := map[way][]joined{}
	for i, ends := range g.Ends {
		r := &g.Relations[i]
		_, short, _ := r.Ends()
		names := []string{"", short, r.FullName()}
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			out, in := way{ends.Source, true, name}, way{ends.Target, false, name}
			ways[out] = append(ways[out], joined{i, ends.Target})
			ways[in] = append(ways[in], joined{i, ends.Source})
		}
	}
	return ways
}

// relationOf returns the relation of that name from or into vertices of a type; empty: the only one.
func (s *Server) relationOf(asked way) (joined, error) {
	switch known := s.ways[asked]; len(known) {
	case 0:
		return joined{}, refusal.Errorf("no relation %.40q joins such vertices in this direction; see weft "+
			"inspect", asked.name)
	case 1:
		return known[0], nil
	default:
		var names []string
		for _, j := range known {
			names = append(names, s.model.Graph.Relations[j.relation].FullName())
		}
		return joined{}, refusal.Errorf("an edge may be of several relations; give it as an object with id "+
			"and relation: one of %s", strings.Join(names, ", "))
	}
}
