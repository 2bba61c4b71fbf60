// Package serve answers requests for predictions over HTTP, by a model and a graph that stay open.
//
//	POST /predict   predictions of some vertices, or edges: a JSON object asks, and one answers
//	GET /healthz    200 while requests are taken, 503 once the server ends
//	GET /metrics    figures in Prometheus' text format
//	GET /           a line on what is served
//
// A request is read up to the first thing that is too much. It then waits in a queue of limited length for a
// fixed number of goroutines, each of which computes an inference at a time, on the message-flow graph of the
// vertices, and encodes its answers. Small requests that wait share one. What is wrong with a request is
// answered by a status of 400 and above, and a JSON object whose only key is error. Once a file of the store
// has changed, no request is answered.
//
// Nobody needs what a slow client holds. A connection that has waited long for its client gives way to
// another. A request takes a place in the queue once its body is there, and a turn to decode a large body
// until it reads on. Refusals leave one by one. Beside the memory that all requests share, each has some of
// its own.
//
// The command serve has one.
package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"mime"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/gate"
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
	Queue     int         // requests that wait beside those that are computed, from 1
	OnlyLocal bool        // refuse requests that name another address than this machine's own
	Hosts     []string    // names of hosts that requests may give beside those
	Log       *log.Logger // takes what fails in a connection
}

// Server answers requests.
type Server struct {
	model   Model
	options Options
	types   []graph.VertexType
	kinds   map[string]int // their numbers
	ways    map[way][]joined
	ids     []*ids         // by vertex type
	learned *learned       // edges; nil: vertices are predicted
	columns columns.ByType // that features are made of
	queue   *queue
	metrics *figures
	permits chan struct{}      // of bodies that are not small
	drains  chan struct{}      // of refusals, and of what is left of bodies that are answered
	memory  atomic.Int64       // that requests hold, beside freeMemory of each
	working context.Context    // of inferences
	stop    context.CancelFunc // ends them
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

// When the server ends, connections that are open may bring a request for lastRequests. Answers may then take
// lastAnswers, and to be told that they took longer lastWords.
const (
	lastRequests = 500 * time.Millisecond
	lastAnswers  = 6 * time.Second
	lastWords    = time.Second
)

// mostConnections is how many connections there are at once, where the process may open twice as many files.
const mostConnections = 1000

// errEnds ends inferences that take longer than the server may.
var errEnds = badRequest{
	errors.New("the server ends, and this answer took longer than its end may"), http.StatusServiceUnavailable,
}

// errLeft ends what a client asks that has reset its connection. It never hears the status, which is nginx'.
var errLeft = badRequest{errors.New("the client has left"), 499}

// New returns a server of a model. Its goroutines run within Serve.
func New(m Model, o Options) *Server {
	s := &Server{
		model: m, options: o, types: m.Graph.Types, kinds: map[string]int{},
		columns: m.Predictor.Columns(), queue: newQueue(o.Queue), drains: make(chan struct{}, 1),
		permits: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/4)),
	}
	s.options.Log = cmp.Or(o.Log, log.Default())
	s.working, s.stop = context.WithCancel(context.Background())
	for kind, t := range s.types {
		s.ids = append(s.ids, newIDs(t.Count, t.Names))
		s.kinds[t.Name()] = kind
	}
	s.ways = ways(m.Predictor.Base())
	s.learned = newLearned(m.Predictor, &m.Table, s.ids)
	s.metrics = newFigures(s)
	return s
}

// Answered is how many requests for predictions were answered, whatever the answer.
func (s *Server) Answered() int64 { return s.done.Load() }

// Serve answers the requests of a listener's connections until ctx is done, or the listener fails. When ctx
// is done it closes the listener, answers what open connections have sent or send within half a second, and
// returns nil, within some seconds whatever clients do.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	files, err := gate.Files()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	var workers sync.WaitGroup
	for range s.options.Workers {
		workers.Go(s.compute)
	}
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerDeadline, ReadTimeout: readDeadline,
		IdleTimeout: idleDeadline, MaxHeaderBytes: 16 << 10, ErrorLog: s.options.Log,
	}
	entry := gate.New(l, int(min(mostConnections, max(1, files/2))), 0)
	entry.Attend(server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(entry) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.ending.Store(true) // each answer from now on is its connection's last
		err = entry.Close()
		if end := <-failed; !errors.Is(end, net.ErrClosed) {
			err = errors.Join(err, end)
		}
		time.Sleep(lastRequests)
	}
	for _, patience := range []time.Duration{lastAnswers, lastWords} {
		until, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		end := server.Shutdown(until)
		cancel()
		if end == nil {
			break
		}
		s.stop()
	}
	err = errors.Join(err, server.Close())
	s.queue.close()
	workers.Wait()
	return err
}

// example is a request for the first vertices of the graph, so many, or for an edge.
func (s *Server) example(most int) string {
	if s.learned != nil {
		return s.learned.example
	}
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
	for pattern, handle := range map[string]http.HandlerFunc{
		"POST /predict": s.predict,
		"GET /healthz":  s.health,
		"GET /metrics": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			s.metrics.write(w)
		},
		"GET /{$}": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "%s; POST /predict answers, as in curl -H content-type:application/json -d %s "+
				"http://ADDRESS/predict\n", s.model.About, refusal.ShellWord(s.example(1)))
		},
	} {
		mux.HandleFunc(pattern, handle)
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s takes %s, and not %.20s", r.URL.Path,
				method, r.Method))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no %.100q; POST /predict, GET /healthz and "+
			"GET /metrics are here", r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := s.bodyOf(w, r)
		defer b.end(r, s.drains)
		if s.ending.Load() {
			w.Header().Set("Connection", "close")
		}
		if !s.options.answersTo(r.Host) {
			refuse(w, http.StatusForbidden, fmt.Sprintf("this server does not answer to the name %.100q: "+
				"ask it by its address, or start weft serve with --host and that name", r.Host))
			return
		}
		defer func() {
			if fault := recover(); fault != nil {
				s.options.Log.Printf("a request failed: %v\n%s", fault, debug.Stack())
				refuse(w, http.StatusInternalServerError, "the request failed; the server's log says where")
			}
		}()
		mux.ServeHTTP(w, r)
	})
}

// answersTo reports whether requests may give a host, perhaps with a port. A page elsewhere whose name leads
// here gives its own name; an address it cannot give.
func (o *Options) answersTo(host string) bool {
	if IsLocal(host) {
		return true
	}
	name := nameIn(host)
	return !o.OnlyLocal && net.ParseIP(name) != nil ||
		slices.ContainsFunc(o.Hosts, func(one string) bool { return strings.EqualFold(nameIn(one), name) })
}

// nameIn is the name or address in a host.
func nameIn(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// IsLocal reports whether a host, perhaps with a port, is an address that this machine alone reaches. The
// request of a page elsewhere whose name leads here has another host.
func IsLocal(host string) bool {
	name := nameIn(host)
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.ending.Load() {
		refuse(w, http.StatusServiceUnavailable, "the server is ending")
		return
	}
	if err := s.changed(); err != nil {
		refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	fmt.Fprintln(w, "ok")
}

// changed says which file of the store has changed since it was opened: what an inference reads of it may
// then be wrong.
func (s *Server) changed() error {
	if err := s.model.Graph.Changed(); err != nil {
		return fmt.Errorf("%w; restart the service", err)
	}
	return nil
}

// predict answers a request for predictions.
func (s *Server) predict(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	h := &holding{all: &s.memory}
	defer h.release()
	status, text := s.answerTo(r, h)
	s.metrics.request(status, began)
	s.done.Add(1)
	if status == http.StatusServiceUnavailable && s.changed() == nil {
		w.Header().Set("Retry-After", "1")
	}
	conn := gate.Of(r)
	conn.Waits()
	if status != http.StatusOK {
		h.release()
		select {
		case s.drains <- struct{}{}:
			time.Sleep(restPace)
			<-s.drains
		case <-conn.Gone():
		}
	}
	write(w, status, text)
}

// answerTo computes the answer to a request for predictions: its status and body.
func (s *Server) answerTo(r *http.Request, h *holding) (status int, text []byte) {
	text, err := s.response(r, h)
	if err == nil {
		return http.StatusOK, text
	}
	var bad badRequest
	status = http.StatusInternalServerError
	switch {
	case errors.As(err, &bad):
		status = bad.status
	case refusal.Is(err):
		status = http.StatusUnprocessableEntity
	}
	return status, problem(err.Error())
}

// response computes the body of the answer to a request for predictions.
func (s *Server) response(r *http.Request, h *holding) ([]byte, error) {
	if err := takes(r); err != nil {
		return nil, err
	}
	if err := s.changed(); err != nil {
		return nil, badRequest{err, http.StatusServiceUnavailable}
	}
	asked, err := s.read(r.Body, h)
	if err != nil {
		return nil, err
	}
	q, gone := s.question(&asked), gate.Of(r).Gone()
	q.respond = func(a answer) ([]byte, error) { return s.respond(&asked, a, h, gone) }
	s.queue.put(q)
	var a answer
	select {
	case a = <-q.answered:
	case <-gone:
		s.queue.drop(q)
		a = <-q.answered
	}
	switch {
	case errors.Is(a.err, context.Canceled):
		return nil, errEnds
	case a.err != nil && s.changed() != nil:
		return nil, badRequest{a.err, http.StatusServiceUnavailable}
	}
	return a.text, a.err
}

// takes refuses a body that is not JSON by its header. A page elsewhere cannot send what is without being
// asked whether it may.
func takes(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return badRequest{errors.New("the body is taken as JSON alone: send it with the header " +
			"Content-Type: application/json"), http.StatusUnsupportedMediaType}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return badRequest{fmt.Errorf("the body is taken as it is: send it without Content-Encoding: %.20s",
			coding), http.StatusUnsupportedMediaType}
	}
	return nil
}

// problem is the body of an answer that says what is wrong.
func problem(text string) []byte {
	body, _ := json.Marshal(map[string]string{"error": text}) // which can be encoded
	return body
}

// refuse answers what is wrong.
func refuse(w http.ResponseWriter, status int, text string) { write(w, status, problem(text)) }

// write answers with a line of JSON.
func write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeDeadline))
	w.WriteHeader(status)
	for _, part := range [][]byte{text, {'\n'}} {
		_, _ = w.Write(part) // the client may be gone
	}
}
