package main

import (
	"strings"

	"github.com/spf13/pflag"

	"weft/graph/ogb"
	"weft/graph/streamed"
)

// ogbImport reads folders of the Open Graph Benchmark.
type ogbImport struct {
	split     splitOrRule
	fromEdges string
	inverse   bool
}

func (*ogbImport) format() format {
	return format{
		name: "ogb", source: "FOLDER", short: "a folder that the Open Graph Benchmark's downloader left, with raw/ and split/",
		example: "dataset/ogbn_arxiv stores/arxiv --symmetrize",
	}
}

func (i *ogbImport) flags(flags *pflag.FlagSet) {
	flags.Var(&i.split, "split", "`name` of a folder in split/ (default: the only one); or a rule, as random:60/20/20")
	flags.BoolVar(&i.inverse, "inverse-edges", false, "add the inverse of each edge; =false does not (default: as OGB does for this folder's name)")
	flags.StringVar(&i.fromEdges, "features-from-edges", "", "`name`, mean or sum: make a vertex's features of those of the edges into it")
}

// splitOrRule is the value of --split for a source with named splits: the name of a split, or a rule.
type splitOrRule struct {
	text string
	name string
	rule *string // of the changes
}

func (s *splitOrRule) String() string { return s.text }
func (s *splitOrRule) Type() string   { return "string" }

// Set accepts a name or a rule. A rule has a colon or an equals sign. "given" stands for the only split,
// which the reader takes by default.
func (s *splitOrRule) Set(text string) error {
	s.text, s.name, *s.rule = text, "", ""
	switch {
	case strings.ContainsAny(text, ":="):
		*s.rule = text
	case text != "given":
		s.name = text
	}
	return nil
}

func (i *ogbImport) options(r *importRequest) ogb.Options {
	c := r.changes
	o := ogb.Options{Folder: r.source(), Split: i.split.name, FromEdges: i.fromEdges, Symmetrize: c.symmetrize, Progress: r.progress}
	switch {
	case i.inverse:
		o.Inverse = ogb.Add
	case r.flags.Changed("inverse-edges"):
		o.Inverse = ogb.Leave
	}
	if c.split != "" {
		o.Rule = &ogb.Rule{Spec: c.split, Splits: c.splits, Seed: c.seed}
	}
	return o
}

// read reads a graph. It applies --symmetrize itself while it reads, and clears the change.
func (i *ogbImport) read(r *importRequest) (*imported, error) {
	g, err := ogb.Read(i.options(r))
	read, err := onlyGraph(g, err)
	if err == nil {
		read.symmetric = r.changes.symmetrize
	}
	return read, err
}

// open opens a graph. It has made the split already.
func (i *ogbImport) open(r *importRequest) (*streamed.Graph, error) { return ogb.Open(i.options(r)) }
