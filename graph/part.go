package graph

import (
	"errors"
	"io/fs"
	"path/filepath"

	"weft/internal/document"
	"weft/internal/refusal"
)

// Part is what one worker holds of a larger graph: some of its vertices, with the edges into and out of them.
// The far ends of the edges are numbered over the vertices of the whole graph, in an order that the maker of
// the part chose.
type Part struct {
	Graph *Graph   // its rows are the part's vertices, and Relation has their in-edges
	Out   Relation // a row for each of them: its out-neighbours, with weights but without edge features
	IDs   []int32  // len V of Graph: their ids in the whole graph, ascending
	Whole int      // number of vertices of the whole graph
}

const (
	idsFile        = "vertices.npy" // int64, rows of the part: ids in the whole graph, ascending
	partitionAgain = "partition the graph again"
)

// outEdges are stored for parts alone. They have no edge features.
var outEdges = relationFiles{"out_indptr.npy", "out_indices.npy", "out_weight.npy", "", "out-neighbours"}

// OpenPart maps the part stored in dir into memory and checks it as Open does. Closing its Graph gives
// everything back.
func OpenPart(dir string) (*Part, error) {
	m := &mappings{wayOut: partitionAgain}
	d, err := m.partDescription(dir)
	if err != nil {
		return nil, err
	}
	g := &Graph{Metric: d.Metric, Provenance: d.Provenance, path: dir, mapped: m}
	p := &Part{Graph: g, Whole: d.Vertices[1].Count}
	rows := d.Vertices[0].Count
	err = g.Guard(func() error {
		if err := g.readVertices(m, dir, &d.Vertices[0]); err != nil {
			return err
		}
		if err := g.Relation.read(m, dir, inEdges, &d.Relations[0], rows); err != nil {
			return err
		}
		if err := p.Out.read(m, dir, outEdges, &d.Relations[1], rows); err != nil {
			return err
		}
		if err := p.readIDs(m, dir, rows); err != nil {
			return err
		}
		return m.located(dir, p.check())
	})
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.Unload()
	return p, nil
}

// readIDs reads the ids, which are kept in 32 bits.
func (p *Part) readIDs(m *mappings, dir string, rows int) error {
	ids, err := m.int64s(dir, idsFile, rows)
	if err != nil {
		return err
	}
	p.IDs = make([]int32, rows)
	for r, id := range ids {
		if p.IDs[r] = int32(id); int64(p.IDs[r]) != id {
			return m.located(dir, flawf(idsFile, "id %d is outside the range of %d", id, p.Whole))
		}
	}
	return nil
}

// check is Graph.check for a part.
func (p *Part) check() error {
	if err := p.Graph.checkWithin(p.Whole); err != nil {
		return err
	}
	if err := p.Out.check(outEdges, p.Graph.Vertices(), p.Whole); err != nil {
		return err
	}
	if len(p.IDs) != p.Graph.Vertices() {
		return flawf(idsFile, "%d ids for %d vertices", len(p.IDs), p.Graph.Vertices())
	}
	if k := firstMisplaced(p.IDs, int32(p.Whole), 1); k >= 0 {
		return flawf(idsFile, "%s", misplaced(p.IDs, k, int32(p.Whole)))
	}
	return nil
}

// part writes the files of a part into a directory of that name.
func (s *staging) part(name string, p *Part) {
	s.enter(name)
	s.vertices(p.Graph)
	s.relation(inEdges, &p.Graph.Relation)
	s.relation(outEdges, &p.Out)
	ids := make([]int64, len(p.IDs))
	for r, id := range p.IDs {
		ids[r] = int64(id)
	}
	s.int64s(idsFile, ids, len(ids))
	s.json(descriptionFile, p.describe())
	s.exit()
}

// describe is the description that a part is stored under: a graph of two types of vertices, its own and
// those of the whole graph, which the relations join.
func (p *Part) describe() *description {
	d := describe(p.Graph)
	d.Vertices = append(d.Vertices, vertexDescription{Type: theWholeType, Count: p.Whole})
	d.Relations = []relationDescription{
		describeRelation(theWholeType, theVertexType, &p.Graph.Relation),
		describeRelation(theVertexType, theWholeType, &p.Out),
	}
	return d
}

// isPart reports whether the description is that of a part.
func (d *description) isPart() bool {
	return len(d.Vertices) == 2 && d.Vertices[1].Type == theWholeType
}

// partDescription reads the graph.json of a part and checks it as far as that needs no other file.
func (m *mappings) partDescription(dir string) (*description, error) {
	path := filepath.Join(dir, descriptionFile)
	text, err := document.Read(path, maxDescription)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%s: missing; %s", path, m.wayOut)
	}
	if err != nil {
		return nil, refusal.Errorf("%w; %s", err, m.wayOut)
	}
	d, err := parsePartDescription(text)
	if err != nil {
		return nil, refusal.Errorf("%s: %w; %s", path, err, m.wayOut)
	}
	return d, nil
}

func parsePartDescription(text []byte) (*description, error) {
	d := &description{}
	if err := document.StrictJSON(text, formatVersion, d); err != nil {
		return nil, err
	}
	if !d.isPart() || len(d.Relations) != 2 {
		return nil, refusal.Errorf("it does not describe a share of a partitioned graph")
	}
	own, whole := &d.Vertices[0], &d.Vertices[1]
	if err := whole.check(whole.Count); err != nil {
		return nil, err
	}
	if err := own.check(whole.Count); err != nil {
		return nil, err
	}
	if own.Count > whole.Count {
		return nil, refusal.Errorf("%d vertices of %d are not possible", own.Count, whole.Count)
	}
	if err := d.Relations[0].check(theWholeType, own.Type); err != nil {
		return nil, err
	}
	if d.Relations[1].FeatureColumns != 0 {
		return nil, refusal.Errorf("out-edges have no features")
	}
	return d, d.Relations[1].check(own.Type, theWholeType)
}
