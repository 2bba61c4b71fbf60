package main

import (
	"github.com/spf13/pflag"

	"weft/graph/debian"
)

// debianImport reads a machine's package index.
type debianImport struct{}

func (debianImport) format() format {
	return format{
		name: "debian", source: "DIR", short: "a Debian machine's package index, as apt-get update leaves it",
		example: debian.Lists + " stores/debian",
	}
}

func (debianImport) flags(*pflag.FlagSet) {}

func (debianImport) read(r *importRequest) (*imported, error) {
	return onlyGraph(debian.Read(r.source(), debian.Options{Seed: r.changes.seed}))
}
