package serve

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
	"weft/train/predictions"
)

// trainedOnEdges is a small graph of persons and shops with a model that has learned labels of what persons
// buy: from a person, called p0, p1, …, to a shop, which has a number.
func trainedOnEdges(t *testing.T, change func(*graph.Relation)) tested {
	t.Helper()
	const persons, shops = 30, 8
	g := &graph.Graph{Types: []graph.VertexType{
		{Type: "person", Frame: graph.Frame{Count: persons, Features: graph.Features{Columns: 2}}},
		{Type: "shop", Frame: graph.Frame{Count: shops, Features: graph.Features{Columns: 1}}},
	}}
	for v := range persons {
		g.Types[0].Names = append(g.Types[0].Names, fmt.Sprint("p", v))
		g.Types[0].Features.Dense = append(g.Types[0].Features.Dense, float32(v%7)/3, float32(v*v%5))
	}
	for v := range shops {
		g.Types[1].Features.Dense = append(g.Types[1].Features.Dense, float32(v%3))
	}
	e, knows := graph.Edges{FeatureColumns: 3}, graph.Edges{}
	labels := &graph.Frame{Labels: graph.Labels{Column: "fraud"}}
	labels.Labels.Classes, labels.Labels.Names = 2, []string{"no", "yes"}
	for k := range int32(90) {
		e.Source, e.Target = append(e.Source, (k*k+k)%persons), append(e.Target, k*3%shops)
		e.Weights = append(e.Weights, 1+float32(k%2))
		e.Features = append(e.Features, float32(k)/4, float32(k%2), 19000+float32(k))
		knows.Source, knows.Target = append(knows.Source, k%persons), append(knows.Target, (k*7+1)%persons)
	}
	buys, err := graph.NewBipartite(persons, shops, e)
	require.NoError(t, err)
	for k := range buys.Sources {
		labels.Labels.Class = append(labels.Labels.Class, int64(buys.Features.Dense[3*k+1]))
	}
	require.NoError(t, labels.MakeSplits("random:60/20/20", 1, 1))
	buys.Source, buys.Name, buys.Target = "person", "buys", "shop"
	buys.SetLabels(labels)
	buys.EndColumns = [2]string{"who", "class"} // an answer has a class, too
	buys.NumberColumns = columns.List{
		{Name: "price", Kind: columns.Number},
		{Name: "amount", Kind: columns.Number},
		{Name: "web", Kind: columns.Boolean},
		{Name: "day", Kind: columns.Date},
	}
	if change != nil {
		change(&buys)
	}
	friends, err := graph.NewBipartite(persons, persons, knows)
	require.NoError(t, err)
	friends.Source, friends.Name, friends.Target = "person", "knows", "person"
	g.Relations = []graph.Relation{buys, friends}
	g, err = g.ReverseRelations()
	require.NoError(t, err)
	require.NoError(t, g.Check())
	o := train.Defaults()
	o.Task, o.EdgeLabel, o.Epochs, o.Hidden, o.Model, o.Threads = "edge", "fraud", 3, 8, "rgcn", 1
	job := &train.Job{Graph: g, Options: o}
	r, err := job.Run(t.Context())
	require.NoError(t, err)
	p, err := job.Predictor(t.Context(), r.Weights)
	require.NoError(t, err)
	return tested{r.Weights, o, Model{About: "a model", Predictor: p, Graph: g, Table: predictions.Table{
		Columns: predictions.Logits, Classes: []string{"no", "yes"},
		Edges: &predictions.EdgeEnds{Columns: [2]string{"who", "target"}},
	}}}
}

// yes is the probability of the second class in a row of logits.
func yes(row []float32) float64 { return 1 / (1 + math.Exp(float64(row[0])-float64(row[1]))) }

// TestEdges: new edges are named by their ends and columns, and those of the graph by numbers. The answers
// are those of predictions beside, in the order of the request, with the ends by their ids. New vertices may
// be ends, and their edges of other relations pass messages.
func TestEdges(t *testing.T) {
	m := trainedOnEdges(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	type answer struct {
		Predictions []struct {
			Edge          *int64
			Who           string
			Target        any
			Class         string
			Probabilities map[string]float64
		}
	}
	answered := func(body string) (a answer) {
		t.Helper()
		status, text := ask(s, http.MethodPost, "/predict", body)
		require.Equal(t, http.StatusOK, status, text)
		require.NoError(t, json.Unmarshal([]byte(text), &a), text)
		return a
	}
	job := &train.Job{Graph: m.Graph, Options: m.options}
	all, err := job.Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	r := &m.Graph.Relations[0]
	a := answered(`{"edges": [ 7, {"who": " p3", "class": "5", "amount": "2.5", "web": true, "day": "2022-01-08",
		"notes": {"any": [1, {}]}}, "0", {"web": "no", "amount": -1, "day": "2022-01-09T12:00:00Z", "class": 0,
		"who": "p29", "price": 9}], "columns": ["probabilities"]}`)
	require.Len(t, a.Predictions, 4)
	e := &graph.Edges{
		Source: []int32{3, 29}, Target: []int32{5, 0}, Features: []float32{2.5, 1, 19000, -1, 0, 19001.5},
	}
	job.Edges = e
	added, err := job.Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	for i, want := range [][]float32{all.Logits[14:16], added.Logits[:2], all.Logits[:2], added.Logits[2:]} {
		assert.Near(t, yes(want), a.Predictions[i].Probabilities["yes"], 1e-7)
		assert.Near(t, 1-yes(want), a.Predictions[i].Probabilities["no"], 1e-7)
		assert.Equal(t, "", a.Predictions[i].Class)
	}
	source, target := r.EndsOf(7)
	assert.Equal(t, int64(7), *a.Predictions[0].Edge)
	assert.Equal(t, fmt.Sprint("p", source), a.Predictions[0].Who)
	assert.Equal[any](t, float64(target), a.Predictions[0].Target)
	assert.Equal(t, int64(0), *a.Predictions[2].Edge)
	assert.Equal(t, nil, a.Predictions[3].Edge)
	assert.Equal(t, "p29", a.Predictions[3].Who)
	assert.Equal[any](t, 0., a.Predictions[3].Target)

	a = answered(`{"edges": [{"who": "x", "class": "y", "amount": 3, "web": false, "day": "2022-01-08"}], "new": [
		{"id": "x", "features": [1, 0.5], "edges": {"in": [{"id": "p4", "relation": "knows"}]}},
		{"id": "y", "type": "shop", "features": [2]}], "columns": ["probabilities"]}`)
	more := m.Predictor.Base().Nothing()
	more.Types[0].Append([]float32{1, .5})
	more.Types[1].Append([]float32{2})
	more.Edges[1] = graph.Edges{Source: []int32{4}, Target: []int32{30}}
	more.AddReverses(m.Graph, 0)
	with, err := appended.On(m.Graph).With(more)
	require.NoError(t, err)
	job.Appended = with
	job.Edges = &graph.Edges{
		Source: []int32{30}, Target: []int32{8}, Features: []float32{3, 0, 19000},
	}
	want, err := job.Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	assert.Near(t, yes(want.Logits), a.Predictions[0].Probabilities["yes"], 1e-7)
	_, text := ask(s, http.MethodPost, "/predict", `{"edges": [{"who": "x", "class": "y", "amount": 3, "web": false,
		"day": "2022-01-08"}], "new": [{"id": "x", "features": [1, 0.5]}, {"id": "y", "type": "shop", "features": [2]}]}`)
	assert.Contains(t, text, `{"predictions":[{"who":"x","target":"y","class":"`)
	_, text = ask(s, "GET", "/", "")
	assert.Contains(t, text, `-d '{"edges": [{"who": "p`)
	_, text = ask(s, "GET", "/metrics", "")
	assert.Contains(t, text, "weft_computed_edges_total 6\n")
	body := s.example(1) // which can be asked for
	require.Len(t, answered(body).Predictions, 1)
}

// TestRefusedReverses: a new vertex has no edge of the learned relation, nor of its reverse, whichever of the
// two is called the reverse of the other.
func TestRefusedReverses(t *testing.T) {
	g := &graph.Graph{Relations: []graph.Relation{
		{Source: "shop", Name: "rev_buys", Target: "person"},
		{Source: "person", Name: "buys", Target: "shop"},
		{Source: "person", Name: "buys", Target: "person"},
	}}
	for learns := range 2 {
		l := &learned{relation: learns, edges: &g.Relations[learns]}
		for relation, refused := range []bool{true, true, false} {
			assert.Equal(t, refused, l.refuse(g, relation) != nil, "%d of %d", relation, learns)
		}
	}
}

// TestEdgesTogether: requests of edges that wait share an inference, and have the answers of one by one. One
// that fails fails no other.
func TestEdgesTogether(t *testing.T) {
	m := trainedOnEdges(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 9})
	large := &graph.Edges{Source: []int32{1}, Target: []int32{1}, Features: []float32{3e38, 3e38, 3e38}}
	var questions []*question
	for k := range int64(5) {
		source, target := s.learned.edges.EndsOf(k)
		e := &graph.Edges{
			Source: []int32{source, source}, Target: []int32{target, target},
			Features: slices.Repeat(s.learned.edges.Features.Dense[3*k:3*k+3], 2),
		}
		q := &question{Query: train.Query{Edges: e, Numbers: []int64{k, -1}}, answered: make(chan answer, 1)}
		questions = append(questions, q)
	}
	q := &question{Query: train.Query{Edges: large, Numbers: []int64{-1}}, answered: make(chan answer, 1)}
	questions = append(questions, q)
	for _, q := range questions {
		s.queue.put(q)
	}
	batch := s.queue.take()
	require.Len(t, batch, len(questions))
	s.answer(batch)
	all, err := (&train.Job{Graph: m.Graph, Options: m.options}).Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	for k, q := range questions[:5] {
		a := <-q.answered
		require.NoError(t, a.err)
		for _, row := range a.results {
			assert.Equal(t, all.Logits[2*k:2*k+2], row)
		}
		assert.Equal(t, 2, len(a.results))
	}
	assert.Refused(t, (<-questions[5].answered).err, "new edge 1: its prediction is not finite")
}

// TestRefusesEdges: what is wrong with a request of edges is told in a line.
func TestRefusesEdges(t *testing.T) {
	m := trainedOnEdges(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	edges := func(list string) string { return `{"edges": [` + list + `]}` }
	edge := func(rest string) string { return edges(`{"who": "p1", "class": 2` + rest + `}`) }
	const all = `, "amount": 1, "web": true, "day": "2022-01-08"`
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{``, 400, `the body is empty; send {"edges": [{"who": "p`},
		{`{"edges": [{"who": "p1"`, 400, "the body ends within its JSON object; send all of it"},
		{`{}`, 400, "no edge is named; give some as edges"},
		{edges(``), 400, "no edge is named; give some as edges"},
		{`{"vertices": ["p1"]}`, 400, "vertices: the model predicts edges, and no vertices; give edges"},
		{`{"edges": 5}`, 400, `edges cannot be a JSON number; send {"edges": [{"who": "p`},
		{`{"edges": {"who": "p1"}}`, 400, `edges cannot be a JSON object; send {"edges": [{"who": "p`},
		{edges(`null`), 400, "null stands in a list"},
		{edges(`[1]`), 400, "[1] is no edge; give an object with its ends, or the number of one of the store"},
		{edges(`true`), 400, "true is no edge"},
		{edges(`1.5`), 400, "1.5 is no edge"},
		{edges(`90`), 400, `edge 1: there is no edge "90"; edges have the numbers 0 to 89`},
		{edges(`0, -1`), 400, `edge 2: there is no edge "-1"; edges have the numbers 0 to 89`},
		{edges(`99999999999999999999`), 400, "is no edge"},
		{edges(`"p1"`), 400, `edge 1: there is no edge "p1"`},
		{edges(`{}`), 400, `edge 1: it has no who; send {"edges": [{"who": "p`},
		{edges(`{"who": "p1", "target": 2}`), 400, `edge 1: it has no class; send {"edges"`},
		{edges(`{"Who": "p1"}`), 400, `edge 1: it has no who`},
		{edges(`{"who": "p99", "class": 2` + all + `}`), 400, `edge 1: who: no vertex is called "p99"`},
		{edges(`{"who": null, "class": 2` + all + `}`), 400, `edge 1: who: null names no vertex`},
		{edges(`{"who": ["p1"], "class": 2` + all + `}`), 400, `edge 1: who: ["p1"] names no vertex`},
		{edges(`{"who": "p1", "class": 8` + all + `}`), 400, "edge 1: class: there is no vertex 8; vertices have the numbers 0 to 7"},
		{edge(``), 400, "edge 1: column amount: it is not given; send {\"edges\": [{\"who\": \"p"},
		{edge(`, "amount": 1, "web": true`), 400, "edge 1: column day: it is not given"},
		{edge(`, "amount": null, "web": true`), 400, `edge 1: column amount: "null" is no number, and no edge of the graph lacks one`},
		{edge(`, "amount": "many"`), 400, `edge 1: column amount: "many" is no finite number`},
		{edge(`, "amount": ""`), 400, `edge 1: column amount: "" is no number`},
		{edge(`, "amount": 1e39`), 400, `edge 1: column amount: "1e39" is no finite number`},
		{edge(`, "amount": "NaN"`), 400, `edge 1: column amount: "NaN" is no number`},
		{edge(`, "amount": [1]`), 400, "edge 1: column amount: [1] is no value of a table"},
		{edge(`, "amount": 1, "web": 7`), 400, `edge 1: column web: "7" is no boolean`},
		{edge(`, "amount": 1, "web": null`), 400, `edge 1: column web: "null" is no boolean`},
		{edge(`, "amount": 1, "web": true, "day": "2022-13-41"`), 400, `edge 1: column day: "2022-13-41" is no date`},
		{edge(`, "amount": 1, "amount": 1`), 400, `the key "amount" comes twice in an object; give it once`},
		{edge(`, "x": [1, null]`), 400, "null stands in a list"},
		{edges(strings.Repeat("1,", mostVertices) + "1"), 400, "a request has 10000 edges at most; ask in several"},
		{
			`{"edges": [1], "columns": ["embedding"]}`, 400,
			`"embedding" is no column of these predictions; give some of [class`,
		},
		{
			`{"edges": [1], "new": [{"id": "x", "features": [1, 2], "edges": {"out": [{"id": 1, "relation": "buys"}]}}]}`,
			400, `new vertex "x": edges of buys are predicted; give it in edges`,
		},
		{
			`{"edges": [1], "new": [{"id": "x", "features": [1, 2], "edges": {"in": [{"id": 1, "relation": "rev_buys"}]}}]}`,
			400, `new vertex "x": edges of buys are predicted; give it in edges`,
		},
		{`{"edges": [1], "new": [{"id": "x", "features": [1]}]}`, 400, "it has 1 features, and the graph's vertices have 2"},
		{edge(all + `, "x": ` + strings.Repeat("[", 1e6)), 400, "within each other 8 times, and 7 times at most"},
	} {
		status, text := ask(s, "POST", "/predict", c.body)
		assert.Equal(t, c.status, status, text)
		assert.Contains(t, refused(t, text), c.want)
		assert.Equal(t, 1, strings.Count(text, "\n"))
	}
	v, _ := trained(t, nil)
	other := New(v.Model, Options{Workers: 1, Queue: 1})
	status, text := ask(other, "POST", "/predict", edges(`1`))
	assert.Equal(t, 400, status)
	assert.Contains(t, text, "edges: the model predicts vertices, and no edges; give vertices")
}

// TestEdgesWithGaps: a value is missing where some of the graph's are.
func TestEdgesWithGaps(t *testing.T) {
	m := trainedOnEdges(t, func(r *graph.Relation) {
		r.NumberColumns = columns.List{
			r.NumberColumns[0],
			{Name: "amount", Kind: columns.Number, Mean: 4, Gaps: true},
			{Name: "day", Kind: columns.Date, Mean: 19010}, // whose mean says that some were missing
		}
	})
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	assert.Contains(t, s.example(1), `"day": "2022-0`)
	_, text := ask(s, "POST", "/predict", `{"columns": ["margin"], "edges": [
		{"who": "p3", "class": 5, "amount": null, "day": "2022-01-08"},
		{"who": "p3", "class": 5, "amount": 7.5, "day": "2022-01-08"},
		{"who": "p3", "class": 5, "amount": 7.5, "day": null}]}`)
	job := &train.Job{Graph: m.Graph, Options: m.options}
	job.Edges = &graph.Edges{
		Source: []int32{3, 3, 3}, Target: []int32{5, 5, 5},
		Features: []float32{4, 1, 19000, 7.5, 0, 19000, 7.5, 0, 19010},
	}
	want, err := job.Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	var got struct{ Predictions []struct{ Margin float64 } }
	require.NoError(t, json.Unmarshal([]byte(text), &got), text)
	for k, prediction := range got.Predictions {
		assert.Near(t, math.Abs(2*yes(want.Logits[2*k:])-1), prediction.Margin, 1e-6)
	}
	require.Len(t, got.Predictions, 3)
}

// TestEdgesOfArrays: where no list has names of columns, ends are source and target, and features a list.
func TestEdgesOfArrays(t *testing.T) {
	m := trainedOnEdges(t, func(r *graph.Relation) {
		r.EndColumns, r.NumberColumns, r.Weights = [2]string{}, nil, nil
	})
	m.Table.Edges.Columns = [2]string{"source", "target"}
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	_, text := ask(s, "POST", "/predict", `{"edges": [{"source": "p3", "target": 5, "features": [1, 0, 19000.5]}],
		"columns": ["margin"]}`)
	job := &train.Job{Graph: m.Graph, Options: m.options}
	job.Edges = &graph.Edges{
		Source: []int32{3}, Target: []int32{5}, Features: []float32{1, 0, 19000.5},
	}
	want, err := job.Predict(t.Context(), m.weights, train.Logits)
	require.NoError(t, err)
	var got struct{ Predictions []struct{ Margin float64 } }
	require.NoError(t, json.Unmarshal([]byte(text), &got), text)
	assert.Near(t, math.Abs(2*yes(want.Logits)-1), got.Predictions[0].Margin, 1e-6)
	status, text := ask(s, "POST", "/predict", `{"edges": [{"source": "p3", "target": 5, "features": [3e38, 3e38, 3e38]}]}`)
	assert.Equal(t, http.StatusUnprocessableEntity, status)
	assert.Contains(t, refused(t, text), "new edge 1: its prediction is not finite")
	for features, want := range map[string]string{
		``: "edge 1: it has 0 features, and the graph's edges have 3; give as many", `[1]`: "edge 1: it has 1 features",
		`"x"`: `edge 1: features: "x" is no list of numbers`, `[1, 2, 1e39]`: "features: [1, 2, 1e39] is no list of numbers",
		`[1, 2, null]`: "null stands in a list",
	} {
		if features != "" {
			features = `, "features": ` + features
		}
		status, text := ask(s, "POST", "/predict", `{"edges": [{"source": "p3", "target": 5`+features+`}]}`)
		assert.Equal(t, 400, status, text)
		assert.Contains(t, refused(t, text), want)
	}
}
