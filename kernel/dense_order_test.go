package kernel

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weft/tensor"
)

// TestLaneOrder: sums of lanes that become complete in any order, or at the same time, are each added once,
// in the order of the lanes, and never two at once.
func TestLaneOrder(t *testing.T) {
	const lanes = 9
	for seed := range uint64(200) {
		o := laneOrder{sums: make([]int, lanes)}
		var added, want []int // one add after the other writes it
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

// TestSumsInOrder: each sum of several blocks is computed once and added in order. No other sum has its
// memory meanwhile, with fewer threads than sums and with as many. If one of them panics, the caller gets the
// value, and nobody waits.
func TestSumsInOrder(t *testing.T) {
	const blocks, lanes = 3, 7
	for _, threads := range []int{1, 2, 5, blocks * lanes} {
		for failing := range blocks*lanes + 1 { // in the last round none fails
			for _, where := range []string{"sum", "add"} {
				sums := min(2*threads, blocks*lanes)
				holds := make([]atomic.Int64, sums) // 1 + the number of the sum that the memory holds
				var added [blocks]int
				fails := func(in string, block, lane int) {
					if in == where && block*lanes+lane == failing {
						panic(failing)
					}
				}
				func() {
					defer func() {
						if got := recover(); (failing < blocks*lanes) != (got == failing) {
							t.Errorf("%d threads, %s %d: recovered %v", threads, where, failing, got)
						}
					}()
					newCPU(threads).sumsInOrder(threads, sums, blocks, lanes, func(_, sum, block, lane int) {
						if !holds[sum].CompareAndSwap(0, int64(1+block*lanes+lane)) {
							t.Error("the memory of a sum is not free")
						}
						runtime.Gosched()
						fails("sum", block, lane)
					}, func(block, lane, sum int) {
						fails("add", block, lane)
						if !holds[sum].CompareAndSwap(int64(1+block*lanes+lane), 0) || added[block] != lane {
							t.Errorf("lane %d of block %d is added as number %d", lane, block, added[block])
						}
						added[block]++
					})
				}()
				if want := [blocks]int{lanes, lanes, lanes}; failing == blocks*lanes && added != want {
					t.Errorf("added %v", added)
				}
			}
		}
	}
}

// TestWeightTypes: a gradient that is not Float32, or a factor that is no floating-point matrix, panics in
// the caller's goroutine.
func TestWeightTypes(t *testing.T) {
	team := NewTeam(3, tensor.NewMeter())
	defer team.Memory.Close()
	matrix := func(e tensor.Element, rows int) *tensor.Matrix {
		return team.Memory.NewElement(tensor.Buffers, e, rows, 4)
	}
	const f32, bf16, i32 = tensor.Float32, tensor.BFloat16, tensor.Int32
	for _, c := range [][3]tensor.Element{{bf16, f32, f32}, {f32, i32, f32}, {f32, f32, i32}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("types %v: no panic", c)
				}
			}()
			team.MatMulT(matrix(c[0], 4), matrix(c[1], 8), matrix(c[2], 8), Replace)
		}()
	}
}

// TestWeightOfOneLane: the sum of a single lane is the gradient, and takes no memory for a total.
func TestWeightOfOneLane(t *testing.T) {
	for rows, want := range map[int]int{laneRows: 1, laneRows + 1: 2 + 1} {
		memory := tensor.NewMeter()
		team := NewPlan(1, memory)
		matrix := func(rows, cols int) *tensor.Matrix { return memory.New(tensor.Buffers, rows, cols) }
		w := newWeight(team, matrix(16, 16), matrix(rows, 16), matrix(rows, 16), Replace)
		sums := w.sums.Rows
		if w.totals != nil {
			sums += w.totals.Rows
		}
		if sums != want {
			t.Errorf("%d rows take %d sums, want %d", rows, sums, want)
		}
		memory.Close()
	}
}
