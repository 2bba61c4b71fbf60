package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"weft/graph"
)

// experiment is a run with its known predictions.
type experiment struct {
	weft, store, run string
	graph            *graph.Graph
	logits, hidden   rows // as predict writes them
	server           *exec.Cmd
	url              string
	client           *http.Client
}

// rows are a matrix.
type rows struct {
	values  []float32
	columns int
}

func (r *rows) row(v int) []float32 { return r.values[v*r.columns : (v+1)*r.columns] }

// loads starts the server and puts it under each load.
func (e *experiment) loads(ctx context.Context) error {
	e.server = exec.CommandContext(ctx, e.weft, "serve", e.run, "--port", "0")
	out, err := e.server.StdoutPipe()
	if err == nil {
		err = e.server.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return fmt.Errorf("weft serve: %w", e.server.Wait())
	}
	e.url, _, _ = strings.Cut(lines.Text(), " ")
	e.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	fmt.Printf("%-12s %9s %9s %9s %9s %12s %12s\n", "load", "requests", "p50 ms", "p99 ms", "most ms",
		"processor ms", "resident MB")
	for _, l := range []load{
		{"first", 100, 1, e.single},
		{"one vertex", 1000, 16, e.single},
		{"mixed", 10_000, 64, e.mixed},
		{"again", 10_000, 64, e.mixed},
		{"malformed", 500, 4, e.malformed},
	} {
		if err := e.put(l); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", l.name, err), e.server.Process.Kill(), e.server.Wait())
		}
	}
	return e.end()
}

// load is the requests of several clients. Each waits for its answer before the next request.
type load struct {
	name              string
	requests, clients int
	ask               func(random *rand.Rand) error
}

// put puts a load on the server. It prints how long answers took, and how long the server computed each.
func (e *experiment) put(l load) error {
	before, err := e.figure("process_cpu_seconds_total")
	if err != nil {
		return err
	}
	took := make([]time.Duration, l.requests)
	failed := make([]error, l.clients)
	var clients sync.WaitGroup
	for c := range l.clients {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), uint64(l.requests)))
			for k := c; k < l.requests && failed[c] == nil; k += l.clients {
				began := time.Now()
				failed[c] = l.ask(random)
				took[k] = time.Since(began)
			}
		})
	}
	clients.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	after, err := e.figure("process_cpu_seconds_total")
	if err != nil {
		return err
	}
	resident, err := e.figure("process_resident_memory_anon_bytes")
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("%-12s %9d %9.2f %9.2f %9.2f %12.2f %12.0f\n", l.name, l.requests, ms(took[l.requests/2]),
		ms(took[l.requests*99/100]), ms(took[l.requests-1]), 1000*(after-before)/float64(l.requests),
		resident/1e6)
	return err
}

// figure returns a figure that the server tells of itself.
func (e *experiment) figure(name string) (x float64, err error) {
	r, err := e.client.Get(e.url + "/metrics")
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "\n"+name+" ")
	_, err = fmt.Sscan(after, &x)
	return x, err
}

// answer is an answer of the server.
type answer struct {
	Error       string
	Predictions []struct {
		Vertex        any
		Class         int
		Probability   float32
		Probabilities map[string]float32
		Embedding     []float32
	}
}

// post sends a body, and returns the answer and its status.
func (e *experiment) post(body []byte) (a answer, status int, err error) {
	r, err := e.client.Post(e.url+"/predict", "application/json", bytes.NewReader(body))
	if err != nil {
		return a, 0, err
	}
	defer r.Body.Close()
	return a, r.StatusCode, json.NewDecoder(r.Body).Decode(&a)
}

// predict asks for predictions.
func (e *experiment) predict(request map[string]any) (a answer, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return a, err
	}
	a, status, err := e.post(body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", body, status, a.Error)
	}
	return a, err
}

// vertex returns a vertex with few edges.
func (e *experiment) vertex(random *rand.Rand) int {
	const few = 100
	for {
		v := random.IntN(e.graph.Types[0].Count)
		if r := &e.graph.Relations[0]; r.Indptr[v+1]-r.Indptr[v] < few {
			return v
		}
	}
}

// single asks for a vertex, and compares its class and probability.
func (e *experiment) single(random *rand.Rand) error {
	v := e.vertex(random)
	a, err := e.predict(map[string]any{"vertices": []int{v}})
	if err != nil {
		return err
	}
	p := softmax(e.logits.row(v))
	if got := a.Predictions[0]; got.Probability != slices.Max(p) || p[got.Class] != slices.Max(p) {
		return fmt.Errorf("vertex %d: class %d with %v, and predict has %v", v, got.Class, got.Probability, p)
	}
	return nil
}

// mixed asks for some vertices or, as often, for a new one, and compares the whole answer. The new vertex has
// the features and the in-neighbours of another, and so its prediction.
func (e *experiment) mixed(random *rand.Rand) error {
	const most = 5
	request := map[string]any{"columns": []string{"probabilities", "embedding"}}
	list := []int{e.vertex(random)}
	if random.IntN(2) == 0 {
		r, f := &e.graph.Relations[0], &e.graph.Types[0].Features
		v := list[0]
		request["new"] = []map[string]any{{
			"id": "new", "features": f.Row(v),
			"edges": map[string]any{"in": r.Sources[r.Indptr[v]:r.Indptr[v+1]]},
		}}
	} else {
		for range random.IntN(most) {
			list = append(list, random.IntN(e.graph.Types[0].Count))
		}
		request["vertices"] = list
	}
	a, err := e.predict(request)
	if err != nil {
		return err
	}
	for i, v := range list {
		prediction := a.Predictions[i]
		for class, p := range softmax(e.logits.row(v)) {
			if got := prediction.Probabilities[fmt.Sprint(class)]; got != p {
				return fmt.Errorf("vertex %d: class %d has %v, and predict %v", v, class, got, p)
			}
		}
		if !slices.Equal(prediction.Embedding, e.hidden.row(v)) {
			return fmt.Errorf("vertex %d: another embedding than predict's", v)
		}
	}
	return nil
}

// softmax returns the probabilities of a row of logits, as predict writes them.
func softmax(row []float32) []float32 {
	p := make([]float32, len(row))
	all := 0.
	top := float64(slices.Max(row))
	for _, z := range row {
		all += math.Exp(float64(z) - top)
	}
	for k, z := range row {
		p[k] = float32(math.Exp(float64(z)-top) / all)
	}
	return p
}

// malformed sends a body that is no request: a request with lost, doubled or changed bytes.
func (e *experiment) malformed(random *rand.Rand) error {
	body := []byte(`{"vertices": [1, 2, 3], "columns": ["class", "embedding"]}`)
	at := random.IntN(len(body))
	switch random.IntN(4) {
	case 0:
		body = body[:at]
	case 1:
		body = slices.Insert(body, at, '{')
	case 2:
		body = bytes.ReplaceAll(body, []byte{body[at]}, []byte{byte(random.IntN(256))})
	default:
		body = bytes.Repeat([]byte("["), 1+random.IntN(1<<20))
	}
	a, status, err := e.post(body)
	switch {
	case err != nil:
		return err
	case status == http.StatusOK: // the change left a valid request
		return nil
	case status < 400 || status >= 500 || a.Error == "":
		return fmt.Errorf("%.100q: status %d, error %q", body, status, a.Error)
	}
	return nil
}

// end has clients ask until the server, which gets SIGTERM meanwhile, is no longer there. Each request that
// a connection took must be answered.
func (e *experiment) end() error {
	const clients, each = 16, 50
	var all, lost sync.Map
	var done sync.WaitGroup
	signal := make(chan struct{}, clients*each)
	for c := range clients {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), clients))
			for k := 0; ; k++ {
				err := e.single(random)
				var refused *net.OpError
				switch {
				case errors.As(err, &refused) && refused.Op == "dial":
					return
				case err != nil:
					lost.Store([2]int{c, k}, err)
					return
				}
				all.Store([2]int{c, k}, true)
				select {
				case signal <- struct{}{}:
				default:
				}
			}
		})
	}
	for range clients * each {
		<-signal
	}
	if err := e.server.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	done.Wait()
	err := e.server.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(_, value any) bool {
			if failed, is := value.(error); is && n == 0 {
				err = errors.Join(err, failed)
			}
			n++
			return true
		})
		return n
	}
	answered, failed := count(&all), count(&lost)
	fmt.Printf("%-12s %9d answered, %d lost; exit %v\n", "ending", answered, failed, e.server.ProcessState)
	return err
}
