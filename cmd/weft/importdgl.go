package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/dgl"
	"weft/internal/refusal"
	"weft/partition"
)

// dglFormat reads what DGL writes, with the partitions of a graph that it divided.
func dglFormat(c *changes) format {
	var o dgl.Options
	var division *dgl.Division
	var given *pflag.FlagSet
	column := func(flags *pflag.FlagSet, to *string, name, usage string) {
		flags.StringVar(to, name, "", "`column` "+usage+"; none for none")
	}
	return format{
		name: "dgl", source: "FILE|JSON", short: "a graph that DGL saved (.bin, .dgl), or the JSON file of one that it divided, with its partitions",
		example: "parts/mine.json stores/mine",
		flags: func(flags *pflag.FlagSet) {
			given = flags
			flags.IntVar(&o.Graph, "graph", 0, "`number` of the graph in a file of several, from 0")
			column(flags, &o.Features, "features", "of features, NAME or TYPE/NAME (default: feat or features)")
			column(flags, &o.Labels, "labels", "of labels (default: label or labels)")
			column(flags, &o.Train, "train", "that marks the vertices that train (default: train_mask)")
			column(flags, &o.Val, "val", "that marks those that validate (default: val_mask)")
			column(flags, &o.Test, "test", "that marks those that test (default: test_mask)")
			column(flags, &o.EdgeWeights, "edge-weights", "of a weight for each edge (default: none)")
			column(flags, &o.EdgeFeatures, "edge-features", "of the edges' features (default: feat or features)")
			flags.BoolVar(&o.DenseFeatures, "dense-features", false, "keep features dense of which few are not zero")
		},
		read: func(source string) (g *graph.Graph, err error) {
			if !given.Changed("graph") {
				o.Graph = dgl.OnlyGraph
			} else if o.Graph < 0 {
				return nil, refusal.Errorf("--graph %d: graphs count from 0", o.Graph)
			}
			if g, division, err = dgl.Read(source, o); err != nil {
				return nil, err
			}
			if division == nil {
				return g, nil
			}
			if c.largest {
				return nil, refusal.Errorf("--largest-component: numbers the vertices anew, and %s says which partition of DGL's each is in; leave it out", source)
			}
			g.Notes = append(g.Notes, fmt.Sprintf("DGL's %d partitions are stored with the graph: train with --parallel graph=%d --partition dgl", division.K, division.K))
			return g, nil
		},
		division: func() *partition.Assignment {
			if division == nil {
				return nil
			}
			return &partition.Assignment{K: division.K, Of: division.Of, Method: partition.DGL}
		},
	}
}
