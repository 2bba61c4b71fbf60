package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
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
	if one := a.Predictions[0]; one.Embedding != nil || one.Probabilities != nil || one.Class == nil {
		t.Errorf("by default: %+v", one)
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
		one := predict(t, s, `{"vertices": [5], "columns": ["`+string(column)+`"]}`).Predictions[0]
		assert.Equal(t, row, append(one.Value, one.Embedding...), column)
	}
	s.model.Table.Columns = predictions.Logits
	assert.Equal[any](t, float64(slices.Index(row, slices.Max(row))),
		predict(t, s, `{"vertices": [5]}`).Predictions[0].Class)
}

// TestTogether: requests that wait share an inference, unless they ask for other outputs or for many
// vertices. The bits of their answers are those of one by one.
func TestTogether(t *testing.T) {
	m, all := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 4})
	var asked []*question
	put := func(outputs train.Outputs, vertices ...int32) {
		q := &question{vertices: vertices, outputs: outputs, answered: make(chan answer, 1)}
		asked = append(asked, q)
		s.queue.put(q)
	}
	put(train.Logits, 3)
	put(train.Logits, 9, 3)
	put(train.WithEmbeddings, 4)
	put(train.WithEmbeddings, make([]int32, mostTogether)...)
	s.queue.close()
	sizes := []int{}
	for batch := s.queue.take(); batch != nil; batch = s.queue.take() {
		sizes = append(sizes, len(batch))
		s.answer(batch)
	}
	assert.Equal(t, []int{2, 1, 1}, sizes)
	for _, q := range asked {
		a := <-q.answered
		require.NoError(t, a.err)
		for i, v := range q.vertices {
			assert.Equal(t, all.Logits[v*3:v*3+3], a.results[i])
		}
	}
}

// TestApart: of questions that share an inference, which fails, each has the answer that it has alone.
func TestApart(t *testing.T) {
	m, all := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 4, Log: log.New(io.Discard, "", 0)})
	good := &question{vertices: []int32{3}, answered: make(chan answer, 1)}
	bad := &question{vertices: []int32{1 << 20}, answered: make(chan answer, 1)}
	s.answer([]*question{good, bad})
	a := <-good.answered
	require.NoError(t, a.err)
	assert.Equal(t, all.Logits[9:12], a.results[0])
	assert.Error(t, (<-bad.answered).err, "a vertex that is not there")
}

// TestQueue: inferences take turns between the oldest question and the smallest. Where one too many waits,
// the newest of the largest is refused. A queue that has ended refuses all.
func TestQueue(t *testing.T) {
	q := newQueue(4)
	edges := &appended.Graph{Added: &appended.Addition{Edges: []graph.Edges{{Source: make([]int32, 250)}}}}
	var names []string
	asked := map[*question]string{}
	put := func(name string, vertices int, added *appended.Graph) {
		one := &question{vertices: make([]int32, vertices), added: added, answered: make(chan answer, 1)}
		asked[one] = name
		q.put(one)
	}
	put("first", 200, nil)
	put("second", 300, nil)
	put("edges", 1, edges)
	put("third", 300, nil)
	put("small", 1, nil)
	put("large", 400, nil)
	q.close()
	put("late", 1, nil)
	for batch := q.take(); batch != nil; batch = q.take() {
		names = append(names, asked[batch[0]])
	}
	assert.Equal(t, []string{"first", "small", "second", "edges"}, names)
	refused := map[string]string{}
	for one, name := range asked {
		select {
		case a := <-one.answered:
			refused[name] = a.err.Error()
		default:
		}
	}
	const full = "4 requests wait, and no more may; ask again in a second"
	assert.Equal(t, map[string]string{"third": full, "large": full, "late": errEnds.Error()}, refused)
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

// TestFull: a request that finds no place is told when to come again, and the others are counted.
func TestFull(t *testing.T) {
	m, _ := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 2})
	answers := make(chan int)
	for range 2 {
		go func() {
			status, _ := ask(s, "POST", "/predict", `{"vertices": ["v1"]}`)
			answers <- status
		}()
	}
	for s.queue.length() < 2 {
	}
	w := posted(s, "POST", "/predict", strings.NewReader(`{"vertices": ["v1"]}`))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	_, text := ask(s, "GET", "/metrics", "")
	assert.Contains(t, text, "weft_queue_length 2\n")
	start(t, s)
	assert.Equal(t, []int{200, 200}, []int{<-answers, <-answers})
	_, text = ask(s, "GET", "/metrics", "")
	for _, line := range []string{
		`weft_requests_total{status="200"} 2`, `weft_requests_total{status="503"} 1`,
		"weft_graph_vertices 60",
		"weft_queue_length 0", "weft_request_duration_seconds_count 3", "process_resident_memory_bytes ",
	} {
		assert.Contains(t, text, line)
	}
}

// listener has connections that are pipes.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener() *listener {
	return &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *listener) Addr() net.Addr { return &net.UnixAddr{} }

// connect makes a connection to the server.
func (l *listener) connect() net.Conn {
	here, there := net.Pipe()
	l.conns <- there
	return here
}

// serving is a server within a synctest bubble, with its connections, and what ends it.
func serving(t *testing.T, m Model, o Options) (s *Server, l *listener, end func() error) {
	t.Helper()
	s, l = New(m, o), newListener()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	return s, l, func() error {
		cancel()
		return <-ended
	}
}

const head = "POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
	"Content-Length: %d\r\n\r\n"

// send asks for a prediction over a connection.
func send(c net.Conn) {
	const body = `{"vertices": ["v1"]}`
	fmt.Fprintf(c, head+body, len(body))
}

// answerOn is what comes over a connection.
func answerOn(t *testing.T, c net.Conn) *http.Response {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, r.Body)
	require.NoError(t, err)
	return r
}

// TestEnd: once the server ends, requests that it has taken are answered, and those that open connections
// bring within half a second. Each answer then is its connection's last.
func TestEnd(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Workers: 1, Queue: 3})
		early, idle := l.connect(), l.connect()
		send(idle)
		assert.Equal(t, false, answerOn(t, idle).Close)
		s.queue.mu.Lock() // the worker waits
		send(early)
		ended := make(chan error)
		go func() { ended <- end() }()
		s.queue.mu.Unlock()
		synctest.Wait()
		send(idle)
		assert.Equal(t, http.StatusOK, answerOn(t, early).StatusCode)
		last := answerOn(t, idle)
		assert.Equal(t, http.StatusOK, last.StatusCode)
		assert.Equal(t, true, last.Close)
		assert.NoError(t, <-ended)
		assert.Equal(t, int64(3), s.Answered())
	})
}

// TestWaits: a request may wait longer than its body may take to come, and /metrics tells in seconds how long
// it did.
func TestWaits(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Queue: 3})
		patient := l.connect()
		send(patient)
		time.Sleep(2 * readDeadline)
		assert.Equal(t, 1, s.queue.length())
		go s.compute()
		answer := answerOn(t, patient)
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		assert.Equal(t, true, answer.ContentLength > 0)
		_, text := ask(s, "GET", "/metrics", "")
		assert.Contains(t, text, "weft_request_duration_seconds_sum 30\n")
		assert.NoError(t, end())
	})
}

// grown is a graph with vertices of these features behind its own, and edges.
func grown(t *testing.T, of *graph.Graph, features []float32, source, target []int32) *graph.Graph {
	t.Helper()
	g := *of.Copy()
	g.Types[0].Count, g.Types[0].Names = g.Types[0].Count+len(features)/g.Types[0].Features.Columns, nil
	e := of.Relations[0].Edges()
	e.Source, e.Target = slices.Concat(e.Source, source), slices.Concat(e.Target, target)
	r, err := graph.NewRelation(g.Types[0].Count, e)
	require.NoError(t, err)
	g.Relations = []graph.Relation{r}
	g.Types[0].Features.Dense = slices.Concat(g.Types[0].Features.Dense, features)
	g.Labels.Class = slices.Clone(g.Labels.Class)
	for range g.Types[0].Count - of.Types[0].Count {
		g.Labels.Class = append(g.Labels.Class, -1)
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
		var of predictions.Outcome
		of.Of(predictions.Logits, all.Logits[v*3:v*3+3])
		for k, class := range m.Table.Classes {
			assert.Equal(t, float32(of.Probabilities[k]), a.Predictions[i].Probabilities[class])
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
	of := func(end string) answered {
		return predict(t, s, `{"columns": ["probabilities"], "new": [`+of5(end+`, {"id": "v7", "weight": 3}`)+`]}`)
	}
	without := of(`{"id": "v2"}`)
	assert.Equal(t, of(`{"id": "v2", "weight": 1}`), without)
	assert.Equal(t, of(`{"id": "v2", "weight": null}`), without)
	assert.Equal(t, of(`"v2"`), without)
	if other := of(`{"id": "v2", "weight": 2}`); fmt.Sprint(other) == fmt.Sprint(without) {
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
	whole := *m.Graph // as the model reads the other graph, where no vertex is of Rome
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
