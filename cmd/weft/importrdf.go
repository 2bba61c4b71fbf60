package main

import (
	"github.com/spf13/pflag"

	"weft/graph/rdf"
)

// rdfImport reads triples, and tables of labels.
type rdfImport struct {
	triples rdf.Options // but for their files
}

func (*rdfImport) format() format {
	return format{
		name: "rdf", source: "FILE...", several: true,
		short:   "triples in N-Triples, plain or gzip, with tables of labels: one relation for each predicate, and one back",
		example: "mutag_stripped.nt.gz stores/mutag --train trainingSet.tsv --test testSet.tsv --entity bond --label label_mutagenic",
	}
}

func (i *rdfImport) flags(flags *pflag.FlagSet) {
	o := &i.triples
	flags.StringVar(&o.Train, "train", "", "`file` of entities that train and their labels: a table, its columns between tabs and named in the first line")
	flags.StringVar(&o.Val, "val", "", "`file`, the same: entities that validate (default: none; training then takes the last epoch)")
	flags.StringVar(&o.Test, "test", "", "`file`, the same: entities that test")
	flags.StringVar(&o.Entity, "entity", "", "`column` of these tables with the entities' IRIs")
	flags.StringVar(&o.Label, "label", "", "`column` of these tables with their classes")
	flags.StringArrayVar(&o.Without, "without-predicate", nil, "`IRI` of a predicate whose triples are left out, as those that give the label away; may be repeated")
}

func (i *rdfImport) read(r *importRequest) (*imported, error) {
	o := i.triples
	o.Paths = r.sources
	return onlyGraph(rdf.Read(o))
}
