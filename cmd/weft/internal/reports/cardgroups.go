package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
		last := place - 1
		missing := func(row int64) bool { return c.Gaps && t.at(row, last) == 1 }
		switch c.Kind {
		case columns.Boolean:
			all = append(all, grouping{prefix + c.Name, func(row int64) string {
				switch {
				case missing(row):
					return missingGroup
				case t.at(row, first) == 1:
					return "yes"
				}
				return "no"
			}})
		case columns.Category:
			all = append(all, grouping{prefix + c.Name, func(row int64) string {
				if missing(row) {
					return missingGroup
				}
				for k, category := range c.Categories {
					if t.at(row, first+k) == 1 {
						return category
					}
				}
				return otherGroup
			}})
		}
	}
	return all
}

// groupScores are the test rows of a group.
type groupScores struct {
	name         string
	train, tests int     // rows
	positives    int     // how many tests are of class 1, if there are two classes
	score        float64 // the run's metric; NaN: it is not defined for these rows
}

// mostGroups is for how many groups a table has room.
const mostGroups = 200

// measureGroups measures the run's metric on the test rows of each group of a column, ascending by name.
func (r *reportRun) measureGroups(p *predictions, column string) (scores []groupScores, err error) {
	all := p.groupings()
	at := slices.IndexFunc(all, func(g grouping) bool { return g.name == column })
	if at < 0 {
		var names []string
		for _, g := range all {
			names = append(names, g.name)
		}
		if names == nil {
			return nil, refusal.Errorf(
				"--groups %s: no column of categories was stored with %s; leave it out",
				column,
				r.Measured(),
			)
		}
		return nil, refusal.Errorf("--groups %s: no such column of categories; %s", column,
			suggest.OneOf(column, names))
	}
	rows, trained := map[string][]int64{}, map[string]int{}
	for _, row := range p.split.Train {
		trained[all[at].group(row)]++
	}
	for _, row := range p.split.Test {
		group := all[at].group(row)
		rows[group] = append(rows[group], row)
	}
	for name := range trained {
		rows[name] = append([]int64(nil), rows[name]...) // the group may have no test row
	}
	if len(rows) > mostGroups {
		return nil, refusal.Errorf(
			"--groups %s: it has %d groups, more than the %d that a table has room for; name "+
				"another column",
			column,
			len(rows),
			mostGroups,
		)
	}
	name := r.Summary.Metric
	for group, members := range rows {
		e, err := r.Evaluate(p.rows, &p.frame.Labels, members, name)
		if err != nil {
			return nil, err
		}
		positives := 0
		for _, row := range members {
			if l := &p.frame.Labels; l.Class != nil {
				positives += toInt(l.Class[row] == 1)
			}
		}
		scores = append(scores, groupScores{group, trained[group], len(members), positives, e.Scores[name]})
	}
	slices.SortFunc(scores, func(a, b groupScores) int { return strings.Compare(a.name, b.name) })
	return scores, nil
}

// groupRow is a group of a column, over all runs.
type groupRow struct {
	name                    string
	train, tests, positives []int // of each run
	scores                  []float64
}

// rarer is the largest number of test rows that a run has of the rarer of two classes, and the number of that
// class.
func (g *groupRow) rarer() (most, class int) {
	most = -1
	for k, positives := range g.positives {
		n, label := positives, 1
		if others := g.tests[k] - positives; others < n {
			n, label = others, 0
		}
		if n > most {
			most, class = n, label
		}
	}
	return most, class
}

// classPair are the names of the two classes, one of which each row has; nil: rows have other labels.
func (c *modelCard) classPair() []string {
	if all := c.first().Classes; c.first().thresholds != nil && len(all) == 2 {
		return []string{all[0].Name, all[1].Name}
	}
	return nil
}

// groupsOf are the groups of the k-th column, ascending by name.
func (c *modelCard) groupsOf(k int) (rows []*groupRow) {
	find := map[string]*groupRow{}
	for i, r := range c.runs {
		for _, g := range r.groups[k] {
			if find[g.name] == nil {
				// Another split may have no rows of a group.
				counts := func() []int { return make([]int, len(c.runs)) }
				find[g.name] = &groupRow{g.name, counts(), counts(), counts(), nil}
				rows = append(rows, find[g.name])
			}
			row := find[g.name]
			row.train[i], row.tests[i], row.positives[i] = g.train, g.tests, g.positives
			row.scores = append(row.scores, g.score)
		}
	}
	slices.SortFunc(rows, func(a, b *groupRow) int { return strings.Compare(a.name, b.name) })
	return rows
}

func (c *modelCard) groups() {
	name, pair := c.first().Summary.Metric, c.classPair()
	for k, column := range c.by {
		c.heading(2, "Groups: "+column)
		head := []string{column, "training " + c.rowsName(), "test " + c.rowsName()}
		if pair != nil {
			head = append(head, "of class "+pair[1])
		}
		var rows [][]string
		for _, g := range c.groupsOf(k) {
			row := []string{g.name, spanOf(g.train), spanOf(g.tests)}
			if pair != nil {
				row = append(row, spanOf(g.positives))
			}
			rows = append(rows, slices.Concat(row, c.mean(name, g.scores)))
		}
		c.table(1, slices.Concat(head, c.headOfMean("test "+name)), rows)
	}
}
