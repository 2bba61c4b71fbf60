package serve

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/number"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
)

// scoredEdge is an edge of a request: an edge of the graph by its number, or a new edge by the columns of a
// list of edges.
type scoredEdge struct {
	number  id
	columns map[string]json.RawMessage // nil: it is an edge of the graph
}

// UnmarshalJSON takes a number or an object.
func (e *scoredEdge) UnmarshalJSON(text []byte) error {
	if text[0] == '{' {
		return json.Unmarshal(text, &e.columns)
	}
	if e.number.UnmarshalJSON(text) != nil {
		return refusal.Errorf("%.40s is no edge; give an object with its ends, or the number of one of the store", text)
	}
	return nil
}

// learned describes the edges that a model predicts, all of one relation.
type learned struct {
	relation int
	edges    *graph.Relation
	types    [2]int       // vertex types of the ends
	keys     [2]string    // names of the ends in a request
	columns  columns.List // columns of their weight and features; nil: the graph came from no list
	known    bool         // the graph's own edges have scores
	passes   bool         // new edges pass messages to each other
	weighted bool         // new edges need a weight to pass messages
	answer   [2]string    // names of the ends in an answer
	example  string       // a request for a new edge like the graph's first
}

// newLearned describes the edges that a Predictor predicts; nil: it predicts vertices. ids has the vertices'
// ids by type.
func newLearned(p *train.Predictor, table *predictions.Table, ids []*ids) *learned {
	relation, b := p.Learned(), p.Base()
	if relation < 0 {
		return nil
	}
	r := &b.Relations[relation]
	l := &learned{
		known: p.KnowsEdges(), passes: p.NewEdgesPass(), weighted: p.NewEdgesPass() && r.Weights != nil,
		relation: relation, edges: r, types: [2]int{b.Ends[relation].Source, b.Ends[relation].Target},
		keys: r.EndColumns, columns: r.NumberColumns, answer: table.Edges.Columns,
	}
	if l.columns != nil && r.Weights != nil && !l.passes {
		l.columns = l.columns[1:] // edges that pass no messages need no weight
	}
	for k, key := range l.keys {
		if key == "" {
			l.keys[k] = table.Edges.Columns[k]
		}
	}
	l.example = l.exampleOf(ids)
	return l
}

// featuresKey and weightKey name an edge's features and weight in a request if no list gave their columns
// names.
const (
	featuresKey = "features"
	weightKey   = "weight"
)

// features returns the features of an edge, after its weight if it needs one.
func (l *learned) features(e *scoredEdge) (all []float32, err error) {
	if l.columns == nil {
		if raw := e.columns[featuresKey]; raw != nil {
			if err := json.Unmarshal(raw, &all); err != nil {
				return nil, refusal.Errorf("%s: %.40s is no list of numbers", featuresKey, raw)
			}
		}
		if len(all) != l.edges.Features.Columns {
			return nil, refusal.Errorf("it has %d features, and the graph's edges have %d; give as many", len(all),
				l.edges.Features.Columns)
		}
		if l.weighted {
			weight := float32(1)
			if raw := e.columns[weightKey]; raw != nil && json.Unmarshal(raw, &weight) != nil {
				return nil, refusal.Errorf("%s: %.40s is no number", weightKey, raw)
			}
			all = slices.Insert(all, 0, weight)
		}
		return all, nil
	}
	for i := range l.columns {
		c := &l.columns[i]
		value, there := e.columns[c.Name]
		if !there {
			return nil, refusal.Errorf("column %s: it is not given; send %s", c.Name, l.example)
		}
		field, err := fieldOf(value)
		if err == nil {
			all, err = appendOfEdge(all, c, field)
		}
		if err != nil {
			return nil, refusal.Errorf("column %s: %w", c.Name, err)
		}
	}
	return all, nil
}

// appendOfEdge appends the features of a value, as lists of edges do. A number becomes the float32 as it is.
// A value may be missing if some of the graph's are.
func appendOfEdge(to []float32, c *columns.Column, field []byte) ([]float32, error) {
	missing, gaps := columns.IsMissing(field), c.Gaps || c.Mean != 0
	switch {
	case missing && !gaps:
		return nil, refusal.Errorf("%.40q is no %s, and no edge of the graph lacks one", field, c.Kind)
	case missing || c.Kind != columns.Number:
		to, _, err := c.Append(to, field)
		if err != nil {
			err = refusal.Errorf("%.40q is no %s", field, c.Kind)
		}
		return to, err
	}
	x, err := number.Parse(string(field), 32)
	if value := float32(x); err != nil || value-value != 0 {
		return nil, refusal.Errorf("%.40q is no finite number", field)
	}
	if to = append(to, float32(x)); c.Gaps {
		to = append(to, 0)
	}
	return to, nil
}

// exampleOf makes the example.
func (l *learned) exampleOf(ids []*ids) string {
	if len(l.edges.Sources) == 0 {
		return `{"edges": [{}]}`
	}
	source, target := l.edges.EndsOf(0)
	entry := func(key string, value any) string {
		k, _ := json.Marshal(key)
		v, _ := json.Marshal(value) // a string, a number or a truth value
		return string(k) + ": " + string(v)
	}
	words := []string{
		entry(l.keys[0], ids[l.types[0]].id(source)), entry(l.keys[1], ids[l.types[1]].id(target)),
	}
	features := l.edges.Features.Dense[:l.edges.Features.Columns]
	if l.columns == nil && len(features) > 0 {
		words = append(words, entry(featuresKey, features))
	}
	if l.weighted && l.columns != nil {
		features = slices.Concat(l.edges.Weights[:1], features)
	}
	at := 0
	for i := range l.columns {
		c := &l.columns[i]
		x := features[at]
		at += c.Width()
		switch c.Kind {
		case columns.Boolean:
			words = append(words, entry(c.Name, x > 0))
		case columns.Date:
			const day = 24 * 60 * 60
			date := time.Unix(int64(math.Round(float64(x)*day)), 0).UTC()
			words = append(words, entry(c.Name, date.Format(time.DateOnly)))
		default:
			words = append(words, entry(c.Name, x))
		}
	}
	return `{"edges": [{` + strings.Join(words, ", ") + `}]}`
}

// edgeBytes is the memory of an edge of a request. Each of its features takes featureBytes.
const edgeBytes = 64

// takeEdges finds the edges of a request, whose memory it counts.
func (s *Server) takeEdges(a *asked, body *request, h *holding) error {
	l := s.learned
	switch {
	case len(body.Vertices) > 0:
		return refusal.Errorf("vertices: the model predicts edges, and no vertices; give edges")
	case len(body.Edges) == 0:
		return refusal.Errorf("no edge is named; give some as edges")
	}
	added, err := s.add(body.New, h)
	if err != nil {
		return err
	}
	a.Edges = &graph.Edges{FeatureColumns: l.edges.Features.Columns}
	passing := &graph.Edges{FeatureColumns: l.edges.Features.Columns} // the new edges that pass messages
	err = s.model.Graph.Guard(func() error {
		for k := range body.Edges {
			err := h.take(edgeBytes + featureBytes*l.edges.Features.Columns)
			if err == nil {
				err = s.takeEdge(a, &body.Edges[k], added, passing)
			}
			if refusal.Is(err) {
				err = refusal.Errorf("edge %d: %w", k+1, err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.passes && passing.Len() > 0 {
		if added == nil {
			added = &addition{Addition: s.model.Predictor.Base().Nothing()}
		}
		added.Edges[l.relation] = *passing
		added.AddReverses(s.model.Graph, -1)
	}
	return s.extend(a, added)
}

// takeEdge finds an edge of a request, between vertices of the graph and of added; nil: there are no new
// vertices. It adds a new edge to the edges that pass messages, too.
func (s *Server) takeEdge(a *asked, e *scoredEdge, added *addition, passing *graph.Edges) (err error) {
	l, to := s.learned, a.Edges
	var is rowID
	var ends [2]int32
	var features []float32
	if e.columns == nil && !l.known {
		return refusal.Errorf("the store's own edges passed messages to later ones alone in the run, and here they are " +
			"not divided by time; send new edges, as objects")
	}
	if e.columns == nil {
		k, err := strconv.ParseInt(e.number.trimmed(), 10, 64)
		if err != nil || k < 0 || k >= int64(len(l.edges.Sources)) {
			return refusal.Errorf("there is no edge %.40q; edges have the numbers 0 to %d, as in the column edge of "+
				"weft predict", e.number.text, len(l.edges.Sources)-1)
		}
		ends[0], ends[1] = l.edges.EndsOf(k)
		n := int64(l.edges.Features.Columns)
		features = l.edges.Features.Dense[k*n : (k+1)*n]
		is = append(is, named{edgeKey, k})
		a.Numbers = append(a.Numbers, k)
	} else {
		a.Numbers = append(a.Numbers, -1)
		for k, key := range l.keys {
			if ends[k], err = s.endOf(e, key, l.types[k], added); err != nil {
				return err
			}
		}
		if features, err = l.features(e); err != nil {
			return err
		}
		if l.weighted {
			passing.Weights, features = append(passing.Weights, features[0]), features[1:]
		}
		passing.Source, passing.Target = append(passing.Source, ends[0]), append(passing.Target, ends[1])
		passing.Features = append(passing.Features, features...)
	}
	for k, v := range ends {
		end := named{key: l.answer[k]}
		if kind := l.types[k]; int(v) < s.types[kind].Count {
			end.value = s.ids[kind].id(v)
		} else {
			end.value = added.names[kind][int(v)-s.types[kind].Count]
		}
		is = append(is, end)
	}
	to.Source, to.Target = append(to.Source, ends[0]), append(to.Target, ends[1])
	to.Features = append(to.Features, features...)
	a.rows = append(a.rows, is)
	return nil
}

// endOf finds the end of an edge that a key names. kind is its vertex type.
func (s *Server) endOf(e *scoredEdge, key string, kind int, added *addition) (v int32, err error) {
	value, there := e.columns[key]
	if !there {
		return 0, refusal.Errorf("it has no %s; send %s", key, s.learned.example)
	}
	var i id
	if err = i.UnmarshalJSON(value); err == nil {
		if added != nil {
			v, err = added.find(kind, i)
		} else {
			v, err = s.ids[kind].find(i)
		}
	}
	if err != nil {
		return 0, refusal.Errorf("%s: %w", key, err)
	}
	return v, nil
}

// refuse refuses an edge of a new vertex in the learned relation or its reverse: such an edge is one to
// score.
func (l *learned) refuse(g *graph.Graph, relation int) error {
	if l == nil {
		return nil
	}
	if relation == l.relation || g.Relations[relation].Mirrors(l.edges) {
		_, name, _ := l.edges.Ends()
		return refusal.Errorf("edges of %s are predicted; give it in edges", name)
	}
	return nil
}
