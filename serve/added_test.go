package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/predictions"
)

// Rows and edges that a request adds to the graph.

// grown is a graph with vertices of these features behind its own, and edges.
func grown(t *testing.T, base *graph.Graph, features []float32, source, target []int32) *graph.Graph {
	t.Helper()
	g := *base.Copy()
	g.Types[0].Count, g.Types[0].Names = g.Types[0].Count+len(features)/g.Types[0].Features.Columns, nil
	e := base.Relations[0].Edges()
	e.Source, e.Target = slices.Concat(e.Source, source), slices.Concat(e.Target, target)
	r, err := graph.NewRelation(g.Types[0].Count, e)
	require.NoError(t, err)
	g.Relations = []graph.Relation{r}
	g.Types[0].Features.Dense = slices.Concat(g.Types[0].Features.Dense, features)
	g.Types[0].Labels.Class = slices.Clone(g.Types[0].Labels.Class)
	for range g.Types[0].Count - base.Types[0].Count {
		g.Types[0].Labels.Class = append(g.Types[0].Labels.Class, -1)
	}
	return &g
}

// same holds the probabilities of an answer's vertices to those of a graph.
func (m *tested) same(t *testing.T, g *graph.Graph, vertices []int, a answered) {
	t.Helper()
	all, err := (&train.Job{Graph: g, Options: m.options}).Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	require.Len(t, a.Predictions, len(vertices))
	for i, v := range vertices {
		var outcome predictions.Outcome
		outcome.Read(predictions.Logits, all.Logits[v*3:v*3+3])
		for k, class := range m.Table.Classes {
			assert.Equal(t, float32(outcome.Probabilities[k]), a.Predictions[i].Probabilities[class])
		}
	}
}

// TestNew: a new vertex has the prediction that it has in a graph with it and its edges, and so have others.
func TestNew(t *testing.T) {
	m, _ := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	a := predict(t, s, `{"vertices": ["v3"], "columns": ["probabilities"], "new": [
		{"id": "x", "features": [1, 0, -2, 0.5, 3], "edges": {"in": ["v7", "y", "v9"], "out": ["v3"]}},
		{"id": "y", "features": [0, 1, 0, 0, -1], "edges": {"in": [{"id": "v1"}]}}]}`)
	for i, id := range []string{"v3", "x", "y"} {
		assert.Equal[any](t, id, a.Predictions[i].Vertex)
	}
	m.same(t, grown(t, m.Graph, []float32{1, 0, -2, .5, 3, 0, 1, 0, 0, -1}, []int32{7, 61, 9, 60, 1},
		[]int32{60, 60, 60, 3, 61}), []int{3, 60, 61}, a)
	for body, want := range map[string]string{
		`{"id": "v1", "features": [1, 2, 3, 4, 5]}`:   `the id "v1" is another vertex's`,
		`{"features": [1, 2, 3, 4, 5]}`:               "it has no id",
		`{"id": "x", "features": [1]}`:                "it has 1 features, and the graph's vertices have 5",
		`{"id": "x", "columns": {"age": 1}}`:          "the graph was made of no table",
		`{"id": "x", "type": "person"}`:               `there is no vertex type "person"; types are vertex`,
		of5(`"z"`):                                    `no vertex is called "z"`,
		of5(`{"id": "v1", "weight": 2}`):              "those of the graph have none",
		of5(`{"id": "v1", "features": [2]}`):          "has 1 features, and the graph's have 0",
		of5(`{"id": "v1", "w": 2}`):                   `the key "w" is not known`,
		`{"id": " v1 ", "features": [1, 2, 3, 4, 5]}`: `the id "v1" is another vertex's`,
		of5(`{"id": "v1", "relation": "r"}`):          `no relation "r"`,
	} {
		status, text := ask(s, "POST", "/predict", `{"new": [`+body+`]}`)
		assert.Equal(t, 400, status)
		assert.Contains(t, refused(t, text), want)
	}
}

// TestNewWeight: a new edge without a weight has the weight 1 where those of the graph have weights.
func TestNewWeight(t *testing.T) {
	m, _ := trained(t, func(o *train.Options, g *graph.Graph) {
		o.Model = "gcn"
		e := g.Relations[0].Edges()
		for k := range e.Source {
			e.Weights = append(e.Weights, .5+float32(k%3))
		}
		r, err := graph.NewRelation(g.Types[0].Count, e)
		require.NoError(t, err)
		g.Relations[0] = r
	})
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	answerFor := func(end string) answered {
		return predict(t, s, `{"columns": ["probabilities"], "new": [`+of5(end+`, {"id": "v7", "weight": 3}`)+`]}`)
	}
	without := answerFor(`{"id": "v2"}`)
	assert.Equal(t, answerFor(`{"id": "v2", "weight": 1}`), without)
	assert.Equal(t, answerFor(`{"id": "v2", "weight": null}`), without)
	assert.Equal(t, answerFor(`"v2"`), without)
	if other := answerFor(`{"id": "v2", "weight": 2}`); fmt.Sprint(other) == fmt.Sprint(without) {
		t.Error("weights do not count")
	}
}

// TestReverses: new edges count in the reverse of their relation, too, as those of an addition by tables do.
func TestReverses(t *testing.T) {
	m, _ := trained(t, func(o *train.Options, g *graph.Graph) {
		both, err := g.ReverseRelations()
		require.NoError(t, err)
		*g, o.Model = *both, "rgcn"
	})
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	_, name, _ := m.Graph.Relations[0].Ends()
	in := of5(`{"id": "v7", "relation": "` + name + `"}`)
	both := strings.Replace(in, `"edges": {`, `"edges": {"out": [{"id": "v7", "relation": "rev_`+name+`"}], `, 1)
	const asked = `{"vertices": ["v7"], "columns": ["probabilities"], "new": [`
	assert.Equal(t, predict(t, s, asked+both+"]}"), predict(t, s, asked+in+"]}"))
}

// of5 is a new vertex of five features with an edge from a vertex.
func of5(from string) string {
	return `{"id": "x", "features": [1, 2, 3, 4, 5], "edges": {"in": [` + from + `]}}`
}

// TestColumns: the features of a new vertex are those that the model was trained on: of its columns, means
// and categories, also where the graph has others in another order. Categories that the model does not know
// are counted.
func TestColumns(t *testing.T) {
	m, _ := trained(t, func(_ *train.Options, g *graph.Graph) {
		for v := range g.Types[0].Count { // age, whether it is missing, Paris, Rome, vip
			row := g.Types[0].Features.Row(v)
			row[1], row[2], row[3], row[4] = 0, float32(v%2), float32(1-v%2), float32(v%3/2)
		}
		g.Types[0].Table = &columns.Table{Columns: columns.List{
			{Name: "age", Kind: columns.Number, Mean: 40, Gaps: true},
			{Name: "city", Kind: columns.Category, Categories: []string{"Paris", "Rome"}},
			{Name: "vip", Kind: columns.Boolean},
		}}
	})
	other := *m.Graph.Copy()
	other.Types[0].Table = &columns.Table{Columns: columns.List{
		{Name: "vip", Kind: columns.Boolean},
		{Name: "shoes", Kind: columns.Number, Mean: 39},
		{Name: "city", Kind: columns.Category, Categories: []string{"Oslo", "Paris"}},
		{Name: "age", Kind: columns.Number, Mean: 7},
	}}
	other.Types[0].Features = graph.Features{Columns: 5}
	whole := *m.Graph.Copy() // as the model reads the other graph, where no vertex is of Rome
	whole.Types[0].Features.Dense = slices.Clone(whole.Types[0].Features.Dense)
	for v := range other.Types[0].Count {
		row := whole.Types[0].Features.Row(v)
		row[3] = 0
		other.Types[0].Features.Dense = append(other.Types[0].Features.Dense, row[4], 39, 0, row[2], row[0])
	}
	job := &train.Job{Graph: &other, Options: m.options}
	_, err := job.Like(columns.ByType{graph.VertexName: m.Graph.Types[0].Table.Columns})
	require.NoError(t, err)
	m.Predictor, err = job.Predictor(t.Context(), m.weights)
	require.NoError(t, err)
	m.Graph = &other
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	vertex := func(id, columns string) string {
		return `{"id": "` + id + `", "columns": {` + columns + `}, "edges": {"in": ["v3", "v4"]}}`
	}
	a := predict(t, s, `{"vertices": [" v5"], "columns": ["probabilities"], "new": [`+
		vertex("a ", `"age": 31, "city": " Rome\n", "vip": true, "shoes": 40, "notes": {"of": [1, null, {"no": "use"}]}`)+","+
		vertex("b", `"age": null, "city": "Oslo", "vip": "no"`)+","+
		vertex("c", `"age": "31.5", "city": "Paris", "vip": null`)+`]}`)
	whole.Types[0].Table = nil
	m.same(t, grown(t, &whole, []float32{31, 0, 0, 1, 1, 40, 1, 0, 0, 0, 31.5, 0, 1, 0, 0},
		[]int32{3, 4, 3, 4, 3, 4}, []int32{60, 60, 61, 61, 62, 62}), []int{5, 60, 61, 62}, a)
	assert.Equal(t, map[string]int{"city": 1}, a.Unknown)
	_, text := ask(s, "GET", "/metrics", "")
	assert.Contains(t, text, `weft_unknown_values_total{column="city"} 1`)
	for columns, want := range map[string]string{
		`"age": 31, "city": "Rome"`:                 "column vip: it is not given; give null",
		`"age": "old", "city": "Rome", "vip": true`: `column age: "old" is no number`,
		`"age": [1], "city": "Rome", "vip": true`:   "column age: [1] is no value of a table",
	} {
		status, text := ask(s, "POST", "/predict", `{"new": [`+vertex("x", columns)+`]}`)
		assert.Equal(t, 400, status, text)
		assert.Contains(t, refused(t, text), want)
	}
	status, text := ask(s, "POST", "/predict", `{"new": [`+of5(`"v1"`)+`]}`)
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "give columns in place of features")
}
