package train

import (
	"fmt"
	"slices"

	"weft/gnn"
	"weft/internal/refusal"
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

// Who says which workers a stage has.
func (s *Stage) Who() string {
	if n := len(s.Workers); n > 1 {
		return fmt.Sprintf("workers %d to %d, a partition each", s.Workers[0], s.Workers[n-1])
	}
	return fmt.Sprintf("worker %d", s.Workers[0])
}

// StageSummary is how the workers of a stage spent the training pass of the last epoch, on average.
type StageSummary struct {
	Stage
	Compute float64 `json:"compute_seconds"`
	Bubble  float64 `json:"bubble_seconds"` // standing still while the pipeline fills, turns and drains, up to the end of the epoch
	Wait    float64 `json:"wait_seconds"`   // standing still otherwise
	Sent    int64   `json:"sent_bytes"`     // of all kinds, by all its workers
}

// stages are those of the mesh, where it has several.
func (w *worker) stages() (all []Stage) {
	grid, cuts := w.groups.Mesh, w.stage.Cuts
	if grid.Stages == 1 {
		return nil
	}
	sum, costs := 0.0, gnn.Costs(w.blocks, w.share.Whole.Vertices, w.share.Whole.Edges)
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

// stagePlan is what a worker found out about a pipeline; zero where there is none.
type stagePlan struct {
	All            []Stage
	Chunks, Wanted int   // of each partition, and were the smallest larger
	Least, Most    int   // rows of a chunk of the worker's partition
	Cut, Edges     int64 // between that partition's rows: those that join two chunks, and all
	// Columns pass at the cuts for each vertex, in Bytes forward and backward.
	Columns int
	Bytes   int64
}

// planStage says what the mesh of a worker has stages for.
func (w *worker) planStage() (p stagePlan) {
	s, edges := &w.stage, &w.share.Edges
	if p.All = w.stages(); p.All == nil {
		return p
	}
	own, rows := s.Chunks[edges.Starts[edges.P]:edges.Starts[edges.P+1]], make([]int, s.Count)
	for _, c := range own {
		rows[c]++
	}
	p.Chunks, p.Least, p.Most = s.Count, slices.Min(rows), slices.Max(rows)
	_, p.Wanted = w.o.chunksOfPartition(w.groups.Mesh, edges.Starts)
	p.Cut, p.Edges = edges.ChunkCut(own)
	for _, at := range s.Cuts[1:w.groups.Mesh.Stages] {
		p.Columns += w.blocks[at].In + w.blocks[at].H0
	}
	const directions, float = 2, 4
	p.Bytes = directions * float * int64(p.Columns) * int64(w.share.Whole.Vertices)
	return p
}

// stageLines say how the blocks of the model are divided into stages, and the vertices into chunks.
func (j *Job) stageLines(all []workerPlan) (lines []string) {
	stages, p := all[0].Stage.All, all[0].Stage
	if stages == nil {
		return nil
	}
	for _, rank := range stages[0].Workers[1:] {
		of := &all[rank].Stage
		p.Least, p.Most, p.Cut, p.Edges = min(p.Least, of.Least), max(p.Most, of.Most), p.Cut+of.Cut, p.Edges+of.Edges
	}
	line := "one chunk in each partition: training is exact, and the stages wait for each other"
	if p.Chunks > 1 {
		line = fmt.Sprintf("%d chunks in each partition by %s, of %d to %d vertices; %.1f %% of the edges between its vertices join two chunks",
			p.Chunks, j.Options.ChunkMethod, p.Least, p.Most, 100*float64(p.Cut)/max(float64(p.Edges), 1))
	}
	lines = append(lines, line)
	var work []float64
	for s, stage := range stages {
		work = append(work, stage.Work)
		tensors, graph := int64(0), int64(0)
		for _, rank := range stage.Workers {
			tensors, graph = max(tensors, all[rank].Tensors), max(graph, all[rank].Graph)
		}
		lines = append(lines, fmt.Sprintf("stage %d, %s: blocks %d to %d, %.1f %% of the work, at most %.1f MB for tensors and %.1f MB for the graph",
			s, stage.Who(), stage.Blocks[0], stage.Blocks[1]-1, 100*stage.Work, float64(tensors)/1e6, float64(graph)/1e6))
	}
	if j.Options.ChunkOrder != orderFixed && p.Least < p.Most {
		lines = append(lines, "memory is the most that any order of the chunks can take, which differ in size: a run may take a little less")
	}
	idle := float64(len(stages)-1) / float64(p.Chunks+len(stages)-1)
	return append(lines, fmt.Sprintf("the busiest stage has %.2f times the mean work; each stands still %.1f %% of an epoch while the pipeline fills and drains",
		Imbalance(work), 100*idle))
}

// moved names what passes between stages, and says how much the formula of GNNPipe finds.
func (p *stagePlan) moved() string {
	return fmt.Sprintf("activations and gradients between stages (2·V·4 bytes of %d columns at all cuts: %.1f MB)", p.Columns, float64(p.Bytes)/1e6)
}

// fewerChunks warns where partitions are too small for as many chunks as there would be.
func fewerChunks(p *stagePlan) []string {
	if p.Chunks == p.Wanted {
		return nil
	}
	return []string{fmt.Sprintf("%s %s: %d in each partition and not %d, as the smallest has no more vertices",
		refusal.Setting("chunks"), Chunks(0), p.Chunks, p.Wanted)}
}
