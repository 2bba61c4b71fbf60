package dgl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// None is the name of a column for a graph without such data.
const None = "none"

// names are the names by which Read finds a column, the most likely first.
type names []string

// The names by which columns are found.
var (
	featureNames = names{"feat", "features"}
	labelNames   = names{"label", "labels"}
	trainNames   = names{"train_mask"}
	valNames     = names{"val_mask"}
	testNames    = names{"test_mask"}
)

// unless returns the default names, or none if a setting names a column.
func (n names) unless(asked string) names {
	if asked != "" {
		return nil
	}
	return n
}

// column is a tensor with a row for each vertex or edge of a type, in the graph's order. The rows come from
// one or several files.
type column struct {
	npy.Header
	size int64 // bytes
	rows func() io.Reader
}

// table is the columns of one type.
type table struct {
	source  string // with which errors begin
	name    string // of the type
	rows    int    // vertices or edges of the type
	columns map[string]column
	read    []string // the columns that were read
}

// newTable returns the table of tensors in one file.
func newTable(source, name string, rows int, tensors map[string]tensor) *table {
	t := &table{source: source, name: name, rows: rows, columns: map[string]column{}}
	for name, from := range tensors {
		t.columns[name] = column{from.Header, from.size, from.data}
	}
	return t
}

// pick names a column of each table, "" for none. A flag may ask for it: NAME is the column in all tables
// that have it. TYPE/NAME is a column of one table, and the others take the first default that they have. If
// the flag asks for nothing, all tables take the first default that they have.
func pick(tables []*table, flag, asked string, defaults names) ([]string, error) {
	names := make([]string, len(tables))
	if asked == None {
		return names, nil
	}
	found := asked == ""
	for k, t := range tables {
		name, ofType := strings.CutPrefix(asked, t.name+"/")
		if _, plain := t.columns[asked]; plain {
			name, ofType = asked, true
		}
		if _, there := t.columns[name]; there && ofType {
			names[k], found = name, true
			continue
		}
		if i := slices.IndexFunc(defaults, t.has); i >= 0 && (asked == "" || strings.Contains(asked, "/")) {
			names[k] = defaults[i]
		}
	}
	if !found {
		return nil, refusal.Errorf("%s %.80q: there is no such column: those that are there are %s", flag,
			asked, arrays.Listed(namesOf(tables, (*table).all)))
	}
	return names, nil
}

func (t *table) has(name string) bool {
	_, there := t.columns[name]
	return there
}

// all lists the names of the columns.
func (t *table) all() []string {
	names := []string{}
	for name := range t.columns {
		names = append(names, name)
	}
	return names
}

// left lists the names of the columns that were not read, without DGL's own.
func (t *table) left() []string {
	return slices.DeleteFunc(t.all(), func(name string) bool {
		return slices.Contains(t.read, name) || strings.HasPrefix(name, "_")
	})
}

// namesOf names some columns of each table, in order.
func namesOf(tables []*table, which func(*table) []string) (names []string) {
	for _, t := range tables {
		for _, name := range which(t) {
			if len(tables) > 1 {
				name = t.name + "/" + name
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// take returns the column of that name, and notes that it is read.
func (t *table) take(name string) (*column, error) {
	t.read = append(t.read, name)
	c := t.columns[name]
	switch {
	case len(c.Shape) == 0 || c.Shape[0] != t.rows:
		return nil, t.refuse(name,
			fmt.Errorf("has shape %v, where it has a row for each of %d", c.Shape, t.rows))
	case !strings.ContainsAny(c.Descr, "<|"):
		return nil, t.refuse(name,
			fmt.Errorf("has elements of %s, which are not read: save it as float32", c.Descr))
	}
	return &c, nil
}

// refuse adds to an error that it is about a column. nil stays nil.
func (t *table) refuse(name string, err error) error {
	return refusal.In(fmt.Sprintf("%s: column %.40q of %.40q", t.source, name, t.name), err)
}

// array reads the column of that name into memory, and calls use with it, unless the name is empty.
func (t *table) array(name string, use func(a *npy.Array) error) error {
	if name == "" {
		return nil
	}
	c, err := t.take(name)
	if err != nil {
		return err
	}
	a, err := npy.ReadData(c.rows(), c.size, c.Header)
	if err == nil {
		err = use(a)
	}
	return t.refuse(name, err)
}

// flat is what the column is as a matrix, whatever its dimensions.
func (c *column) flat() npy.Header {
	h, width := c.Header, 1
	for _, n := range h.Shape[1:] {
		width *= n
	}
	h.Shape = []int{h.Shape[0], width}
	return h
}

// open opens the column as the .npy file of a matrix.
func (c *column) open() (*arrays.Entry, error) { return openData(c.flat(), c.rows()) }

// features opens the features in a column, unless the name is empty.
func (t *table) features(name string, keepDense bool) (*arrays.Matrix, error) {
	if name == "" {
		return &arrays.Matrix{}, nil
	}
	c, err := t.take(name)
	if err != nil {
		return nil, err
	}
	return arrays.OpenMatrix(c.open, keepDense, func(err error) error { return t.refuse(name, err) })
}

// edgeColumn opens a column of edges, nil if it has no values.
func (t *table) edgeColumn(name string) (*arrays.Beside, error) {
	if name == "" {
		return nil, nil
	}
	c, err := t.take(name)
	if err != nil {
		return nil, err
	}
	columns := c.flat().Shape[1]
	if t.rows == 0 || columns == 0 {
		return nil, nil
	}
	return &arrays.Beside{
		Columns: columns,
		Open:    func() (arrays.RowReader, error) { return arrays.OpenRows(c.open) },
		Refuse:  func(err error) error { return t.refuse(name, err) },
		Check: func(rows []float32, first int) error {
			return t.refuse(name, arrays.CheckFinite(rows, columns, first))
		},
	}, nil
}

// labels returns the labels in a column. There are fewer classes than vertices.
func (t *table) labels(name string, vertices int) (labels graph.Labels, err error) {
	err = t.array(name, func(a *npy.Array) (err error) {
		labels, err = arrays.WholeLabels(a, vertices)
		return err
	})
	return labels, err
}

// splits returns the splits of three columns of masks: training, validation and test. A mask has a truth
// value for each vertex, or one for each split.
func (t *table) splits(names [3]string, labels *graph.Labels) ([]graph.Split, error) {
	var parts [3][][]int64
	for k, name := range names {
		err := t.array(name, func(a *npy.Array) (err error) {
			parts[k], err = arrays.Masks(a, t.rows, labels.Noun())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	splits, err := arrays.Splits(parts, names, labels)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.source, err)
	}
	return splits, nil
}
