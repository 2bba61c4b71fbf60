// Package serve answers requests for predictions over HTTP, by a model and a graph that stay open.
//
//	POST /predict   predictions of some vertices: a JSON object asks, and one answers
//	GET /healthz    200 while requests are taken, 503 once the server ends
//	GET /metrics    figures in Prometheus' text format
//	GET /           a line on what is served
//
// Requests wait in a queue of limited length for a fixed number of goroutines, each of which computes an
// inference at a time, on the message-flow graph of the vertices. Small requests that wait share one. What is
// wrong with a request is answered by a status of 400 and above, and a JSON object whose only key is error.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/predictions"
)

// Model is what answers.
type Model struct {
	About     string // a line on it, for people
	Predictor *train.Predictor
	Graph     *graph.Graph      // the Predictor's
	Table     predictions.Table // what the columns of its predictions stand for
}

// Options are those of a Server.
type Options struct {
	Workers   int         // inferences at a time, from 1
	Queue     int         // requests that wait or are read beside them, from 1
	OnlyLocal bool        // refuse requests that name another host than this one
	Log       *log.Logger // takes what fails in a connection
}

// Server answers requests.
type Server struct {
	model   Model
	options Options
	types   []graph.VertexType
	ids     []*ids         // by vertex type
	columns columns.ByType // that features are made of
	queue   *queue
	metrics *figures
	places  chan struct{} // has an element for each request that is being answered
	ending  atomic.Bool
	done    atomic.Int64 // requests for predictions that were answered
}

// Deadlines of a connection: for a request's header, for all of it, for writing a response, and for the next
// request.
const (
	headerDeadline = 5 * time.Second
	readDeadline   = 15 * time.Second
	writeDeadline  = 30 * time.Second
	idleDeadline   = 2 * time.Minute
)

// lastRequests is how long connections that are open when the server ends may bring a request.
const lastRequests = 500 * time.Millisecond

// New returns a server of a model. Its goroutines run within Serve.
func New(m Model, o Options) *Server {
	s := &Server{
		model: m, options: o, queue: newQueue(), types: m.Graph.Types(), columns: m.Predictor.Columns(),
		places: make(chan struct{}, o.Workers+o.Queue),
	}
	for _, t := range s.types {
		s.ids = append(s.ids, newIDs(t.Count, t.Names))
	}
	s.metrics = newFigures(s)
	return s
}

// Answered is how many requests for predictions were answered, whatever the answer.
func (s *Server) Answered() int64 { return s.done.Load() }

// Serve answers the requests of a listener's connections until ctx is done, or the listener fails. When ctx
// is done it closes the listener, answers what open connections have sent or send within half a second, and
// returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var workers sync.WaitGroup
	for range s.options.Workers {
		workers.Go(s.compute)
	}
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerDeadline, ReadTimeout: readDeadline,
		IdleTimeout: idleDeadline, MaxHeaderBytes: 16 << 10, ErrorLog: s.options.Log,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.ending.Store(true) // each answer from now on is its connection's last
		err = l.Close()
		if end := <-failed; !errors.Is(end, net.ErrClosed) {
			err = errors.Join(err, end)
		}
		time.Sleep(lastRequests)
	}
	err = errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
	s.queue.close()
	workers.Wait()
	return err
}

// example is a request for the first vertices of the graph, so many.
func (s *Server) example(most int) string {
	of := s.ids[0]
	var first []string
	for v := range min(most, of.count) {
		id, _ := json.Marshal(of.of(int32(v))) // a string or an integer
		first = append(first, string(id))
	}
	return `{"vertices": [` + strings.Join(first, ", ") + `]}`
}

// Handler answers requests. Those for predictions wait for the goroutines of Serve.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/predict", s.only(http.MethodPost, s.predict))
	mux.HandleFunc("/healthz", s.only(http.MethodGet, s.health))
	mux.HandleFunc("/metrics", s.only(http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		s.metrics.write(w)
	}))
	mux.HandleFunc("/{$}", s.only(http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "%s; POST /predict answers, as in "+
			"curl -d %s http://ADDRESS/predict\n", s.model.About, refusal.ShellWord(s.example(1)))
	}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no %.100q; POST /predict, GET /healthz and "+
			"GET /metrics are here", r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		if s.options.OnlyLocal && !IsLocal(r.Host) {
			refuse(w, http.StatusForbidden, "this server is for this machine alone: ask 127.0.0.1, or "+
				"let it listen on another address for others")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// IsLocal reports whether a host, perhaps with a port, is an address that this machine alone reaches. The
// request of a page elsewhere whose name leads here has another host.
func IsLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}

// only is a handler of one method.
func (s *Server) only(method string, handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", method)
			refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, and not %.20s", r.URL.Path,
				method, r.Method))
			return
		}
		handle(w, r)
	}
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.ending.Load() {
		refuse(w, http.StatusServiceUnavailable, "the server is ending")
		return
	}
	fmt.Fprintln(w, "ok")
}

// predict answers a request for predictions.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	status, body := s.answerTo(w, r)
	if status == 0 {
		return // the client has left
	}
	s.metrics.request(status, began)
	s.done.Add(1)
	write(w, status, body)
}

// answerTo computes the answer to a request for predictions: its status and body. A status of 0 says that
// nobody waits for it.
func (s *Server) answerTo(w http.ResponseWriter, r *http.Request) (status int, body any) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		w.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable,
			problem{
				fmt.Sprintf("%d requests are being answered, and no more are taken; ask again in a second",
					cap(s.places)),
			}
	}
	asked, err := s.read(w, r)
	if err != nil {
		var bad badRequest
		if errors.As(err, &bad) {
			return bad.status, problem{err.Error()}
		}
		return http.StatusInternalServerError, problem{err.Error()}
	}
	q := s.question(r.Context(), &asked)
	s.queue.put(q)
	select {
	case a := <-q.answered:
		switch {
		case errors.Is(a.err, context.Canceled):
			return 0, nil
		case refusal.Is(a.err):
			return http.StatusUnprocessableEntity, problem{a.err.Error()}
		case a.err != nil:
			return http.StatusInternalServerError, problem{a.err.Error()}
		}
		return http.StatusOK, s.respond(&asked, a)
	case <-r.Context().Done():
		s.queue.drop(q)
		return 0, nil
	}
}

// problem is the body of an answer that says what is wrong.
type problem struct {
	Error string `json:"error"`
}

// refuse answers what is wrong.
func refuse(w http.ResponseWriter, status int, text string) { write(w, status, problem{text}) }

// write answers with a line of JSON.
func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // of numbers that are not finite, which no inference returns
		status, text = http.StatusInternalServerError, []byte(strconv.Quote(err.Error()))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeDeadline))
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
