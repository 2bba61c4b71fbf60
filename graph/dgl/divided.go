package dgl

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// The tensors of a partition's graph. The graph has one type. The types of the whole graph's vertices and
// edges are a tensor.
const (
	idTensor       = "_ID"        // ids in the divided graph
	typeTensor     = "_TYPE"      // numbers of types
	originalTensor = "orig_id"    // ids before the division, within the vertex's type; DGL up to 0.9
	ownEdges       = "inner_edge" // 1: the edge leads into a vertex of the partition's own
	originalFile   = "orig_nids.dgl"
)

// divided reads the graph that DGL divided into partitions. It numbers vertices within their types: by their
// ids before the division (original ids) if the files have them, else by their ids in the divided graph.
type divided struct {
	*config
	before    [][]int32    // by type: the original id of each vertex; nil: the files have no original ids
	locations [][]location // by type and original id: where the vertex is in the divided graph
	edges     []edgeType
	folder    *os.Root    // of the JSON file, with all others
	open      []io.Closer // files that stay open until the graph has been read
}

// openFile opens a file of the folder, for a cursor over all of it.
func (d *divided) openFile(name string) (*cursor, error) { return over(regular.OpenIn(d.folder, name)) }

// path is the path of a file in the folder.
func (d *divided) path(name string) string { return filepath.Join(d.folder.Name(), name) }

// location is a partition, and a row of its tensors of one type.
type location struct{ part, row int32 }

// edgeType is the edges of one type.
type edgeType struct {
	count  int
	inPart []int  // how many of them each partition owns
	ends   [2]int // the types of sources and targets, −1 while unknown
}

// openDivided opens a graph by the JSON file that describes it, with its division.
func openDivided(path string, o *Options) (*streamed.Graph, *Division, error) {
	if o.Graph >= 0 {
		return nil, nil, refusal.Errorf("%s: it describes one graph, so leave --graph out", path)
	}
	c, err := readConfig(path)
	if err != nil {
		return nil, nil, err
	}
	folder, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, nil, refusal.Errorf("%w", err)
	}
	d := &divided{config: c, folder: folder, open: []io.Closer{folder}}
	g, division, err := d.graph(path, o)
	if err != nil {
		return nil, nil, errors.Join(err, d.close())
	}
	g.Release = func() { _ = d.close() }
	return g, division, nil
}

func (d *divided) close() (err error) {
	for _, file := range d.open {
		err = errors.Join(err, file.Close())
	}
	return err
}

// graph opens the graph.
func (d *divided) graph(path string, o *Options) (g *streamed.Graph, division *Division, err error) {
	all, err := d.contents(path)
	if err != nil {
		return nil, nil, err
	}
	edges := int64(0)
	for _, e := range d.edges {
		edges += int64(e.count)
	}
	if d.config.edges >= 0 && d.config.edges != edges {
		return nil, nil, refusal.Errorf("%s: num_edges is %d, and the partitions have %d edges of their own",
			path, d.config.edges, edges)
	}
	g, order, err := all.open(o)
	if err != nil {
		return nil, nil, err
	}
	g.InMemory.Provenance = "dgl " + path
	if len(d.parts) > 1 {
		division, err = d.division(order)
	}
	return g, division, err
}

// contents returns the contents of the whole graph.
func (d *divided) contents(path string) (*contents, error) {
	for _, ends := range d.edgeEnds {
		d.edges = append(d.edges, edgeType{ends: ends, inPart: make([]int, len(d.parts))})
	}
	for _, pass := range []func(*part) error{d.count, d.addVertices} {
		for p := range d.parts {
			if err := d.withPart(p, pass); err != nil {
				return nil, err
			}
		}
	}
	if err := d.findEnds(); err != nil {
		return nil, err
	}
	c := &contents{source: path, notes: []string{"vertices have the ids that they had before DGL " +
		"divided the graph"}}
	if d.before == nil && len(d.parts) > 1 { // a single partition keeps the order
		c.notes[0] = "vertices have DGL's ids of the divided graph, whose files do not hold those before"
	}
	vertices, err := d.columns(&tensorFiles{
		types: d.vertexTypes, file: func(files *partFiles) string { return files.vertexTensors },
		rows:  func(t, p int) int { return int(d.vertexMap.spans[t][p].count()) },
		order: d.locations,
	})
	if err != nil {
		return nil, err
	}
	for t, name := range d.vertexTypes {
		c.types = append(c.types, &table{
			source: path, name: name, rows: d.vertexMap.count(t),
			columns: vertices[t],
		})
	}
	edges, err := d.columns(&tensorFiles{
		types: d.edgeTypes, file: func(files *partFiles) string { return files.edgeTensors },
		rows: func(t, p int) int { return d.edges[t].inPart[p] },
	})
	if err != nil {
		return nil, err
	}
	for t, name := range d.edgeTypes {
		e := &d.edges[t]
		if e.ends[0] < 0 {
			c.notes = append(c.notes, fmt.Sprintf("the relation %.40q is left out: it has no edge, and "+
				"the files do not say what it joins", name))
			continue
		}
		_, name, _ = canonical(name)
		c.relations = append(c.relations, &relation{
			table:  &table{source: path, name: name, rows: e.count, columns: edges[t]},
			source: e.ends[0], target: e.ends[1],
			open:   func() (arrays.EndsReader, error) { return &partEdges{d: d, kind: int32(t)}, nil },
			refuse: func(err error) error { return err }, // it names the file of a partition
		})
	}
	return c, nil
}

// division returns the partition of each vertex, type by type in the given order.
func (d *divided) division(order []int) (*Division, error) {
	if err := memory.Need(4 * int64(d.vertices)); err != nil {
		return nil, err
	}
	parts := make([]int32, 0, d.vertices)
	for _, t := range order {
		if d.before != nil {
			for _, at := range d.locations[t] {
				parts = append(parts, at.part)
			}
			continue
		}
		for p, s := range d.vertexMap.spans[t] {
			for range s.count() {
				parts = append(parts, int32(p))
			}
		}
	}
	return &Division{K: len(d.parts), Parts: parts}, nil
}

// part is the graph of a partition.
type part struct {
	*structure
	p    int
	file string
	ids  []int32 // ids, in the divided graph, of its vertices, with those of other partitions
	kind []int32 // the type of each edge that the partition owns, −1 for other edges
}

// withPart calls use with the graph of a partition. Errors name its file.
func (d *divided) withPart(p int, use func(*part) error) error {
	file := d.parts[p].graph
	c, err := d.openFile(file)
	if err != nil {
		return err
	}
	defer c.Close()
	partition := &part{p: p, file: file}
	switch all, failed := c.choose(AllGraphs); {
	case failed != nil:
		err = failed
	case len(all) > 1:
		err = refusal.Errorf("holds %d graphs, where a partition is one", len(all))
	default:
		partition.structure = all[0]
		err = d.readPart(partition)
	}
	if err == nil {
		err = use(partition)
	}
	return refusal.In(d.path(file), err)
}

// readPart reads the ids of a partition's vertices and the types of its edges.
func (d *divided) readPart(p *part) (err error) {
	if len(p.counts) != 1 || len(p.relations) != 1 {
		return fmt.Errorf("a graph of %d vertex types and %d relations, where that of a partition has "+
			"one of each", len(p.counts), len(p.relations))
	}
	if p.ids, err = numbers(p.vertexTensors[0], idTensor, p.counts[0], int64(d.vertices)); err != nil {
		return err
	}
	edges := p.relations[0].second.elements()
	if p.kind, err = numbers(p.edgeTensors[0], ownEdges, edges, 2); err != nil {
		return err
	}
	var types []int32
	if len(d.edgeTypes) > 1 {
		if types, err = numbers(p.edgeTensors[0], typeTensor, edges, int64(len(d.edgeTypes))); err != nil {
			return err
		}
	}
	for k, own := range p.kind {
		switch {
		case own == 0:
			p.kind[k] = -1
		case types != nil:
			p.kind[k] = types[k]
		default:
			p.kind[k] = 0
		}
	}
	return nil
}

// numbers reads a tensor of so many numbers from 0 and below the limit.
func numbers(from map[string]tensor, name string, count int, limit int64) ([]int32, error) {
	t, there := from[name]
	if !there {
		return nil, fmt.Errorf("there is no tensor %q, which DGL writes when it divides a graph", name)
	}
	all, err := integers[int32](&t, limit)
	if err == nil && len(all) != count {
		err = fmt.Errorf("%d numbers, not %d", len(all), count)
	}
	if err != nil {
		return nil, fmt.Errorf("the tensor %q: %w", name, err)
	}
	return all, nil
}

// count compares a partition's graph with the description, and counts the edges. Afterwards every number of
// the description is confirmed.
func (d *divided) count(p *part) error {
	if owned := d.vertexMap.owned(p.p); owned > len(p.ids) {
		return fmt.Errorf("%d vertices, where node_map says that %d are its own", len(p.ids), owned)
	}
	for _, t := range p.kind {
		if t >= 0 {
			d.edges[t].count++
			d.edges[t].inPart[p.p]++
		}
	}
	for t := range d.edgeMap {
		if got, want := d.edges[t].inPart[p.p], d.edgeMap[t][p.p].count(); int64(got) != want {
			return fmt.Errorf("%d edges of type %.80q of its own, where edge_map says %d", got,
				d.edgeTypes[t], want)
		}
	}
	return nil
}

// addVertices checks the vertices that a partition owns, and stores their original ids.
func (d *divided) addVertices(p *part) error {
	before, err := d.originalIDs(p)
	if err != nil {
		return err
	}
	switch {
	case p.p == 0 && before != nil:
		if err := d.makeLocations(); err != nil {
			return err
		}
	case (before != nil) != (d.before != nil) && d.vertexMap.owned(p.p) > 0:
		return errors.New("some partitions hold the vertices' ids from before the graph was divided, and " +
			"some do not")
	}
	owned, seen := 0, make([]bool, d.vertexMap.owned(p.p))
	first := d.vertexMap.firsts[p.p]
	for i, id := range p.ids {
		owner, t := d.vertexMap.at(int64(id))
		if owner != p.p {
			continue
		}
		if seen[int64(id)-first] {
			return fmt.Errorf("vertex %d comes twice", id)
		}
		seen[int64(id)-first] = true
		owned++
		if before != nil {
			if err := d.setOriginal(p.p, t, int64(id), before[i]); err != nil {
				return err
			}
		}
	}
	if owned != len(seen) {
		return fmt.Errorf("%d vertices of its own, where node_map says %d", owned, len(seen))
	}
	return nil
}

// setOriginal stores the original id of a vertex.
func (d *divided) setOriginal(p, t int, id int64, before int32) error {
	if int(before) >= len(d.locations[t]) || d.locations[t][before].part >= 0 {
		return fmt.Errorf("vertex %d had the id %d before the graph was divided, which another had "+
			"or none of %d", id, before, len(d.locations[t]))
	}
	d.locations[t][before] = location{int32(p), int32(id - d.vertexMap.spans[t][p].start)}
	d.before[t][d.vertexMap.number(id)] = before
	return nil
}

// makeLocations allocates before and locations.
func (d *divided) makeLocations() error {
	const bytes = 4 + 8 // of an id and a location
	if err := memory.Need(bytes * int64(d.vertices)); err != nil {
		return err
	}
	for t := range d.vertexTypes {
		n := d.vertexMap.count(t)
		d.before = append(d.before, make([]int32, n))
		d.locations = append(d.locations, slices.Repeat([]location{{-1, 0}}, n))
	}
	return nil
}

// originalIDs returns the original ids of a partition's vertices; nil: its files do not have them. They are
// in a tensor of its graph or, for the vertices that the partition owns, in a file beside it.
func (d *divided) originalIDs(p *part) ([]int32, error) {
	if _, there := p.vertexTensors[0][originalTensor]; there {
		return numbers(p.vertexTensors[0], originalTensor, len(p.ids), int64(d.vertices))
	}
	file := filepath.Join(filepath.Dir(p.file), originalFile)
	if _, err := d.folder.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c, err := d.openFile(file)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	tensors, err := c.readTensors()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", originalFile, err)
	}
	own := make([][]int32, len(d.vertexTypes))
	for t, name := range d.vertexTypes {
		count := int(d.vertexMap.spans[t][p.p].count())
		if _, there := tensors[name]; !there && count == 0 {
			continue
		}
		if own[t], err = numbers(tensors, name, count, int64(d.vertices)); err != nil {
			return nil, fmt.Errorf("%s: %w", originalFile, err)
		}
	}
	all := make([]int32, len(p.ids))
	for i, id := range p.ids {
		if owner, t := d.vertexMap.at(int64(id)); owner == p.p {
			all[i] = own[t][int64(id)-d.vertexMap.spans[t][owner].start]
		}
	}
	return all, nil
}

// findEnds finds which types the edges of a relation join, if its name does not say it.
func (d *divided) findEnds() error {
	for t := range d.edges {
		if d.edges[t].ends[0] >= 0 || d.edges[t].count == 0 {
			continue
		}
		if _, _, err := (&partEdges{d: d, kind: int32(t)}).Next(); err != nil {
			return err
		}
	}
	return nil
}

// partEdges reads the ends of the edges of one type, from each partition that owns some in turn.
type partEdges struct {
	d              *divided
	kind           int32
	next           int // the next partition
	source, target []int32
}

// Next implements arrays.EndsReader.
func (e *partEdges) Next() (source, target []int32, err error) {
	owned := e.d.edges[e.kind].inPart
	for e.next < len(owned) && owned[e.next] == 0 {
		e.next++
	}
	if e.next == len(owned) {
		return nil, nil, io.EOF
	}
	err = e.d.withPart(e.next, e.read)
	e.next++
	return e.source, e.target, err
}

// Close implements arrays.EndsReader.
func (e *partEdges) Close() {}

// read reads the edges that a partition owns.
func (e *partEdges) read(p *part) error {
	d, typ := e.d, &e.d.edges[e.kind]
	all, err := p.relations[0].edges()
	if err != nil {
		return err
	}
	const ends = 2 * 4
	if err := memory.Need(ends * int64(len(p.ids)+typ.inPart[p.p])); err != nil {
		return err
	}
	types, renumbered := make([]int32, len(p.ids)), make([]int32, len(p.ids))
	for i, id := range p.ids {
		types[i], renumbered[i] = d.vertex(int64(id))
	}
	e.source, e.target = make([]int32, 0, typ.inPart[p.p]), make([]int32, 0, typ.inPart[p.p])
	for k, t := range p.kind {
		if t != e.kind {
			continue
		}
		u, v := all.Source[k], all.Target[k]
		if owner, _ := d.vertexMap.at(int64(p.ids[v])); owner != p.p {
			return fmt.Errorf("edge %d is its own, and leads into a vertex of another partition", k)
		}
		joined := [2]int{int(types[u]), int(types[v])}
		if typ.ends[0] < 0 {
			typ.ends = joined
		}
		if typ.ends != joined {
			return fmt.Errorf("edge %d of type %.40q joins %.40q to %.40q, where others join %.40q to %.40q",
				k, d.edgeTypes[t], d.vertexTypes[joined[0]], d.vertexTypes[joined[1]],
				d.vertexTypes[typ.ends[0]], d.vertexTypes[typ.ends[1]])
		}
		e.source, e.target = append(e.source, renumbered[u]), append(e.target, renumbered[v])
	}
	return nil
}

// vertex returns the type of a vertex of the divided graph, and its number in the result.
func (d *divided) vertex(id int64) (t, number int32) {
	_, typ := d.vertexMap.at(id)
	number = int32(d.vertexMap.number(id))
	if d.before != nil {
		number = d.before[typ][number]
	}
	return int32(typ), number
}
