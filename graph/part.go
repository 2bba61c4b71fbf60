package graph

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"weft/internal/document"
	"weft/internal/refusal"
)

// Part is what one worker holds of a larger graph: some of its vertices, with the edges into and out of them.
// The far ends of the edges are numbered over the vertices of the far type in the whole graph, in an order
// that the maker of the part chose.
type Part struct {
	Graph *Graph // Types are the part's vertices, and Relations their in-edges
	// Out has for each relation a row for each of the part's vertices of the type Source: its out-neighbours,
	// with weights but without edge features. These relations have no names.
	Out   []Relation
	IDs   [][]int32 // by type: the ids of its vertices in the whole graph, within the type, ascending
	Whole []int     // by type: number of vertices of the whole graph
}

const (
	idsFile        = "vertices.npy" // int64, rows of the part: ids in the whole graph, ascending
	partitionAgain = "partition the graph again"
)

// outEdges are the files of out-edges, which only parts have. They have no edge features.
var outEdges = relationFiles{"out_indptr.npy", "out_indices.npy", "out_weight.npy", "", "out-neighbours"}

// OpenPart maps the part stored in dir into memory and checks it as Open does. Closing its Graph gives
// everything back.
func OpenPart(dir string) (*Part, error) {
	m := &mappings{wayOut: partitionAgain}
	d, err := m.partDescription(dir)
	if err != nil {
		return nil, err
	}
	g := &Graph{Metric: d.own.Metric, Provenance: d.own.Provenance, path: dir, mapped: m}
	p := &Part{Graph: g, Whole: d.whole}
	err = g.Guard(func() error {
		l := d.own.layout()
		if err := g.readTypes(m, dir, &d.own); err != nil {
			return err
		}
		if err := g.readRelations(m, dir, &d.own); err != nil {
			return err
		}
		if err := p.readOut(m, dir, l, d.out); err != nil {
			return err
		}
		for _, v := range d.own.Vertices {
			if err := p.readIDs(m, filepath.Join(dir, l.vertices(v.Type)), v.Count); err != nil {
				return err
			}
		}
		return m.located(dir, p.check(m.depth(dir, g.Relations, p.Out)))
	})
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	g.Unload()
	return p, nil
}

// readOut maps the out-edges of the relations.
func (p *Part) readOut(m *mappings, dir string, l layout, relations []relationDescription) error {
	p.Out = make([]Relation, len(relations))
	types := p.Graph.Types
	for i := range relations {
		r := &p.Graph.Relations[i]
		s, _, err := p.Graph.Joins(r)
		if err != nil {
			return m.located(dir, err)
		}
		if err := p.Out[i].read(m, filepath.Join(dir, l.edges(r.Ends())), outEdges, &relations[i],
			types[s].Count); err != nil {
			return err
		}
	}
	return nil
}

// readIDs reads the ids of a type, and keeps them in 32 bits.
func (p *Part) readIDs(m *mappings, dir string, rows int) error {
	long, err := load[int64](m, dir, idsFile, rows)
	if err != nil {
		return err
	}
	ids := make([]int32, rows)
	for r, id := range long {
		ids[r] = int32(id)
		if int64(ids[r]) != id {
			return m.located(dir, flawf(idsFile, "id %d is outside the range of %d", id, p.Whole[len(p.IDs)]))
		}
	}
	p.IDs = append(p.IDs, ids)
	return nil
}

// check reports the first inconsistency of a part: of its graph, its out-edges and its ids.
func (p *Part) check(d depth) error {
	g := p.Graph
	types := g.Types
	if err := g.checkWithin(p.Whole, d); err != nil {
		return err
	}
	for i := range p.Out {
		r := &g.Relations[i]
		s, t, err := g.Joins(r)
		if err != nil {
			return err
		}
		if err := p.Out[i].check(outEdges, types[s].Count, p.Whole[t], d, g.Unload); err != nil {
			return inFolder(g.layout().edges(r.Ends()), err)
		}
	}
	for i, ids := range p.IDs {
		at := filepath.Join(g.layout().vertices(types[i].Name()), idsFile)
		if len(ids) != types[i].Count {
			return flawf(at, "%d ids for %d vertices", len(ids), types[i].Count)
		}
		if k := firstMisplaced(ids, int32(p.Whole[i]), 1); k >= 0 {
			return flawf(at, "%s", misplaced(ids, k, int32(p.Whole[i])))
		}
	}
	return nil
}

// ends returns how many rows a relation has in those files, and the type of the vertices at the other ends.
func (p *Part) ends(r int, files relationFiles) (rows, far int, err error) {
	source, target, err := p.Graph.Joins(&p.Graph.Relations[r])
	if err != nil {
		return 0, 0, err
	}
	if files == outEdges {
		source, target = target, source
	}
	return p.Graph.Types[target].Count, source, nil
}

// ids writes the ids of a type's vertices.
func (s *Folder) ids(ids []int32) {
	const most = 1 << 16 // at once
	a := newArray[int64](s, idsFile, len(ids))
	long := make([]int64, 0, min(most, len(ids)))
	for some := range slices.Chunk(ids, most) {
		long = long[:0]
		for _, id := range some {
			long = append(long, int64(id))
		}
		put(a, long)
	}
	a.close()
}

// theWhole is the name, in a part's description, of the whole graph's vertices of the type that the part
// calls by that name.
func (l layout) theWhole(name string) string {
	if l == inStore {
		return "whole"
	}
	return "whole/" + name // no type has such a name
}

// describe returns the description under which a part is stored: a graph with its own vertex types, and as
// many types for the vertices of the whole graph, which the relations join.
func (p *Part) describe() *description {
	d := describe(p.Graph)
	l := d.layout()
	for i, whole := range p.Whole {
		d.Vertices = append(d.Vertices, vertexDescription{Type: l.theWhole(d.Vertices[i].Type), Count: whole})
	}
	for i := range p.Out {
		in := &d.Relations[i]
		out := describeRelation(&p.Out[i])
		out.Source, out.Name, out.Target = in.Source, in.Name, l.theWhole(in.Target)
		in.Source = l.theWhole(in.Source)
		d.Relations = append(d.Relations, out)
	}
	return d
}

// isPart reports whether the description is of a part.
func (d *description) isPart() bool {
	n := len(d.Vertices) / 2
	return n > 0 && len(d.Vertices) == 2*n && len(d.Relations)%2 == 0 &&
		d.Vertices[n].Type == d.partLayout().theWhole(d.Vertices[0].Type)
}

// partLayout is the layout of the graph in the first halves of a part's description.
func (d *description) partLayout() layout { return len(d.Vertices) > 2 || len(d.Relations) > 2 }

// partDescription is what the graph.json of a part says.
type partDescription struct {
	own   description // the description as if it were of a graph
	out   []relationDescription
	whole []int // by type: vertices of the whole graph
}

// partDescription reads the graph.json of a part and checks it as far as that needs no other file.
func (m *mappings) partDescription(dir string) (*partDescription, error) {
	path := filepath.Join(dir, descriptionFile)
	text, err := document.Read(path, maxDescription)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Errorf("%s: missing; %s", path, m.wayOut)
	}
	if err != nil {
		return nil, refusal.Advise(err, m.wayOut)
	}
	d, err := parsePartDescription(text)
	if err != nil {
		return nil, refusal.Errorf("%s: %w; %s", path, err, m.wayOut)
	}
	return d, nil
}

func parsePartDescription(text []byte) (*partDescription, error) {
	d := &description{}
	if err := document.StrictJSON(text, formatVersion, d); err != nil {
		return nil, err
	}
	if !d.isPart() {
		return nil, refusal.Errorf("it does not describe a share of a partitioned graph")
	}
	l := d.partLayout()
	types := len(d.Vertices) / 2
	relations := len(d.Relations) / 2
	p := &partDescription{own: *d, out: d.Relations[relations:]}
	p.own.Vertices, p.own.Relations = d.Vertices[:types], d.Relations[:relations]
	own := map[string]string{} // by the name of the whole's type
	for i, whole := range d.Vertices[types:] {
		v := &p.own.Vertices[i]
		own[l.theWhole(v.Type)] = v.Type
		if err := whole.check(whole.Count); err != nil {
			return nil, err
		}
		if whole.Type != l.theWhole(v.Type) || v.Count > whole.Count {
			return nil, refusal.Errorf("%d vertices %q of %d %q are not possible", v.Count, v.Type,
				whole.Count, whole.Type)
		}
		p.whole = append(p.whole, whole.Count)
	}
	for i := range p.out {
		in, out := &p.own.Relations[i], &p.out[i]
		if own[in.Source] != out.Source || own[out.Target] != in.Target || in.Name != out.Name ||
			out.FeatureColumns != 0 {
			return nil, refusal.Errorf("relation %q joins %q to %q, and the edges out %q to %q", in.Name,
				in.Source, in.Target, out.Source, out.Target)
		}
		if err := out.check(); err != nil {
			return nil, err
		}
		in.Source = out.Source
	}
	return p, p.own.check(p.whole)
}
