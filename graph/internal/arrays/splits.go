package arrays

import (
	"fmt"

	"weft/graph"
	"weft/internal/refusal"
)

// Splits puts splits together from their training, validation and test vertices, of which each comes with a
// list for each split, ascending, with one for all splits, or with none at all: nil. The names are those of
// the arrays that the three were read from. See CheckSplit for what is refused.
func Splits(parts [3][][]int64, names [3]string, labels *graph.Labels) ([]graph.Split, error) {
	if parts[0] == nil {
		for k, part := range parts {
			if part != nil {
				return nil, refusal.Errorf("%s: a split without training vertices: give those as well", names[k])
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
			return nil, refusal.Errorf("%s: %d splits, where %s has %d: give as many, or one for all", names[k], len(part), names[most], len(splits))
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
		if err != nil && len(splits) > 1 {
			err = fmt.Errorf("split %d: %w", s, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return splits, nil
}
