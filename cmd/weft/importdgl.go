package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"weft/graph/dgl"
	"weft/graph/streamed"
	"weft/internal/refusal"
	"weft/partition"
)

// dglImport reads DGL's files. It imports the partitions of a graph that DGL divided, too.
type dglImport struct {
	graph   int
	columns dgl.Options // without Graph and DenseFeatures
	dense   denseFeatures
}

func (*dglImport) format() format {
	return format{
		name: "dgl", source: "FILE|JSON", short: "graphs saved by DGL (.bin, .dgl), or the JSON file of a graph partitioned by DGL, with its partitions",
		example: "parts/mine.json stores/mine",
	}
}

func (i *dglImport) flags(flags *pflag.FlagSet) {
	o := &i.columns
	flags.IntVar(&i.graph, "graph", dgl.AllGraphs, "`number` of the graph in a file of several, from 0; -1: all, as one block-diagonal graph")
	flags.StringVar(&o.Features, "features", "", "`name` in ndata of the features, NAME or TYPE/NAME, or none (default: feat or features)")
	flags.StringVar(&o.Labels, "labels", "", "`name` in ndata of the labels: a class per vertex, or a 0/1 matrix (default: label or labels)")
	flags.StringVar(&o.Train, "train", "", "`name` in ndata of the training mask (default: train_mask)")
	flags.StringVar(&o.Val, "val", "", "`name` in ndata of the validation mask (default: val_mask)")
	flags.StringVar(&o.Test, "test", "", "`name` in ndata of the test mask (default: test_mask)")
	flags.StringVar(&o.EdgeWeights, "edge-weights", "", "`name` in edata of the edge weights (default: the edges have none)")
	flags.StringVar(&o.EdgeFeatures, "edge-features", "", "`name` in edata of the edge features (default: feat or features)")
	flags.StringVar(&o.EdgeSplit, "edge-split", "", "`masks` to read train_mask, val_mask and test_mask in edata as a split of edges for link prediction, or none for no such split (default: masks where vertices have no labels, and the lists of AsLinkPredDataset)")
	i.dense.flags(flags)
}

func (i *dglImport) options() (dgl.Options, error) {
	o := i.columns
	o.DenseFeatures = i.dense.keep
	if o.Graph = i.graph; o.Graph < dgl.AllGraphs {
		return o, refusal.Errorf("--graph %d: graphs count from 0, and %d is all of them", o.Graph, dgl.AllGraphs)
	}
	return o, nil
}

func (i *dglImport) open(r *importRequest) (*streamed.Graph, error) {
	o, err := i.options()
	if err != nil {
		return nil, err
	}
	g, err := dgl.Open(r.source(), o)
	return i.dense.opened(r, g, err)
}

func (i *dglImport) read(r *importRequest) (*imported, error) {
	o, err := i.options()
	if err != nil {
		return nil, err
	}
	g, division, err := dgl.Read(r.source(), o)
	read, err := i.dense.checked(r.source(), g, err)
	if err != nil || division == nil {
		return read, err
	}
	if r.changes.largest {
		return nil, refusal.Errorf("--largest-component: it numbers vertices anew, and the partitions of %s are of these; leave it out", r.source())
	}
	g.Notes = append(g.Notes, fmt.Sprintf("DGL's %d partitions are stored with the graph, for --parallel graph=%d --partition dgl", division.K, division.K))
	read.division = &partition.Assignment{K: division.K, Of: division.Of, Method: partition.DGL}
	return read, nil
}
