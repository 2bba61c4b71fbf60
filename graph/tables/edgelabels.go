package tables

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/columns"
	"weft/graph/internal/arrays"
	"weft/graph/internal/names"
	"weft/graph/internal/table"
	"weft/graph/streamed"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// relation returns the list as a relation. divide divides its labelled edges.
func (l *edgeList) relation(divide func(*graph.Frame) error) streamed.Relation {
	r := streamed.Relation{Edges: l.edges()}
	if l.label != "" {
		r.Frame = &streamed.Frame{Divide: divide}
	}
	return r
}

// labelNames returns the columns that label names in a list with this header: one, or several between commas.
// A single column may have a comma in its name. Others with commas stand in quotes.
func labelNames(label string, header []string) ([]string, error) {
	if slices.Contains(header, label) {
		return []string{label}, nil
	}
	names, err := table.Names(label)
	if err != nil {
		return nil, refusal.Errorf("--edge-label %s: %w", label, err)
	}
	return names, nil
}

// chooseLabels adds the columns of labels to the columns that are read. It refuses one that is read for
// another use.
func (l *edgeList) chooseLabels(order []int) ([]int, error) {
	if l.label == "" {
		return order, nil
	}
	names, err := labelNames(l.label, l.header)
	if err != nil {
		return nil, err
	}
	there := func(name string) bool { return slices.Contains(l.header, name) }
	if l.optional && !slices.ContainsFunc(names, there) {
		return order, nil
	}
	others := len(order)
	for _, name := range names {
		at := slices.Index(l.header, name)
		switch {
		case at < 0:
			return nil, refusal.Errorf("there is no column %s, which --edge-label asks for: there are %s", name,
				arrays.Listed(l.header))
		case slices.Contains(order[:others], at):
			return nil, refusal.Errorf("--edge-label %s: the column is an end, a weight or a feature of the "+
				"edges, or divides them, and what is learned is none of these: name another", name)
		case slices.Contains(order[others:], at):
			return nil, refusal.Errorf("--edge-label %s: names %s twice; name each column once", l.label, name)
		}
		order = append(order, at)
	}
	l.labelled = names
	return order, nil
}

// labelOf returns the number of the word of a row's labels, −1 if there are none. The word of several columns
// has a byte for each: 0, 1 or −.
func (l *edgeList) labelOf(r *table.Row) (int32, error) {
	first := len(l.order) - len(l.labelled)
	switch len(l.labelled) {
	case 0:
		return -1, nil
	case 1:
		word, err := l.labels.word(r.Decimal(r.Field(first)))
		if err != nil {
			return 0, r.Errorf("column %s: %w", l.label, err)
		}
		return word, nil
	}
	all := make([]byte, len(l.labelled))
	for k, name := range l.labelled {
		field := r.Field(first + k)
		label, ok := oneOfSeveral(field, r)
		if !ok {
			return 0, r.Errorf("column %s: %.40q is neither 0 nor 1, which each of several labels is; correct it, or "+
				"name one column with --edge-label", name, field)
		}
		all[k] = label
	}
	return l.labels.several(all)
}

// oneOfSeveral is one of several labels of a row: 0, 1 or missingLabel.
func oneOfSeveral(field []byte, r *table.Row) (label byte, ok bool) {
	if columns.IsMissing(field) {
		return missingLabel, true
	}
	x, number := table.Number(r.Decimal(field))
	if !number {
		truth := columns.Column{Kind: columns.Boolean}
		row, _, err := truth.Append(nil, field)
		if err != nil || len(row) != 1 {
			return 0, false
		}
		x = float64(row[0])
	}
	return '0' + byte(x), x == 0 || x == 1
}

// missingLabel stands for a missing label among several of a row.
const missingLabel = '-'

// several returns the number of a word of several labels; −1: the row has no label.
func (l *labels) several(all []byte) (int32, error) {
	if l.words == nil {
		l.words = names.NewTable()
	}
	l.read++
	if !slices.ContainsFunc(all, func(b byte) bool { return b != missingLabel }) {
		return -1, nil
	}
	return l.words.Number(all)
}

// severalOf returns the labels of several columns, a row for each word.
func (l *labels) severalOf(names []string) (made graph.Labels, err error) {
	if !l.any() {
		return made, errNoLabel
	}
	made = graph.Labels{Classes: len(names), Names: names}
	if made.Multi, err = memory.Grow(made.Multi, len(l.words.Names)*len(names)); err != nil {
		return made, err
	}
	for _, word := range l.words.Names {
		for _, label := range []byte(word) {
			x := float32(math.NaN())
			if label != missingLabel {
				x = float32(label - '0')
			}
			made.Multi = append(made.Multi, x)
		}
	}
	return made, nil
}

// takeFeatures finds the features in the columns of a list with labels, which it reads once. They are the
// columns that settings name, else all columns of numbers, dates and truth values without another use: the
// column that divides the edges has one. Package columns decides on a missing value. takeFeatures also finds
// the kind of the column that divides the edges.
func (o *Options) takeFeatures(l *edgeList) error {
	if l.label == "" || o.Like != nil && !l.by.open() {
		return nil
	}
	named := func(name string) bool { return slices.Contains(o.EdgeFeatures, name) }
	profiles, err := l.profiles(func(all []table.Column) (some []int) {
		for k, name := range l.header {
			takes := named(name)
			if len(o.EdgeFeatures) == 0 {
				takes = !slices.Contains(l.order, k) && !isIndex(name) && name != l.by.Column
			}
			if all[k].Kind != table.Nested && (takes && o.Like == nil || l.by.open() && name == l.by.Column) {
				some = append(some, k)
			}
		}
		return some
	})
	if err != nil {
		return err
	}
	var taken []string
	lacking := map[string]int{} // rows without a value, by column
	for _, p := range profiles {
		c, note := l.column(p)
		if c.Name == l.by.Column {
			if l.by.open() {
				if err := l.by.take(&c); err != nil {
					return fmt.Errorf("%s: %w", l.Path, err)
				}
			}
			if o.Like != nil || !named(c.Name) {
				continue
			}
		}
		if c.Kind != columns.Number && c.Kind != columns.Date && c.Kind != columns.Boolean {
			continue // reading refuses a wrong value in a named column
		}
		if err := l.unique([]int{slices.Index(l.header, c.Name)}); err != nil {
			return refusal.Errorf("%s: %w", l.Path, err)
		}
		made := columns.Column{
			Name: c.Name, Kind: c.Kind, Order: c.Order, Gaps: c.Gaps,
			Mean: float32(float64(c.Mean) + c.Offset),
		}
		l.tell(&l.notes, c.Name, note)
		if c.Gaps {
			lacking[c.Name] = int(c.Missing)
		}
		if at, is := l.list.Places()[c.Name]; is {
			l.list[at] = made
			continue
		}
		l.list, taken = append(l.list, made), append(taken, c.Name)
	}
	var trained map[string]bool
	if o.Like == nil { // otherwise means are known
		if trained, err = l.takeTrainingMeans(&o.EdgeSplitRule); err != nil {
			return err
		}
	}
	for _, c := range l.list {
		if rows, lacks := lacking[c.Name]; lacks {
			scope := ""
			if trained[c.Name] {
				scope = " of the training rows"
			}
			l.tell(&l.notes, c.Name, fmt.Sprintf("no value in %s, where it is the mean%s; a further feature marks "+
				"them", arrays.Counted(rows, "row"), scope))
		}
	}
	l.noteFeatures(o, taken)
	return nil
}

// noteFeatures says which columns of the list became features, if no setting names them.
func (l *edgeList) noteFeatures(o *Options, taken []string) {
	if len(o.EdgeFeatures) > 0 || o.Like != nil || len(taken) == 0 && l.by.Column == "" {
		return
	}
	divides := ""
	if l.by.Column != "" {
		divides = fmt.Sprintf("not %s, which divides them; ", l.by.Column)
	}
	l.notes = append(l.notes, fmt.Sprintf("%s: features of the edges: %s; %s--edge-features names others", l.Path,
		cmp.Or(strings.Join(taken, ", "), "none"), divides))
}

// takeTrainingMeans computes the means of columns with missing values over the rows that train, if a rule
// divides the edges by a column: so no later value is in a mean. It returns the names of these columns. A
// column without a value in those rows keeps the mean of all rows.
func (l *edgeList) takeTrainingMeans(rule *graph.SplitRule) (trained map[string]bool, err error) {
	var gaps []int // columns of numbers with gaps
	for i, c := range l.list {
		if c.Gaps {
			gaps = append(gaps, i)
		}
	}
	if l.by.Column == "" || gaps == nil {
		return nil, nil
	}
	trains, err := rule.Trains(l.by.Kind)
	if err != nil {
		return nil, err
	}
	sums, counts := make([]float64, len(gaps)), make([]float64, len(gaps))
	err = l.pass(func([]table.Column) []int {
		order := []int{slices.Index(l.header, l.by.Column)}
		for _, i := range gaps {
			order = append(order, slices.Index(l.header, l.list[i].Name))
		}
		return order
	}, func(r *table.Row) error {
		field := r.Field(0)
		if l.by.Kind == graph.ByNumber {
			field = r.Decimal(field)
		}
		if x, ok := l.by.Kind.Value(field, l.by.Order); !ok || !trains(x) {
			return nil // reading refuses it later
		}
		for k, i := range gaps {
			field, number := r.Field(1+k), columns.Column{Kind: l.list[i].Kind, Order: l.list[i].Order}
			if number.Kind == columns.Number {
				field = r.Decimal(field)
			}
			if row, _, err := number.Append(nil, field); err == nil && !columns.IsMissing(field) {
				sums[k], counts[k] = sums[k]+float64(row[0]), counts[k]+1
			}
		}
		return nil
	})
	trained = map[string]bool{}
	for k, i := range gaps {
		if counts[k] > 0 {
			l.list[i].Mean, trained[l.list[i].Name] = float32(sums[k]/counts[k]), true
		}
	}
	return trained, err
}

// completeLabels says what the words of the relation's labels stand for, once all edges have been read.
func (l *edgeList) completeLabels(r *streamed.Relation, values bool, made *graph.Graph) error {
	if l.label == "" {
		return nil
	}
	var words graph.Labels
	var notes []string
	var err error
	switch several := len(l.labelled) > 1; {
	case several && values:
		return refusal.Errorf("--values: is of one column of labels, and --edge-label %s names several, which are 0 and "+
			"1; leave one of them out", l.label)
	case several:
		if words, err = l.labels.severalOf(l.labelled); err != nil {
			err = fmt.Errorf("%s: column %s: %w", l.Path, l.label, err)
		}
	default:
		words, notes, err = l.labels.complete(l.Path, l.label, "edges", values)
	}
	r.Frame.Frame = graph.Frame{Labels: words.Named(l.label), SplitBy: l.by.column(nil)}
	made.Notes = append(made.Notes, notes...)
	return err
}

// takeLabels takes the labels and the values that divide from edges that have been read, and returns labels
// like those of a graph's edges. No labels: no edge has one.
func (l *edgeList) takeLabels(e *graph.Edges, like *graph.Frame) (made graph.Frame, err error) {
	rows := e.Labels
	made.SplitBy = l.by.column(e.SplitBy)
	e.Labels, e.SplitBy = nil, nil
	var words graph.Labels
	switch {
	case !l.labels.any():
		return made, nil
	case like.Labels.MultiLabel() != (len(l.labelled) > 1),
		like.Labels.MultiLabel() && like.Labels.Classes != len(l.labelled):
		err = refusal.Errorf("the labels of the graph are of another kind than these columns; leave them out")
	case like.Labels.MultiLabel():
		words, err = l.labels.severalOf(like.Labels.Names)
	default:
		words, err = l.labels.like(&like.Labels)
	}
	if err == nil {
		made.Labels, err = ofRows(words, rows, e.Len())
	}
	if err != nil {
		return made, refusal.Errorf("%s: column %s: %w", l.Path, l.label, err)
	}
	return made, nil
}
