package serve

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/graph"
	"weft/graph/appended"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/train"
)

// Requests wait for each other, and for a run that is replaced.

// TestTogether: requests that wait share an inference, unless they ask for other outputs or for many
// vertices. The bits of their answers are those of one by one.
func TestTogether(t *testing.T) {
	m, all := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 4})
	var asked []*question
	put := func(outputs train.Outputs, vertices ...int32) {
		q := &question{outputs: outputs, answered: make(chan answer, 1)}
		q.Vertices = vertices
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
		for i, v := range q.Vertices {
			assert.Equal(t, all.Logits[v*3:v*3+3], a.results[i])
		}
	}
}

// TestApart: of questions that share an inference, which fails, each has the answer that it has alone.
func TestApart(t *testing.T) {
	m, all := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 4, Log: log.New(io.Discard, "", 0)})
	good := &question{Query: train.Query{Vertices: []int32{3}}, answered: make(chan answer, 1)}
	bad := &question{Query: train.Query{Vertices: []int32{1 << 20}}, answered: make(chan answer, 1)}
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
		entry := &question{answered: make(chan answer, 1)}
		entry.Query = train.Query{Vertices: make([]int32, vertices), Appended: added}
		asked[entry] = name
		q.put(entry)
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
	for entry, name := range asked {
		select {
		case a := <-entry.answered:
			refused[name] = a.err.Error()
		default:
		}
	}
	const full = "4 requests wait, and no more may; ask again in a second"
	assert.Equal(t, map[string]string{"third": full, "large": full, "late": errEnds.Error()}, refused)
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

func (l *listener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

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
