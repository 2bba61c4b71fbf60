package sar_test

import (
	"fmt"
	"testing"

	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/sar"
	"weft/parallel/sar/sartest"
)

// TestWire: messages between workers, and between partitions that take turns: on one worker, and on two of
// which each holds several, or one.
func TestWire(t *testing.T) {
	oneHolds := func(partitions int) []int { return make([]int, partitions) }
	twoHold := func(partitions int) []int {
		holders := make([]int, partitions)
		holders[partitions-1] = 1
		holders[partitions-2] = 1
		return holders
	}
	for name, holders := range map[string]func(int) []int{
		"workers": nil, "turns on one worker": oneHolds, "turns on two workers": twoHold,
	} {
		for _, prefetch := range []int{0, 2} {
			t.Run(fmt.Sprintf("%s/prefetch %d", name, prefetch), func(t *testing.T) {
				sartest.Test(t, sartest.Kind{
					Holders: holders,
					New: func(e axis.Env, _ []int32) *sartest.Worker {
						p, err := sar.New(e, axis.Options{Prefetch: prefetch})
						exchange.Must(err)
						along, err := p.Edges(sartest.Along)
						exchange.Must(err)
						once := func(each func(int)) { each(0) }
						return &sartest.Worker{
							Parts: []sartest.Part{{
								Exchanger: p.Exchanger(), Number: e.Groups.Partition,
								Edges: along, Rows: p.Rows(),
							}},
							Forward: once, Backward: once, End: func() {},
						}
					},
				})
			})
		}
	}
}
