package worker

import (
	"weft/gnn"
	"weft/parallel/mesh"
	"weft/train/engine"
)

// Stage is a part of a pipeline.
type Stage struct {
	Workers []int `json:"workers"` // one for each partition
	Blocks  []int `json:"blocks"`  // its first, and the first of the next stage, from 0
	// Work is its share of the multiply-adds of a forward pass.
	Work float64 `json:"work"`
}

// StageSummary is how the workers of a stage spent the training pass of the last epoch, on average.
type StageSummary struct {
	Stage
	Compute float64 `json:"compute_seconds"`
	Bubble  float64 `json:"bubble_seconds"` // standing still while the pipeline fills, turns and drains, up to the end of the epoch
	Wait    float64 `json:"wait_seconds"`   // standing still otherwise
	Sent    int64   `json:"sent_bytes"`     // of all kinds, by all its workers
}

// Stages are those of the mesh, where it has several.
func (w *Worker) Stages() (all []Stage) {
	grid, cuts := w.Groups.Mesh, w.Stage.Cuts
	if grid.Stages == 1 {
		return nil
	}
	sum, costs := 0.0, gnn.Costs(w.Blocks, w.Share.Whole.Vertices, w.Share.Whole.Edges)
	for s := range grid.Stages {
		one := Stage{Blocks: cuts[s : s+2]}
		for _, c := range costs[cuts[s]:cuts[s+1]] {
			one.Work += c
		}
		sum += one.Work
		for p := range grid.Partitions {
			one.Workers = append(one.Workers, grid.Rank(mesh.Place{Stage: s, Partition: p}))
		}
		all = append(all, one)
	}
	for s := range all {
		all[s].Work /= sum
	}
	return all
}

// add puts the report of one of the workers into their mean, and the bytes that it sent into their sum.
func (s *StageSummary) add(r engine.StageReport, sent int64) {
	n := float64(len(s.Workers))
	s.Sent += sent
	s.Compute += r.Compute.Seconds() / n
	s.Bubble += r.Bubble.Seconds() / n
	s.Wait += r.Wait.Seconds() / n
}

// StageImbalance is the largest of the times that the stages of a run compute over their mean, 0 where there
// are none.
func StageImbalance(stages []StageSummary) float64 {
	var compute []float64
	for _, s := range stages {
		compute = append(compute, s.Compute)
	}
	return Imbalance(compute)
}
