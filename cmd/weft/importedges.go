package main

import (
	"github.com/spf13/pflag"

	"weft/graph/edgelist"
	"weft/graph/streamed"
)

// edgesImport reads lists of edges, and arrays beside them.
type edgesImport struct {
	list  edgelist.Options // without Path and DenseFeatures
	dense denseFeatures
}

func (*edgesImport) format() format {
	return format{
		name: "edges", source: "FILE", short: "an edge list (CSV, TSV or Parquet) with .npy or CSV features, labels and splits",
		example: "follows.csv stores/follows --features x.npy --labels y.npy --split random:60/20/20",
	}
}

func (i *edgesImport) flags(flags *pflag.FlagSet) {
	o := &i.list
	flags.StringVar(&o.Features, "features", "", "`file` (.npy, CSV, .csv.gz; .npz of scipy.sparse): a row of features per vertex, in order or by a first column id")
	flags.StringSliceVar(&o.EdgeFeatures, "edge-features", nil, "`columns` of the list that are features of the edges, by their names, as a,b")
	flags.StringVar(&o.Labels, "labels", "", "`file` (.npy, CSV, .csv.gz, Parquet): a class per vertex or its name, a 0/1 matrix, or values to predict (floats); in order or by a first column id")
	flags.BoolVar(&o.Values, "values", false, "labels are values to predict, also if they are whole numbers, which else are classes")
	flags.StringVar(&o.Train, "train", "", "`file` (the same): training vertices: ids, a mask, or masks (a column per split)")
	flags.StringVar(&o.Val, "val", "", "`file`: validation vertices")
	flags.StringVar(&o.Test, "test", "", "`file`: test vertices")
	i.dense.flags(flags)
	flags.IntVar(&o.Vertices, "vertices", 0, "number of vertices (default: the largest id plus one)")
	flags.BoolVar(&o.Strings, "string-ids", false, "vertices are named by any text; rows of arrays without ids are in the order in which names first appear")
}

func (i *edgesImport) options(r *importRequest) edgelist.Options {
	o := i.list
	o.Path, o.DenseFeatures, o.Progress = r.source(), i.dense.keep, r.progress
	return o
}

func (i *edgesImport) read(r *importRequest) (*imported, error) {
	o := i.options(r)
	g, err := edgelist.Read(o)
	return i.dense.checked(o.Path, g, err)
}

func (i *edgesImport) open(r *importRequest) (*streamed.Graph, error) {
	g, err := edgelist.Open(i.options(r))
	return i.dense.opened(r, g, err)
}
