package sar_test

import (
	"errors"
	"testing"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/train/engine"
	"weft/train/paralleltest"
)

// TestOneWorkerBreaksOff: one worker panics in the middle of a halo exchange, forward or backward. It waits
// for its own goroutines, and every other worker's pass ends with a Failure. No deadline ends the others'
// waits.
func TestOneWorkerBreaksOff(t *testing.T) {
	const k = 3
	g := paralleltest.ManyEdges(t, 4000, 8)
	w := paralleltest.Workers{Mesh: paralleltest.Grid(1, k, 1), Graph: g, Owners: inTurn(g.Vertices(), k)}
	for _, calls := range []int{2, 7, 12} { // of the message function before it panics: forward, and backward
		outcome := w.Outcomes(t, func(c engine.Config) {
			p, err := sar.New(c.Env, axis.Options{Prefetch: 1})
			exchange.Must(err)
			left := calls
			l := paralleltest.Message("", 4, 4, nil, gnn.Message{},
				func(e gnn.Edges, _ []*nn.Param) *autograd.Var {
					if left--; left == 0 && c.Groups.Partition == 1 {
						panic("no more")
					}
					return e.Source
				})
			l.Run(c, p, paralleltest.Stored, l.Blank(g.Vertices()))
			exchange.Must(c.Groups.World.Barrier(comm.Setup)) // a worker may be done before another fails
		})
		if outcome[1] != "no more" {
			t.Errorf("after %d calls worker 1 ended with %v", calls, outcome[1])
		}
		for _, rank := range []int{0, 2} {
			if f, ok := outcome[rank].(exchange.Failure); !ok || !errors.Is(f.Err, comm.ErrAborted) {
				t.Errorf("after %d calls worker %d ended with %v", calls, rank, outcome[rank])
			}
		}
	}
}
