package main

import (
	"github.com/spf13/pflag"

	"weft/graph/kg"
)

// kgImport reads triples of head, relation and tail.
type kgImport struct{ triples kg.Options }

func (*kgImport) format() format {
	return format{
		name: "kg", source: "FOLDER", short: "a knowledge graph as text: train.txt, valid.txt and test.txt with head, relation and tail in each line, as WN18RR; or one such file",
		example: "data/FB15k-237 stores/fb15k-237 --reciprocal",
	}
}

func (i *kgImport) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&i.triples.Reciprocal, "reciprocal", false, "add to each relation its reverse, rev_NAME, with the reverse of its split: heads are then learned and ranked as tails are")
}

func (i *kgImport) read(r *importRequest) (*imported, error) {
	o := i.triples
	o.Path = r.source()
	return onlyGraph(kg.Read(o))
}
