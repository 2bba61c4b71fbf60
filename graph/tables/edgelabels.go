package tables

import (
	"fmt"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/refusal"
)

// relation is the list as a relation, whose labelled edges divide divides.
func (l *edgeList) relation(divide func(*graph.EdgeLabels) error) streamed.Relation {
	r := streamed.Relation{Edges: l.edges()}
	if l.label != "" {
		r.EdgeLabels = &streamed.EdgeLabels{Divide: divide}
	}
	return r
}

// columns is how many columns of numbers are read of each edge: its features and the codes of its label and
// of what it is divided by.
func (l *edgeList) columns() int {
	switch {
	case l.label == "":
		return l.features()
	case l.by.Column != "":
		return l.features() + 2
	}
	return l.features() + 1
}

// labelAt is the column of labels, which is none of those that are read otherwise.
func (l *edgeList) labelAt(others []int) (int, error) {
	at := slices.Index(l.header, l.label)
	switch {
	case at < 0:
		return at, refusal.Columns.Errorf("there is no column %s, which --edge-label asks for: there are %s",
			l.label, arrays.Listed(l.header))
	case slices.Contains(others, at):
		return at, refusal.Columns.Errorf("--edge-label %s: the column is an end, a weight or a feature of the "+
			"edges, or divides them, and what is learned is none of these: name another", l.label)
	}
	return at, nil
}

// takeFeatures finds what becomes of the columns of a list with labels, which it reads once: features of
// those that are asked for, else of all columns of numbers, dates and truth values that are nothing else. A
// value that is missing is what columns says. It finds the kind of the column that edges are divided by, too.
func (o *Options) takeFeatures(l *edgeList) error {
	if l.label == "" || o.Like != nil && !l.by.open() {
		return nil
	}
	var profiles []*columns.Profile
	var takes []bool
	var read []int // the columns
	of := l.table()
	err := of.Each(func(all []table.Column) (order []int, err error) {
		if _, err := l.choose(all); err != nil {
			return nil, err
		}
		profiles, takes = make([]*columns.Profile, len(all)), make([]bool, len(all))
		for k, c := range all {
			if c.Kind != table.Nested {
				order = append(order, k)
			}
			takes[k] = !slices.Contains(l.order, k) && c.Kind != table.Nested && !isIndex(l.header[k])
			if len(o.EdgeFeatures) > 0 {
				takes[k] = slices.Contains(o.EdgeFeatures, l.header[k])
			}
			takes[k] = takes[k] && o.Like == nil
			if takes[k] || c.Kind != table.Nested && l.by.open() && l.header[k] == l.by.Column {
				profiles[k] = columns.NewProfile(l.header[k], columns.Choices{Most: 1})
			}
		}
		read = order
		return order, nil
	}, func(r *table.Row) error {
		if n := r.Len(); n != len(l.header) && r.Kind(0) == table.Any {
			return r.Errorf("%s, where the first line has %d", arrays.Counted(n, "column"), len(l.header))
		}
		for i, k := range read {
			if p := profiles[k]; p != nil {
				field := r.Field(i)
				p.Add(field, r.Decimal(field))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var taken []string
	for k, p := range profiles {
		if p == nil {
			continue
		}
		c, note := p.Column()
		if l.by.open() && c.Name == l.by.Column {
			if err := l.by.of(&c); err != nil {
				return fmt.Errorf("%s: %w", l.path, err)
			}
		}
		if !takes[k] {
			continue
		}
		if c.Kind != columns.Number && c.Kind != columns.Date && c.Kind != columns.Boolean {
			continue // what is asked for is refused where it stands
		}
		made := columns.Column{
			Name: c.Name, Kind: c.Kind, Order: c.Order, Gaps: c.Gaps,
			Mean: float32(float64(c.Mean) + c.Offset),
		}
		if note != "" {
			l.notes = append(l.notes, fmt.Sprintf("%s: column %s: %s", l.path, c.Name, note))
		}
		if c.Gaps {
			l.notes = append(l.notes, fmt.Sprintf("%s: column %s: no value in %s, where it is the mean; a further "+
				"feature marks them", l.path, c.Name, arrays.Counted(int(c.Missing), "row")))
		}
		if at, is := l.numbers.Places()[c.Name]; is {
			l.numbers[at] = made
			continue
		}
		l.numbers, taken = append(l.numbers, made), append(taken, c.Name)
	}
	if len(taken) > 0 {
		l.notes = append(l.notes, fmt.Sprintf("%s: features of the edges: %s; --edge-features names others",
			l.path, strings.Join(taken, ", ")))
	}
	return nil
}

// completeLabels says what the codes of the relation's labels stand for, when all edges have been read.
func (l *edgeList) completeLabels(r *streamed.Relation, values bool, made *graph.Graph) error {
	if l.label == "" {
		return nil
	}
	err := l.labels.checkDates(l.rows, "edges")
	var of graph.Labels
	if err == nil {
		of, err = l.labels.coded(values)
	}
	if err != nil {
		return fmt.Errorf("%s: column %s: %w", l.path, l.label, err)
	}
	r.EdgeLabels.Of = graph.EdgeLabels{Column: l.label, Labels: of, By: l.by.made()}
	made.Notes = append(made.Notes, l.labels.notes(&of, l.rows, "edges", l.path, l.label)...)
	return nil
}

// takeLabels takes the codes of labels, and of what they are divided by, from the features of edges that have
// been read: labels like those of a graph's edges. None: no edge has one.
func (l *edgeList) takeLabels(e *graph.Edges, like *graph.EdgeLabels) (made graph.EdgeLabels, err error) {
	all, n := e.FeatureColumns, l.features()
	var features []float32
	var by []int64
	l.labels.rows = nil
	for row := range slices.Chunk(e.Features, all) {
		features = append(features, row[:n]...)
		by = append(by, streamed.CodeOf(row[n]))
		l.labels.rows = append(l.labels.rows, int32(streamed.CodeOf(row[all-1])))
	}
	e.Features, e.FeatureColumns = features, n
	made.By = l.by.made().OfRows(by)
	switch {
	case l.labels.words == nil || !l.labels.any():
		return made, nil
	case like.MultiLabel():
		err = refusal.Errorf("an edge of the graph may have several labels, of which a column has one")
	default:
		made.Labels, err = l.labels.like(&like.Labels, e.Len())
	}
	if err != nil {
		return made, refusal.Errorf("%s: column %s: %w", l.path, l.label, err)
	}
	return made, nil
}

// coded are labels of which row i is that of word i.
func (l *labels) coded(values bool) (graph.Labels, error) {
	if l.words == nil {
		return graph.Labels{}, refusal.Errorf("no row has a label")
	}
	words := labels{words: l.words, rows: make([]int32, len(l.words.Names))}
	for i := range words.rows {
		words.rows[i] = int32(i)
	}
	return words.of(len(words.rows), values)
}
