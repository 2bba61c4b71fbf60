package sar

import (
	"errors"
	"math"
	"testing"

	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/exchange"
)

// TestManyParallelEdges: ids beyond 32 bits, which equal messages would have in common, are refused where a
// maximum reads them: of 10⁸ vertices, vertex 47,483,647 may have 22 parallel edges, and the next one 21.
func TestManyParallelEdges(t *testing.T) {
	m := &messages{Message: gnn.Message{Reduce: gnn.KindMax}, path: "convs.1", vertices: 1e8}
	if id := m.idOf(47_483_647, 21); id != math.MaxInt32 {
		t.Errorf("id %d", id)
	}
	defer func() {
		want := "layer convs.1: a maximum of messages tells 21 parallel edges between two of 100000000 " +
			"vertices apart, and here are more; remove parallel edges from the graph, or take a sum or a mean"
		failure, ok := recover().(exchange.Failure)
		if !ok || !refusal.Is(failure) || errors.Unwrap(failure).Error() != want {
			t.Errorf("%v", failure)
		}
		m.Reduce = gnn.KindSum
		m.idOf(47_483_648, 21)
	}()
	m.idOf(47_483_648, 21)
}
