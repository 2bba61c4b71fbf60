package tp_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/tp"
	"weft/train/engine"
	"weft/train/paralleltest"
)

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
	lane     string
	peer     int
	parts    []numbers
	kernel   string // the kernel called
	rowCount int    // its number of rows
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
				s.add(event{lane: computes, kernel: call.Kernel, rowCount: call.Shape[0]})
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

// holding is a transport that holds back each message until the channel from until is closed. A nil channel
// does not hold it back. Later messages of the same sender, receiver and tag wait behind it.
type holding struct {
	comm.Transport
	until func(kind comm.Kind, data []byte) <-chan struct{}
	mu    sync.Mutex
	last  map[[2]int]*heldRequest // the last message held back, by receiver and tag
}

func (h *holding) Send(data []byte, to, tag int) comm.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	link, until := [2]int{to, tag}, h.until(comm.KindOf(tag), data)
	before := h.last[link]
	if until == nil && before == nil {
		return h.Transport.Send(data, to, tag)
	}
	r := &heldRequest{sent: make(chan struct{}), done: make(chan struct{})}
	h.last[link] = r
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
