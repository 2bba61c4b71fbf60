package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/nn"
	"weft/train"
	"weft/train/predictions"
)

// tested is a model whose predictions are tested.
type tested struct {
	weights nn.State
	options train.Options
	Model
}

// trained is a small graph, whose vertices are called v0, v1, …, a model that was trained on it, and the
// predictions of all vertices.
func trained(t *testing.T, change func(*train.Options, *graph.Graph)) (tested, *train.Prediction) {
	t.Helper()
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 4, Features: 5, Classes: 3, Directed: true, Seed: 1,
	})
	require.NoError(t, err)
	require.NoError(t, g.MakeSplits("random:60/20/20", 1, 1))
	for v := range g.Types[0].Count {
		g.Types[0].Names = append(g.Types[0].Names, fmt.Sprint("v", v))
	}
	o := train.Defaults()
	o.Epochs, o.Threads = 2, 2
	if change != nil {
		change(&o, g)
	}
	job := &train.Job{Graph: g, Options: o}
	r, err := job.Run(t.Context())
	require.NoError(t, err)
	all, err := job.Predict(t.Context(), r.Weights, train.WithEmbeddings)
	require.NoError(t, err)
	p, err := job.Predictor(t.Context(), r.Weights)
	require.NoError(t, err)
	return tested{r.Weights, o, Model{About: "a model", Predictor: p, Graph: g, Table: predictions.Table{
		Columns: predictions.Logits, Classes: []string{"red", "green", "blue"},
	}}}, all
}

// start starts the goroutines that answer.
func start(t *testing.T, s *Server) {
	t.Helper()
	go s.compute()
	t.Cleanup(s.queue.close)
}

// posted is the answer to a request for predictions, whose header has further entries by name and value.
func posted(s *Server, method, path string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	if path[0] == '/' {
		path = "http://127.0.0.1:80" + path
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, body)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.Handler().ServeHTTP(w, r)
	return w
}

// ask asks the server, and returns the status and the body of its answer.
func ask(s *Server, method, path, body string, header ...string) (int, string) {
	w := posted(s, method, path, strings.NewReader(body), header...)
	return w.Code, w.Body.String()
}

// refused is what an answer says is wrong.
func refused(t *testing.T, text string) string {
	t.Helper()
	var problem struct{ Error string }
	require.NoError(t, json.Unmarshal([]byte(text), &problem), text)
	return problem.Error
}

// answered is a response as its reader has it.
type answered struct {
	Predictions []struct {
		Vertex          any
		Class           any
		Probability     float32
		Probabilities   map[string]float32
		Margin, Entropy float32
		Value           []float32
		Embedding       []float32
	}
	Unknown map[string]int
}

func predict(t *testing.T, s *Server, body string) (a answered) {
	t.Helper()
	status, text := ask(s, http.MethodPost, "/predict", body)
	require.Equal(t, http.StatusOK, status, text)
	require.NoError(t, json.Unmarshal([]byte(text), &a))
	return a
}

// softmax is that of a row, in double precision.
func softmax(row []float32) (p []float32) {
	sum := 0.
	for _, z := range row {
		sum += math.Exp(float64(z))
	}
	for _, z := range row {
		p = append(p, float32(math.Exp(float64(z))/sum))
	}
	return p
}

// TestAnswers: answers have the bits of a prediction of all vertices, in the order of the request, in which a
// vertex may come twice.
func TestAnswers(t *testing.T) {
	m, all := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	a := predict(t, s, `{"vertices": ["v7", "v0", "v7"],
		"columns": ["class", "probability", "margin", "entropy", "probabilities", "embedding"]}`)
	for i, v := range []int{7, 0, 7} {
		got := a.Predictions[i]
		row := all.Logits[v*3 : v*3+3]
		p := softmax(row)
		top := slices.Index(row, slices.Max(row))
		assert.Equal[any](t, fmt.Sprint("v", v), got.Vertex)
		assert.Equal[any](t, m.Table.Classes[top], got.Class)
		assert.Near(t, float64(p[top]), float64(got.Probability), 1e-7)
		for k, class := range m.Table.Classes {
			assert.Near(t, float64(p[k]), float64(got.Probabilities[class]), 1e-7)
		}
		entropy, sorted := 0., slices.Sorted(slices.Values(p))
		for _, x := range p {
			entropy -= float64(x) * math.Log(float64(x))
		}
		assert.Near(t, entropy, float64(got.Entropy), 1e-6)
		assert.Near(t, float64(sorted[2]-sorted[1]), float64(got.Margin), 1e-6)
		n := all.EmbeddingColumns
		assert.Equal(t, all.Embeddings[v*n:(v+1)*n], got.Embedding)
	}
	a = predict(t, s, `{"vertices": ["v3"]}`)
	if got := a.Predictions[0]; got.Embedding != nil || got.Probabilities != nil || got.Class == nil {
		t.Errorf("by default: %+v", got)
	}
}

// TestOtherTables: numbers name vertices without names and classes without names; labels, values and
// embeddings have their own columns.
func TestOtherTables(t *testing.T) {
	m, all := trained(t, func(_ *train.Options, g *graph.Graph) { g.Types[0].Names = nil })
	row := all.Logits[5*3 : 5*3+3]
	m.Table = predictions.Table{Columns: predictions.LabelLogits}
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	a := predict(t, s, `{"vertices": [5]}`)
	assert.Equal[any](t, 5., a.Predictions[0].Vertex)
	for k, z := range row {
		assert.Near(t, 1/(1+math.Exp(-float64(z))),
			float64(a.Predictions[0].Probabilities[fmt.Sprint(k)]), 1e-7)
	}
	for kind, column := range map[predictions.Columns]predictions.Answer{
		predictions.Values: predictions.Value, predictions.Embedding: predictions.Hidden,
	} {
		s.model.Table.Columns = kind
		got := predict(t, s, `{"vertices": [5], "columns": ["`+string(column)+`"]}`).Predictions[0]
		assert.Equal(t, row, append(got.Value, got.Embedding...), column)
	}
	s.model.Table.Columns = predictions.Logits
	assert.Equal[any](t, float64(slices.Index(row, slices.Max(row))),
		predict(t, s, `{"vertices": [5]}`).Predictions[0].Class)
}

// TestRefuses: what is wrong with a request is said in a line of JSON, with the way out.
func TestRefuses(t *testing.T) {
	m, _ := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1, OnlyLocal: true, Hosts: []string{"gpu1.example"}})
	start(t, s) // so that what is wrongly taken is answered
	vertices := func(list string) string { return `{"vertices": [` + list + `]}` }
	added := func(what string) string { return `{"new": [{` + what + `}]}` }
	many := func(what string, n int) string { return strings.Repeat(what+",", n) + what }
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{``, 400, `the body is empty; send {"vertices": ["v0", "v1"]}`},
		{`{"vertices": ["v1"`, 400, "the body ends within its JSON object; send all of it"},
		{`{"vertices": ["v1`, 400, "the body ends within its JSON object; send all of it"},
		{`vertices=v1`, 400, "the body is not JSON: invalid character 'v'"},
		{`]}{"vertices": ["v1"]}`, 400, "the body is not JSON: invalid character ']'"},
		{vertices(`"v1",`), 400, "the body is not JSON: invalid character ']'"},
		{vertices("\"v\n\""), 400, "the body is not JSON: invalid character"},
		{vertices("\"v\xff\""), 400, "a text is not UTF-8; send the body as UTF-8"},
		{`["v1"]`, 400, "the body is a JSON array, and not an object"},
		{`{"vertices": "v1"}`, 400, `vertices cannot be a JSON string; send {"vertices"`},
		{
			`{"new": [{"id": "a", "edges": [["a", "v1"]]}]}`, 400,
			`new.edges cannot be a JSON array; send {"out": [`,
		},
		{vertices(`null`), 400, "null stands in a list, where it has no meaning"},
		{added(`"features": [1, null]`), 400, "null stands in a list, where it has no meaning"},
		{added(`"features": [null ,1]`), 400, "null stands in a list, where it has no meaning"},
		{added(`"edges": {"in": [{"id": 1, "features": [null]}]}`), 400, "null stands in a list"},
		{
			`{"vertices": ["v1"], "columns": ["class", "entropy", "class"]}`, 400,
			`the column "class" comes twice; name it once`,
		},
		{vertices(`["v1"]`), 400, "names no vertex; give its id"},
		{`{"vertex": ["v1"]}`, 400, `the key "vertex" is not known here; keys are vertices`},
		{`{"vertices": [], "vertic\u0065s": ["v1"]}`, 400, `the key "vertices" comes twice in an object; give it once`},
		{`{"Vertices": ["v1"]}`, 400, `the key "Vertices" is not known here; keys are vertices, columns and new`},
		{added(`"edges": {"in": [], "IN": []}`), 400, `the key "IN" is not known here; keys are`},
		{added(`"weight": 1`), 400, `the key "weight" is not known here; keys are`},
		{`{"vertices": ["v1"]} {}`, 400, "the body has more than one JSON object"},
		{`{}`, 400, "no vertex is named; give the ids of some as vertices"},
		{vertices(`" w\t"`), 400, `no vertex is called "w"`},
		{vertices(`1`), 400, `no vertex is called "1"`},
		{
			`{"vertices": ["v1"], "columns": ["value"]}`, 400,
			`"value" is no column of these predictions; give some of [class probability margin`,
		},
		{`{"vertices": ["v1"], "columns": []}`, 400, "no column is named"},
		{vertices(many(`"v1"`, mostVertices)), 400, "a request has 10000 vertices at most; ask in several"},
		{`{"new": [` + many("{}", mostVertices) + `]}`, 400, "a request has 10000 vertices at most; ask in several"},
		{
			added(`"edges": {"in": [` + many("1", mostEdges) + `]}`), 400,
			"a request has 100000 new edges at most; ask in several",
		},
		{added(`"id": "x", "id": "x"`), 400, `the key "id" comes twice in an object; give it once`},
		{added(`"columns": {"a": 1, "A": 1, "a": 1}`), 400, `the key "a" comes twice in an object; give it once`},
		{added(`"features": ` + strings.Repeat("[", 1e6)), 400, "within each other 8 times, and 7 times at most"},
		{vertices(`"` + strings.Repeat("v", mostToken) + `"`), 400, "a text or a number has more than 16384 bytes"},
		{vertices(strings.Repeat("1", mostToken+1)), 400, "a text or a number has more than 16384 bytes; give fewer"},
		{strings.Repeat(" ", mostBytes+1), 413, "the body has more than 4194304 bytes"},
	} {
		status, text := ask(s, "POST", "/predict", c.body)
		assert.Equal(t, c.status, status, text)
		assert.Contains(t, refused(t, text), c.want)
		assert.Equal(t, 1, strings.Count(text, "\n"))
	}
	for _, c := range []struct {
		method, path string
		header       []string
		status       int
		want         string
	}{
		{"GET", "/predict", nil, 405, "/predict takes POST, and not GET"},
		{"PUT", "/predict", nil, 405, "/predict takes POST, and not PUT"},
		{"POST", "/healthz", nil, 405, "/healthz takes GET, and not POST"},
		{"GET", "/other", nil, 404, `there is no "/other"; POST /predict`},
		{
			"POST", "/predict",
			[]string{"Content-Type", "application/x-www-form-urlencoded"},
			415,
			"send it with the header Content-Type: application/json",
		},
		{"POST", "/predict", []string{"Content-Type", ""}, 415, "send it with the header Content-Type"},
		{"POST", "/predict", []string{"Content-Encoding", "gzip"}, 415, "without Content-Encoding: gzip"},
		{
			"GET", "http://elsewhere.example/", nil, 403,
			`this server does not answer to the name "elsewhere.example": ask it by its address, or start weft ` +
				"serve with --host and that name",
		},
	} {
		status, text := ask(s, c.method, c.path, `{"vertices": ["v1"]}`, c.header...)
		assert.Equal(t, c.status, status, text)
		assert.Contains(t, refused(t, text), c.want)
	}
	_, text := ask(s, "GET", "http://LOCALHOST/", "")
	assert.Contains(t, text, `curl -H content-type:application/json -d '{"vertices": ["v0"]}' http://ADDRESS/predict`)
	s.ids[0] = newIDs(5, nil)
	_, text = ask(s, "POST", "http://localhost/predict", `{"vertices": [5]}`)
	assert.Contains(t, text, "there is no vertex 5; vertices have the numbers 0 to 4")
}

// TestIDs: ids are found as they are and without outer blanks, which some stores keep.
func TestIDs(t *testing.T) {
	kept := newIDs(3, []string{" a", "b", "a"})
	for text, want := range map[string]int32{" a": 0, "a": 2, "b": 1, " b ": 1, " a\n": 2} {
		v, err := kept.find(id{text})
		require.NoError(t, err, "%q", text)
		assert.Equal(t, want, v, "%q", text)
	}
	_, err := kept.find(id{" c"})
	assert.EqualError(t, err, `no vertex is called "c"; give the ids of the table or the list that the store was `+
		"made of")
}

// TestIsLocal: names and addresses of the loopback device are this machine's own, with a port or without.
func TestIsLocal(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "LOCALHOST": true, "LocalHost.:80": true,
		"127.0.0.1": true, "127.0.0.1:80": true, "::1": true,
		"[::1]": true, "[::1]:80": true, "": false, "0.0.0.0": false, "::": false, "10.0.0.1:80": false,
		"elsewhere.example": false, "localhost.example:80": false, "127.0.0.1.example": false,
	} {
		assert.Equal(t, want, IsLocal(host), host)
	}
}

// TestHosts: a request names this machine by its address, as localhost, or as --host says. On an address that
// this machine alone reaches, it names such a one.
func TestHosts(t *testing.T) {
	for host, want := range map[string][2]bool{
		"localhost:80": {true, true}, "GPU1.example:80": {true, true}, "gpu1.example.": {true, true},
		"10.0.0.1:80": {true, false}, "[fe80::1]": {true, false},
		"elsewhere.example": {}, "gpu1.example.elsewhere.example": {}, "2130706433": {}, "": {},
	} {
		for i, local := range []bool{false, true} {
			o := Options{OnlyLocal: local, Hosts: []string{"other", "gpu1.example"}}
			assert.Equal(t, want[i], o.answersTo(host), "%q, local %v", host, local)
		}
	}
}
