package arrays

import (
	"errors"
	"fmt"

	"weft/graph"
	"weft/internal/refusal"
)

// partError is a refusal of the array of that name, of training, validation or test vertices.
type partError struct {
	name string
	error
}

func (e partError) Error() string { return e.name + ": " + e.error.Error() }

func (e partError) Unwrap() error { return e.error }

// Splits makes splits from their training, validation and test rows. Each of the three is a list for each
// split, ascending, or one list for all splits, or nil. names are the names of the arrays from which the
// three were read. CheckSplit says what is refused.
func Splits(parts [3][][]int64, names [3]string, labels *graph.Labels) ([]graph.Split, error) {
	if parts[0] == nil {
		for k, part := range parts {
			if part != nil {
				return nil, partError{names[k], refusal.Errorf("a split without training %s: give those as well",
					labels.Noun().Many)}
			}
		}
		return nil, nil
	}
	most := 0 // the part that says how many splits there are
	for k, part := range parts {
		if len(part) > len(parts[most]) {
			most = k
		}
	}
	splits := make([]graph.Split, len(parts[most]))
	for k, part := range parts {
		if part != nil && len(part) != 1 && len(part) != len(splits) {
			return nil, partError{names[k], refusal.Errorf("%d splits, where %s has %d: give as many, or "+
				"one for all", len(part), names[most], len(splits))}
		}
		for s := range splits {
			ids := []int64{}
			switch len(part) {
			case 0:
			case 1:
				ids = part[0]
			default:
				ids = part[s]
			}
			*splits[s].Parts()[k] = ids
		}
	}
	for s := range splits {
		err := CheckSplit(&splits[s], labels, names)
		if failed := (partError{}); errors.As(err, &failed) && len(splits) > 1 {
			err = partError{failed.name, fmt.Errorf("split %d: %w", s, failed.error)}
		}
		if err != nil {
			return nil, err
		}
	}
	return splits, nil
}
