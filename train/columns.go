package train

import (
	"fmt"
	"slices"

	"weft/graph/columns"
	"weft/partition"
)

// Counts describe the graph of the job as its model sees it: with the features that Like asks for.
func (j *Job) Counts() partition.Whole {
	whole := j.stored()
	if j.arrangements != nil {
		whole = whole.ArrangedBy(j.arrangements)
	}
	if j.given != nil {
		whole = whole.Given(j.given)
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

// Columns are those that the features of the model are made of, by vertex type: those of the graph's tables,
// or those that Like asks for; nil: they have no names.
func (j *Job) Columns() columns.ByType {
	if j.columns != nil {
		return j.columns
	}
	whole := j.stored()
	return whole.ColumnsByType()
}

// Like has the job bring the features of its graph into the form of columns, by vertex type, that weights
// were trained on. Notes, a line each, say what is new in the graph, and which features have no names and are
// taken in their order. A column that the graph lacks is refused. nil changes nothing. All processes call it
// with the same columns.
func (j *Job) Like(trained columns.ByType) (notes []string, err error) {
	whole := j.stored()
	types := whole.Types
	arrangements := make([]*columns.Arrangement, len(types))
	for i, t := range types {
		of := ""
		if len(types) > 1 {
			of = "vertex type " + t.Type + ": "
		}
		switch asked := trained[t.Type]; {
		case asked == nil:
		case t.Columns == nil:
			if t.FeatureColumns == asked.Width() {
				notes = append(notes, of+"the features have no names, and are taken for those of the "+
					"model in their order")
			}
		default:
			var more []string
			if arrangements[i], more, err = columns.Arrange(asked, t.Columns); err != nil {
				return nil, fmt.Errorf("%s%w", of, err)
			}
			// vertices that were appended come from other tables
			if j.Graph != nil && j.Graph.Types[i].Table != nil && len(j.Graph.Earlier) == 0 {
				if path := j.Graph.Types[i].Table.Path; path != "" {
					of += path + ": "
				}
			}
			for _, note := range more {
				notes = append(notes, of+note)
			}
		}
	}
	j.columns, j.arrangements = trained, nil
	if slices.ContainsFunc(arrangements, func(a *columns.Arrangement) bool { return a != nil }) {
		j.arrangements = arrangements
	}
	return notes, nil
}

// arrange has the features of a share read as Like asks for, or be those that passes are given.
func (j *Job) arrange(share *partition.Share) {
	if j.arrangements != nil {
		share.Arrange(j.arrangements)
	}
	if j.given != nil {
		share.Given(j.given)
	}
}
