package kernel

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLaneOrder: the sums of lanes that become complete in any order, and at the same time, are each added
// once, in the order of the lanes, and never two at once.
func TestLaneOrder(t *testing.T) {
	const lanes = 9
	for seed := range uint64(200) {
		o := laneOrder{sums: make([]int, lanes)}
		var added, want []int // written by one add after the other
		var adding atomic.Int32
		var all sync.WaitGroup
		begin := make(chan struct{})
		for lane := range lanes {
			want = append(want, lane, 100+lane)
		}
		for i, lane := range rand.New(rand.NewPCG(seed, 0)).Perm(lanes) {
			deliver := func() {
				o.add(lane, 100+lane, func(lane, sum int) {
					if adding.Add(1) > 1 {
						t.Error("two sums are added at once")
					}
					runtime.Gosched()
					added = append(added, lane, sum)
					adding.Add(-1)
				})
			}
			if i < lanes/2 {
				deliver()
				continue
			}
			all.Go(func() {
				<-begin
				deliver()
			})
		}
		close(begin)
		all.Wait()
		if !slices.Equal(added, want) {
			t.Fatalf("added %v, want %v", added, want)
		}
	}
}
