package dgl

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
)

const (
	// The description of a file's graphs ends here. Behind its four numbers is memory that happened to be
	// there.
	headerBytes   = 4096
	heteroGraphs  = 2 // the graph type of version 2
	versionBefore = 1 // of DGL before 0.5
	version       = 2
	bitmask       = 1 << 32 // of DGL from 1.0 on: the format's code is a set
)

// The formats of a relation's edges, as bits.
const (
	coo = 1 << iota // two lists of ends
	csr             // rows of destinations, by source
	csc             // rows of sources, by destination
)

// matrix is the edges of a relation in one format.
type matrix struct {
	format        int
	rows, columns int    // numbers of sources and destinations; for csc of destinations and sources
	first, second tensor // the rows and columns of all edges; or the bounds of the rows, and the columns
	ids           tensor // ids of the edges; empty: they are numbered in this order
}

// structure is one graph of a file: its vertices and edges by type, with the tensors of each.
type structure struct {
	vertexTypes   []string
	counts        []int // of vertices
	relationTypes []string
	ends          [][2]int // the types of each relation's sources and destinations
	relations     []matrix
	vertexTensors []map[string]tensor // of each vertex type
	edgeTensors   []map[string]tensor // of each relation
}

// readGraphs reads a file of graphs (dgl.save_graphs) to its last byte, and returns the structures of all.
// Notes name labels of whole graphs, which are not read.
func (c *cursor) readGraphs() (graphs []*structure, err error) {
	if c.err = c.start(graphMagic, "graphs saved by DGL"); c.err != nil {
		return nil, c.err
	}
	switch got := c.uint64(); {
	case c.err != nil:
		return nil, c.err
	case got == versionBefore:
		return nil, refusal.Errorf("graphs in version 1 of DGL's format, which DGL wrote before 0.5: load " +
			"them with DGL 0.5 or later and save them again")
	case got != version:
		return nil, refusal.Errorf("version %d of DGL's format, where 2 is read: save the graphs with a "+
			"DGL from 0.5 to 2.x", got)
	}
	if kind := c.uint64(); c.err == nil && kind != heteroGraphs {
		return nil, refusal.Errorf("graphs of DGL's kind %d, where %d is read: save them again with "+
			"dgl.save_graphs", kind, heteroGraphs)
	}
	announced := c.uint64()
	c.skip(headerBytes - uint64(min(c.at, headerBytes)))
	start := c.uint64()
	c.labels = c.named()
	if c.err == nil && start != uint64(c.at) {
		c.fail("graphs begin here, where byte %d is announced", start)
	}
	var starts []uint64
	for c.err == nil && uint64(len(graphs)) < announced {
		starts = append(starts, uint64(c.at))
		graphs = append(graphs, c.structure())
	}
	c.tail(starts)
	if c.err != nil {
		return nil, c.err
	}
	return graphs, nil
}

// tail reads the end of a file of graphs: the offset of each graph, between two lengths.
func (c *cursor) tail(starts []uint64) {
	if c.err != nil {
		return
	}
	want := lengthBytes * uint64(1+len(starts))
	if n := c.uint64(); c.err == nil && n != want {
		c.fail("the places of %d graphs in %d bytes", len(starts), n)
	}
	if n := c.count(lengthBytes); c.err == nil && n != len(starts) {
		c.fail("%d places of %d graphs", n, len(starts))
	}
	for k, start := range starts {
		if at := c.uint64(); c.err == nil && at != start {
			c.fail("graph %d at byte %d, which starts at %d", k, at, start)
		}
	}
	if n := c.uint64(); c.err == nil && n != want {
		c.fail("it ends with a length of %d, not %d", n, want)
	}
	c.end()
}

// structure reads one graph.
func (c *cursor) structure() *structure {
	s := &structure{}
	c.magic(heteroMagic, "graph")
	types := c.meta()
	for range c.count(3 * lengthBytes) {
		s.relations = append(s.relations, c.relation())
		if c.err != nil {
			return nil
		}
	}
	for range c.count(lengthBytes) {
		s.counts = append(s.counts, c.size())
	}
	for range c.count(lengthBytes) {
		s.vertexTensors = append(s.vertexTensors, c.named())
	}
	for range c.count(lengthBytes) {
		s.edgeTensors = append(s.edgeTensors, c.named())
	}
	s.vertexTypes, s.relationTypes = c.texts(), c.texts()
	if c.err == nil {
		if err := s.check(&types); err != nil {
			c.fail("%w", err)
		}
	}
	return s
}

// meta reads the graph of a graph's types: a vertex for each vertex type, an edge for each relation.
func (c *cursor) meta() matrix {
	c.magic(metaMagic, "graph of types")
	return c.matrix(csr)
}

// check checks the parts of a graph against each other, and sets the types that each relation joins.
func (s *structure) check(types *matrix) error {
	if len(s.counts) > maxTypes || types.rows != len(s.counts) || types.columns != len(s.counts) ||
		len(s.vertexTensors) != len(s.counts) || len(s.vertexTypes) != len(s.counts) {
		return fmt.Errorf("a graph of %d × %d vertex types has counts of %d, tensors of %d and names of %d",
			types.rows, types.columns, len(s.counts), len(s.vertexTensors), len(s.vertexTypes))
	}
	n := len(s.relations)
	if types.second.elements() != n || len(s.edgeTensors) != n || len(s.relationTypes) != n {
		return fmt.Errorf("a graph of %d relations has ends of %d, tensors of %d and names of %d",
			n, types.second.elements(), len(s.edgeTensors), len(s.relationTypes))
	}
	joined, err := types.edges()
	if err != nil {
		return err
	}
	for k := range s.relations {
		ends := [2]int{int(joined.Source[k]), int(joined.Target[k])}
		r := &s.relations[k]
		if r.sources() != s.counts[ends[0]] || r.targets() != s.counts[ends[1]] {
			return fmt.Errorf("relation %d leads from %d vertices to %d, of types that have %d and %d",
				k, r.sources(), r.targets(), s.counts[ends[0]], s.counts[ends[1]])
		}
		s.ends = append(s.ends, ends)
	}
	return nil
}

// relation reads the edges of one relation, which may be there in several formats, and returns the first.
func (c *cursor) relation() matrix {
	c.magic(unitMagic, "relation")
	code := c.uint64()
	c.uint64() // the formats that DGL may make from it
	formats := int(code &^ bitmask)
	if code < bitmask {
		formats = map[uint64]int{1: coo, 2: csr, 3: csc}[code]
	}
	if c.err == nil && (formats == 0 || formats > coo|csr|csc || code >= 2*bitmask) {
		c.fail("a relation in formats %#x", code)
	}
	var first *matrix
	for _, format := range []int{coo, csr, csc} {
		if formats&format == 0 || c.err != nil {
			continue
		}
		c.meta()
		m := c.matrix(format)
		if first == nil {
			first = &m
		} else if c.err == nil && (m.sources() != first.sources() || m.targets() != first.targets() ||
			m.second.elements() != first.second.elements()) {
			c.fail("a relation of %d edges between %d and %d vertices in one format, and of %d between %d "+
				"and %d in another", first.second.elements(), first.sources(), first.targets(),
				m.second.elements(), m.sources(), m.targets())
		}
	}
	if c.err != nil {
		return matrix{}
	}
	return *first
}

// matrix reads the edges of a relation in a format.
func (c *cursor) matrix(format int) matrix {
	flags := uint64(1) // bytes that say what is sorted
	if format == coo {
		c.magic(cooMagic, "list of edges")
		flags = 2
	} else {
		c.magic(csrMagic, "matrix of edges")
	}
	m := matrix{
		format: format, columns: c.size(), rows: c.size(), first: c.tensor(),
		second: c.tensor(), ids: c.tensor(),
	}
	c.bytes(flags)
	return m
}

// elements returns the number of elements of a vector.
func (t *tensor) elements() int {
	if len(t.Shape) != 1 {
		return 0
	}
	return t.Shape[0]
}

// sources returns the number of source vertices.
func (m *matrix) sources() int {
	if m.format == csc {
		return m.columns
	}
	return m.rows
}

// targets returns the number of destination vertices.
func (m *matrix) targets() int {
	if m.format == csc {
		return m.rows
	}
	return m.columns
}

// open opens the ends of the edges, in the order of the edges' ids. If they do not lie in this order, all are
// read at once.
func (m *matrix) open() (arrays.EndsReader, error) {
	if m.ids.elements() > 0 {
		e, err := m.edges()
		return arrays.EndsInMemory(e.Source, e.Target), err
	}
	return m.asStored()
}

// asStored opens the ends of the edges, in the order in which they lie in the file.
func (m *matrix) asStored() (arrays.EndsReader, error) {
	for _, t := range []*tensor{&m.first, &m.second} {
		if err := t.checkVector(); err != nil {
			return nil, err
		}
	}
	if m.format == coo {
		if n, targets := m.first.elements(), m.second.elements(); n != targets {
			return nil, refusal.Errorf("%d sources and %d destinations of edges", n, targets)
		}
		o := arrays.EndsOptions{High: [2]int64{int64(m.rows), int64(m.columns)}, Outside: outside}
		return arrays.OpenVectors([2]func() (*arrays.Entry, error){m.first.open, m.second.open}, o)
	}
	bounds, err := m.bounds()
	if err != nil {
		return nil, err
	}
	entry, err := m.second.open()
	if err != nil {
		return nil, err
	}
	ends, err := arrays.OpenCSR(&arrays.CSR{Rows: m.rows, Columns: m.columns, Indptr: bounds}, entry, outside)
	if err != nil || m.format == csr {
		return ends, err
	}
	return turned{ends}, nil
}

// turned are the ends of edges, reversed.
type turned struct{ arrays.EndsReader }

// Next implements arrays.EndsReader.
func (t turned) Next() (source, target []int32, err error) {
	target, source, err = t.EndsReader.Next()
	return source, target, err
}

// edges lists the ends of all edges by the edges' ids.
func (m *matrix) edges() (graph.Edges, error) {
	isSaid := func(err error) error { return err }
	list := arrays.EdgeArrays{Open: m.asStored, Refuse: isSaid}
	e := streamed.Edges{Count: int64(m.second.elements()), Each: list.Each, Refuse: isSaid}
	all, err := e.Read(nil)
	if err == nil && m.ids.elements() > 0 {
		all, err = m.byID(all)
	}
	return all, err
}

// bounds returns the bounds of the rows, if rows are compressed.
func (m *matrix) bounds() ([]int64, error) {
	edges := m.second.elements()
	bounds, err := integers[int64](&m.first, int64(edges)+1)
	if err == nil && (len(bounds) != m.rows+1 || !slices.IsSorted(bounds) || bounds[0] != 0 ||
		bounds[m.rows] != int64(edges)) {
		err = refusal.Errorf("the %d bounds of %d rows do not ascend from 0 to its %d edges", len(bounds),
			m.rows, edges)
	}
	return bounds, err
}

// byID puts the edges in the order of their ids.
func (m *matrix) byID(e graph.Edges) (sorted graph.Edges, err error) {
	ids, err := integers[int64](&m.ids, int64(e.Len()))
	if err != nil {
		return sorted, err
	}
	if len(ids) != e.Len() {
		return sorted, refusal.Errorf("%d ids of %d edges", len(ids), e.Len())
	}
	const seen, ends = 1, 2 * 4
	if err := memory.Need((seen + ends) * int64(len(ids))); err != nil {
		return sorted, err
	}
	taken := make([]bool, len(ids))
	sorted.Source, sorted.Target = make([]int32, len(ids)), make([]int32, len(ids))
	for k, id := range ids {
		if taken[id] {
			return sorted, refusal.Errorf("two edges have the id %d", id)
		}
		taken[id] = true
		sorted.Source[id], sorted.Target[id] = e.Source[k], e.Target[k]
	}
	return sorted, nil
}
