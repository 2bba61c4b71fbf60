package main

import (
	"github.com/spf13/pflag"

	"weft/graph/npz"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// npzImport reads archives of NumPy arrays.
type npzImport struct {
	directed bool
	dense    denseFeatures
}

func (*npzImport) format() format {
	return format{
		name: "npz", source: "FILE|FOLDER", short: "a graph in one .npz file, as of gnn-benchmark and of the heterophilous datasets, or in a folder of .npy files",
		example: "amazon_computers.npz stores/computers --symmetrize --largest-component --split per-class=20,30",
	}
}

func (i *npzImport) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&i.directed, "directed", false, "keep edges in the direction in which the file lists them, as for a file named ..._directed.npz")
	i.dense.flags(flags)
}

func (i *npzImport) options(r *importRequest) (npz.Options, error) {
	if i.directed && r.changes.symmetrize {
		return npz.Options{}, refusal.Errorf("--directed and --symmetrize: give one of the two")
	}
	return npz.Options{AsListed: i.directed || r.changes.symmetrize, DenseFeatures: i.dense.keep}, nil
}

func (i *npzImport) read(r *importRequest) (*imported, error) {
	o, err := i.options(r)
	if err != nil {
		return nil, err
	}
	g, err := npz.Read(r.source(), o)
	return i.dense.checked(r.source(), g, err)
}

func (i *npzImport) open(r *importRequest) (*streamed.Graph, error) {
	o, err := i.options(r)
	if err != nil {
		return nil, err
	}
	g, err := npz.Open(r.source(), o)
	return i.dense.opened(r, g, err)
}
