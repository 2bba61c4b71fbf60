// Package rdf reads RDF graphs: triples of subject, predicate and object in N-Triples, plain or gzip, and the
// tables that say which entity has which label, as those of AIFB and MUTAG (Ristoski et al. 2016,
// https://doi.org/10.1007/978-3-319-46547-0_20), on which R-GCN was published (Schlichtkrull et al. 2018,
// arXiv:1703.06103).
package rdf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"weft/graph"
	"weft/graph/internal/lines"
	"weft/graph/internal/names"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// EntityType is the type of all vertices.
const EntityType = "entity"

// Options name the files of a graph and how to read them.
type Options struct {
	// Paths are files of N-Triples, plain or gzip. A blank node belongs to its file.
	Paths []string
	// Train, Val and Test are tables of labelled entities: columns between tabs, the first line names them.
	// All may be empty: the graph then has no labels. Val and Test may be.
	Train, Val, Test string
	// Entity and Label are the columns of the tables that count: an entity's name, and its class.
	Entity, Label string
	// Without are the IRIs of predicates whose triples are left out: those that give the label away.
	Without []string
}

// Read reads the graph. Subjects and objects are its vertices, of the one type EntityType, in the order of
// their first appearance: IRIs, blank nodes and literals, which are one where text, language tag and datatype
// are. Names are IRIs as they are; _:label for a blank node, and _:label#2 in the second file; a literal as
// N-Triples has it. Each predicate is a relation from subjects to objects under its local name, and one back,
// rev_ before it. A triple that stands twice is one edge.
//
// Classes are the distinct labels in the order of their bytes. Complaints about a file are refusals that name
// it, and its line.
func Read(o Options) (*graph.Graph, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &reader{entities: names.NewTable(), numbers: map[string]int{}, without: map[string]int64{}}
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
	if len(r.predicates) == 0 {
		return nil, refusal.Errorf("%s: no triple is left: give a graph", strings.Join(o.Paths, ", "))
	}
	labels, splits, err := o.readLabels(r.entities)
	if err != nil {
		return nil, err
	}
	relations, err := r.relations()
	if err != nil {
		return nil, refusal.Errorf("%s: %w", strings.Join(o.Paths, ", "), err)
	}
	g := &graph.Graph{
		Type: EntityType, Count: len(r.entities.Names), Names: r.entities.Names, Labels: labels, Splits: splits, Relations: relations,
		Provenance: "rdf " + strings.Join(o.Paths, " "), Notes: r.notes,
	}
	if g, err = g.ReverseRelations(); err != nil {
		return nil, refusal.Errorf("%s: %w", strings.Join(o.Paths, ", "), err)
	}
	return g, g.Check()
}

// check refuses options that make no sense together.
func (o *Options) check() error {
	train, entity, label := refusal.Setting("train"), refusal.Setting("entity"), refusal.Setting("label")
	switch tables := o.Train != "" || o.Val != "" || o.Test != ""; {
	case !tables && (o.Entity != "" || o.Label != ""):
		return refusal.Errorf("%s and %s name columns of a table: give %s and %s, or leave them out", entity, label, train, refusal.Setting("test"))
	case tables && o.Train == "":
		return refusal.Errorf("labels without entities that train: give %s beside %s and %s", train, refusal.Setting("val"), refusal.Setting("test"))
	case tables && (o.Entity == "" || o.Label == ""):
		return refusal.Errorf("%s: which columns count? give %s and %s, by the names in its first line", o.Train, entity, label)
	case tables && o.Entity == o.Label:
		return refusal.Errorf("%s and %s are one column, %q: name two", entity, label, o.Entity)
	}
	return nil
}

// reader collects the triples of files.
type reader struct {
	entities   *names.Table
	predicates []predicate    // in the order of their first appearance
	numbers    map[string]int // of the predicates, by IRI
	without    map[string]int64
	notes      []string
}

// predicate has the edges of one predicate, from subjects to objects.
type predicate struct {
	iri   string
	edges graph.Edges
}

// read reads file k.
func (r *reader) read(path string, k int) error {
	const longest = 16 << 20 // bytes of a line
	text, err := lines.Open(lines.Form{Path: path, Text: "N-Triples", Line: "a triple", Longest: longest})
	if err != nil {
		return err
	}
	defer text.Close()
	var t triple
	for {
		line, err := text.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		present, err := t.parse(line)
		if err == nil && present {
			err = r.add(&t, k)
		}
		if err != nil {
			return text.Errorf("%w", err)
		}
	}
}

// add takes in a triple of file k.
func (r *reader) add(t *triple, k int) error {
	if n, left := r.without[string(t.predicate)]; left {
		r.without[string(t.predicate)] = n + 1
		return nil
	}
	number, known := r.numbers[string(t.predicate)]
	if !known {
		var err error
		if r.predicates, err = memory.Grow(r.predicates, 1); err != nil {
			return err
		}
		number = len(r.predicates)
		r.predicates = append(r.predicates, predicate{iri: string(t.predicate)})
		r.numbers[r.predicates[number].iri] = number
	}
	source, err := r.entity(t.subject, k)
	if err != nil {
		return err
	}
	target, err := r.entity(t.object, k)
	if err != nil {
		return err
	}
	e := &r.predicates[number].edges
	if e.Source, err = memory.Grow(e.Source, 1); err == nil {
		e.Target, err = memory.Grow(e.Target, 1)
	}
	if err != nil {
		return err
	}
	e.Source, e.Target = append(e.Source, source), append(e.Target, target)
	return nil
}

// entity returns the vertex of a term of file k.
func (r *reader) entity(name []byte, k int) (int32, error) {
	if k > 0 && bytes.HasPrefix(name, []byte("_:")) {
		name = fmt.Appendf(name, "#%d", k+1)
	}
	return r.entities.Number(name)
}

// checkWithout refuses a predicate to leave out that no triple has, as a mistyped one would leave the label
// in the graph, and notes what was left out.
func (r *reader) checkWithout(o *Options) error {
	for _, iri := range o.Without {
		n := r.without[iri]
		if n == 0 {
			there := make([]string, len(r.predicates))
			for k, p := range r.predicates {
				there[k] = p.iri
			}
			return refusal.Errorf("%s %s: no triple has that predicate; %.1000s", refusal.Setting("without-predicate"), iri, suggest.OneOf(iri, there))
		}
		r.notes = append(r.notes, fmt.Sprintf("%d triples of %s left out", n, iri))
	}
	return nil
}

// relations returns a relation for each predicate. It refuses them if there is no memory for them and their
// reverse relations.
func (r *reader) relations() ([]graph.Relation, error) {
	const bound, source = 8, 4
	vertices, edges := int64(len(r.entities.Names)), int64(0)
	for _, p := range r.predicates {
		edges += int64(p.edges.Len())
	}
	// A predicate costs the file one triple, and a row for each entity.
	const rowsOfAnyFile, rowsOfATriple = 1 << 22, 1 << 10
	if rows := vertices * int64(len(r.predicates)); rows > rowsOfAnyFile+rowsOfATriple*edges {
		return nil, fmt.Errorf("%d entities and %d predicates, with only %d triples: leave predicates out with %s",
			vertices, len(r.predicates), edges, refusal.Setting("without-predicate"))
	}
	if err := memory.Need(2 * (bound*(vertices+1)*int64(len(r.predicates)) + source*edges)); err != nil {
		return nil, fmt.Errorf("%d entities and %d predicates: %w", vertices, len(r.predicates), err)
	}
	var relations []graph.Relation
	var twice int
	for k, name := range r.relationNames() {
		relation, err := graph.NewRelation(int(vertices), r.predicates[k].edges)
		if err != nil {
			return nil, err
		}
		r.predicates[k].edges = graph.Edges{}
		twice += compact(&relation)
		relation.Source, relation.Name, relation.Target = EntityType, name, EntityType
		relations = append(relations, relation)
	}
	if twice > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d triples that stand twice left out", twice))
	}
	return relations, nil
}

// compact leaves each edge once, and returns how many went.
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

// relationNames returns the predicates' local names, with a number where one is taken, or that of the
// relation back. A note has the predicate of each that has a number.
func (r *reader) relationNames() []string {
	all, taken, last := make([]string, len(r.predicates)), map[string]bool{}, map[string]int{}
	for k, p := range r.predicates {
		local := localName(p.iri)
		name := local
		for n := last[local] + 1; ; n++ {
			if n > 1 {
				name = fmt.Sprintf("%s_%d", local, n)
			}
			if !taken[name] && !taken[graph.ReversePrefix+name] {
				last[local] = n
				break
			}
		}
		if name != local {
			r.notes = append(r.notes, fmt.Sprintf("relation %s is %s", name, p.iri))
		}
		taken[name], taken[graph.ReversePrefix+name] = true, true
		all[k] = name
	}
	return all
}

// localName returns what follows the last #, / or : within an IRI, about 100 bytes of it, with one
// underscore for what is no letter, digit, dot or hyphen: it becomes a part of a file name.
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
