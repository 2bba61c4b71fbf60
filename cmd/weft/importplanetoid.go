package main

import (
	"github.com/spf13/pflag"

	"weft/graph/planetoid"
)

// planetoidImport reads the citation graphs of Planetoid.
type planetoidImport struct{}

func (planetoidImport) format() format {
	return format{
		name: "planetoid", source: "PREFIX", short: "citation graphs as published with Planetoid: PREFIX.x, PREFIX.graph, …",
		example: "data/ind.cora stores/cora",
	}
}

func (planetoidImport) flags(*pflag.FlagSet) {}

func (planetoidImport) read(r *importRequest) (*imported, error) {
	return onlyGraph(planetoid.Read(r.source()))
}
