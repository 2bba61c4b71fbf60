package main

import (
	"github.com/spf13/pflag"

	"weft/graph/ppi"
)

// ppiImport reads the protein interaction graphs as PyG and DGL download them.
type ppiImport struct{ dense denseFeatures }

func (*ppiImport) format() format {
	return format{
		name: "ppi", source: "DIR", short: "the 24 graphs of PPI in the folder that PyG or DGL downloads: train_graph.json, train_feats.npy, …",
		example: "data/PPI/raw stores/ppi",
	}
}

func (i *ppiImport) flags(flags *pflag.FlagSet) { i.dense.flags(flags) }

func (i *ppiImport) read(r *importRequest) (*imported, error) {
	g, err := ppi.Read(r.source(), ppi.Options{DenseFeatures: i.dense.keep})
	return i.dense.checked(r.source(), g, err)
}
