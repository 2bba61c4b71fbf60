package tp_test

import (
	"errors"
	"sync"
	"testing"

	"weft/comm"
	"weft/gnn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/tp"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestOneWorkerFails: one worker fails at one of its messages, forward or backward, with the all-to-alls
// overlapped or not. Every worker's pass then ends with a Failure, and no goroutine uses its memory any more.
// There is no deadline that would end its waits.
func TestOneWorkerFails(t *testing.T) {
	g := paralleltest.ManyEdges(t, 600, 4)
	for name, l := range map[string]paralleltest.Layer{
		"overlap":                 paralleltest.Propagation("", 6, gnn.Sum, 2),
		"overlap with a teleport": paralleltest.Named("sum with a teleport"),
		"no overlap":              paralleltest.Propagation("", 6, gnn.Max, 1),
	} {
		pass := func(c engine.Config) {
			a, err := tp.New(c.Env, axis.Options{AggregationChunks: 3})
			exchange.Must(err)
			l.Run(c, a, paralleltest.Stored, l.Blank(g.Vertices()))
			exchange.Must(c.Groups.World.Barrier(comm.Setup)) // a worker may be done before another fails
		}
		for _, kind := range []comm.Kind{comm.ToSlices, comm.ToRows} {
			for _, messages := range []int{1, 2, 3} {
				w := paralleltest.Workers{Mesh: paralleltest.Grid(1, 1, 3), Graph: g}
				w.Wrap = func(end comm.Transport) comm.Transport {
					if end.Rank() != 1 {
						return end
					}
					return &failing{Transport: end, kind: kind, left: messages}
				}
				for rank, o := range w.Outcomes(t, pass) {
					if f, ok := o.(exchange.Failure); !ok || rank != 1 && !errors.Is(f.Err, comm.ErrAborted) {
						t.Errorf("%s, message %d of %v: worker %d ended with %v", name,
							messages, kind, rank, o)
					}
				}
			}
		}
	}
}

// failing panics when it sends the last of so many messages of a kind.
type failing struct {
	comm.Transport
	kind comm.Kind
	mu   sync.Mutex
	left int
}

func (f *failing) Send(data []byte, to, tag int) comm.Request {
	if comm.KindOf(tag) == f.kind {
		f.mu.Lock()
		f.left--
		left := f.left
		f.mu.Unlock()
		if left == 0 {
			panic("no more")
		}
	}
	return f.Transport.Send(data, to, tag)
}
