package train

import "weft/tensor"

// PassMemory is the memory of the workers of passes on several graphs. What the passes on one graph leave
// idle, those on the next take: fresh pages cost more than most kernels. Peaks are those of all passes.
type PassMemory struct {
	workers []*tensor.Meter // each without matrices of its own
}

// meter returns another Meter that charges a worker.
func (m *PassMemory) meter(worker int) *tensor.Meter {
	for len(m.workers) <= worker {
		m.workers = append(m.workers, tensor.NewMeter())
	}
	return m.workers[worker].Another()
}

// Close gives the memory back, when all passes are closed.
func (m *PassMemory) Close() {
	for _, w := range m.workers {
		w.Close()
	}
}

// passMemory is the job's PassMemory, unless the workers count alone: below a limit, on a card, with matrices
// that rest, or where they share a graph's edges.
func (s *session) passMemory() *PassMemory {
	if s.Cards != nil || s.MemoryLimit > 0 || s.Offload != "" || s.TakesTurns() || s.SharesEdges() {
		return nil
	}
	return s.job.Memory
}
