package tp_test

import (
	"cmp"
	"encoding/binary"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"weft/autograd"
	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/paralleltest"
	"weft/parallel/tp"
	"weft/train/engine"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// figure9 is a graph with the sources of NeutronTP's Figure 9. Its four chunks have two destinations each,
// and aggregate {3 4}, {3 4 5 6}, {0 3 6 7} and {1 2 3 4}.
func figure9(t *testing.T) *graph.Graph {
	t.Helper()
	return paralleltest.GraphOf(t, 8, graph.Edges{
		Source: []int32{3, 4, 3, 4, 3, 5, 4, 6, 0, 3, 6, 7, 1, 3, 2, 4},
		Target: []int32{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
	})
}

// path is a graph of edges from each vertex v to v−1 and to v+2. In either direction each chunk reads rows
// that no earlier chunk reads.
func path(t *testing.T) *graph.Graph {
	t.Helper()
	const vertices = 24
	var e graph.Edges
	for v := range int32(vertices - 2) {
		e.Source, e.Target = append(e.Source, v+1, v), append(e.Target, v, v+2)
	}
	return paralleltest.GraphOf(t, vertices, e)
}

// withSelf is a sum with self loops, in which no two rows of figure9 have the same neighbours.
var withSelf = gnn.Reduce{Kind: gnn.KindSum, Self: 1.25}

// overlapped lists the linear aggregations, in aggregation chunks.
var overlapped = map[string]struct {
	shows          string
	rounds, chunks int
}{
	"whole": {"tensor parallelism: to slices, aggregation of a slice along all edges, to rows", 1, 1},
	"chunks": {"Figure 9: each worker owns as many of a chunk's new sources, and sends them with it;\n" +
		"# a chunk's own rows are sent with it too, as each is its own neighbour here", 1, 4},
	"rounds": {"decoupled training: several rounds between two all-to-alls, to slices and to rows", 3, 3},
}

// TestTranscripts compares what each worker sends, receives and computes in a forward and a backward pass
// with testdata/transcripts, where a person can review it. Each lane has its own order. go test
// ./parallel/paralleltest/tp -run Transcripts -update writes the files anew. Each number of a matrix is
// unique, so that the numbers of a message tell its rows and columns. Results are compared with one worker's,
// so that no row is computed before it has come; TestOverlap looks at the order across lanes.
func TestTranscripts(t *testing.T) {
	g := figure9(t)
	type work struct {
		shows  string
		layer  paralleltest.Layer
		chunks int
	}
	all := map[string]work{
		"attention": {
			"graph attention: rows (columns 0–5) and the scores of two heads as sources (6–7) and as " +
				"targets (8–9)",
			paralleltest.Named("given scores"), 1,
		},
		"gatv2": {
			"GATv2: slices of whole heads, of sources (columns 0–3) and of targets (4–7)",
			twoEnds(2, 2), 1,
		},
	}
	for name, f := range overlapped {
		all[name] = work{f.shows, paralleltest.Propagation("", 6, withSelf, f.rounds), f.chunks}
	}
	for name, c := range all {
		for _, workers := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s-%d", name, workers), func(t *testing.T) {
				scripts := transcribe(t, g, c.layer, workers, c.chunks)
				var out strings.Builder
				fmt.Fprintf(&out, "# %s\n# messages: rows [columns], joined with +; \"numbers\" have no "+
					"unique value: terms of a sum, or zero\n", c.shows)
				for rank, s := range scripts {
					text := paralleltest.NewTranscript()
					for pass, events := range s.events {
						text.Begin(phases[pass])
						var p *plan
						if f, ok := overlapped[name]; ok {
							p = planOf(t, g, pass, scripts, f.rounds)
						}
						calls := 0
						for _, e := range events {
							if e.lane == computes {
								calls++
							}
							text.Add(e.lane, p.describe(e, calls-1))
						}
						fmt.Fprintf(&out, "worker %d, %s, own rows %s\n%s", rank, phases[pass], list(s.own),
							text.Lanes(phases[pass], lanes...))
					}
				}
				paralleltest.CompareTranscript(t, fmt.Sprintf("%s-%d", name, workers), out.String(), *update)
			})
		}
	}
}

// twoEnds is GATv2 whose sources and targets are the two halves of the input's columns.
func twoEnds(heads, width int) paralleltest.Layer {
	n := heads * width
	l := paralleltest.Layer{In: 2 * n, Out: n, Weights: [][2]int{{1, n}}}
	l.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
		return p.Attend(gnn.Attention{
			Source: autograd.Columns(x, 0, n), Target: autograd.Columns(x, n, n), ASource: w[0], Heads: heads,
			Slope: .2, Loops: gnn.OneLoop,
		}, gnn.Once)
	}
	return l
}

// TestOverlap: "While a chunk is computed, the rows of later chunks are received, and the results of earlier
// ones are sent." While the rows of the last chunk are held back, all chunks before it are computed and their
// results received. While the first results are held back, all chunks are computed. The test needs no clock:
// it looks at a pass when no worker can go on.
func TestOverlap(t *testing.T) {
	const chunks = 3
	g, l := path(t), paralleltest.Propagation("", 6, withSelf, 1)
	for _, workers := range []int{2, 3} {
		free := transcribe(t, g, l, workers, chunks)
		for name, c := range map[string]struct {
			kind               comm.Kind
			held               int // the chunk whose messages are held back
			computed, returned int // chunks, while they are held back
		}{
			"the last chunk's rows":    {comm.ToSlices, chunks - 1, chunks - 1, chunks - 1},
			"the first chunk's rows":   {comm.ToSlices, 0, 0, 0},
			"the first results":        {comm.ToRows, 0, chunks, 0},
			"the second one's results": {comm.ToRows, 1, chunks, 1},
		} {
			t.Run(fmt.Sprintf("%s, %d", name, workers), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					release := []chan struct{}{make(chan struct{}), make(chan struct{})}
					var plans []*plan
					for pass := range phases {
						plans = append(plans, planOf(t, g, pass, free, 1))
					}
					blank, ended := make([]*script, workers), make(chan struct{})
					for rank := range blank {
						blank[rank] = newScript(t, g, l)
					}
					go func() {
						defer close(ended)
						run(t, g, l, chunks, blank, func(end comm.Transport) comm.Transport {
							s := blank[end.Rank()]
							return &holding{
								Transport: end, held: map[[2]int]*heldRequest{},
								until: func(kind comm.Kind, data []byte) <-chan struct{} {
									if pass := s.now(); kind == c.kind &&
										plans[pass].of(s.decode(laneOf(kind, true), data)) == c.held {
										return release[pass]
									}
									return nil
								},
							}
						})
					}()
					for pass, p := range plans {
						synctest.Wait()
						for rank, s := range blank {
							began, returned := p.progress(s.soFar(pass))
							if began != c.computed {
								t.Errorf("%s: worker %d computed %d chunks while messages were held "+
									"back, want %d", phases[pass], rank, began, c.computed)
							}
							want := map[[2]int]bool{}
							for j := range c.returned {
								for peer := range workers {
									if peer != rank && p.ownsOf(j, s.own) {
										want[[2]int{j, peer}] = true
									}
								}
							}
							if !maps.Equal(returned, want) {
								t.Errorf("%s: worker %d had received %v (chunk, worker) while messages "+
									"were held back, want %v", phases[pass], rank, returned, want)
							}
						}
						close(release[pass])
					}
					<-ended
				})
			})
		}
	}
}

// The lanes of a worker.
const (
	slicesSent     = "to slices, sends"
	slicesReceived = "to slices, receives"
	computes       = "computes"
	computed       = "computed" // the end of a computation
	rowsSent       = "to rows, sends"
	rowsReceived   = "to rows, receives"
)

var (
	lanes  = []string{slicesSent, slicesReceived, computes, rowsSent, rowsReceived}
	phases = []string{paralleltest.Forward, paralleltest.Backward}
)

// laneOf is the lane of the messages of a kind.
func laneOf(kind comm.Kind, send bool) string {
	switch {
	case kind == comm.ToSlices && send:
		return slicesSent
	case kind == comm.ToSlices:
		return slicesReceived
	case send:
		return rowsSent
	}
	return rowsReceived
}

// event is a message, or a call of a kernel.
type event struct {
	lane   string
	peer   int
	parts  []numbers
	kernel string // the kernel called
	of     int    // its number of rows
}

// numbers is a block of a message: columns from … to−1 of some rows. rows is nil where the values do not tell
// them; then only the count is known.
type numbers struct {
	count    int
	rows     []int
	from, to int
}

// rows lists the rows of all parts of a message.
func (e event) rows() (list []int) {
	for _, p := range e.parts {
		list = append(list, p.rows...)
	}
	return list
}

// value is a number, and the row and column that have it.
type value struct {
	number   float64
	row, col int
}

// script is what a worker did, in order.
type script struct {
	values [2][2][]value // by pass, of what is sent to slices and to rows, ascending
	own    []int
	mu     sync.Mutex
	pass   int
	events [2][]event
}

// newScript is an empty script of a layer. It recognizes the numbers that one worker computes.
func newScript(t *testing.T, g *graph.Graph, l paralleltest.Layer) *script {
	t.Helper()
	s, alone := &script{}, l.Alone(t, g, paralleltest.Stored)
	x, dz := l.Given(g.Vertices())
	for pass, both := range [2][2][]float64{{x, alone.Out}, {dz, alone.DX}} {
		for i, numbers := range both {
			cols := len(numbers) / g.Vertices()
			for k, number := range numbers {
				s.values[pass][i] = append(s.values[pass][i], value{number, k / cols, k % cols})
			}
			slices.SortFunc(s.values[pass][i],
				func(a, b value) int { return cmp.Compare(a.number, b.number) })
		}
	}
	return s
}

// now is the worker's current pass.
func (s *script) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pass
}

// soFar returns the events of a pass up to now.
func (s *script) soFar(pass int) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events[pass])
}

func (s *script) add(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[s.pass] = append(s.events[s.pass], e)
}

// message adds a message when its send begins, or when its receive ends.
func (s *script) message(e commtest.Event) {
	if e.Kind != comm.ToSlices && e.Kind != comm.ToRows || e.Send == e.Ended {
		return
	}
	m := s.decode(laneOf(e.Kind, e.Send), e.Data)
	m.peer = e.Peer
	s.add(m)
}

// decode finds the rows and columns of a message.
func (s *script) decode(lane string, data []byte) event {
	values := s.values[s.now()][0]
	if lane == rowsSent || lane == rowsReceived {
		values = s.values[s.now()][1]
	}
	e := event{lane: lane}
	for at := 0; at < len(data); at += 4 {
		v, known := find(values, float64(math.Float32frombits(binary.NativeEndian.Uint32(data[at:]))))
		if n := len(e.parts); n == 0 || !e.parts[n-1].takes(v, known) {
			e.parts = append(e.parts, numbers{})
		}
		e.parts[len(e.parts)-1].add(v, known)
	}
	e.parts = settle(e.parts)
	return e
}

// settle keeps the parts with the most rows, as all parts of a message have the same rows. The numbers of
// other parts equal known values by chance: it keeps their count alone.
func settle(parts []numbers) (list []numbers) {
	most := 0
	for _, p := range parts {
		most = max(most, len(p.rows))
	}
	for _, p := range parts {
		if len(p.rows) == most {
			list = append(list, p)
			continue
		}
		if n := len(list); n == 0 || list[n-1].rows != nil {
			list = append(list, numbers{})
		}
		list[len(list)-1].count += p.count
	}
	return list
}

// takes reports whether a value belongs to the part: it follows the last value in its row, or begins a later
// row.
func (p *numbers) takes(v value, known bool) bool {
	if !known || p.rows == nil {
		return !known && p.rows == nil
	}
	last := p.rows[len(p.rows)-1]
	return v.row == last && v.col == p.to || v.row > last && v.col == p.from
}

func (p *numbers) add(v value, known bool) {
	p.count++
	switch n := len(p.rows); {
	case !known:
		return
	case n == 0:
		p.rows, p.from = []int{v.row}, v.col
	case p.rows[n-1] != v.row:
		p.rows = append(p.rows, v.row)
	}
	p.to = v.col + 1
}

// find returns the value of a number, up to rounding, if there is exactly one.
func find(values []value, number float64) (v value, known bool) {
	const tolerance = 1e-6
	i := sort.Search(len(values), func(i int) bool { return values[i].number >= number-tolerance })
	for ; i < len(values) && values[i].number <= number+tolerance; i++ {
		if known {
			return value{}, false
		}
		v, known = values[i], true
	}
	return v, known
}

// transcribe runs a layer forward and backward, checks the results, and returns what each worker did.
func transcribe(t *testing.T, g *graph.Graph, l paralleltest.Layer, workers, chunks int) []*script {
	t.Helper()
	scripts := make([]*script, workers)
	for rank := range scripts {
		scripts[rank] = newScript(t, g, l)
	}
	run(t, g, l, chunks, scripts, nil)
	return scripts
}

// run is transcribe into empty scripts. wrap, unless nil, wraps each worker's transport.
func run(t *testing.T, g *graph.Graph, l paralleltest.Layer, chunks int, scripts []*script,
	wrap func(comm.Transport) comm.Transport,
) {
	t.Helper()
	record := func(end comm.Transport) comm.Transport {
		s := scripts[end.Rank()]
		if wrap != nil {
			end = wrap(end)
		}
		return commtest.Record(end, s.message)
	}
	got := l.Blank(g.Vertices())
	sliced(t, g, len(scripts), chunks, record, func(c engine.Config, a *tp.Axis) {
		s := scripts[c.Groups.Slice]
		for _, v := range a.Vertices() {
			s.own = append(s.own, int(v))
		}
		c.Team.Watch = func(call kernel.Call, run func()) {
			if call.Kernel == "spmm" || strings.HasPrefix(call.Kernel, "attend") {
				s.add(event{lane: computes, kernel: call.Kernel, of: call.Shape[0]})
				defer s.add(event{lane: computed})
			}
			run()
		}
		layer := l
		layer.Forward = func(p gnn.Propagator, x *autograd.Var, w []*autograd.Var) *autograd.Var {
			z := l.Forward(p, x, w)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.pass = 1
			return z
		}
		layer.Run(c, a, paralleltest.Stored, got)
	})
	got.Near(t, "on several workers", l.Alone(t, g, paralleltest.Stored))
}

// plan says what a pass of a linear aggregation has to do.
type plan struct {
	pass   int
	rounds int
	chunks [][2]int // rows lo … hi−1 of each chunk, in the order of the pass
	needed []int    // by row: the first chunk that reads it
}

// planOf is the plan of a pass. Its chunks are those of worker 0's first round.
func planOf(t *testing.T, g *graph.Graph, pass int, scripts []*script, rounds int) *plan {
	t.Helper()
	n := g.Vertices()
	p := &plan{pass: pass, rounds: rounds, needed: make([]int, n)}
	at := pass * n
	for _, e := range scripts[0].events[pass] {
		if e.lane != computes || at == n*(1-pass) {
			continue
		}
		lo := at
		if at += e.of; pass == 1 { // "backward goes over the chunks in reverse"
			at -= 2 * e.of
			lo = at
		}
		p.chunks = append(p.chunks, [2]int{lo, lo + e.of})
	}
	for row := range p.needed {
		p.needed[row] = p.chunkOf(row)
	}
	edges := g.Relations[0].Edges()
	for k, source := range edges.Source {
		read, made := int(source), int(edges.Target[k])
		if pass == 1 {
			read, made = made, read
		}
		p.needed[read] = min(p.needed[read], p.chunkOf(made))
	}
	return p
}

// chunkOf is the chunk that computes a row.
func (p *plan) chunkOf(row int) int {
	return slices.IndexFunc(p.chunks, func(c [2]int) bool { return c[0] <= row && row < c[1] })
}

// of is the chunk of a message, or −1 if its rows are of several chunks.
func (p *plan) of(e event) int {
	chunk := -1
	for i, row := range e.rows() {
		of := p.chunkOf(row)
		if e.lane == slicesSent || e.lane == slicesReceived {
			of = p.needed[row]
		}
		if i > 0 && of != chunk {
			return -1
		}
		chunk = of
	}
	return chunk
}

// progress returns how many calls have begun, and the chunk and sender of all results received.
func (p *plan) progress(events []event) (began int, returned map[[2]int]bool) {
	returned = map[[2]int]bool{}
	for _, e := range events {
		switch e.lane {
		case computes:
			began++
		case rowsReceived:
			returned[[2]int{p.of(e), e.peer}] = true
		}
	}
	return began, returned
}

// ownsOf reports whether a chunk computes any of the own rows.
func (p *plan) ownsOf(chunk int, own []int) bool {
	return slices.ContainsFunc(own, func(row int) bool { return p.chunkOf(row) == chunk })
}

// describe returns an event in words. before is how many calls precede it. p is nil where there are no
// chunks.
func (p *plan) describe(e event, before int) string {
	if e.lane == computes {
		if p == nil {
			return fmt.Sprintf("%s of %d rows", e.kernel, e.of)
		}
		of, round := "", ""
		if p.rounds > 1 {
			round = fmt.Sprintf("round %d ", before/len(p.chunks))
		}
		c := p.chunks[before%len(p.chunks)]
		if len(p.chunks) > 1 {
			of = fmt.Sprintf("%schunk %d: ", round, before%len(p.chunks))
		}
		return fmt.Sprintf("%s%s of rows %d–%d", of, e.kernel, c[0], c[1]-1)
	}
	var parts []string
	for _, part := range e.parts {
		if part.rows == nil {
			parts = append(parts, fmt.Sprintf("%d numbers", part.count))
			continue
		}
		parts = append(parts, fmt.Sprintf("%s [%d–%d]", list(part.rows), part.from, part.to-1))
	}
	what := strings.Join(parts, " + ")
	if p != nil && len(p.chunks) > 1 {
		what = fmt.Sprintf("chunk %d: %s", p.of(e), what)
	}
	if e.lane == slicesSent || e.lane == rowsSent {
		return fmt.Sprintf("%s to %d", what, e.peer)
	}
	return fmt.Sprintf("%s from %d", what, e.peer)
}

func list(rows []int) string { return strings.Trim(fmt.Sprint(rows), "[]") }

// holding is a transport that holds back each message until the channel from until is closed. A nil channel
// does not hold it back. Later messages of the same sender, receiver and tag wait behind it.
type holding struct {
	comm.Transport
	until func(kind comm.Kind, data []byte) <-chan struct{}
	mu    sync.Mutex
	held  map[[2]int]*heldRequest // the last message held back, by receiver and tag
}

func (h *holding) Send(data []byte, to, tag int) comm.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	link, until := [2]int{to, tag}, h.until(comm.KindOf(tag), data)
	before := h.held[link]
	if until == nil && before == nil {
		return h.Transport.Send(data, to, tag)
	}
	r := &heldRequest{sent: make(chan struct{}), done: make(chan struct{})}
	h.held[link] = r
	go func() {
		if before != nil {
			<-before.sent
		}
		if until != nil {
			<-until
		}
		r.Request = h.Transport.Send(data, to, tag)
		close(r.sent)
		<-r.Request.Done()
		close(r.done)
	}()
	return r
}

// heldRequest is the request of a message that is held back.
type heldRequest struct {
	comm.Request
	sent, done chan struct{}
}

func (r *heldRequest) Done() <-chan struct{} { return r.done }
