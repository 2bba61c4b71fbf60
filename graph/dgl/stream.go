package dgl

import (
	"fmt"
	"io"
	"os"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/foreign"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// Open opens the graph of Read, to be written in a stream, until it is closed. It returns nil if the graph
// must be read into memory as a whole: unless it is one graph of a file of graphs, with one type of vertices
// and one relation, both without a name, without a split of edges, whose edges lie in the order of their ids.
func Open(path string, o Options) (g *streamed.Graph, err error) {
	start, err := head(path)
	if err != nil || foreign.Recognize(start) != foreign.DGLGraph {
		return nil, nil //nolint:nilerr // Read says what it is
	}
	file, _, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	err = graph.Guard(path, func() (err error) {
		g, err = openFile(path, file, &o)
		return err
	})
	if err != nil || g == nil {
		_ = file.Close()
		return nil, err
	}
	return g, nil
}

// openFile opens the graph of a file. What is mapped of it is not used afterwards: whoever reads ahead does
// so on a goroutine that would not survive a file that is cut.
func openFile(path string, file *os.File, o *Options) (*streamed.Graph, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	chosen, err := c.choose(o.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(chosen) != 1 || !c.inBlocks(chosen[0], o) {
		return nil, nil
	}
	contents := chosen[0].contents()
	contents.stream = &stream{file: file, graph: &streamed.Graph{
		Source: path, Release: func() { _ = file.Close() }, Relations: make([]streamed.Relation, 1), Types: make([]streamed.Type, 1),
	}}
	g, _, err := contents.graph(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if g == nil {
		return nil, nil
	}
	c.sayOrigin(g, path)
	contents.stream.where = path + ": "
	contents.stream.graph.InMemory = g
	return contents.stream.graph, nil
}

// inBlocks reports whether the edges of a graph can be read in blocks.
func (c *cursor) inBlocks(s *structure, o *Options) bool {
	if len(s.vertexTypes) != 1 || len(s.relations) != 1 || typeName(s.vertexTypes[0]) != graph.VertexName || typeName(s.relationTypes[0]) != graph.RelationName {
		return false
	}
	_, part := s.edgeTensors[0][ownEdges]
	_, lists := c.labels[listOf(1, "pos", "src")]
	m := &s.relations[0]
	return !part && (!lists || o.EdgeSplit == None) && m.ids.elements() == 0 && (m.format != coo || m.first.Descr == m.second.Descr)
}

// stream is a graph whose edges and dense features are read of a file when they are needed.
type stream struct {
	file  *os.File
	where string // what errors begin with, empty while the graph is opened
	graph *streamed.Graph
}

// section opens so many bytes of the file as a .npy file.
func (s *stream) section(h npy.Header, at, size int64) func() (*arrays.Entry, error) {
	return func() (*arrays.Entry, error) {
		r, all, err := h.Stream(io.NewSectionReader(s.file, at, size))
		if err != nil {
			return nil, err
		}
		return &arrays.Entry{ReadCloser: io.NopCloser(r), Size: all}, nil
	}
}

// tensor opens a tensor.
func (s *stream) tensor(t *tensor) func() (*arrays.Entry, error) {
	return s.section(t.Header, t.at, int64(len(t.data)))
}

// column is a column that is opened when it is read; open is nil where the name is empty.
func (s *stream) column(t *table, name string) (h npy.Header, open func() (*arrays.Entry, error), err error) {
	err = t.take(name, func(c *column) error {
		h = c.flat()
		open = s.section(h, c.at, c.size)
		return nil
	})
	return h, open, err
}

// refuseColumn says of an error that it is about a column.
func (s *stream) refuseColumn(t *table, name string) func(error) error {
	return func(err error) error {
		return refusal.Errorf("%scolumn %.40q of %.40q: %w", s.where, name, t.name, err)
	}
}

// takeFeatures takes the features of a type, if there are some that can be read in blocks.
func (s *stream) takeFeatures(t *table, name string, keepDense bool) (taken bool, err error) {
	if s == nil {
		return false, nil
	}
	_, open, err := s.column(t, name)
	if open == nil || err != nil {
		return false, err
	}
	s.graph.Types[0].Rows, _, err = arrays.OpenDense(open, keepDense, s.refuseColumn(t, name))
	return s.graph.Types[0].Rows != nil, err
}

// takeEdges takes the edges of a relation, with the columns of their weights and features.
func (s *stream) takeEdges(r *relation, weights, features string) error {
	refuse := func(err error) error { return refusal.Errorf("%srelation %.40q: %w", s.where, r.name, err) }
	list, e := arrays.EdgeArrays{Refuse: refuse}, &s.graph.Relations[0].Edges
	var err error
	if list.Weights, err = s.beside(r.table, weights); err != nil {
		return err
	}
	if list.Weights != nil {
		if err := checkWeights(weights, list.Weights.Columns); err != nil {
			return err
		}
	}
	if list.Features, err = s.beside(r.table, features); err != nil {
		return err
	}
	if list.Features != nil {
		e.Columns = list.Features.Columns
	}
	if list.Open, err = s.ends(r.matrix); err != nil {
		return refuse(err)
	}
	e.Count, e.Weighted, e.Each, e.Refuse = int64(r.rows), list.Weights != nil, list.Each, refuse
	return nil
}

// beside is a column of edges, nil if it has no values.
func (s *stream) beside(t *table, name string) (*arrays.Beside, error) {
	h, open, err := s.column(t, name)
	if open == nil || err != nil || h.Shape[0] == 0 || h.Shape[1] == 0 {
		return nil, err
	}
	refuse, columns := s.refuseColumn(t, name), h.Shape[1]
	check := func(rows []float32, first int) error {
		if err := arrays.CheckFinite(rows, columns, first); err != nil {
			return refuse(err)
		}
		return nil
	}
	rows := func() (arrays.RowReader, error) { return arrays.OpenRows(open) }
	return &arrays.Beside{Columns: columns, Open: rows, Check: check, Refuse: refuse}, nil
}

// ends returns what opens the ends of edges that lie in the order of their ids.
func (s *stream) ends(m *matrix) (func() (arrays.EndsReader, error), error) {
	if err := m.first.checkVector(); err != nil {
		return nil, err
	}
	if err := m.second.checkVector(); err != nil {
		return nil, err
	}
	if m.format == coo {
		if n, of := m.first.elements(), m.second.elements(); n != of {
			return nil, refusal.Errorf("%d sources and %d destinations of edges", n, of)
		}
		open := [2]func() (*arrays.Entry, error){s.tensor(&m.first), s.tensor(&m.second)}
		o := arrays.EndsOptions{High: [2]int64{int64(m.rows), int64(m.columns)}, Outside: outside}
		return func() (arrays.EndsReader, error) { return arrays.OpenVectors(open, o) }, nil
	}
	bounds, err := m.bounds()
	if err != nil {
		return nil, err
	}
	columns, open, bySource := &arrays.CSR{Rows: m.rows, Columns: m.columns, Indptr: bounds}, s.tensor(&m.second), m.format == csr
	return func() (arrays.EndsReader, error) {
		entry, err := open()
		if err != nil {
			return nil, err
		}
		ends, err := arrays.OpenCSR(columns, entry, outside)
		if err != nil || bySource {
			return ends, err
		}
		return turned{ends}, nil
	}, nil
}

// turned are the ends of edges in reverse.
type turned struct{ arrays.EndsReader }

// Next implements arrays.EndsReader.
func (t turned) Next() (source, target []int32, err error) {
	target, source, err = t.EndsReader.Next()
	return source, target, err
}
