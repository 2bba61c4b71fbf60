package chunked

import (
	"fmt"
	"slices"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/sar/sartest"
)

// TestChunkOfEachReplica: the parts are partitions, of which each is one chunk of a replica.
func TestChunkOfEachReplica(t *testing.T) {
	sartest.Test(t, sartest.Kind{New: func(e axis.Env, chunks []int32) *sartest.Worker {
		w, g := exchanging(e, Division{chunks, 1})
		var pass *ChunkPass
		w.Forward = func(each func(k int)) {
			pass = g.Forward(1, []int{0})
			each(0)
		}
		w.Backward = func(each func(k int)) {
			pass.Backward()
			each(0)
		}
		w.End = func() { pass.End() }
		return w
	}})
}

// TestChunksInLockstep: the parts are chunks of a partition, or of two replicas' partitions, which an
// inference computes together.
func TestChunksInLockstep(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", replicas), func(t *testing.T) {
			sartest.Test(t, sartest.Kind{
				Replicas: replicas,
				New: func(e axis.Env, chunks []int32) *sartest.Worker {
					w, g := exchanging(e, Division{chunks, 1 + int(slices.Max(chunks))})
					w.Forward, w.End = g.Lockstep, func() {}
					return w
				},
			})
		})
	}
}

// exchanging has the chunks of a share as parts.
func exchanging(e axis.Env, d Division) (*sartest.Worker, *Graph) {
	g, err := New(e, axis.Options{HistoryPeriod: 1}, d)
	exchange.Must(err)
	w := &sartest.Worker{}
	for k, c := range g.Chunks {
		along, err := c.part.Edges(sartest.Along)
		exchange.Must(err)
		w.Parts = append(w.Parts, sartest.Part{
			Exchanger: c, Number: k*e.Groups.Mesh.Partitions + e.Groups.Partition,
			Edges: along, Rows: c.Rows(),
		})
	}
	return w, g
}
