package train

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"weft/comm"
	"weft/comm/commtest"
	"weft/comm/launch"
	"weft/internal/assert"
)

// TestSetupTraffic compares what a run sends besides its epochs with formulas of the number of ranks. Each
// partition is an arc of a ring, so that it needs one row of each of two others.
func TestSetupTraffic(t *testing.T) {
	const arc, version, simd, settings = 7, "1.2", "avx512", "lr 3"
	for _, n := range []int{4, 9, 16} {
		g := ringed(t, int32(arc*n), 1)
		owners := make([]int32, arc*n)
		for v := range owners {
			owners[v] = int32(v / arc)
		}
		shared := divided(t, g, networks()["sage"], n, owners)
		shared.Options.Epochs = 1

		var mu sync.Mutex
		phase, sent := 0, [4]comm.Traffic{}
		count := func(e commtest.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Send && !e.Ended && e.Kind == comm.Setup {
				sent[phase].Messages++ // also an empty one
				// The length of a report depends on its numbers, and that of the samples of memory on time
				if !bytes.HasPrefix(e.Data, []byte(`{"`)) && len(e.Data) < 2048 {
					sent[phase].Bytes += int64(len(e.Data))
				}
			}
		}
		next := func() { mu.Lock(); phase++; mu.Unlock() }
		var joined, planned sync.WaitGroup
		joined.Add(n)
		planned.Add(n)
		begun, ready := make(chan struct{}), make(chan struct{})
		var ranks sync.WaitGroup
		for _, end := range comm.InProcess(n) {
			ranks.Go(func() {
				s := launch.Start{
					Connect:   func() (comm.Transport, error) { return commtest.Record(end, count), nil },
					Connected: func(launch.Ranks) error { return nil },
					Program:   launch.Program{Version: version, Rounding: simd, Settings: settings},
				}
				r, err := s.Join()
				assert.NoError(t, err)
				joined.Done()
				rankJob := *shared
				rankJob.Comm = r.Comm
				if r.First() {
					joined.Wait()
					next()
					close(begun)
					rankJob.OnEpoch = func(Epoch) { next() }
				}
				<-begun
				_, err = rankJob.Plan(context.Background())
				assert.NoError(t, err)
				planned.Done()
				if r.First() {
					planned.Wait()
					next()
					close(ready)
				}
				<-ready
				_, err = rankJob.Run(context.Background())
				assert.NoError(t, r.End(err, func(error) {}))
			})
		}
		ranks.Wait()
		others, pairs := int64(n-1), int64(2*n)
		for i, want := range []comm.Traffic{
			{Messages: 11 * others, Bytes: (64 + int64(len(version+simd+settings))) * others},
			{Messages: 6 * others, Bytes: 32 * others},
			{Messages: 7*others + 2*pairs, Bytes: 49*others + 8*pairs},
			{Messages: 16 * others, Bytes: 73*others + 4*(1+1)*arc*others},
		} {
			assert.Equal(t, want, sent[i], "%d workers, %s", n,
				[]string{"join", "plan", "shares", "results"}[i])
		}
	}
}
