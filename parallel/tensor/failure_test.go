package tensor_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/paralleltest"
	"weft/parallel/tensor"
	"weft/partition"
	memory "weft/tensor"
	"weft/train/engine"
)

// TestOneWorkerBreaksOff: where a worker fails at one of its messages, forward or backward, in a flow or in a
// switch of its own, every worker's pass ends with a Failure, and nothing uses its memory any more: there is
// no deadline that would end its waits.
func TestOneWorkerBreaksOff(t *testing.T) {
	const k = 3
	g := paralleltest.ManyEdges(t, 600, 4)
	for name, l := range map[string]paralleltest.Layer{
		"flow": paralleltest.Propagation("", 6, gnn.Sum, 2), "flow with a teleport": paralleltest.Named("sum with a teleport"),
		"switches": paralleltest.Propagation("", 6, gnn.Max, 1),
	} {
		for _, kind := range []comm.Kind{comm.ToSlices, comm.ToRows} {
			for _, messages := range []int{1, 2, 3} {
				outcome := brokenOff(g, k, l, kind, messages)
				for rank, o := range outcome {
					if f, ok := o.(exchange.Failure); !ok || rank != 1 && !errors.Is(f.Err, comm.ErrAborted) {
						t.Errorf("%s, message %d of %v: worker %d ended with %v", name, messages, kind, rank, o)
					}
				}
			}
		}
	}
}

// brokenOff runs the layer on k workers, of which one fails at a message, and returns how each ended.
func brokenOff(g *graph.Graph, k int, l paralleltest.Layer, kind comm.Kind, messages int) []any {
	ends, outcome, memories := comm.InProcess(k), make([]any, k), make([]*memory.Meter, k)
	ends[1] = &failing{Transport: ends[1], kind: kind, left: messages}
	var all sync.WaitGroup
	for rank := range k {
		memories[rank] = memory.NewMeter()
		all.Go(func() {
			c := comm.New(ends[rank], 0)
			defer func() {
				outcome[rank] = recover()
				c.Abort(fmt.Errorf("worker %d: %v", rank, outcome[rank]))
			}()
			team := kernel.NewTeam(1, memories[rank])
			groups := mesh.Mesh{Stages: 1, Partitions: 1, Slices: k}.Join(c)
			a, err := tensor.New(team, groups, partition.All(g), order.Options{}, tensor.Options{Chunks: 3})
			if err != nil {
				panic(err)
			}
			l.Run(engine.Config{Team: team, Groups: groups}, a, paralleltest.Stored, l.Blank(g.Vertices()))
			exchange.Must(c.Barrier(comm.Setup)) // a worker may be done before another fails
		})
	}
	all.Wait()
	for _, m := range memories {
		m.Close() // a fault, if anything still uses it
	}
	return outcome
}

// failing panics where so many messages of a kind are sent.
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
