package main

import (
	"strings"

	"github.com/spf13/pflag"

	"weft/graph"
	"weft/graph/ogb"
)

// ogbImport reads folders of the Open Graph Benchmark.
type ogbImport struct {
	changes   *changes
	name      string // of a split, where --split names one
	fromEdges string
	inverse   bool
	asked     *pflag.Flag // --inverse-edges
}

func (i *ogbImport) format(c *changes) format {
	i.changes = c
	return format{
		name: "ogb", source: "FOLDER", short: "a folder that the Open Graph Benchmark's downloader left, with raw/ and split/",
		example: "dataset/ogbn_arxiv stores/arxiv --symmetrize",
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&c.split, "split", "", "`name` of a folder in split/ (default: the only one); or a rule, as random:60/20/20")
			flags.BoolVar(&i.inverse, "inverse-edges", false, "add the inverse of each edge, or =false: do not (default: as OGB does, by the folder's name)")
			flags.StringVar(&i.fromEdges, "features-from-edges", "", "mean or sum: a vertex's features are made `so` of those of the edges into it")
			i.asked = flags.Lookup("inverse-edges")
		},
		named:  &i.name,
		read:   i.read,
		stream: i.stream,
	}
}

func (i *ogbImport) options(source string) ogb.Options {
	c := i.changes
	o := ogb.Options{Folder: source, Split: i.name, FromEdges: i.fromEdges, Symmetrize: c.symmetrize}
	switch {
	case i.inverse:
		o.Inverse = ogb.Add
	case i.asked.Changed:
		o.Inverse = ogb.Leave
	}
	if c.split != "" {
		o.Rule = &ogb.Rule{Spec: c.split, Splits: c.splits, Seed: c.seed}
	}
	return o
}

// read reads a graph that is symmetrized already, where that is asked for.
func (i *ogbImport) read(source string) (*graph.Graph, error) {
	g, err := ogb.Read(i.options(source))
	i.changes.symmetrize = false
	return g, err
}

func (i *ogbImport) stream(to streamTo) (*contents, error) {
	o := i.options(to.source)
	o.Progress = to.progress
	o.Provenance = strings.TrimSpace("ogb " + to.source + to.words)
	s, err := ogb.Write(to.store, o)
	if err != nil {
		return nil, err
	}
	return &contents{s.Graph, s.Edges, s.OneClass}, nil
}
