package train

import (
	"context"
	"slices"
	"sync"
	"testing"

	"weft/comm"
	"weft/comm/commtest"
)

// TestSetUpIsLinear: the messages before the first epoch and after the last grow with the number of workers,
// where each worker has two neighbours.
func TestSetUpIsLinear(t *testing.T) {
	messages := func(k int) (n int) {
		g, o := ringed(t, 96, 2), networks()["gcn"]
		o.Epochs = 2
		of := make([]int32, g.Vertices())
		for v := range of {
			of[v] = int32(v * k / len(of))
		}
		job := divided(t, g, o, k, of)
		var mu sync.Mutex
		var all sync.WaitGroup
		errs := make([]error, k)
		for rank, end := range comm.InProcess(k) {
			mine := *job
			mine.Comm = comm.New(commtest.Record(end, func(e commtest.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Send && !e.Ended && e.Kind == comm.Setup {
					n++
				}
			}), 0)
			all.Go(func() {
				if _, errs[rank] = mine.Run(context.Background()); errs[rank] == nil {
					errs[rank] = mine.Comm.Close()
				}
			})
		}
		all.Wait()
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			t.Fatal(errs[i])
		}
		return n
	}
	four, eight, sixteen := messages(4), messages(8), messages(16)
	t.Log(four, eight, sixteen)
	if sixteen-eight != 2*(eight-four) {
		t.Errorf("%d, %d and %d messages of 4, 8 and 16 workers", four, eight, sixteen)
	}
}
