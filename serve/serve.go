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
// A slow client holds nothing that others need. A connection that has waited long for its client gives way to
// another. A request takes a place in the queue once its whole body is there. It holds a turn to decode a
// large body only until it reads on. Refusals leave one by one. Each request has some memory of its own,
// beside the memory that all share.
//
// The command serve runs it.
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

// Model is the model that answers.
type Model struct {
	About     string // one line for people
	Predictor *train.Predictor
	Graph     *graph.Graph      // the Predictor's
	Table     predictions.Table // meaning of the columns of its predictions
}

// Options are those of a Server.
type Options struct {
	Workers   int         // inferences at a time, at least 1
	Queue     int         // requests that may wait beside the ones at work, at least 1
	OnlyLocal bool        // refuse requests that name an address other than this machine's own
	Hosts     []string    // names of hosts that requests may give beside this machine's addresses
	Log       *log.Logger // takes errors of connections
}

// Server answers requests.
type Server struct {
	model   Model
	options Options
	types   []graph.VertexType
	kinds   map[string]int // numbers of the vertex types
	ways    map[way][]joined
	ids     []*ids         // by vertex type
	learned *learned       // edges that are predicted; nil: vertices are
	columns columns.ByType // columns that features are made of
	queue   *queue
	metrics *figures
	permits chan struct{}      // turns of bodies that are not small
	drains  chan struct{}      // turns of refusals, and of reading the rest of bodies
	memory  atomic.Int64       // bytes that requests hold, beside freeMemory of each
	working context.Context    // context of inferences
	stop    context.CancelFunc // ends them
	ending  atomic.Bool
	done    atomic.Int64 // answered requests for predictions
}

// These bound the time of a connection: for a request's header, for the whole request, for writing a
// response, and until the next request.
const (
	headerDeadline = 5 * time.Second
	readDeadline   = 15 * time.Second
	writeDeadline  = 30 * time.Second
	idleDeadline   = 2 * time.Minute
)

// When the server ends, open connections may bring a request for lastRequests. Answers may then take
// lastAnswers. Clients whose answer takes longer are told so, within lastWords.
const (
	lastRequests = 500 * time.Millisecond
	lastAnswers  = 6 * time.Second
	lastWords    = time.Second
)

// errEnds ends inferences that take longer than the server may.
var errEnds = badRequest{
	errors.New("the server ends, and this answer took longer than its end may"), http.StatusServiceUnavailable,
}

// errLeft ends the work for a client that has reset its connection. The client never reads the status, which
// is nginx'.
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

// Answered returns how many requests for predictions were answered, with errors too.
func (s *Server) Answered() int64 { return s.done.Load() }

// Serve answers the requests of a listener's connections until ctx is done, or the listener fails. When ctx
// is done, Serve closes the listener. It answers the requests that open connections have sent or send within
// half a second. It returns nil within some seconds, whatever clients do.
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
	entry := gate.New(l, int(min(gate.Most, max(1, files/2))))
	entry.Attend(server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(entry) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		s.ending.Store(true) // each connection ends with its next answer
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

// example returns a request for the first most vertices of the graph, or for an edge.
func (s *Server) example(most int) string {
	if s.learned != nil {
		return s.learned.example
	}
	vertices := s.ids[0]
	var first []string
	for v := range min(most, vertices.count) {
		id, _ := json.Marshal(vertices.id(int32(v))) // a string or an integer
		first = append(first, string(id))
	}
	return `{"vertices": [` + strings.Join(first, ", ") + `]}`
}

// Handler returns the handler of requests. Requests for predictions wait for the goroutines of Serve.
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
// here gives that name as the host: it cannot give an address.
func (o *Options) answersTo(host string) bool {
	if IsLocal(host) {
		return true
	}
	name := nameIn(host)
	return !o.OnlyLocal && net.ParseIP(name) != nil ||
		slices.ContainsFunc(o.Hosts, func(h string) bool { return strings.EqualFold(nameIn(h), name) })
}

// nameIn returns the name or address in a host.
func nameIn(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// IsLocal reports whether a host, perhaps with a port, is an address that this machine alone reaches. A page
// elsewhere whose name leads here sends another host.
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

// changed says which file of the store has changed since it was opened: an inference may then read wrong
// values.
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

// takes refuses a body whose header does not say JSON. A page elsewhere cannot send a body as JSON unless the
// browser first asks this server.
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

// problem returns the body of an answer that says what is wrong.
func problem(text string) []byte {
	body, _ := json.Marshal(map[string]string{"error": text}) // a map of strings always encodes
	return body
}

// refuse answers with an error.
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
