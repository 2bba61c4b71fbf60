package engine

import (
	"fmt"
	"hash/crc32"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/parallel/chunked"
	"weft/tensor"
)

// StageOptions are what a stage knows of the pipeline. All workers have the same but for Report. They are
// zero if the mesh has one stage.
type StageOptions struct {
	// Cuts are the first block of each stage and, last, the number of blocks, as from gnn.Cut.
	Cuts []int
	chunked.Division
	// Report is called after each training pass with the times of this worker. It may be nil.
	Report func(StageReport)
}

// StageReport is the times of a stage's worker in a training pass. They add up to the pass.
type StageReport struct {
	Compute time.Duration // all time without waiting
	// Bubble is the waiting time while the pipeline fills, turns and drains: for the first chunk from the
	// previous stage, and between the worker's last forward and its first backward pass, for the next stage.
	Bubble time.Duration
	Wait   time.Duration // all other waiting
}

// agree fails on all workers if a worker's stages, chunks, orders or history differ from worker 0's. The
// worker would otherwise take one chunk's rows for another's.
func (c *Config) agree() error {
	s := &c.Stage
	told := fmt.Sprint(c.Seed, s.Cuts, s.Count, crc32.ChecksumIEEE(comm.Bytes(s.Chunks)),
		c.ChunkOrder, c.HistoryPeriod, c.HistoryStart, c.StaleGradients)
	return launch.Ranks{Comm: c.Groups.World}.Agree(told, func(rank int, _, _ string) error {
		return refusal.Errorf("worker %d has other stages, chunks, chunk orders or history than worker 0: "+
			"all workers need the same StageOptions and seed", rank)
	})
}

// spending measures the times of a worker in a training pass.
type spending struct {
	*Pipeline
	began          time.Time
	waited, bubble time.Duration
}

func (p *Pipeline) spend() *spending {
	return &spending{Pipeline: p, began: time.Now(), waited: p.Groups.World.Waited()}
}

// take takes the next chunk's matrices from an inbox. The wait for the first chunk of the order counts as the
// bubble.
func (s *spending) take(from *inbox, first bool) []*tensor.Matrix {
	before := s.Groups.World.Waited()
	m := from.take()
	if first {
		s.bubble += s.Groups.World.Waited() - before
	}
	return m
}

func (s *spending) report() {
	if s.Stage.Report == nil {
		return
	}
	wait := s.Groups.World.Waited() - s.waited
	s.Stage.Report(StageReport{Compute: time.Since(s.began) - wait, Bubble: s.bubble, Wait: wait - s.bubble})
}
