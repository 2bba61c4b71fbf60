// Package commtest has the cases that every comm.Transport must pass, and a recorder of messages. The tests
// of each implementation run the cases.
package commtest

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weft/comm"
)

// Case tests one property on one rank. Every rank of a group calls Run at the same time. No case measures
// time, as a busy machine would decide its result. A case that should not fail has no deadline of its own:
// the test's deadline ends it.
type Case struct {
	Name    string
	Ranks   int           // of the group
	Timeout time.Duration // of its waits; 0: none
	Ends    bool          // the case leaves an unusable transport
	Apart   bool          // each rank must have a worker of its own, which its messages leave
	Run     func(c *comm.Comm) error
}

// Cases is the suite. MaxRanks is the largest group in it.
func Cases() []Case {
	cases := []Case{
		{Name: "order", Ranks: 4, Run: order},
		{Name: "sizes", Ranks: 2, Run: sizes},
		{Name: "many small messages", Ranks: 4, Run: manySmall},
		{Name: "all pairs at once", Ranks: 8, Run: allPairs},
		{Name: "message to itself", Ranks: 2, Run: toItself},
		{Name: "concurrent kinds", Ranks: 4, Run: concurrentKinds},
		{Name: "a send waits for its receiver", Ranks: 2, Apart: true, Run: rendezvous},
		{Name: "sum in blocks", Ranks: 3, Run: sumInBlocks},
		{Name: "groups", Ranks: MaxRanks, Run: groups},
		{Name: "counters", Ranks: 4, Apart: true, Run: counters},
		{Name: "timeout", Ranks: 3, Timeout: 300 * time.Millisecond, Ends: true, Run: timeout},
		{
			Name: "timeout of a send", Ranks: 2, Timeout: 300 * time.Millisecond, Ends: true,
			Apart: true, Run: sendTimeout,
		},
		{
			Name: "timeout of a barrier", Ranks: 3, Timeout: 300 * time.Millisecond, Ends: true,
			Run: barrierTimeout,
		},
		{Name: "abort", Ranks: 3, Ends: true, Run: abort},
		{Name: "too long", Ranks: 2, Ends: true, Run: wrongLength(101, 100)},
		{Name: "too short", Ranks: 2, Ends: true, Run: wrongLength(99, 100)},
		{Name: "too short by far", Ranks: 2, Ends: true, Run: wrongLength(3, 1<<20)},
	}
	for n := 1; n <= MaxRanks; n++ {
		cases = append(cases, Case{Name: fmt.Sprintf("collectives of %d", n), Ranks: n, Run: collectives})
	}
	return cases
}

// MaxRanks is the number of ranks that the suite needs.
const MaxRanks = 8

// Run runs the suite on a transport whose ranks are in this process. The clock of a case advances only while
// all its goroutines wait, so a deadline passes only if nothing else can end the waits. Every wait has a
// deadline, whose error says who waited for whom.
func Run(t *testing.T, connect func(n int) []comm.Transport) {
	for _, testCase := range Cases() {
		t.Run(testCase.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { runInProcess(t, connect(testCase.Ranks), testCase) })
		})
	}
}

// RunTurns runs the suite with several ranks on each of some workers. A rank is on the worker whose number is
// the rank modulo the number of workers.
func RunTurns(t *testing.T, workers int, spool func() comm.Spool) {
	for _, testCase := range Cases() {
		if testCase.Apart {
			continue
		}
		t.Run(testCase.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				holders := make([]int, testCase.Ranks)
				for rank := range holders {
					holders[rank] = rank % workers
				}
				ts := make([]comm.Transport, testCase.Ranks)
				shared := make([]*comm.SharedWorker, workers)
				for w, link := range comm.InProcess(workers) {
					shared[w] = comm.NewSharedWorker(comm.New(link, 0), holders, spool())
					for _, rank := range shared[w].Transports() {
						ts[rank.Rank()] = rank
					}
				}
				runInProcess(t, ts, testCase)
				var ends sync.WaitGroup
				for _, h := range shared {
					ends.Go(func() {
						if err := h.Close(); err != nil && !testCase.Ends {
							t.Error(err)
						}
					})
				}
				ends.Wait()
			})
		})
	}
}

func runInProcess(t *testing.T, ts []comm.Transport, testCase Case) {
	errs := make([]error, len(ts))
	var ranks sync.WaitGroup
	for r, transport := range ts {
		ranks.Go(func() {
			c := comm.New(transport, cmp.Or(testCase.Timeout, time.Minute))
			c.Begin()
			defer c.End()
			errs[r] = testCase.Run(c)
			if errs[r] != nil {
				c.Abort(errs[r])
			} else if !testCase.Ends {
				errs[r] = c.Close()
			}
		})
	}
	ranks.Wait()
	for r, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// RunAsRank runs the cases that leave the transport usable, as one of at least MaxRanks processes, and
// reports the result of each.
func RunAsRank(t comm.Transport, report func(name string, err error)) {
	for _, testCase := range Cases() {
		if testCase.Ends {
			continue
		}
		err := asMember(comm.New(t, testCase.Timeout), testCase)
		report(testCase.Name, err)
		if err != nil {
			t.Abort(err)
			return
		}
	}
}

func asMember(all *comm.Comm, testCase Case) error {
	members := []int{all.Rank()}
	if all.Rank() < testCase.Ranks {
		members = nil
		for r := range testCase.Ranks {
			members = append(members, r)
		}
	}
	if c := all.Group(members...); all.Rank() < testCase.Ranks {
		if err := testCase.Run(c); err != nil {
			return err
		}
	}
	return all.Barrier(comm.Setup)
}

// pattern is a message of n bytes that identifies its source. The bytes depend on the numbers, and do not
// repeat at a round distance.
func pattern(n int, numbers ...int) []byte {
	seed := uint32(2166136261)
	for _, x := range numbers {
		seed = (seed ^ uint32(x)) * 16777619
	}
	b := make([]byte, n)
	const period = 4099
	for i := range min(n, period) {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	for done := period; done < n; done *= 2 {
		copy(b[done:], b[:done])
	}
	return b
}

func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Errorf("%s: byte %d of %d is %d, want %d", what, i, len(want), got[i], want[i])
		}
	}
	return fmt.Errorf("%s: %d bytes, want %d", what, len(got), len(want))
}

// wait waits for all and returns the first error.
func wait(ps ...*comm.Pending) error {
	for _, p := range ps {
		if err := p.Wait(); err != nil {
			return err
		}
	}
	return nil
}
