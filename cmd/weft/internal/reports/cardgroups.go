package reports

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/internal/suggest"
)

// The groups of rows whose value of a column is missing, or is not among its categories.
const (
	missingGroup = "(missing)"
	otherGroup   = "(other)"
)

// grouping names for each row its group by a column.
type grouping struct {
	name  string
	group func(row int64) string
}

// featureTable is features of rows, with the columns from which they were made.
type featureTable struct {
	columns columns.List
	at      func(row int64, feature int) float32
}

// ofVertices is the featureTable of a vertex type.
func ofVertices(t *graph.VertexType) featureTable {
	var list columns.List
	if t.Table != nil {
		list = t.Table.Columns
	}
	f := &t.Features
	return featureTable{list, func(row int64, feature int) float32 {
		if !f.Sparse() {
			return f.Dense[row*int64(f.Columns)+int64(feature)]
		}
		from, to := f.Indptr[row], f.Indptr[row+1]
		if k, found := slices.BinarySearch(f.Indices[from:to], int32(feature)); found {
			return f.Data[from+int64(k)]
		}
		return 0
	}}
}

// ofEdges is the featureTable of a relation: of its weights, if it has any, and its features.
func ofEdges(r *graph.Relation) featureTable {
	weights := min(1, len(r.Weights))
	return featureTable{r.NumberColumns, func(row int64, feature int) float32 {
		if feature < weights {
			return r.Weights[row]
		}
		return r.Features.Dense[row*int64(r.Features.Columns)+int64(feature-weights)]
	}}
}

// groupings are the groupings by all columns that the rows have: columns of categories, of yes and no, and of
// whole numbers that no model reads. Edges also have the columns of their ends, as END.COLUMN.
func (p *predictions) groupings() (all []grouping) {
	if p.edges == nil {
		all = ofVertices(&p.whole.Types[0]).groupings("")
		for _, a := range p.whole.Types[0].Arrays {
			if a.Ints != nil && a.Columns == 1 {
				all = append(all, grouping{a.Name, func(row int64) string { return fmt.Sprint(a.Ints[row]) }})
			}
		}
		return all
	}
	all = ofEdges(p.edges).groupings("")
	source, target, err := p.whole.Joins(p.edges)
	if err != nil {
		return all
	}
	for k, kind := range []int{source, target} {
		end := cmp.Or(p.edges.EndColumns[k], []string{"source", "target"}[k])
		for _, g := range ofVertices(&p.whole.Types[kind]).groupings(end + ".") {
			all = append(all, grouping{g.name, func(row int64) string {
				u, v := p.edges.EndsOf(row)
				return g.group(int64([]int32{u, v}[k]))
			}})
		}
	}
	return all
}

// groupings are the groupings by the columns of a table.
func (t featureTable) groupings(prefix string) (all []grouping) {
	place := 0
	for k := range t.columns {
		c, first := &t.columns[k], place
		place += c.Width()
		last, names, other := place-1, c.Categories, otherGroup
		switch c.Kind {
		case columns.Boolean:
			names, other = []string{"yes"}, "no"
		case columns.Category:
		default:
			continue
		}
		all = append(all, grouping{prefix + c.Name, func(row int64) string {
			if c.Gaps && t.at(row, last) == 1 {
				return missingGroup
			}
			for k, name := range names {
				if t.at(row, first+k) == 1 {
					return name
				}
			}
			return other
		}})
	}
	return all
}

// groupScores are the test rows of a group.
type groupScores struct {
	train, tests int     // rows
	positives    int     // how many tests are of class 1, if there are two classes
	score        float64 // the run's metric; NaN: it is not defined for these rows
}

// mostGroups is for how many groups a table has room.
const mostGroups = 200

// groupingBy is the grouping by a column. It refuses one that is not there.
func (r *reportRun) groupingBy(p *predictions, column string) (g grouping, err error) {
	var names []string
	for _, g := range p.groupings() {
		if g.name == column {
			return g, nil
		}
		names = append(names, g.name)
	}
	if names == nil {
		return g, refusal.Errorf("--groups %s: no column of categories was stored with %s; leave it out",
			column, r.Measured())
	}
	return g, refusal.Errorf("--groups %s: no such column of categories; %s", column,
		suggest.OneOf(column, names))
}

// measureGroups measures the run's metric on the test rows of each group of a column.
func (r *reportRun) measureGroups(p *predictions, column string) (map[string]groupScores, error) {
	by, err := r.groupingBy(p, column)
	if err != nil {
		return nil, err
	}
	trained, rows := map[string]int{}, map[string][]int64{}
	for _, row := range p.split.Train {
		group := by.group(row)
		trained[group]++
		rows[group] = nil // it may have no test row
	}
	for _, row := range p.split.Test {
		group := by.group(row)
		rows[group] = append(rows[group], row)
	}
	if len(rows) > mostGroups {
		return nil, refusal.Errorf(
			"--groups %s: it has %d groups, more than the %d that a table has room for; name another column",
			column, len(rows), mostGroups,
		)
	}
	scores := map[string]groupScores{}
	for group, members := range rows {
		e, err := r.Evaluate(p.rows, &p.frame.Labels, members, r.Summary.Metric)
		if err != nil {
			return nil, err
		}
		positives := 0
		if len(e.Classes) == 2 {
			positives = e.Classes[1].Support
		}
		scores[group] = groupScores{trained[group], len(members), positives, e.Scores[r.Summary.Metric]}
	}
	return scores, nil
}

// groupTable are the groups of a column, over all runs.
type groupTable struct {
	Column string
	Rows   []cardRow // ascending by name
	Unseen []string  // groups without a training row
}

// Pair are the names of the two classes, one of which each row has; nil: rows have other labels.
func (c *modelCard) Pair() []string {
	if names := c.ClassNames(); c.Runs[0].thresholds != nil && len(names) == 2 {
		return names
	}
	return nil
}

// Groups are the groups of each column.
func (c *modelCard) Groups() (tables []*groupTable) {
	for k, column := range c.by {
		t, names := &groupTable{Column: column}, map[string]bool{}
		for _, r := range c.Runs {
			for name := range r.groups[k] {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			c.addGroup(t, name, func(r *cardRun) groupScores {
				if g, there := r.groups[k][name]; there {
					return g
				}
				return groupScores{score: math.NaN()} // another split may have no rows of a group
			})
		}
		tables = append(tables, t)
	}
	return tables
}

// addGroup adds a group by its scores in each run.
func (c *modelCard) addGroup(t *groupTable, name string, scores func(*cardRun) groupScores) {
	train, trained := c.counts(func(r *cardRun) int { return scores(r).train })
	tests, most := c.counts(func(r *cardRun) int { return scores(r).tests })
	row := cardRow{Cells: []string{name, train, tests}, most: most}
	if pair := c.Pair(); pair != nil {
		positives, _ := c.counts(func(r *cardRun) int { return scores(r).positives })
		most, class := rarer(perRun(c, scores))
		row = cardRow{append(row.Cells, positives), most, " " + pair[class]}
	}
	score := func(r *cardRun) float64 { return scores(r).score }
	row.Cells = append(row.Cells, c.estimate(c.Runs[0].Summary.Metric, score)...)
	t.Rows = append(t.Rows, row)
	if trained == 0 {
		t.Unseen = append(t.Unseen, name)
	}
}

// rarer is the largest number of test rows that a run has of the rarer of two classes, and the number of that
// class.
func rarer(runs []groupScores) (most, class int) {
	most = -1
	for _, g := range runs {
		n, label := g.positives, 1
		if others := g.tests - n; others < n {
			n, label = others, 0
		}
		if n > most {
			most, class = n, label
		}
	}
	return most, class
}
