package arrays

import (
	"slices"

	"weft/graph"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// The names of the lists of a split of edges, N × 2, and of its negative edges: lists M × 2 for all edges of
// a part, or N × M targets.
var (
	edgeKeys     = [3]string{"train_edges", "val_edges", "test_edges"}
	sharedKeys   = [3]string{"", "val_negatives", "test_negatives"}
	negativeKeys = [3]string{"", "val_negative_targets", "test_negative_targets"}
)

// EdgeSplitKeys are the names of all arrays that EdgeSplit reads.
var EdgeSplitKeys = slices.Concat(edgeKeys[:], sharedKeys[1:], negativeKeys[1:])

// EdgeSplit reads the split of edges for link prediction; nil: there is none. It refuses an incomplete one.
func (f Fields) EdgeSplit() (*graph.EdgeSplit, error) {
	there := func(key string) bool { return f.Has(key) }
	if !slices.ContainsFunc(EdgeSplitKeys, there) {
		return nil, nil
	}
	s := &graph.EdgeSplit{}
	groups := []struct {
		form graph.NegativeForm
		keys []string
	}{{graph.SharedNegatives, sharedKeys[1:]}, {graph.TargetNegatives, negativeKeys[1:]}}
	needed := edgeKeys[:]
	for _, group := range groups {
		if !slices.ContainsFunc(group.keys, there) {
			continue
		}
		if s.Negatives != graph.NoNegatives {
			return nil, f.refusef(group.keys[0], "stands beside %q: leave the negative edges of one form out",
				sharedKeys[1])
		}
		s.Negatives, needed = group.form, append(slices.Clip(needed), group.keys...)
	}
	for _, key := range needed {
		if !f.Has(key) {
			return nil, f.refusef(key, "is missing beside the others of a split of edges: give all of %s",
				Listed(needed))
		}
	}
	for part := range edgeKeys {
		var err error
		if s.Edges[part], _, err = Elements(f, edgeKeys[part], Pairs); err != nil {
			return nil, err
		}
		switch {
		case part == 0:
		case s.Negatives == graph.SharedNegatives:
			s.Negative[part], _, err = Elements(f, sharedKeys[part], Pairs)
		case s.Negatives == graph.TargetNegatives:
			rows := func(a *npy.Array) ([]int32, error) { return NegativeTargets(a, s.Count(part)) }
			s.Negative[part], _, err = Elements(f, negativeKeys[part], rows)
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Pairs returns the ids of edges, N × 2.
func Pairs(array *npy.Array) ([]int32, error) {
	if len(array.Shape) != 2 || array.Shape[1] != 2 {
		return nil, refusal.Errorf("has shape %v: it must be N × 2, source and target", array.Shape)
	}
	return array.Int32s()
}

// NegativeTargets returns the ids of so many rows of negative targets.
func NegativeTargets(array *npy.Array, edges int) ([]int32, error) {
	if len(array.Shape) != 2 || array.Shape[0] != edges {
		return nil, refusal.Errorf("has shape %v: it must have a row of targets for each of %d edges",
			array.Shape, edges)
	}
	return array.Int32s()
}
