package ogb

import (
	"errors"
	"io"
	"math"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// fetchAgain is the way out where a folder is not whole.
const fetchAgain = "fetch the folder again"

// layout is one of the forms in which a graph of one type lies in raw/.
type layout interface {
	name() string // the folder
	// count reads the number of vertices, or of edges, of each graph in the folder.
	count(of string) ([]int64, error)
	// edges opens the list of edges, whose ends must lie within so many vertices.
	edges(within ends) (edges, error)
	// matrix opens the matrix of that name, and returns nil where there is none.
	matrix(name string) (matrix, error)
	// labels opens the labels.
	labels() (matrix, error)
	// more lists the names of matrices besides, and unknown those of what else is there.
	more() []string
	unknown() []string
	close()
}

// Names of matrices, as text spells them. Binary folders have _ in the place of -.
const (
	nodeFeatures = "node-feat"
	edgeFeatures = "edge-feat"
)

// edges is a list of edges.
type edges interface {
	// next reads the next edges, which the call after it overwrites, and returns io.EOF after the last.
	next() (pairs, error)
	// name is the file, and what of it, in errors.
	name() string
	close()
}

// ends are the numbers of vertices that edges come from and lead to.
type ends struct{ source, target int }

// pairs are consecutive edges of a list: edge k goes from source[k] to target[k].
type pairs struct{ source, target []int32 }

// matrix is a matrix of float32, row-major. NaN stands for what is missing.
type matrix interface {
	width() int // columns
	// rows reads the next rows, which the call after it overwrites, and returns io.EOF after the last.
	rows() ([]float32, error)
	// where names a row in errors, with the file that it is in.
	where(row int64) string
	close()
}

// whole is a matrix that must have so many rows.
type whole struct {
	matrix
	want int64
	at   int64 // rows that were read
	// finite says that nothing may be missing.
	finite bool
}

func (w *whole) rows() ([]float32, error) {
	rows, err := w.matrix.rows()
	if errors.Is(err, io.EOF) && w.at != w.want {
		return nil, refusal.Errorf("%s: the last row, where %d are announced; %s", w.where(max(w.at-1, 0)), w.want, fetchAgain)
	}
	if err != nil {
		return nil, err
	}
	n, columns := int64(len(rows)/w.width()), w.width()
	if n > w.want-w.at {
		return nil, refusal.Errorf("%s: more rows than the %d announced; %s", w.where(w.want), w.want, fetchAgain)
	}
	if k := arrays.NotFinite(rows); w.finite && k >= 0 {
		return nil, refusal.Errorf("%s: column %d is %v, where all features are numbers; %s", w.where(w.at+int64(k/columns)), k%columns, rows[k], fetchAgain)
	}
	w.at += n
	return rows, nil
}

// each calls do with all rows.
func (w *whole) each(do func(rows []float32) error) error {
	for {
		rows, err := w.rows()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = do(rows)
		}
		if err != nil {
			return err
		}
	}
}

// collect reads all rows into memory.
func (w *whole) collect() (all []float32, err error) {
	err = w.each(func(rows []float32) error {
		if all, err = memory.GrowTo(all, len(rows), w.want*int64(w.width())); err != nil {
			return refusal.Errorf("%s: %w", w.where(w.at), err)
		}
		all = append(all, rows...)
		return nil
	})
	return all, err
}

// edgeList is a list of edges, and the matrix of their features, nil where there are none.
type edgeList struct {
	edges
	features *whole
	want     int64 // edges
	inverse  bool  // the inverse of each is stored behind it
	waiting  []float32
}

// columns returns how many features an edge has.
func (l *edgeList) columns() int {
	if l.features == nil {
		return 0
	}
	return l.features.width()
}

// each calls do with all edges, which must be as many as announced, and their features.
func (l *edgeList) each(do func(p pairs, features []float32) error) error {
	for at := int64(0); ; {
		p, err := l.next()
		if errors.Is(err, io.EOF) {
			if at != l.want {
				return refusal.Errorf("%s: %d edges, where %d are announced; %s", l.name(), at, l.want, fetchAgain)
			}
			return l.end()
		}
		if err != nil {
			return err
		}
		if at += int64(len(p.source)); at > l.want {
			return refusal.Errorf("%s: more edges than the %d announced; %s", l.name(), l.want, fetchAgain)
		}
		for len(p.source) > 0 {
			n, features, err := l.take(len(p.source))
			if err == nil {
				err = do(pairs{p.source[:n], p.target[:n]}, features)
			}
			if err != nil {
				return err
			}
			p = pairs{p.source[n:], p.target[n:]}
		}
	}
}

// take returns the features of at most n of the next edges, and their number.
func (l *edgeList) take(n int) (of int, features []float32, err error) {
	if l.features == nil {
		return n, nil, nil
	}
	if len(l.waiting) == 0 {
		if l.waiting, err = l.features.rows(); err != nil { // not io.EOF: there are as many rows as edges
			return 0, nil, err
		}
	}
	columns := l.features.width()
	n = min(n, len(l.waiting)/columns)
	features, l.waiting = l.waiting[:n*columns], l.waiting[n*columns:]
	return n, features, nil
}

// end makes sure that no features are left.
func (l *edgeList) end() error {
	if l.features == nil {
		return nil
	}
	return l.features.each(func([]float32) error { return nil })
}

// stored returns the number of edges that eachStored has.
func (l *edgeList) stored() int64 {
	if l.inverse {
		return 2 * l.want
	}
	return l.want
}

// eachStored calls do with all edges in the order in which they are stored: each as it is listed, and its
// inverse behind it where inverse edges are added.
func (l *edgeList) eachStored(do func(graph.Edges) error) error {
	both := graph.Edges{FeatureColumns: l.columns()}
	return l.each(func(p pairs, features []float32) error {
		if !l.inverse {
			return do(graph.Edges{Source: p.source, Target: p.target, Features: features, FeatureColumns: both.FeatureColumns})
		}
		both.Source, both.Target, both.Features = both.Source[:0], both.Target[:0], both.Features[:0]
		for k, u := range p.source {
			v, of := p.target[k], features[k*both.FeatureColumns:(k+1)*both.FeatureColumns]
			both.Source, both.Target = append(both.Source, u, v), append(both.Target, v, u)
			both.Features = append(append(both.Features, of...), of...)
		}
		return do(both)
	})
}

// refuse says of an error that it is about the edges.
func (l *edgeList) refuse(err error) error { return refusal.Errorf("%s: %w", l.name(), err) }

func (l *edgeList) close() {
	l.edges.close()
	if l.features != nil {
		l.features.close()
	}
}

// openEdges opens the edges of a folder and their features.
func openEdges(l layout, c counts) (*edgeList, error) {
	list, err := l.edges(ends{c.vertices, c.vertices})
	if err != nil {
		return nil, err
	}
	m, err := l.matrix(edgeFeatures)
	if err != nil {
		list.close()
		return nil, err
	}
	return newEdgeList(list, m, c.edges), nil
}

// newEdgeList returns a list of so many edges, with their features, which may be nil.
func newEdgeList(list edges, m matrix, want int64) *edgeList {
	e := &edgeList{edges: list, want: want}
	if m != nil {
		e.features = &whole{matrix: m, want: want, finite: true}
	}
	return e
}

// counts are the sizes that a folder announces.
type counts struct {
	vertices int
	edges    int64
}

// readCounts reads the numbers of vertices and edges, of one graph.
func readCounts(l layout) (counts, error) {
	var c [2]int64
	for k, of := range []string{"node", "edge"} {
		var err error
		if c[k], err = countOne(l, of); err != nil {
			return counts{}, err
		}
	}
	if c[0] < 1 || c[0] > math.MaxInt32 || c[1] < 0 || c[1] > math.MaxInt64/16 {
		return counts{}, refusal.Errorf("%s: announces %d vertices and %d edges, where 1 to %d vertices are read; %s",
			l.name(), c[0], c[1], math.MaxInt32, fetchAgain)
	}
	return counts{int(c[0]), c[1]}, nil
}

// countOne reads the number of vertices, or of edges, of the only graph.
func countOne(l layout, of string) (int64, error) {
	list, err := l.count(of)
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, refusal.Errorf("%s: holds %d graphs: a folder of one graph is read, as those of node property prediction are",
			l.name(), len(list))
	}
	return list[0], nil
}
