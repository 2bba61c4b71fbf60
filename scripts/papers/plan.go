package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/partition"
	"weft/train"
	"weft/train/setting"
)

// planned is a run that is planned from counts: of a graph in equal partitions, one for each worker, with
// equal halos. The plan is that of `weft train --explain`.
type planned struct {
	Settings map[string]string `json:"settings"` // of train, by name
	counts

	// The plan: what a worker needs, and what all send in a later epoch, without those of weights.
	TensorBytes int64 `json:"tensor_bytes"`
	GraphBytes  int64 `json:"graph_bytes"`
	SentBytes   int64 `json:"sent_bytes"`
}

// counts describe a graph in partitions.
type counts struct {
	Workers  int     `json:"workers"`
	Vertices int     `json:"vertices"`
	Edges    int64   `json:"edges"`     // each in both directions
	CutShare float64 `json:"cut_share"` // of the edges: between partitions
	HaloRows float64 `json:"halo_rows"` // of all partitions together, for each vertex
}

// planAll plans for all cases. Cases that follow each other with equal counts have the same edges.
func planAll(ctx context.Context, cases []planned) error {
	var edges graph.Relation
	for i := range cases {
		p := &cases[i]
		if i == 0 || p.counts != cases[i-1].counts {
			if err := p.check(); err != nil {
				return err
			}
			edges = p.edges()
		}
		if err := p.plan(ctx, edges); err != nil {
			return err
		}
	}
	return nil
}

// check refuses counts of partitions that cannot exist.
func (c *counts) check() error {
	if k := c.Workers; k < 2 || c.Vertices/k < 2 ||
		c.HaloRows*float64(c.Vertices) > c.CutShare*float64(c.Edges) || c.halo() > c.Vertices/k {
		return fmt.Errorf("%d workers with %g halo rows for each vertex and a cut of %g: no such "+
			"partitions exist", k, c.HaloRows, c.CutShare)
	}
	return nil
}

// plan fills in the plan of the first worker. The other shares are of one vertex
// each, as the plan of a worker follows from its own share.
func (p *planned) plan(ctx context.Context, edges graph.Relation) error {
	p.Settings["parallel"] = fmt.Sprintf("graph=%d", p.Workers)
	options, err := setting.FromTexts(p.Settings)
	if err != nil {
		return err
	}
	k := p.Workers
	whole := partition.Whole{
		Vertices: p.Vertices, Edges: p.Edges, FeatureColumns: papers100M.columns, Classes: papers100M.classes,
		Metric: "accuracy",
		Splits: []graph.SplitSizes{{Train: papers100M.train, Val: papers100M.val, Test: papers100M.test}},
	}
	open := func(number int) (*partition.Share, error) {
		if number == 0 {
			return p.share(number, whole, edges), nil
		}
		alone := counts{Workers: p.Workers, Vertices: p.Workers}
		return alone.share(number, whole, graph.Relation{Indptr: []int64{0, 0}}), nil
	}
	job := train.Job{Options: options, Parts: &train.Parts{Whole: whole, Open: open}}
	plan, err := job.Plan(ctx)
	if err != nil {
		return err
	}
	p.TensorBytes, p.GraphBytes = plan.PeakTensorBytes[0], plan.GraphBytes[0]
	p.SentBytes = int64(k) * plan.Sent[0].Halo.Bytes
	return nil
}

// start returns the first position of a partition.
func (c *counts) start(number int) int { return number * c.Vertices / c.Workers }

// halo returns how many rows one partition needs of another.
func (c *counts) halo() int {
	return int(math.Round(c.HaloRows * float64(c.Vertices) / float64(c.Workers*(c.Workers-1))))
}

// share is the share of a partition with these edges.
func (c *counts) share(number int, whole partition.Whole, edges graph.Relation) *partition.Share {
	rows, columns := c.start(number+1)-c.start(number), whole.FeatureColumns
	s := partition.All(&graph.Graph{
		Features:  graph.Features{Columns: columns, Dense: make([]float32, rows*columns)},
		Labels:    graph.Labels{Classes: whole.Classes, Class: make([]int64, rows)},
		Splits:    []graph.Split{c.split(whole.Splits[0], rows)},
		Relations: []graph.Relation{edges},
	})
	s.Whole, s.Edges.P, s.Edges.Starts = whole, number, nil
	halos := make([][]int, c.Workers)
	for q := range c.Workers + 1 {
		s.Edges.Starts = append(s.Edges.Starts, c.start(q))
	}
	for q := range halos {
		halos[q] = slices.Repeat([]int{c.halo()}, c.Workers)
		halos[q][q] = 0
	}
	s.Edges.IDs = make([]int32, s.Edges.Rows)
	for row := range s.Edges.IDs {
		s.Edges.IDs[row] = int32(c.start(number) + row)
	}
	s.Values.IDs = s.Edges.IDs
	s.Edges.Relations[0].HaloRows, s.Edges.Relations[0].HaloRowsOut, s.Edges.Relations[0].Out = halos, halos,
		s.Edges.Relations[0].In
	return s
}

// split returns a worker's share of the labelled vertices.
func (c *counts) split(whole graph.SplitSizes, rows int) (s graph.Split) {
	row := int64(0)
	for i, list := range s.Parts() {
		for range min([]int{whole.Train, whole.Val, whole.Test}[i]/c.Workers, rows/3) {
			*list = append(*list, row)
			row++
		}
	}
	return s
}

// edges are those into the rows of the first partition. Edges among its rows join rows that lie next to each
// other, in both directions. The other edges come from the first rows of all other partitions in turn.
func (c *counts) edges() graph.Relation {
	n := c.start(1)
	each := float64(c.Edges) / float64(c.Vertices) // edges of a row
	near := each * (1 - c.CutShare) / 2            // in each of two directions
	whole, rest := int(near), int((near-math.Floor(near))*float64(n))
	remote := int64(each * c.CutShare * float64(n))
	r := graph.Relation{Indptr: make([]int64, 1, n+1), Sources: make([]int32, 0, int(each*float64(n))+n)}
	for row := range n {
		from := len(r.Sources)
		for d := 1; d <= whole+1; d++ {
			above, below := (row+d)%n, (row-d%n+n)%n
			if d <= whole || row < rest {
				r.Sources = append(r.Sources, int32(above))
			}
			if d <= whole || below < rest {
				r.Sources = append(r.Sources, int32(below))
			}
		}
		for e := int64(row) * remote / int64(n); e < int64(row+1)*remote/int64(n); e++ {
			others := int64(c.Workers - 1)
			r.Sources = append(r.Sources, int32(int64(c.start(1+int(e%others)))+e/others%int64(c.halo())))
		}
		slices.Sort(r.Sources[from:])
		r.Indptr = append(r.Indptr, int64(len(r.Sources)))
	}
	return r
}
