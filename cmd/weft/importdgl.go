package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/dgl"
	"weft/internal/refusal"
	"weft/partition"
)

// dglFormat reads what DGL writes, with the partitions of a graph that it divided. How features are stored is
// asked and checked as for other formats.
func dglFormat(c *changes, storage func(*pflag.FlagSet), checked func(string, *graph.Graph, error) (*graph.Graph, error), dense *bool) format {
	var o dgl.Options
	var division *dgl.Division
	var given *pflag.FlagSet
	return format{
		name: "dgl", source: "FILE|JSON", short: "a graph that DGL saved (.bin, .dgl), or the JSON file of one that it divided, with its partitions",
		example: "parts/mine.json stores/mine",
		flags: func(flags *pflag.FlagSet) {
			given = flags
			flags.IntVar(&o.Graph, "graph", 0, "`number` of the graph in a file of several, from 0")
			flags.StringVar(&o.Features, "features", "", "`column` of ndata with features, NAME or TYPE/NAME, or none (default: feat or features; the same of the others)")
			flags.StringVar(&o.Labels, "labels", "", "`column` with a class per vertex, or 0 and 1 for each class (default: label or labels)")
			flags.StringVar(&o.Train, "train", "", "`column` that marks the vertices that train (default: train_mask)")
			flags.StringVar(&o.Val, "val", "", "`column` that marks those that validate (default: val_mask)")
			flags.StringVar(&o.Test, "test", "", "`column` that marks those that test (default: test_mask)")
			flags.StringVar(&o.EdgeWeights, "edge-weights", "", "`column` of edata with a weight per edge (default: the edges have none)")
			flags.StringVar(&o.EdgeFeatures, "edge-features", "", "`column` of edata with features (default: feat or features)")
			storage(flags)
		},
		read: func(source string) (g *graph.Graph, err error) {
			switch {
			case !given.Changed("graph"):
				o.Graph = dgl.OnlyGraph
			case o.Graph < 0:
				return nil, refusal.Errorf("--graph %d: graphs count from 0", o.Graph)
			}
			o.DenseFeatures = *dense
			g, division, err = dgl.Read(source, o)
			if g, err = checked(source, g, err); err != nil || division == nil {
				return g, err
			}
			if c.largest {
				return nil, refusal.Errorf("--largest-component: it numbers vertices anew, and the partitions of %s are of these; leave it out", source)
			}
			g.Notes = append(g.Notes, fmt.Sprintf("DGL's %d partitions are stored with the graph, for --parallel graph=%d --partition dgl", division.K, division.K))
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

// write writes the store of a graph, with the partitions that it came with.
func (f *format) write(g *graph.Graph, store string) error {
	var a *partition.Assignment
	if f.division != nil {
		a = f.division()
	}
	if a == nil {
		return g.Write(store)
	}
	return g.WriteWith(store, func(store string) error {
		g, err := graph.Open(store)
		if err != nil {
			return err
		}
		_, err = partition.Write(store, g, a)
		return errors.Join(err, g.Close())
	})
}
