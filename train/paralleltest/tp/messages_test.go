package tp_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/internal/assert"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/tp"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestBoundedMessages: a message has at most 65,536 numbers, and as many whole rows as fit: of a row less the
// workers here would send one more. A worker sends each other worker two messages at a time, and receives
// two, which bounds the memory of its buffers. An all-to-all to rows may begin while the one to slices ends.
func TestBoundedMessages(t *testing.T) {
	const columns = 600
	for _, c := range []struct{ workers, atOnce, messages, rows int }{
		{2, 2, 7, 65_536 / 300}, // of 300 columns in a message
		{3, 4, 3, 65_536 / 200},
	} {
		t.Run(fmt.Sprint(c.workers), func(t *testing.T) {
			vertices := c.workers * c.messages * c.rows
			g := paralleltest.ManyEdges(t, int32(vertices), 2)
			type link struct {
				from, to int
				kind     comm.Kind
			}
			var mu sync.Mutex
			var flights commtest.Flights
			sent, largest := map[link]int{}, 0
			wrap := func(end comm.Transport) comm.Transport {
				return commtest.Record(end, func(e commtest.Event) {
					if e.Kind != comm.ToSlices && e.Kind != comm.ToRows {
						return
					}
					flights.Log(e)
					mu.Lock()
					defer mu.Unlock()
					if e.Send && !e.Ended {
						sent[link{e.Rank, e.Peer, e.Kind}]++
						largest = max(largest, len(e.Data))
					}
				})
			}
			layer := paralleltest.Propagation("sum", columns, gnn.Sum, 1)
			sliced(t, g, c.workers, 1, wrap, func(e engine.Config, a *tp.Axis) {
				layer.Run(e, a, paralleltest.Stored, layer.Blank(vertices))
			})
			if largest > 4<<16 {
				t.Errorf("a message of %d bytes", largest)
			}
			for l, n := range flights.Most() {
				if n > c.atOnce {
					t.Errorf("%+v: %d messages at a time", l, n)
				}
			}
			if want := 2 * c.workers * (c.workers - 1); len(sent) != want {
				t.Errorf("messages on %d links, want %d", len(sent), want)
			}
			for l, n := range sent { // forward and backward
				if n != 2*c.messages {
					t.Errorf("%+v: %d messages, want %d", l, n, 2*c.messages)
				}
			}
		})
	}
}

// queued counts the messages of all-to-alls between the workers of a host.
type queued struct {
	mu        sync.Mutex
	now, most int
}

// Takes is of plans alone.
func (q *queued) Takes(comm.Kind, int) (memory int64, rests bool) { return 0, false }

func (q *queued) Put(k comm.Kind, message []byte, _ comm.Path) (comm.Message, error) {
	if k != comm.ToSlices && k != comm.ToRows {
		return content{bytes.Clone(message), nil}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now++
	q.most = max(q.most, q.now)
	return content{bytes.Clone(message), q}, nil
}

// content is a message that is counted, unless in is nil.
type content struct {
	bytes []byte
	in    *queued
}

func (c content) Len() int { return len(c.bytes) }
func (c content) Ahead()   {}

func (c content) Take(into []byte) error {
	copy(into, c.bytes)
	c.Drop()
	return nil
}

func (c content) Drop() {
	if c.in != nil {
		c.in.mu.Lock()
		defer c.in.mu.Unlock()
		c.in.now--
	}
}

// TestMessagesInTurns: at most four messages of all-to-alls for each other worker are queued on a worker that
// holds several partitions: two in each direction, also where a worker's slice has no columns. The result is
// right.
func TestMessagesInTurns(t *testing.T) {
	for _, layer := range []paralleltest.Layer{
		// 4 messages of 327 rows to each other worker
		paralleltest.Propagation("sum", 600, gnn.Sum, 1),
		paralleltest.AttentionV2("attention 2", gnn.Attention{Heads: 1}, 200), // all columns on one worker
	} {
		t.Run(layer.Name, func(t *testing.T) { messagesInTurns(t, layer) })
	}
}

func messagesInTurns(t *testing.T, layer paralleltest.Layer) {
	const vertices, partitions, workers = 6000, 2, 3
	g := paralleltest.ManyEdges(t, vertices, 2)
	owners, holders := make([]int32, vertices), make([]int, partitions*workers)
	for v := range owners {
		owners[v] = int32(v % partitions)
	}
	for rank := range holders {
		holders[rank] = rank % workers
	}
	ends, spools, hosts := make([]comm.Transport, len(holders)), make([]queued, workers),
		make([]*comm.SharedWorker, workers)
	for worker, link := range comm.InProcess(workers) {
		hosts[worker] = comm.NewSharedWorker(comm.New(link, 0), holders, &spools[worker])
		for _, end := range hosts[worker].Transports() {
			ends[end.Rank()] = end
		}
	}
	w := paralleltest.Workers{
		Mesh: paralleltest.Grid(1, partitions, workers), Graph: g,
		Owners: owners,
	}
	w.Wrap = func(end comm.Transport) comm.Transport { return ends[end.Rank()] }
	got := layer.Blank(vertices)
	w.Run(t, func(e engine.Config) {
		e.Groups.World.Begin()
		defer e.Groups.World.End()
		a, err := tp.New(e.Env, axis.Options{})
		exchange.Must(err)
		e.Groups.World.LocalBarrier()
		layer.Run(e, a, paralleltest.Stored, got)
	})
	got.Near(t, layer.Name, layer.Alone(t, g, paralleltest.Stored))
	var all sync.WaitGroup
	for worker, h := range hosts {
		all.Go(func() {
			assert.NoError(t, h.Close())
		})
		if most := spools[worker].most; most > 4*(workers-1) {
			t.Errorf("worker %d: %d messages at a time", worker, most)
		}
	}
	all.Wait()
}

// TestAttentionReleasesSlices: an inference keeps nothing of an attention but its result, also where a slice
// has parts of heads.
func TestAttentionReleasesSlices(t *testing.T) {
	const heads, width = 2, 3
	g := paralleltest.Small(t, true, false)
	sliced(t, g, 3, 0, nil, func(e engine.Config, a *tp.Axis) {
		tape := autograd.NewTape(e.Team)
		zeros := func(rows int, set *autograd.RowSet) *autograd.Var {
			return tape.Constant(e.Team.Zeros(tensor.Features, rows, heads*width), set)
		}
		x, source, target := zeros(a.Rows().Here, a.Rows()), zeros(1, nil), zeros(1, nil)
		before := e.Team.Memory.LiveTensors()
		a.Propagator("attention", paralleltest.Stored).Attend(gnn.Attention{
			Source: x, Target: x, ASource: source, ATarget: target, Heads: heads, Slope: .2,
			Loops: gnn.OneLoop,
		}, gnn.Once).Drop()
		if after := e.Team.Memory.LiveTensors(); after != before {
			t.Errorf("worker %d: %d bytes are live, %d before", e.Groups.Slice, after, before)
		}
	})
}
