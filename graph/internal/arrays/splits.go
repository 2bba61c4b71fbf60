package arrays

import (
	"fmt"

	"weft/graph"
	"weft/internal/refusal"
)

// Splits puts splits together from their training, validation and test vertices, of which each comes with a
// list for each split, ascending, or with none at all: nil. The names are those of the arrays that the three
// were read from. See CheckSplit for what is refused.
func Splits(parts [3][][]int64, names [3]string, labels *graph.Labels) ([]graph.Split, error) {
	if parts[0] == nil {
		for k, part := range parts {
			if part != nil {
				return nil, refusal.Errorf("%s: a split without training vertices: give those as well", names[k])
			}
		}
		return nil, nil
	}
	splits := make([]graph.Split, len(parts[0]))
	for k, part := range parts {
		if part != nil && len(part) != len(splits) {
			return nil, refusal.Errorf("%s: %d splits, where %s has %d: give as many", names[k], len(part), names[0], len(splits))
		}
		for s := range splits {
			ids := []int64{}
			if part != nil {
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
