package main

import (
	"context"
	"fmt"

	"weft/graph"
	"weft/partition"
	"weft/train/plan"
	"weft/train/planner"
	"weft/train/setting"
)

// planned is a run that is planned from counts, as if by `weft train --show-plan`. The graph has equal
// partitions with equal halos, one for each worker.
type planned struct {
	Settings map[string]string `json:"settings"` // settings of train, by name
	counts

	// These are the plan: the bytes that a worker needs, and the bytes that all send in a later epoch,
	// without weights.
	TensorBytes int64 `json:"tensor_bytes"`
	GraphBytes  int64 `json:"graph_bytes"`
	SentBytes   int64 `json:"sent_bytes"`
}

// counts describe a graph in partitions.
type counts struct {
	Workers  int     `json:"workers"`
	Vertices int     `json:"vertices"`
	Edges    int64   `json:"edges"`     // each in both directions
	CutShare float64 `json:"cut_share"` // share of the edges between partitions
	HaloRows float64 `json:"halo_rows"` // all partitions' halo rows, divided by the vertices
}

// planAll plans for all cases.
func planAll(ctx context.Context, cases []planned) error {
	for i := range cases {
		if err := cases[i].plan(ctx); err != nil {
			return err
		}
	}
	return nil
}

// plan fills in the plan of a worker.
func (p *planned) plan(ctx context.Context) error {
	p.Settings["parallel"] = fmt.Sprintf("graph=%d", p.Workers)
	options, err := setting.FromTexts(p.Settings)
	if err != nil {
		return err
	}
	job, err := p.alike().Job(options)
	if err != nil {
		return err
	}
	made, err := job.PlanWith(ctx, plan.Asks{Alike: true})
	if err != nil {
		return err
	}
	p.TensorBytes, p.GraphBytes = made.PeakTensorBytes[0], made.GraphBytes[0]
	p.SentBytes = int64(p.Workers) * made.Sent[0].Halo.Bytes
	return nil
}

// alike returns counts that have ogbn-papers100M's share of labels among the vertices.
func (c *counts) alike() *planner.Alike {
	part := func(n int) int { return int(int64(n) * int64(c.Vertices) / int64(papers100M.vertices)) }
	return &planner.Alike{
		Partitions: c.Workers, Symmetric: true, CutShare: c.CutShare, HaloRows: c.HaloRows,
		Whole: partition.Whole{
			Vertices: c.Vertices, Edges: c.Edges,
			Types: []partition.WholeType{{Vertices: c.Vertices, FeatureColumns: papers100M.columns}},
			WholeFrame: partition.WholeFrame{
				Classes: papers100M.classes, Metric: "accuracy",
				Splits: []graph.SplitSizes{{
					Train: part(papers100M.train), Val: part(papers100M.val), Test: part(papers100M.test),
				}},
			},
		},
	}
}
