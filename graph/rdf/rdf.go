// Package rdf reads RDF graphs: triples of subject, predicate and object in N-Triples, plain or gzip. Tables
// say which entity has which label, as for AIFB and MUTAG (Ristoski et al. 2016,
// https://doi.org/10.1007/978-3-319-46547-0_20), on which R-GCN was published (Schlichtkrull et al. 2018,
// arXiv:1703.06103). The command import rdf calls it.
package rdf

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"weft/graph"
	"weft/graph/internal/lines"
	"weft/graph/internal/names"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// Options name the files of a graph and how to read them.
type Options struct {
	// Paths are files of N-Triples, plain or gzip. A blank node belongs to its file.
	Paths []string
	// Train, Val and Test are tables of labelled entities: tabs between columns, names of the columns on the
	// first line. Val and Test may be empty. All may be empty: the graph then has no labels.
	Train, Val, Test string
	// Entity and Label are the names of two columns of the tables: an entity's name, and its class.
	Entity, Label string
	// Without are the IRIs of predicates whose triples are left out, as they give the label away.
	Without []string
}

// Read reads the graph. Subjects and objects are its vertices, of the one type entity, in the order of their
// first appearance. They are IRIs, blank nodes and literals; literals with the same text, language tag and
// datatype are one. A vertex's name is the IRI; _:label for a blank node, and _:label#2 in the second file;
// or the literal as N-Triples has it. Each predicate becomes two relations: one from subjects to objects
// under its local name, and one back with rev_ in front. A triple that stands twice is one edge.
//
// Classes are the distinct labels in the order of their bytes. Complaints about a file are refusals that name
// it and the line.
func Read(o Options) (*graph.Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &reader{Relations: names.NewRelations(), without: map[string]int64{}}
	for _, iri := range o.Without {
		r.without[iri] = 0
	}
	for k, path := range o.Paths {
		if err := r.read(path, k); err != nil {
			return nil, err
		}
	}
	if err := r.checkWithout(&o); err != nil {
		return nil, err
	}
	if len(r.All) == 0 {
		return nil, refusal.Errorf("%s: no triple is left: give a graph", strings.Join(o.Paths, ", "))
	}
	labels, splits, err := o.readLabels(r.Entities)
	if err != nil {
		return nil, err
	}
	predicates, err := r.relations()
	if err != nil {
		return nil, refusal.In(strings.Join(o.Paths, ", "), err)
	}
	g := &graph.Graph{
		Types: r.Vertices(), Relations: predicates,
		Provenance: "rdf " + strings.Join(o.Paths, " "), Notes: r.notes,
	}
	g.Types[0].Labels, g.Types[0].Splits = labels, splits
	if g, err = g.ReverseRelations(); err != nil {
		return nil, refusal.In(strings.Join(o.Paths, ", "), err)
	}
	return g, g.Check()
}

// check refuses options that make no sense together.
func (o *Options) check() error {
	switch tables := o.Train != "" || o.Val != "" || o.Test != ""; {
	case !tables && (o.Entity != "" || o.Label != ""):
		return refusal.Errorf("--entity and --label name columns of a table: give --train and --test, or " +
			"leave them out")
	case tables && o.Train == "":
		return refusal.Errorf("labels without entities that train: give --train beside --val and --test")
	case tables && (o.Entity == "" || o.Label == ""):
		return refusal.Errorf("%s: which columns count? give --entity and --label, by the names in "+
			"its first line", o.Train)
	case tables && o.Entity == o.Label:
		return refusal.Errorf("--entity and --label are one column, %q: name two", o.Entity)
	}
	return nil
}

// reader collects the triples of files. Each predicate becomes a relation.
type reader struct {
	*names.Relations
	without map[string]int64 // triples of each predicate that were left out
	notes   []string
}

// read reads file k.
func (r *reader) read(path string, k int) error {
	const longest = 16 << 20 // bytes of a line
	var t triple
	form := lines.Form{Path: path, Text: "N-Triples", Line: "a triple", Longest: longest}
	return lines.Each(form, func(line []byte, _ int64) error {
		present, err := t.parse(line)
		if err == nil && present {
			err = r.add(&t, k)
		}
		return err
	})
}

// add takes in a triple of file k.
func (r *reader) add(t *triple, k int) error {
	if n, left := r.without[string(t.predicate)]; left {
		r.without[string(t.predicate)] = n + 1
		return nil
	}
	number, err := r.Number(t.predicate)
	if err != nil {
		return err
	}
	source, err := r.entity(t.subject, k)
	if err != nil {
		return err
	}
	target, err := r.entity(t.object, k)
	if err != nil {
		return err
	}
	return r.All[number].Add(source, target)
}

// entity returns the vertex of a term of file k.
func (r *reader) entity(name []byte, k int) (int32, error) {
	if k > 0 && bytes.HasPrefix(name, []byte("_:")) {
		name = fmt.Appendf(name, "#%d", k+1)
	}
	return r.Entities.Number(name)
}

// checkWithout notes the triples that were left out. It refuses a predicate that no triple has: a mistyped
// one would leave the label in the graph.
func (r *reader) checkWithout(o *Options) error {
	for _, iri := range o.Without {
		n := r.without[iri]
		if n == 0 {
			there := make([]string, len(r.All))
			for k, p := range r.All {
				there[k] = p.Name
			}
			return refusal.Errorf("--without-predicate %s: no triple has that predicate; %.1000s", iri,
				suggest.OneOf(iri, there))
		}
		r.notes = append(r.notes, fmt.Sprintf("%d triples of %s left out", n, iri))
	}
	return nil
}

// relations returns a relation for each predicate, in which each triple is once. It refuses them if there is
// no memory for them and their reverse relations.
func (r *reader) relations() ([]graph.Relation, error) {
	if err := r.TooMany(r.Edges()); err != nil {
		return nil, fmt.Errorf("%w: leave predicates out with --without-predicate", err)
	}
	all, notes, err := r.Take(localName)
	if err != nil {
		return nil, err
	}
	r.notes = append(r.notes, notes...)
	twice := 0
	for k := range all {
		twice += compact(&all[k])
	}
	if twice > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d triples that stand twice left out", twice))
	}
	return all, nil
}

// compact keeps each edge once, and returns how many it removed.
func compact(r *graph.Relation) int {
	kept, begin := 0, int64(0)
	for v := range len(r.Indptr) - 1 {
		row := slices.Compact(r.Sources[begin:r.Indptr[v+1]])
		begin = r.Indptr[v+1]
		kept += copy(r.Sources[kept:], row)
		r.Indptr[v+1] = int64(kept)
	}
	gone := len(r.Sources) - kept
	r.Sources = r.Sources[:kept]
	return gone
}

// localName returns the part of an IRI behind its last inner #, / or :, about 100 bytes at most. Other
// characters than letters, digits, dots and hyphens become one underscore, as the name becomes part of a file
// name.
func localName(iri string) string {
	const longest = 100
	iri = strings.TrimRight(iri, "#/:")
	var name []rune
	for at, c := range iri[strings.LastIndexAny(iri, "#/:")+1:] {
		if at >= longest {
			break
		}
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && c != '-' && (c != '.' || at == 0) {
			c = '_'
		}
		if c != '_' || at == 0 || name[len(name)-1] != '_' {
			name = append(name, c)
		}
	}
	return string(name)
}
