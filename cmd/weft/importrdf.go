package main

import (
	"github.com/spf13/pflag"

	"weft/graph/rdf"
)

// rdfImport reads triples, and tables of labels.
type rdfImport struct {
	triples rdf.Options // without Paths
}

func (*rdfImport) format() format {
	return format{
		name: "rdf", source: "FILE...", several: true,
		short:   "triples in N-Triples, plain or gzip, with tables of labels: a relation and its reverse for each predicate",
		example: "mutag_stripped.nt.gz stores/mutag --train trainingSet.tsv --test testSet.tsv --entity bond --label label_mutagenic",
	}
}

func (i *rdfImport) flags(flags *pflag.FlagSet) {
	o := &i.triples
	flags.StringVar(&o.Train, "train", "", "`file` of training entities and their labels: tab-separated columns, named in the first line")
	flags.StringVar(&o.Val, "val", "", "`file`, the same: validation entities (default: none; training then takes the last epoch)")
	flags.StringVar(&o.Test, "test", "", "`file`, the same: test entities")
	flags.StringVar(&o.Entity, "entity", "", "`column` of these tables with the entities' IRIs")
	flags.StringVar(&o.Label, "label", "", "`column` of these tables with their classes")
	flags.StringArrayVar(&o.Without, "without-predicate", nil, "`IRI` of a predicate whose triples to leave out, such as one that gives the label away; may be repeated")
}

func (i *rdfImport) read(r *importRequest) (*imported, error) {
	o := i.triples
	o.Paths = r.sources
	return onlyGraph(rdf.Read(o))
}
