package main

import (
	"github.com/spf13/pflag"

	"weft/graph/pyg"
	"weft/graph/streamed"
)

// pygImport reads files of PyTorch Geometric.
type pygImport struct {
	target string
	dense  denseFeatures
}

func (*pygImport) format() format {
	return format{
		name: "pyg", source: "FILE", short: "a Data, HeteroData, Batch or list of graphs of PyTorch Geometric, or a dataset, written by torch.save",
		example: "graph.pt stores/mine",
	}
}

func (i *pygImport) flags(flags *pflag.FlagSet) {
	flags.StringVar(&i.target, "target", "", "the vertex `type` whose labels to learn, if several types have labels")
	i.dense.flags(flags)
}

func (i *pygImport) options() pyg.Options {
	return pyg.Options{Target: i.target, DenseFeatures: i.dense.keep}
}

func (i *pygImport) read(r *importRequest) (*imported, error) {
	g, err := pyg.Read(r.source(), i.options())
	return i.dense.checked(r.source(), g, err)
}

func (i *pygImport) open(r *importRequest) (*streamed.Graph, error) {
	g, err := pyg.Open(r.source(), i.options())
	return i.dense.opened(r, g, err)
}
