package engine

import (
	"fmt"
	"hash/crc32"
	"time"

	"weft/comm"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/chunked"
	"weft/tensor"
)

// StageOptions are the pipeline axis's: what a worker of a stage is told. Of a mesh of one stage they are
// zero.
type StageOptions struct {
	// Cuts are the first block of each stage, and the number of blocks behind them, as from gnn.Cut.
	Cuts []int
	// Options are what chunks read of each other; Aggregated is Config's.
	chunked.Options
	// Warm begins history with an exact forward pass, and not with zeros.
	Warm bool
	// Fixed processes the chunks in their order in every epoch, and not in a random one.
	Fixed bool
	// Recompute computes a chunk's forward pass again in its backward pass, and keeps little in between.
	Recompute bool
	// Report takes, after each training pass, how this worker spent it; nil: nobody asks.
	Report func(StageReport)
}

// StageReport is how a worker of a stage spent a training pass: the three add up to it.
type StageReport struct {
	Compute time.Duration // not standing still
	// Bubble is standing still while the pipeline fills, turns and drains: until the first chunk comes from
	// the stage before, and between the last forward and the first backward, until that comes from the stage
	// after.
	Bubble time.Duration
	Wait   time.Duration // standing still otherwise
}

// agree fails on all workers where one of them was told other stages, chunks, orders or history than the
// first: it would take the rows of one chunk for those of another.
func (p *Pipeline) agree() error {
	if p.Team.Planning() {
		return nil
	}
	s := &p.Stage
	told := fmt.Sprint(p.Seed, s.Cuts, s.Count, crc32.ChecksumIEEE(comm.Bytes(s.Chunks)), s.Fixed, s.Period, s.Warm, s.Stale)
	return launch.Ranks{Comm: p.Groups.World}.Agree(told, func(rank int, _, _ string) error {
		return refusal.Errorf("worker %d was told other stages, chunks, orders of them or history than worker 0: all need the same StageOptions and seed", rank)
	})
}

// spending measures how a worker spends a training pass.
type spending struct {
	*Pipeline
	began          time.Time
	waited, bubble time.Duration
}

func (p *Pipeline) spend() *spending {
	return &spending{Pipeline: p, began: time.Now(), waited: p.Groups.World.Waited()}
}

// take takes the next chunk's matrices from a box. The wait for the first in the order is the pipeline's
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
