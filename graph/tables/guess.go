package tables

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/internal/refusal"
)

// Look is what the first rows of a table show.
type Look struct {
	Path    string
	Columns []Seen
	rows    int
	whole   bool // there are no further rows
	names   map[string]bool
}

// Seen is a column of a Look.
type Seen struct {
	Name    string
	Kind    string // a columns.Kind, or text, or empty where no row has a value
	Example string // its first value
	present int    // rows that have a value
	values  map[string]int
}

// A look reads so many rows, fewer of a table with many columns, and so many bytes of a value.
const (
	lookRows   = 1000
	lookFields = 1 << 20
	lookBytes  = 64
)

// mostEnds bounds the columns of a list of edges that is told from a table of vertices.
const mostEnds = 50

// few bounds the values of a column that looks like classes.
const few = 20

// NewLook reads the first rows of a table whose first line, or schema, names the columns. It refuses any
// other table.
func NewLook(path string) (*Look, error) {
	l := &Look{Path: path, names: map[string]bool{}}
	var profiles []*columns.Profile
	input := table.Table{Path: path, Separators: ",;\t", Line: "a table"}
	choose := func(all []table.Column) (order []int, err error) {
		for k, name := range namesOf(all) {
			if all[k].Kind != table.Nested {
				order = append(order, k)
				l.names[name] = true
				l.Columns = append(l.Columns, Seen{Name: name, values: map[string]int{}})
				profiles = append(profiles, columns.NewProfile(name, columns.Choices{Most: few}))
			}
		}
		if order == nil {
			return nil, errors.New("has no column that is read")
		}
		return order, nil
	}
	err := input.Each(choose, func(r *table.Row) error {
		if l.rows == max(few, min(lookRows, lookFields/len(l.Columns))) {
			return errEnough
		}
		l.rows++
		for k := range l.Columns[:min(len(l.Columns), r.Len())] {
			field := r.Field(k)
			l.Columns[k].add(field)
			profiles[k].Add(field, r.Decimal(field))
		}
		return nil
	})
	l.whole = err == nil
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	for k := range l.Columns {
		c := &l.Columns[k]
		c.Kind = "text"
		if c.present == 0 {
			c.Kind = "empty"
		} else if made, _ := profiles[k].Column(); made.Kind != "" {
			c.Kind = string(made.Kind)
		}
		for value := range c.values {
			if l.Has(value) {
				return nil, refusal.Errorf("%s: its first line looks like a row: put the names of columns "+
					"before it", path)
			}
		}
	}
	return l, nil
}

// add adds a field.
func (c *Seen) add(field []byte) {
	if columns.IsMissing(field) {
		return
	}
	value := strings.ToValidUTF8(string(field[:min(len(field), lookBytes)]), "")
	c.present++
	if c.present == 1 {
		c.Example = value
	}
	c.values[value]++
}

// Labels returns the columns that may be learned: few values, which come again, and no dates.
func (l *Look) Labels() (names []string) {
	for i := range l.Columns {
		c := &l.Columns[i]
		if n := len(c.values); n > 1 && n <= few && 2*n <= c.present && c.Kind != string(columns.Date) {
			names = append(names, c.Name)
		}
	}
	return names
}

// label returns the column to learn: one with a name of labels, else the last of Labels.
func (l *Look) label() string {
	for _, name := range []string{"label", "class", "target", "y"} {
		for i := range l.Columns {
			if strings.EqualFold(l.Columns[i].Name, name) {
				return l.Columns[i].Name
			}
		}
	}
	if all := l.Labels(); len(all) > 0 {
		return all[len(all)-1]
	}
	return aColumn
}

// unique reports whether each row has another value in a column.
func (l *Look) unique(c *Seen) bool { return len(c.values) == l.rows && l.rows > 1 }

// id returns the column of ids among the columns with another value in each row. It takes the one that shares
// the most values with a column of a list of edges, which may be empty. Of several it takes usualID, else the
// first. −1: there is none.
func (l *Look) id(list *Look) int {
	id, most := -1, -1
	take := func(k int) {
		if c := &l.Columns[k]; l.unique(c) && !isIndex(c.Name) && list.most(c) > most {
			id, most = k, list.most(c)
		}
	}
	if len(l.Columns) > 0 {
		take(l.usualID())
	}
	for k := range l.Columns {
		take(k)
	}
	return id
}

// usualID returns the column of ids that a table has if no setting names one.
func (l *Look) usualID() int {
	return max(0, slices.IndexFunc(l.Columns, func(c Seen) bool { return arrays.IsIDColumn(c.Name) }))
}

// Has reports whether there is a column of that name.
func (l *Look) Has(name string) bool { return l.names[name] }

// common is how many different values two columns share.
func (c *Seen) common(other *Seen) (n int) {
	for value := range c.values {
		if other.values[value] > 0 {
			n++
		}
	}
	return n
}

// most returns the largest number of values that a column shares with one of the look, ids of its rows aside.
func (l *Look) most(c *Seen) (n int) {
	for k := range l.Columns {
		if !l.isOwnID(k) {
			n = max(n, l.Columns[k].common(c))
		}
	}
	return n
}

// holding returns the columns whose values are ids of a table. Columns that share the most values come first.
// Ids of the edges themselves, and columns of few values in many rows, come last.
func (l *Look) holding(vertices *Look) (found []int) {
	id := vertices.id(l)
	if id < 0 {
		return nil
	}
	known := make([]int, len(l.Columns))
	for k := range l.Columns {
		c := &l.Columns[k]
		known[k] = c.common(&vertices.Columns[id])
		if known[k] > 0 {
			found = append(found, k)
		}
		if l.isOwnID(k) || 10*len(c.values) < l.rows && len(c.values) <= few {
			known[k] = 0
		}
	}
	slices.SortStableFunc(found, func(a, b int) int { return cmp.Compare(known[b], known[a]) })
	return found
}

// isOwnID reports whether a column looks like ids of the rows: it is the first, and no value comes again.
func (l *Look) isOwnID(column int) bool { return column == 0 && l.unique(&l.Columns[0]) }

// sharing returns the two columns that share the most values, as the ends of edges do. nil: none share any,
// or there are more than mostEnds columns. Dates, truth values, fractions and ids of the rows are no ends.
func (l *Look) sharing() (ends []int) {
	if len(l.Columns) > mostEnds {
		return nil
	}
	var may []int
	for k := range l.Columns {
		c := &l.Columns[k]
		fraction := c.Kind == string(columns.Number) && strings.Contains(c.Example, ".")
		if c.Kind != string(columns.Date) && c.Kind != string(columns.Boolean) && !fraction && !l.isOwnID(k) {
			may = append(may, k)
		}
	}
	most := 0
	for n, k := range may {
		for _, i := range may[:n] {
			if common := l.Columns[i].common(&l.Columns[k]); common > most {
				most, ends = common, []int{i, k}
			}
		}
	}
	return ends
}

// isVertices reports whether the rows look like vertices: one column has another value in each row, no two
// columns have names of ends, and no two columns of many values share some.
func (l *Look) isVertices() bool {
	many := func(k int) bool { return 4*len(l.Columns[k].values) > l.rows }
	ends := l.sharing()
	return l.id(&Look{}) >= 0 && !l.named() && (ends == nil || !many(ends[0]) || !many(ends[1]))
}

// Guess writes these words for what it does not know.
const (
	anEdgeList   = "EDGES.csv"
	aVertexTable = "VERTICES.csv"
	aColumn      = "COLUMN"
)

// Guess looks at the files that options name. It guesses which are lists and which are tables, and the
// columns of ends, ids and label that settings must name. Words in capitals stand for what it does not know.
// It keeps a column that a setting names and the file has. It may take a list of edges without a table for a
// table of vertices. guess is nil if there are several lists or tables. Errors are refusals of a file.
func Guess(o Options) (guess *Options, looks []*Look, err error) {
	for _, argument := range slices.Concat(o.Edges, o.Vertices) {
		_, path := Named(argument)
		l, err := NewLook(path)
		if err != nil {
			return nil, nil, err
		}
		looks = append(looks, l)
	}
	if len(o.Edges) != 1 || len(o.Vertices) > 1 {
		return nil, looks, nil
	}
	guess = &Options{Edges: o.Edges, Vertices: o.Vertices}
	list, vertices := looks[0], &Look{}
	switch {
	case len(o.Vertices) == 1:
		vertices = looks[1]
		if len(list.holding(vertices)) < 2 && len(vertices.holding(list)) > 1 { // the user exchanged the two
			list, vertices = vertices, list
			guess.Edges, guess.Vertices = []string{list.Path}, []string{vertices.Path}
		}
	case o.EdgeLabel == "" && list.isVertices():
		list, vertices = vertices, list
		guess.Edges, guess.Vertices = []string{anEdgeList}, []string{vertices.Path}
	default:
		guess.Vertices = []string{aVertexTable}
	}
	guess.columnsOf(vertices, list, &o)
	guess.endsOf(list, vertices, &o)
	return guess, looks, nil
}

// columnsOf guesses the columns of a table of vertices beside a list of edges. Either may be empty.
func (o *Options) columnsOf(l, list *Look, asked *Options) {
	o.Label = aColumn
	if len(l.Columns) == 0 {
		return
	}
	switch id := l.id(list); {
	case id < 0:
		o.ID = []string{aColumn}
	case id != l.usualID():
		o.ID = []string{l.Columns[id].Name}
	}
	o.Label = l.label()
	if l.Has(asked.Label) {
		o.Label = asked.Label
	}
}

// endsOf guesses the columns of the ends of a list of edges beside a table of vertices. Either may be empty.
func (o *Options) endsOf(l, vertices *Look, asked *Options) {
	if len(l.Columns) == 0 {
		return
	}
	there := func(asked []string) string {
		if len(asked) == 1 && l.Has(asked[0]) {
			return asked[0]
		}
		return ""
	}
	source, target := there(asked.Source), there(asked.Target)
	idColumns := l.holding(vertices)
	found := l.named() || len(idColumns) == 2 && (!vertices.whole || l.mostly(idColumns, vertices))
	if source+target == "" && found {
		return
	}
	ends := []string{aColumn, aColumn}
	if len(idColumns) < 2 {
		idColumns = l.sharing()
	}
	if idColumns != nil {
		first, second := min(idColumns[0], idColumns[1]), max(idColumns[0], idColumns[1])
		ends = []string{l.Columns[first].Name, l.Columns[second].Name}
	}
	if ends[0] == target || ends[1] == source {
		slices.Reverse(ends)
	}
	o.Source, o.Target = []string{cmp.Or(source, ends[0])}, []string{cmp.Or(target, ends[1])}
}

// named reports whether two columns have names of ends.
func (l *Look) named() bool {
	var there [2]bool
	for _, c := range l.Columns {
		if end, known := endOf(c.Name); known {
			there[end] = true
		}
	}
	return there == [2]bool{true, true}
}

// mostly reports whether the columns hold ids of a table in at least half of the rows.
func (l *Look) mostly(idColumns []int, vertices *Look) bool {
	ids := vertices.Columns[vertices.id(l)].values
	return !slices.ContainsFunc(idColumns, func(k int) bool {
		rows := 0
		for value, n := range l.Columns[k].values {
			if ids[value] > 0 {
				rows += n
			}
		}
		return 2*rows < l.rows
	})
}
