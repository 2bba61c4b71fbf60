package train

import (
	"encoding/json"
	"math"
	"slices"
)

// Summary is what a finished run tells other programs: the one JSON object of `weft train --json`, also kept
// in run.json. Lists over workers have one entry per worker.
type Summary struct {
	Dataset   string `json:"dataset"`
	Task      string `json:"task"`
	Model     string `json:"model"`
	Parallel  string `json:"parallel"`
	Workers   int    `json:"workers"`
	Seed      uint64 `json:"seed"`
	EpochsRun int    `json:"epochs_run"`
	BestEpoch int    `json:"best_epoch"`
	Metric    string `json:"metric"`
	Select    string `json:"select"` // what found the best epoch
	Split     int    `json:"split"`
	// Train, Val and Test are the metric at the best epoch, and ValLoss is the validation loss there.
	Train   Number   `json:"train"`
	Val     Number   `json:"val"`
	Test    Number   `json:"test"`
	ValLoss Number   `json:"val_loss"`
	Losses  []Number `json:"losses"`
	RunDir  string   `json:"run_dir"`

	EpochSeconds       []float64     `json:"epoch_seconds"` // of every epoch, evaluation excluded
	EpochSecondsMedian float64       `json:"epoch_seconds_median"`
	PeakTensorBytes    []int64       `json:"peak_tensor_bytes"`
	GraphBytes         []int64       `json:"graph_bytes"`
	PeakRSSBytes       int64         `json:"peak_rss_bytes"` // of the largest process
	Communication      Communication `json:"communication"`
	// EdgeColumns: in the training pass of the last epoch, edges × columns that each worker aggregated,
	// forward and backward
	EdgeColumns []int64 `json:"edge_columns"`
	SentBytes   []int64 `json:"sent_bytes"`
	// WaitSeconds: in the training pass of the last epoch, standing still for other workers
	WaitSeconds []float64 `json:"wait_seconds"`
	WaitShare   float64   `json:"wait_share"` // of the pass, of the worker that waited most
	// Stages of a pipeline, and the largest of the times that they compute over their mean
	Stages         []StageSummary `json:"stages,omitempty"`
	StageImbalance float64        `json:"stage_imbalance,omitempty"`
	Graph          Counts         `json:"graph"`
	Links          *Links         `json:"links,omitempty"` // where edges were learned
}

// Links are what learned edges came to at the best epoch.
type Links struct {
	TrainEdges int `json:"train_edges"`
	ValEdges   int `json:"val_edges"`
	TestEdges  int `json:"test_edges"`
	// Val and Test are the measures of the edges that validate and test, by name: LinkMetrics, or where the
	// metric is roc-auc that alone.
	Val  map[string]Number `json:"val"`
	Test map[string]Number `json:"test"`
}

// Communication is what the workers sent in the training pass of the last epoch, by kind, summed over the
// workers.
type Communication struct {
	Halo       Traffic `json:"halo"`           // vertex rows and their gradients between graph partitions
	Layout     Traffic `json:"layout"`         // switches between rows and slices
	Stage      Traffic `json:"stage"`          // activations and gradients at the boundaries of a pipeline
	Gradient   Traffic `json:"gradient"`       // gradients of the weights
	Links      Traffic `json:"links,omitzero"` // rows at the ends of edges that are learned, and their gradients
	Statistics Traffic `json:"statistics"`     // losses, norms, counts
}

// Counts are the sizes of the graph that was trained on.
type Counts struct {
	Vertices int   `json:"vertices"` // of all types
	Edges    int64 `json:"edges"`    // of all relations
	Features int   `json:"features"` // of the first type
	Classes  int   `json:"classes"`
	Others   int   `json:"other_types,omitempty"` // vertex types beside the first
}

// summarize puts together what the run of a job reports. Where it ran and what the process took are for
// others to fill in.
func summarize(j *Job, r *Result) Summary {
	return Summary{
		Dataset: j.Dataset, Task: j.Options.Task, Model: j.Options.Model, Parallel: j.Options.Parallel, Workers: r.Workers, Seed: j.Options.Seed,
		EpochsRun: r.Epochs, BestEpoch: r.BestEpoch, Metric: r.Metric, Select: j.Options.Select, Split: j.Options.Split,
		Train: Number(r.Train), Val: Number(r.Val), Test: Number(r.Test), ValLoss: Number(r.ValLoss), Losses: numbers(r.Losses),
		EpochSeconds: r.EpochSeconds, EpochSecondsMedian: median(r.EpochSeconds),
		PeakTensorBytes: r.PeakTensorBytes, GraphBytes: r.GraphBytes,
		Communication: r.Communication, EdgeColumns: r.EdgeColumns, SentBytes: r.SentBytes, WaitSeconds: r.WaitSeconds, WaitShare: r.WaitShare,
		Stages: r.Stages, StageImbalance: StageImbalance(r.Stages), Links: r.Links,
		Graph: Counts{
			Vertices: r.Whole.Vertices, Edges: r.Whole.Edges, Features: r.Whole.FeatureColumns, Classes: r.Whole.Classes,
			Others: len(r.Whole.Others),
		},
	}
}

// Number is a float64 that JSON can carry whatever its value: NaN and the infinities, which JSON lacks, are
// null. Every other value is printed so that it reads back the same.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler: null is NaN.
func (n *Number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

func numbers(x []float64) []Number {
	out := make([]Number, len(x))
	for i, v := range x {
		out[i] = Number(v)
	}
	return out
}

// median is the middle of the sorted values, the mean of the two middle ones of an even number, 0 of none.
func median(x []float64) float64 {
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
