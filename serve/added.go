package serve

import (
	"maps"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/refusal"
)

// newVertex is a vertex that a request adds to the graph, for its own answer alone.
type newVertex struct {
	id       id
	kind     string            // its type; empty: the first
	columns  map[string][]byte // those of the table, as a table has them
	features []float32         // where the graph was made of no table
	out, in  []end             // the ends of edges to, and from
}

// end is the other end of a new edge.
type end struct {
	id       id
	relation string // empty: the only one that can be meant
	weight   float32
	weighted bool      // the request gives the weight; else it is 1
	features []float32 // of the edge
}

// What of a request takes about so many bytes of memory, beside its text.
const (
	idBytes      = 64
	vertexBytes  = 512
	columnBytes  = 192
	numberBytes  = 16
	edgeBytes    = 320
	featureBytes = 8 // twice while they grow
)

// decodeNew reads the last of the new vertices.
func (s *Server) decodeNew(in *scanner, r *request, h *holding) error {
	v := &r.added[len(r.added)-1]
	if err := h.take(vertexBytes); err != nil {
		return err
	}
	return in.object("a new vertex", []string{"id", "type", "columns", "features", "edges"},
		func(key string) (err error) {
			switch key {
			case "id":
				v.id, err = in.id()
			case "type":
				v.kind, err = in.text(key)
			case "columns":
				v.columns = map[string][]byte{}
				return in.members(key, func(name string) error { return s.decodeColumn(in, v, name, h) })
			case "features":
				v.features, err = in.numbers(key, s.width, h)
			default:
				return in.object(key, []string{"out", "in"}, func(key string) error {
					to := &v.out
					if key == "in" {
						to = &v.in
					}
					return in.list(key, func() error { return s.decodeEnd(in, r, to, h) })
				})
			}
			if err == nil {
				err = h.take(len(v.id.text) + len(v.kind))
			}
			return err
		})
}

// decodeColumn reads the value of a column, as a table would have it.
func (s *Server) decodeColumn(in *scanner, v *newVertex, name string, h *holding) error {
	switch {
	case s.named == nil:
		return refusal.Errorf("the graph was made of no table, whose columns one could give; give %d "+
			"features", s.width)
	case !s.named[name]:
		return refusal.Errorf("there is no column %.40q; columns are %s", name,
			strings.Join(slices.Sorted(maps.Keys(s.named)), ", "))
	}
	c, err := in.next()
	switch {
	case err != nil:
		return err
	case c == '{' || c == '[':
		return refusal.Errorf("column %s: an array or object is no value of a table; give a number, a text, "+
			"true, false or null", name)
	case c == '"':
		var text string
		text, err = in.text(name)
		v.columns[name] = []byte(text)
	default:
		var token []byte
		token, err = in.scalar(name)
		v.columns[name] = slices.Clone(token)
	}
	if err != nil {
		return err
	}
	return h.take(columnBytes + len(name) + len(v.columns[name]))
}

// decodeEnd reads the other end of a new edge: an id, or an object.
func (s *Server) decodeEnd(in *scanner, r *request, to *[]end, h *holding) error {
	if r.edges++; r.edges > mostEdges {
		return refusal.Errorf("a request has %d new edges at most; ask in several", mostEdges)
	}
	e := end{weight: 1}
	c, err := in.next()
	switch {
	case err != nil:
	case c != '{':
		e.id, err = in.id()
	default:
		err = in.object("an edge", []string{"id", "relation", "weight", "features"},
			func(key string) (err error) {
				switch key {
				case "id":
					e.id, err = in.id()
				case "relation":
					e.relation, err = in.text(key)
				case "weight":
					e.weighted = true
					e.weight, err = in.number(key)
				default:
					e.features, err = in.numbers(key, s.edgeWidth, h)
				}
				return err
			})
	}
	if err != nil {
		return err
	}
	*to = append(*to, e)
	return h.take(edgeBytes + len(e.id.text) + len(e.relation))
}

// addition adds new vertices and edges to the graph.
type addition struct {
	*appended.Addition
	server  *Server
	added   []map[string]int32 // by vertex type: the new vertices
	predict []int32            // the new vertices of the first type, in order
	unknown map[string]int     // by column: new vertices whose category the model does not know
}

// add makes the addition of a request's new vertices, whose memory it counts.
func (s *Server) add(list []newVertex, h *holding) (a *addition, err error) {
	a = &addition{Addition: s.model.Predictor.Base().Nothing(), server: s, unknown: map[string]int{}}
	a.added = make([]map[string]int32, len(s.types))
	for i := range a.added {
		a.added[i] = map[string]int32{}
	}
	kinds := make([]int, len(list))
	for i := range list {
		v := &list[i]
		if kinds[i], err = s.typeOf(v); err == nil {
			err = a.vertex(kinds[i], v, h)
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
		for k, e := range slices.Concat(v.out, v.in) {
			if err := a.edge(kinds[i], v.id, &e, k < len(v.out)); err != nil {
				return nil, refusal.Errorf("new vertex %.40q: %w", v.id.text, err)
			}
		}
	}
	a.AddReverses(s.model.Graph)
	return a, nil
}

// typeOf is the vertex type of a new vertex.
func (s *Server) typeOf(v *newVertex) (kind int, err error) {
	if v.kind == "" {
		return 0, nil
	}
	var known []string
	for kind, t := range s.types {
		if t.Type == v.kind {
			return kind, nil
		}
		known = append(known, t.Type)
	}
	return 0, refusal.Errorf("there is no vertex type %.40q; types are %s", v.kind, strings.Join(known, ", "))
}

// vertex adds a vertex with its features.
func (a *addition) vertex(kind int, v *newVertex, h *holding) error {
	t, rows := &a.server.types[kind], &a.Types[kind]
	if v.id.text == "" {
		return refusal.Errorf("it has no id; give one that no other vertex has")
	}
	if _, err := a.find(kind, v.id); err == nil {
		return refusal.Errorf("the id %.40q is another vertex's; give one that no vertex has", v.id.text)
	}
	if err := h.take(featureBytes * rows.Features.Columns); err != nil {
		return err
	}
	row, err := a.features(a.server.columns[t.Type], rows.Features.Columns, v)
	if err != nil {
		return err
	}
	at := int32(t.Count + rows.Count)
	rows.Append(row)
	if a.added[kind][v.id.text] = at; kind == 0 {
		a.predict = append(a.predict, at)
	}
	return nil
}

// find is the vertex of an id, which may be new.
func (a *addition) find(kind int, i id) (int32, error) {
	if v, is := a.added[kind][i.text]; is {
		return v, nil
	}
	return a.server.ids[kind].find(i)
}

// features are the features of a new vertex, as those that the model was trained on were made of columns, or
// as they are given where there are no columns.
func (a *addition) features(list columns.List, width int, v *newVertex) ([]float32, error) {
	switch {
	case list == nil && len(v.features) != width:
		return nil, refusal.Errorf("it has %d features, and the graph's vertices have %d; give as many",
			len(v.features), width)
	case list == nil:
		return v.features, nil
	case v.features != nil:
		return nil, refusal.Errorf("the features are made of columns; give columns in place of features")
	}
	for name := range v.columns {
		if list.Index(name) < 0 {
			return nil, refusal.Errorf("there is no column %.40q; columns are %s", name, named(list))
		}
	}
	return list.Append(nil,
		func(i int) ([]byte, error) {
			value, given := v.columns[list[i].Name]
			if !given {
				return nil, refusal.Errorf("it is not given; give null where its value is not known")
			}
			return value, nil
		},
		func(i int, _ []byte, unknown bool) {
			if unknown {
				a.unknown[list[i].Name]++
			}
		})
}

func named(list columns.List) string {
	var names []string
	for i := range list {
		names = append(names, list[i].Name)
	}
	return strings.Join(names, ", ")
}

// edge adds an edge from a new vertex to another one or, unless out, from that one.
func (a *addition) edge(kind int, of id, e *end, out bool) error {
	g := a.server.model.Graph
	relation, other, err := relationOf(g, kind, e.relation, out)
	if err != nil {
		return err
	}
	far, err := a.find(other, e.id)
	if err != nil {
		return err
	}
	source, target := a.added[kind][of.text], far
	if !out {
		source, target = target, source
	}
	to, r := &a.Edges[relation], &g.Relations[relation]
	to.Source, to.Target = append(to.Source, source), append(to.Target, target)
	if e.weighted || r.Weights != nil {
		to.Weights = append(to.Weights, e.weight)
	}
	if len(e.features) != r.EdgeColumns {
		return refusal.Errorf("the edge to or from %.40q has %d features, and the graph's have %d; give as "+
			"many", e.id.text, len(e.features), r.EdgeColumns)
	}
	to.Features = append(to.Features, e.features...)
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
		return 0, 0, refusal.Errorf("no relation %.40q joins such vertices in this direction; see weft "+
			"inspect", name)
	case len(known) > 1:
		return 0, 0, refusal.Errorf("an edge may be of several relations; give it as an object with id and "+
			"relation: one of %s", strings.Join(known, ", "))
	}
	return relation, other, nil
}
