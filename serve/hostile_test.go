package serve

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"weft/graph"
	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/gate"
	"weft/internal/require"
	"weft/train"
	"weft/train/predictions"
)

// endless is a text that comes again and again. It counts how much of it is read.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n < len(p) {
		n += copy(p[n:], e.text[(e.read+n)%len(e.text):])
	}
	e.read += n
	return n, nil
}

// TestDecodesAsItComes: no more of a body is read than up to the first thing that is too much, and what is
// kept of it takes little memory.
func TestDecodesAsItComes(t *testing.T) {
	m, _ := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	for begin, c := range map[string]struct {
		more string
		most int
	}{
		`{"vertices": [`:              {`"v1",`, 5 * mostVertices},
		`{"new": [`:                   {`{},`, 3 * mostVertices},
		`{"new": [{"edges": {"in": [`: {`1,`, 2 * mostEdges},
		`{"new": [{"columns": {`:      {`"x": 1,`, 1},
		`{"vertices": [{"id":`:        {`[`, 1},
		`{"vertices": ["`:             {`v`, mostToken},
		`{"vertices": [1`:             {`1`, mostToken},
		`{"vertices": ["\\`:           {`\"`, mostToken},
	} {
		more, h := &endless{text: c.more}, &holding{all: &s.memory}
		_, err := s.read(io.MultiReader(strings.NewReader(begin), more), h)
		var bad badRequest
		require.Equal(t, true, errors.As(err, &bad), begin)
		assert.Equal(t, http.StatusBadRequest, bad.status, bad)
		if more.read > 2*c.most+4096 || h.bytes > mostMemory {
			t.Errorf("%s: %d bytes are read, %d kept: %v", begin, more.read, h.bytes, err)
		}
		h.release()
	}
	assert.Equal(t, int64(0), s.memory.Load())
	long := &endless{text: " "}
	w := posted(s, "POST", "/predict", long)
	assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	assert.Equal(t, mostRead+1, long.read, "what is read of a long body, so that its client hears")
}

// TestMemory: where requests hold all memory, one that needs more than its own is told when to come again,
// and a small one is answered. One that needs more than any may is refused. All is given back.
func TestMemory(t *testing.T) {
	m, _ := trained(t, nil)
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	start(t, s)
	large := `{"vertices": [` + strings.Repeat(`"v1",`, 2000) + `"v2"]}`
	const taken = allMemory + 1
	s.memory.Store(taken)
	w := posted(s, "POST", "/predict", strings.NewReader(large))
	assert.Equal(t, http.StatusServiceUnavailable, w.Code)
	assert.Equal(t, "1", w.Header().Get("Retry-After"))
	assert.Equal(t, "other requests hold the memory that this one needs; ask again in a second",
		refused(t, w.Body.String()))
	status, _ := ask(s, "POST", "/predict", `{"vertices": ["w"`+strings.Repeat(" ", freeMemory)+"]}")
	assert.Equal(t, http.StatusServiceUnavailable, status, "before it is decoded")
	columns := `"a": 1`
	for k := range 600 {
		columns += fmt.Sprintf(`,"%d":1`, k)
	}
	status, _ = ask(s, "POST", "/predict", `{"new": [{"columns": {`+columns+`}}]}`)
	assert.Equal(t, http.StatusServiceUnavailable, status, "for the memory of keys")
	predict(t, s, `{"vertices": ["v1"]}`)
	assert.Equal(t, int64(taken), s.memory.Load())
	s.memory.Store(0)
	predict(t, s, large)
	s.model.Table.Classes = []string{strings.Repeat("c", 1<<16), "d", "e"}
	status, text := ask(s, "POST", "/predict", large[:len(large)-1]+`, "columns": ["probabilities"]}`)
	assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	assert.Contains(t, refused(t, text), "take more than 128 MiB of memory; ask for fewer vertices at a time")
	assert.Equal(t, int64(0), s.memory.Load())
}

// TestTurns: bodies that are not small wait for each other's decoding, and small ones for none. Who has a
// turn has none while its client sends nothing, nor while it waits for an inference.
func TestTurns(t *testing.T) {
	m, _ := trained(t, nil)
	large := `{"vertices": ["v1"` + strings.Repeat(" ", 2*smallBody)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Queue: 3})
		for range cap(s.permits) {
			s.permits <- struct{}{}
		}
		slow, quick := l.connect(), l.connect()
		sent := false
		go func() {
			fmt.Fprintf(slow, head+"%s", len(large)+2, large)
			sent = true
		}()
		synctest.Wait()
		assert.Equal(t, false, sent)
		fmt.Fprintf(quick, head+"{}", 2)
		assert.Equal(t, http.StatusBadRequest, answerOn(t, quick).StatusCode)
		assert.Equal(t, cap(s.permits), len(s.permits))
		for range cap(s.permits) {
			<-s.permits
		}
		synctest.Wait()
		assert.Equal(t, true, sent)
		assert.Equal(t, 0, len(s.permits))
		fmt.Fprint(slow, "]}")
		synctest.Wait()
		assert.Equal(t, 1, s.queue.length())
		assert.Equal(t, 0, len(s.permits))
		go s.compute()
		assert.Equal(t, http.StatusOK, answerOn(t, slow).StatusCode)
		assert.NoError(t, end())
	})
}

// TestSlowBodies: clients that hold back the end of their bodies take no place from others, and are told
// when it has taken too long. One that sends slowly enough has more time.
func TestSlowBodies(t *testing.T) {
	m, _ := trained(t, nil)
	const body = `{"vertices": ["v1"]}`
	synctest.Test(t, func(t *testing.T) {
		_, l, end := serving(t, m.Model, Options{Workers: 1, Queue: 1})
		var stalled []net.Conn
		for range 300 {
			c := l.connect()
			fmt.Fprintf(c, head+body[:len(body)-1], len(body))
			stalled = append(stalled, c)
		}
		steady := l.connect()
		fmt.Fprintf(steady, head+body[:len(body)-1], len(body)+7*leastASpeed)
		for range 20 {
			c := l.connect()
			send(c)
			assert.Equal(t, http.StatusOK, answerOn(t, c).StatusCode)
		}
		began := time.Now()
		for range 7 {
			time.Sleep(time.Second)
			fmt.Fprint(steady, strings.Repeat(" ", leastASpeed))
		}
		for _, c := range stalled {
			assert.Equal(t, http.StatusRequestTimeout, answerOn(t, c).StatusCode)
		}
		fmt.Fprint(steady, "}")
		assert.Equal(t, http.StatusOK, answerOn(t, steady).StatusCode)
		assert.Equal(t, 7*time.Second, time.Since(began))

		drips := l.connect()
		began = time.Now()
		fmt.Fprintf(drips, head+"{", 1000)
		go func() {
			for err := error(nil); err == nil; _, err = fmt.Fprint(drips, " ") {
				time.Sleep(2 * time.Second)
			}
		}()
		assert.Equal(t, http.StatusRequestTimeout, answerOn(t, drips).StatusCode)
		if took := time.Since(began); took < firstBytes || took > firstBytes+time.Second {
			t.Errorf("a body that drips is refused after %s", took)
		}
		assert.NoError(t, drips.Close())
		time.Sleep(3 * time.Second) // until its client has seen that
		assert.NoError(t, end())
	})
}

// TestRefusalsTakeTurns: refusals leave one by one, so that a flood of what is refused takes little from
// others.
func TestRefusalsTakeTurns(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		_, l, end := serving(t, m.Model, Options{Workers: 1, Queue: 1})
		var refused []net.Conn
		began := time.Now()
		for range 20 {
			c := l.connect()
			fmt.Fprintf(c, head+"{}", 2)
			refused = append(refused, c)
		}
		c := l.connect()
		send(c)
		assert.Equal(t, http.StatusOK, answerOn(t, c).StatusCode)
		assert.Equal(t, 0, time.Since(began))
		for _, c := range refused {
			assert.Equal(t, http.StatusBadRequest, answerOn(t, c).StatusCode)
		}
		assert.Equal(t, 20*restPace, time.Since(began))
		assert.NoError(t, end())
	})
}

// TestConnections: where all places are taken, a connection that holds back its body, or whose body waits for
// a turn, makes room for another, and one that waits for its answer stays.
func TestConnections(t *testing.T) {
	m, _ := trained(t, nil)
	for _, body := range []string{"{", strings.Repeat(" ", 2*smallBody)} {
		synctest.Test(t, func(t *testing.T) {
			s, l := New(m.Model, Options{Queue: 3}), newListener()
			entry, server := gate.New(l, 2), &http.Server{Handler: s.Handler()}
			entry.Attend(server)
			go func() { _ = server.Serve(entry) }()
			for range cap(s.permits) {
				s.permits <- struct{}{}
			}
			waits := l.connect()
			send(waits)
			time.Sleep(time.Millisecond)
			slow, began := l.connect(), time.Now()
			go fmt.Fprintf(slow, head+"%s", 4*smallBody, body)
			next := l.connect()
			_ = next.SetDeadline(began.Add(time.Minute)) // a pipe has deadlines
			send(next)
			synctest.Wait()
			assert.Equal(t, 2, s.queue.length())
			assert.Equal(t, true, time.Since(began) < time.Second)
			go s.compute()
			for _, c := range []net.Conn{waits, next} {
				assert.Equal(t, http.StatusOK, answerOn(t, c).StatusCode)
			}
			_, err := slow.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF)
			assert.NoError(t, server.Close())
			s.queue.close()
			time.Sleep(time.Second) // until handlers have ended
		})
	}
}

// TestUnread: a client that does not read its answer loses its connection, and holds no memory then.
func TestUnread(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Workers: 1, Queue: 1})
		c := l.connect()
		send(c)
		time.Sleep(writeDeadline + time.Second)
		_, err := c.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		assert.Equal(t, int64(0), s.memory.Load())
		assert.NoError(t, end())
	})
}

// TestEndWhatever: the server ends in time though clients hold back bodies, do not read, send nothing, or
// wait for an inference that takes too long, which is told.
func TestEndWhatever(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Queue: 3})
		slow, silent, waiting := l.connect(), l.connect(), l.connect()
		fmt.Fprintf(slow, head+"{", 1000)
		send(waiting)
		unread := l.connect()
		fmt.Fprint(unread, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		go func() { // the inference, as long as it may
			q := s.queue.take()[0]
			<-s.working.Done()
			s.answer([]*question{q})
		}()
		answers := make(chan *http.Response)
		go func() { answers <- answerOn(t, waiting) }()
		began := time.Now()
		assert.NoError(t, end())
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the end took %s", took)
		}
		assert.Equal(t, http.StatusServiceUnavailable, (<-answers).StatusCode)
		for _, c := range []net.Conn{slow, silent, unread} {
			_, err := c.Read(make([]byte, 1))
			assert.ErrorIs(t, err, io.EOF)
		}
	})
}

// failing answers each question of a server in place of its inferences.
func failing(s *Server, with answer) {
	go func() {
		for batch := s.queue.take(); batch != nil; batch = s.queue.take() {
			for _, q := range batch {
				q.answered <- s.finish(q, with)
			}
		}
	}()
}

// TestFails: an answer that cannot be encoded, and a panic, are told as an object, and counted. The next
// request is answered.
func TestFails(t *testing.T) {
	m, _ := trained(t, nil)
	m.Table = predictions.Table{Columns: predictions.Values}
	var logged bytes.Buffer
	s := New(m.Model, Options{Workers: 1, Queue: 1, Log: log.New(&logged, "", 0)})
	failing(s, answer{results: [][]float32{{float32(math.NaN())}}})
	status, text := ask(s, "POST", "/predict", `{"vertices": ["v1"]}`)
	s.queue.close()
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, refused(t, text), "unsupported value: NaN")
	_, text = ask(s, "GET", "/metrics", "")
	assert.Contains(t, text, `weft_requests_total{status="500"} 1`)

	s = New(m.Model, Options{Workers: 1, Queue: 1, Log: log.New(&logged, "", 0)})
	start(t, s)
	ids := s.ids
	s.ids = nil
	status, text = ask(s, "POST", "/predict", `{"vertices": ["v1"]}`)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Equal(t, "the request failed; the server's log says where", refused(t, text))
	assert.Contains(t, logged.String(), "index out of range")
	s.ids, s.model.Predictor = ids, nil
	status, text = ask(s, "POST", "/predict", `{"vertices": ["v1"]}`)
	assert.Equal(t, http.StatusInternalServerError, status)
	assert.Contains(t, refused(t, text), "an inference failed: runtime error: invalid memory address")
	s.model.Predictor = m.Predictor
	predict(t, s, `{"vertices": ["v1"]}`)
}

// stored is trained on a store.
func stored(t *testing.T) (dir string, s *Server) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "g")
	require.NoError(t, generate.Write(dir, generate.Options{
		Kind: generate.SBM, Vertices: 60, Degree: 4, Features: 5, Classes: 3, Seed: 1,
	}))
	g, err := graph.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.Close() })
	o := train.Defaults()
	o.Epochs, o.Threads = 1, 1
	job := &train.Job{Graph: g, Options: o}
	r, err := job.Run(t.Context())
	require.NoError(t, err)
	p, err := job.Predictor(t.Context(), r.Weights)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	s = New(Model{Predictor: p, Graph: g, Table: predictions.Table{Columns: predictions.Logits}},
		Options{Workers: 1, Queue: 1})
	start(t, s)
	return dir, s
}

// TestChangedStore: once a file of the store has changed, no request is answered, however it has changed: not
// one that is being computed either. All say which file, and the server goes on.
func TestChangedStore(t *testing.T) {
	overwrite := func(path string) error {
		text, err := os.ReadFile(path)
		if err == nil {
			copy(text[128:], bytes.Repeat([]byte{0x7f, 0xff, 0xff, 0x7f}, len(text)/4))
			err = errors.Join(err, os.WriteFile(path, text, 0o666))
		}
		return err
	}
	cut := func(path string) error { return os.Truncate(path, 0) }
	for _, c := range []struct {
		file   string
		change func(path string) error
	}{
		{"indptr.npy", cut},
		{"features.npy", cut},
		{"indptr.npy", overwrite},
		{"indices.npy", overwrite},
		{"features.npy", overwrite},
		{"features.npy", func(path string) error { // at its old time
			info, err := os.Stat(path)
			return errors.Join(err, overwrite(path), os.Chtimes(path, info.ModTime(), info.ModTime()))
		}},
		{"labels.npy", func(path string) error { // by another file, as it was, with its time
			info, err := os.Stat(path)
			text, other := os.ReadFile(path)
			return errors.Join(err, other, os.WriteFile(path+".new", text, 0o666),
				os.Chtimes(path+".new", info.ModTime(), info.ModTime()), os.Rename(path+".new", path))
		}},
		{"indices.npy", func(path string) error { // and back
			text, err := os.ReadFile(path)
			return errors.Join(err, overwrite(path), os.WriteFile(path, text, 0o666))
		}},
		{"indptr.npy", os.Remove},
	} {
		dir, s := stored(t)
		predict(t, s, `{"vertices": [1, 7]}`)
		require.NoError(t, c.change(filepath.Join(dir, c.file)))
		a := s.infer([]*question{{Query: train.Query{Vertices: []int32{1, 7}}}})[0] // that was taken before
		assert.Contains(t, fmt.Sprint(a.err), c.file)
		for path, method := range map[string]string{"/predict": "POST", "/healthz": "GET"} {
			status, text := ask(s, method, path, `{"vertices": [1, 7]}`)
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.Contains(t, refused(t, text), c.file+": it ")
			assert.Contains(t, refused(t, text), "; restart the service")
		}
	}
}

// listening is a server on an address of its own, and what ends it.
func listening(t *testing.T, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error)
	go func() { ended <- s.Serve(t.Context(), l) }() // which ends with the test, before its cleanup
	t.Cleanup(func() { assert.NoError(t, <-ended) })
	return l.Addr().String()
}

// halfClosed is a connection whose client sends no more.
type halfClosed struct {
	net.Conn
	sent io.Reader
}

func (h *halfClosed) Read(p []byte) (int, error) { return h.sent.Read(p) }

// TestHalfClosed: a client that closes its writing side after the request is answered, also where the server
// has seen that before.
func TestHalfClosed(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Queue: 3})
		here, there := net.Pipe()
		const body = `{"vertices": ["v1"]}`
		l.conns <- &halfClosed{there, strings.NewReader(fmt.Sprintf(head+body, len(body)))}
		synctest.Wait()
		assert.Equal(t, 1, s.queue.length())
		go s.compute()
		text, err := io.ReadAll(here)
		require.NoError(t, err)
		assert.Contains(t, string(text), "HTTP/1.1 200 OK\r\n")
		assert.Contains(t, string(text), `{"predictions":[{"vertex":"v1","class":`)
		assert.NoError(t, end())
	})
}

// TestLeft: what a client asks that resets its connection waits no more, so that others wait for less. Its
// answer is not encoded if it is computed already.
func TestLeft(t *testing.T) {
	m, _ := trained(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s, l, end := serving(t, m.Model, Options{Queue: 1})
		const body = `{"vertices": ["v1"]}`
		for range 3 {
			_, there := net.Pipe()
			l.conns <- &halfClosed{there, io.MultiReader(strings.NewReader(fmt.Sprintf(head+body, len(body))),
				iotest.ErrReader(syscall.ECONNRESET))}
			synctest.Wait()
			assert.Equal(t, 0, s.queue.length())
		}
		stays := l.connect()
		send(stays)
		synctest.Wait()
		go s.compute()
		assert.Equal(t, http.StatusOK, answerOn(t, stays).StatusCode)
		assert.NoError(t, end())
	})
	s := New(m.Model, Options{Workers: 1, Queue: 1})
	gone := make(chan struct{})
	close(gone)
	result := answer{results: [][]float32{{1, 2}}}
	_, err := s.respond(&asked{rows: []rowID{{{vertexKey, "v1"}}}}, result, &holding{all: &s.memory}, gone)
	assert.ErrorIs(t, err, errLeft)
}

// TestManyRequests: of 50,000 requests over a few connections, some of them wrong, each is answered in order,
// and no memory, place or turn stays taken.
func TestManyRequests(t *testing.T) {
	const clients, each, together = 10, 5000, 100
	m, _ := trained(t, func(o *train.Options, _ *graph.Graph) { o.Model, o.Hidden = "mlp", 2 }) // quick
	s := New(m.Model, Options{Workers: 2, Queue: clients})
	address := listening(t, s)
	wrong, large := `{"vertices": ["v1"`, `{"vertices": ["w"`+strings.Repeat(" ", 2*smallBody)+"]}"
	var asked bytes.Buffer
	var want []int
	for k := range together {
		body, status := `{"vertices": ["v1"]}`, http.StatusOK
		switch {
		case k == together/2:
			body, status = large, http.StatusBadRequest
		case k%20 == 1:
			body, status = wrong, http.StatusBadRequest
		}
		fmt.Fprintf(&asked, head+"%s", len(body), body)
		want = append(want, status)
	}
	var done sync.WaitGroup
	for range clients {
		done.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			in := bufio.NewReader(c)
			for k := range each {
				if k%together == 0 {
					_, err = c.Write(asked.Bytes())
				}
				var r *http.Response
				if err == nil {
					r, err = http.ReadResponse(in, nil)
				}
				if err == nil {
					_, err = io.Copy(io.Discard, r.Body)
				}
				if err != nil || r.StatusCode != want[k%together] {
					t.Errorf("request %d: %v, %+v", k+1, err, r)
					return
				}
			}
		})
	}
	done.Wait()
	assert.Equal(t, int64(clients*each), s.Answered())
	assert.Equal(t, int64(0), s.memory.Load())
	assert.Equal(t, 0, s.queue.length()+len(s.permits))
}
