package train

import (
	"fmt"
	"slices"

	"weft/graph/columns"
	"weft/internal/refusal"
	"weft/partition"
)

// inputs are the features that a job's model sees, where they are not those of the stored graph.
type inputs struct {
	// columns are the columns into which Like brings the features, and arrangements say how, by the number of
	// the vertex type. nil: the features stay as they are.
	columns      columns.ByType
	arrangements []*columns.Arrangement
	// added counts the feature columns that passes are given, by the number of a vertex type that has none of
	// its own; nil: none.
	added map[int]int
}

// Counts are the counts of the job's graph as its model sees it: with the features that Like asks for.
func (j *Job) Counts() partition.Whole {
	return j.stored().ArrangedBy(j.inputs.arrangements).Given(j.inputs.added)
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
	if j.inputs.columns != nil {
		return j.inputs.columns
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
	j.inputs.columns, j.inputs.arrangements = trained, nil
	if slices.ContainsFunc(arrangements, func(a *columns.Arrangement) bool { return a != nil }) {
		j.inputs.arrangements = arrangements
	}
	return notes, nil
}

// arranged is a share with the features that the model sees. Workers may read one share together: it is the
// share itself, or a copy.
func (in *inputs) arranged(share *partition.Share) *partition.Share {
	if in.arrangements == nil && in.added == nil {
		return share
	}
	share = share.Copy()
	share.Arrange(in.arrangements)
	share.Given(in.added)
	return share
}

// add notes which features of vertices every pass is given. types are those of the stored graph.
func (in *inputs) add(lacking []Lacking, types []partition.WholeType) error {
	for _, l := range lacking {
		if l.Kind != OfVertices {
			continue
		}
		if l.Type < 0 || l.Type >= len(types) || types[l.Type].FeatureColumns > 0 || l.Features <= 0 {
			return refusal.Errorf("%d features of vertex type %d: it has its own, or is not there", l.Features,
				l.Type)
		}
		if in.added == nil {
			in.added = map[int]int{}
		}
		in.added[l.Type] = l.Features
	}
	return nil
}
