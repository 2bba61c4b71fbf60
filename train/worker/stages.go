package worker

import (
	"weft/gnn"
	"weft/parallel/mesh"
	"weft/train/engine"
)

// Stage is a stage of the pipeline.
type Stage struct {
	Workers []int `json:"workers"` // the numbers of its workers: one for each slice of each partition
	Blocks  []int `json:"blocks"`  // the stage's first block and the next stage's, counted from 0
	// Work is its share of the multiply-adds of a forward pass.
	Work float64 `json:"work"`
}

// StageSummary is the average times of a stage's workers in the training pass of the last epoch.
type StageSummary struct {
	Stage
	Compute float64 `json:"compute_seconds"`
	// Bubble is the waiting time while the pipeline fills, turns and drains, up to the end of the epoch.
	Bubble float64 `json:"bubble_seconds"`
	Wait   float64 `json:"wait_seconds"` // all other waiting
	Sent   int64   `json:"sent_bytes"`   // of all kinds, by all workers of the stage
}

// Stages are the stages of the mesh; nil if it has one.
func (w *model) Stages() (all []Stage) {
	grid, cuts := w.Groups.Mesh, w.Stage.Cuts
	if grid.Stages == 1 {
		return nil
	}
	sum := 0.0
	costs := gnn.Costs(w.Blocks, w.Share.Whole.Vertices, w.Share.Whole.Edges)
	for s := range grid.Stages {
		stage := Stage{Blocks: cuts[s : s+2]}
		for _, c := range costs[cuts[s]:cuts[s+1]] {
			stage.Work += c
		}
		sum += stage.Work
		for i := range grid.Partitions * grid.Slices {
			stage.Workers = append(stage.Workers, grid.Rank(mesh.Coords{Stage: s})+i)
		}
		all = append(all, stage)
	}
	for s := range all {
		all[s].Work /= sum
	}
	return all
}

// add adds a worker's times to the average, and its bytes to the sum.
func (s *StageSummary) add(r engine.StageReport, sent int64) {
	n := float64(len(s.Workers))
	s.Sent += sent
	s.Compute += r.Compute.Seconds() / n
	s.Bubble += r.Bubble.Seconds() / n
	s.Wait += r.Wait.Seconds() / n
}

// stageImbalance is the stages' largest computing time divided by their mean, or 0 without stages.
func stageImbalance(stages []StageSummary) float64 {
	var compute []float64
	for _, s := range stages {
		compute = append(compute, s.Compute)
	}
	return Imbalance(compute)
}
