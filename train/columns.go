package train

import (
	"fmt"
	"slices"

	"weft/graph/columns"
	"weft/partition"
)

// Counts are the counts of the job's graph as its model sees it: with the features that Like asks for.
func (j *Job) Counts() partition.Whole {
	whole := j.stored()
	if j.arrangements != nil {
		whole = whole.ArrangedBy(j.arrangements)
	}
	if j.inputColumns != nil {
		whole = whole.Given(j.inputColumns)
	}
	return whole
}

// stored describes the graph of the job as it is stored.
func (j *Job) stored() partition.Whole {
	if j.Graph != nil {
		return partition.WholeOf(j.Graph)
	}
	return j.Parts.Whole
}

// Columns are the columns of which the model's features are made, by vertex type: the columns of the graph's
// tables, or the ones that Like asks for; nil: they have no names.
func (j *Job) Columns() columns.ByType {
	if j.columns != nil {
		return j.columns
	}
	whole := j.stored()
	return whole.ColumnsByType()
}

// Like has the job bring the features of its graph into the columns on which weights were trained, by vertex
// type. Each note is a line. It says what is new in the graph, or which features have no names, so that their
// order counts. Like refuses a graph that lacks a column. nil changes nothing. All processes call it together
// with the same columns.
func (j *Job) Like(trained columns.ByType) (notes []string, err error) {
	whole := j.stored()
	types := whole.Types
	arrangements := make([]*columns.Arrangement, len(types))
	for i, t := range types {
		prefix := ""
		if len(types) > 1 {
			prefix = "vertex type " + t.Type + ": "
		}
		switch asked := trained[t.Type]; {
		case asked == nil:
		case t.Columns == nil:
			if t.FeatureColumns == asked.Width() {
				notes = append(notes, prefix+"the features have no names, and are taken for those of the "+
					"model in their order")
			}
		default:
			var more []string
			if arrangements[i], more, err = columns.Arrange(asked, t.Columns); err != nil {
				return nil, fmt.Errorf("%s%w", prefix, err)
			}
			// vertices that were appended come from other tables
			if j.Graph != nil && j.Graph.Types[i].Table != nil && len(j.Graph.Earlier) == 0 {
				if path := j.Graph.Types[i].Table.Path; path != "" {
					prefix += path + ": "
				}
			}
			for _, note := range more {
				notes = append(notes, prefix+note)
			}
		}
	}
	j.columns, j.arrangements = trained, nil
	if slices.ContainsFunc(arrangements, func(a *columns.Arrangement) bool { return a != nil }) {
		j.arrangements = arrangements
	}
	return notes, nil
}

// arrange makes a share's features the ones that Like asks for, or the ones that passes are given.
func (j *Job) arrange(share *partition.Share) {
	if j.arrangements != nil {
		share.Arrange(j.arrangements)
	}
	if j.inputColumns != nil {
		share.Given(j.inputColumns)
	}
}
