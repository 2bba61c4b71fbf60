package sar_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/paralleltest"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// TestOneWorkerBreaksOff: where a worker panics in the middle of a sweep, forward or backward, it waits for
// its own goroutines, and every other worker's pass ends with a Failure: there is no deadline that would end
// its waits.
func TestOneWorkerBreaksOff(t *testing.T) {
	const k = 3
	g := paralleltest.ManyEdges(t, 4000, 8)
	shares, err := partition.Split(g, &partition.Assignment{K: k, Of: inTurn(4000, k)})
	if err != nil {
		t.Fatal(err)
	}
	for _, calls := range []int{2, 7, 12} { // of the message function before it panics: forward, and backward
		ends := comm.InProcess(k)
		var outcome [k]any
		var all sync.WaitGroup
		memories := make([]*tensor.Meter, k)
		for rank := range k {
			memories[rank] = tensor.NewMeter()
			all.Go(func() {
				c := comm.New(ends[rank], 0)
				defer func() {
					outcome[rank] = recover()
					c.Abort(fmt.Errorf("worker %d: %v", rank, outcome[rank]))
				}()
				team := kernel.NewTeam(1, memories[rank])
				p, err := sar.New(team, mesh.Mesh{Stages: 1, Partitions: k, Slices: 1}.Join(c), shares[rank], order.Options{}, sar.Options{Prefetch: 1})
				if err != nil {
					panic(err)
				}
				left := calls
				l := paralleltest.Message("", 4, 4, nil, gnn.Message{}, func(e gnn.Edges, _ []*nn.Param) *autograd.Var {
					if left--; left == 0 && rank == 1 {
						panic("no more")
					}
					return e.Source
				})
				l.Run(engine.Config{Team: team}, p, paralleltest.Stored, l.Blank(4000))
				if err := c.Barrier(comm.Setup); err != nil { // the last worker may end before another fails
					panic(exchange.Failure{Err: err})
				}
			})
		}
		all.Wait()
		for _, m := range memories {
			m.Close() // a fault, if anything still uses it
		}
		if outcome[1] != "no more" {
			t.Errorf("after %d calls worker 1 ended with %v", calls, outcome[1])
		}
		for _, rank := range []int{0, 2} {
			if f, ok := outcome[rank].(exchange.Failure); outcome[rank] != nil && (!ok || !errors.Is(f.Err, comm.ErrAborted)) {
				t.Errorf("after %d calls worker %d ended with %v", calls, rank, outcome[rank])
			}
		}
		if outcome[0] == nil && outcome[2] == nil {
			t.Errorf("after %d calls no other worker noticed", calls)
		}
	}
}
