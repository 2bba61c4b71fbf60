package sar_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/comm/commtest"
	"weft/gnn"
	"weft/internal/assert"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/edges"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// waiting is a Spool on Go's heap. It counts the messages with rows of vertices, or with their gradients.
type waiting struct {
	mu   sync.Mutex
	rows int
}

func (*waiting) Takes(comm.Kind, int) (memory int64, rests bool) { return 0, false }

func (w *waiting) Put(k comm.Kind, message []byte, _ comm.Path) (comm.Message, error) {
	if k == comm.Halo || k == comm.HaloGradient {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.rows++
	}
	return waits(bytes.Clone(message)), nil
}

type waits []byte

func (m waits) Len() int               { return len(m) }
func (m waits) Ahead()                 {}
func (m waits) Drop()                  {}
func (m waits) Take(into []byte) error { copy(into, m); return nil }

// TestBoundedMessagesInTurns is TestBoundedMessages of workers that hold several partitions each, of equally
// many and of fewer than another one: a worker has as few messages in flight as one of a single partition,
// and none waits for a partition's turn. All bits are those of a worker for each partition. The graph is
// large enough for five or six messages from a partition to another one.
func TestBoundedMessagesInTurns(t *testing.T) {
	g := paralleltest.ManyEdges(t, 20000, 10)
	for i, name := range []string{
		"linear sum", "symmetric twice", "maximum", "attention", "attention 2 with dropout",
		"message maximum",
	} {
		l := paralleltest.Named(name)
		for k, holders := range [][]int{
			{0, 0, 1, 1}, {0, 0, 0, 1, 1}, {0, 1, 1, 1, 2}, {0, 0, 0, 1, 1, 2, 2},
		} {
			o := axis.Options{Prefetch: []int{0, 1, 3}[(i+k)%3], Halo: edges.Halo((i + k) % 2)}
			setting := fmt.Sprintf("%s on %v, a prefetch of %d", name, holders, o.Prefetch)
			t.Run(setting, func(t *testing.T) {
				owners := inTurn(g.Vertices(), len(holders))
				want, got := l.Blank(g.Vertices()), l.Blank(g.Vertices())
				workers(t, g, owners, len(holders), o, nil, func(c engine.Config, p *sar.Partition) {
					l.Run(c, p, paralleltest.Stored, want)
				})
				var flights commtest.Flights
				spools := takeTurns(t, paralleltest.Workers{
					Mesh: paralleltest.Grid(1, len(holders), 1), Graph: g, Owners: owners,
				}, holders, flights.Log, func(c engine.Config) {
					c.Epochs = 76
					p, err := sar.New(c.Env, o)
					exchange.Must(err)
					l.Run(c, p, paralleltest.Stored, got)
				})
				if !slices.Equal(got.Out, want.Out) || !slices.Equal(got.DX, want.DX) {
					t.Error("other bits than those of a worker for each partition")
				}
				most := flights.Most()
				for worker := range spools {
					if n := spools[worker].rows; n > 0 {
						t.Errorf("worker %d: %d messages with rows wait", worker, n)
					}
					for _, kind := range []comm.Kind{comm.Halo, comm.HaloGradient} {
						sent := most[commtest.Lane{Rank: worker, Send: true, Kind: kind}]
						received := most[commtest.Lane{Rank: worker, Kind: kind}]
						if sent > 2 || received > o.Prefetch+1 || sent == 0 {
							t.Errorf("worker %d had %d messages of %v in flight, and waited for %d",
								worker, sent, kind, received)
						}
					}
				}
			})
		}
	}
}

// takeTurns runs f as every rank, of which each worker holds those of holders. log is told what workers send
// each other.
func takeTurns(t *testing.T, w paralleltest.Workers, holders []int, log func(commtest.Event),
	f func(c engine.Config),
) []waiting {
	outcomes, closed, spools := turnsOf(t, w, holders, log, func(c engine.Config) {
		f(c)
		c.Groups.World.LocalBarrier() // others may be reading of this one's memory
	})
	for rank, outcome := range outcomes {
		if outcome != nil {
			t.Errorf("rank %d: %v", rank, outcome)
		}
	}
	for _, err := range closed {
		assert.NoError(t, err)
	}
	return spools
}

// turnsOf is takeTurns for ranks of which some may panic. It returns what each rank panicked with, or nil,
// and with which error the host of each worker closed.
func turnsOf(t *testing.T, w paralleltest.Workers, holders []int, log func(commtest.Event),
	f func(c engine.Config),
) (outcomes []any, closed []error, spools []waiting) {
	n := slices.Max(holders) + 1
	ends, hosts := make([]comm.Transport, len(holders)), make([]*comm.SharedWorker, n)
	spools = make([]waiting, n)
	for worker, link := range comm.InProcess(n) {
		recorded := comm.New(commtest.Record(link, log), 0)
		hosts[worker] = comm.NewSharedWorker(recorded, holders, &spools[worker])
		for _, end := range hosts[worker].Transports() {
			ends[end.Rank()] = end
		}
	}
	w.Wrap = func(end comm.Transport) comm.Transport { return ends[end.Rank()] }
	outcomes = w.Outcomes(t, func(c engine.Config) {
		c.Groups.World.Begin()
		defer c.Groups.World.End()
		f(c)
	})
	closed = make([]error, n)
	var all sync.WaitGroup
	for worker, h := range hosts {
		all.Go(func() { closed[worker] = h.Close() })
	}
	all.Wait()
	return outcomes, closed, spools
}

// TestOneBreaksOffInItsTurn: a rank panics in the middle of a halo exchange with a rank of another worker,
// forward or backward. When its buffers are released the connection has ended, so that nothing uses them any
// more. The pass of each other rank ends with a Failure, and so does every worker's connection.
func TestOneBreaksOffInItsTurn(t *testing.T) {
	g, holders := paralleltest.ManyEdges(t, 4000, 8), []int{0, 0, 1, 1, 1}
	w := paralleltest.Workers{
		Mesh: paralleltest.Grid(1, len(holders), 1), Graph: g, Owners: inTurn(g.Vertices(), len(holders)),
	}
	for _, calls := range []int{4, 9, 15} { // of the message function, the last backward
		for _, breaks := range []int{0, 1, 4} {
			outcomes, closed, _ := turnsOf(t, w, holders, func(commtest.Event) {}, func(c engine.Config) {
				world := c.Groups.World
				defer func() {
					p := recover()
					if p != nil && world.Aborted() == nil {
						t.Errorf("after %d calls of rank %d rank %d has released buffers that others may use",
							calls, breaks, world.Rank())
					}
					if p != nil {
						world.Abort(fmt.Errorf("rank %d: %v", world.Rank(), p))
						panic(p)
					}
				}()
				p, err := sar.New(c.Env, axis.Options{Prefetch: 1})
				exchange.Must(err)
				left := calls
				l := paralleltest.Message("", 4, 4, nil, gnn.Message{},
					func(e gnn.Edges, _ []*nn.Param) *autograd.Var {
						if left--; left == 0 && world.Rank() == breaks {
							panic("no more")
						}
						return e.Source
					})
				l.Run(c, p, paralleltest.Stored, l.Blank(g.Vertices()))
				exchange.Must(world.Barrier(comm.Setup)) // a worker may be done before another fails
			})
			for rank, outcome := range outcomes {
				f, is := outcome.(exchange.Failure)
				if rank == breaks && outcome != "no more" ||
					rank != breaks && (!is || !errors.Is(f.Err, comm.ErrAborted)) {
					t.Errorf("after %d calls of rank %d rank %d ended with %v", calls, breaks, rank, outcome)
				}
			}
			for _, err := range closed {
				assert.ErrorIs(t, err, comm.ErrAborted, "the end of a worker's connection")
			}
		}
	}
}
