package rundir

import (
	"slices"

	"weft/partition"
	"weft/train"
	"weft/train/metric"
	"weft/train/task"
	"weft/train/worker"
)

// Summary is what a finished run tells other programs: the one JSON object of `weft train --json`, also in
// run.json. Lists over workers have one entry per worker.
type Summary struct {
	Dataset        string          `json:"dataset"`
	Task           string          `json:"task"`
	Model          string          `json:"model"`
	Parallel       string          `json:"parallel"`
	Workers        int             `json:"workers"`
	Seed           uint64          `json:"seed"`
	EpochsRun      int             `json:"epochs_run"`
	BestEpoch      int             `json:"best_epoch"`
	Metric         string          `json:"metric"`
	Select         string          `json:"select"` // "metric" or "loss", which selected the best epoch
	Split          int             `json:"split"`
	metric.Numbers                 // at the best epoch
	Losses         []metric.Number `json:"losses"`
	RunDir         string          `json:"run_dir"`

	EpochSeconds       []float64 `json:"epoch_seconds"` // of every epoch, without evaluation
	EpochSecondsMedian float64   `json:"epoch_seconds_median"`
	worker.Usage
	// Checkpoints are what the checkpoints took.
	Checkpoints train.CheckpointTotals `json:"checkpoints,omitzero"`
	Graph       Counts                 `json:"graph"`
	// Validation are the sizes of the graph on which the model is validated; nil: it is the same graph.
	Validation *Counts     `json:"validation_graph,omitempty"`
	Links      *task.Links `json:"links,omitempty"` // of link prediction
}

// Counts are the sizes of a graph.
type Counts struct {
	Vertices int   `json:"vertices"` // of all types
	Edges    int64 `json:"edges"`    // of all relations
	Features int   `json:"features"` // of the first type
	Classes  int   `json:"classes"`
	Values   int   `json:"values,omitempty"`         // to predict for each vertex
	Several  bool  `json:"several_labels,omitempty"` // a vertex may have any number of labels
	Others   int   `json:"other_types,omitempty"`    // vertex types beside the first
	Weighted bool  `json:"weighted,omitempty"`       // edges have weights
	// Types and Relations are the names of the vertex types and of the relations, in the order of the graph,
	// unless there is one of each.
	Types     []string `json:"types,omitempty"`
	Relations []string `json:"relations,omitempty"`
}

// summarize collects what the run of a job reports. Others set where it ran and what the process took.
func summarize(j *train.Job, r *train.Result) Summary {
	s := Summary{
		Dataset: j.Dataset, Task: j.Options.Task, Model: j.Options.Model, Parallel: j.Options.Parallel,
		Workers: r.Workers, Seed: j.Options.Seed,
		EpochsRun: r.Epochs, BestEpoch: r.BestEpoch, Metric: r.Metric, Select: j.Options.Select,
		Split:   j.Options.Split.Number,
		Numbers: r.Numbers(), Losses: numbers(r.Losses),
		EpochSeconds: r.EpochSeconds, EpochSecondsMedian: Median(r.EpochSeconds),
		Usage: r.Usage, Links: r.Links,
		Checkpoints: r.Checkpoints,
		Graph:       *countsOf(&r.Whole, &r.Learned),
	}
	if r.Validation != nil {
		s.Validation = countsOf(r.Validation, &r.Validation.WholeFrame)
	}
	s.Graph.Weighted = r.Weighted
	if len(r.Relations) > 1 || s.Graph.Others > 0 {
		s.Graph.Relations = r.Relations
		for _, t := range r.Whole.Types {
			s.Graph.Types = append(s.Graph.Types, t.Type)
		}
	}
	return s
}

// countsOf are the sizes of a graph of which a frame is learned.
func countsOf(w *partition.Whole, learned *partition.WholeFrame) *Counts {
	return &Counts{
		Vertices: w.Vertices, Edges: w.Edges, Features: w.Types[0].FeatureColumns, Classes: learned.Classes,
		Values: learned.ValueColumns, Several: learned.SeveralLabels,
		Others: len(w.Types) - 1,
	}
}

func numbers(x []float64) []metric.Number {
	out := make([]metric.Number, len(x))
	for i, v := range x {
		out[i] = metric.Number(v)
	}
	return out
}

// Median is the middle of the sorted values: the mean of the two middle ones of an even number, and 0 without
// values.
func Median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(x))
	middle := len(x) / 2
	if len(x)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
