package ogb

import (
	"fmt"
	"path/filepath"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/npy"
	"weft/internal/refusal"
	"weft/internal/torchfile"
)

// linkFiles are the files of a split for link property prediction.
var linkFiles = [3]string{"train.pt", "valid.pt", "test.pt"}

// isLinkSplit reports whether the folder of a split has edges, and not vertices.
func isLinkSplit(path string) bool {
	return slices.ContainsFunc(linkFiles[:], func(name string) bool { return has(path, name) })
}

// readLinkSplit reads the split of edges in a folder: dicts of edge (N × 2) and of edge_neg (M × 2), which
// all edges of a part share, or dicts of source_node, target_node and target_node_neg (N × M).
func readLinkSplit(path string, vertices int) (*graph.EdgeSplit, error) {
	s := &graph.EdgeSplit{}
	for part, name := range linkFiles {
		if err := readLinks(s, part, filepath.Join(path, name), vertices); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// readLinks reads the file of a part.
func readLinks(s *graph.EdgeSplit, part int, path string, vertices int) error {
	f, err := torchfile.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	array := func(name string, parse func(*npy.Array) ([]int32, error)) ([]int32, error) {
		value, ok := under(f.Value, name).(torchfile.Dense)
		if !ok {
			return nil, refusal.Errorf("%s: has no array %q; %s", path, name, fetchAgain)
		}
		array, err := torchfile.Array(value)
		var ids []int32
		if err == nil {
			ids, err = parse(array)
		}
		if err == nil {
			for k, id := range ids {
				if id < 0 || int(id) >= vertices {
					err = refusal.Errorf("entry %d: vertex %d is out of the range of %d vertices", k, id,
						vertices)
					break
				}
			}
		}
		return ids, refusal.In(fmt.Sprintf("%s: %q", path, name), err)
	}
	switch {
	case under(f.Value, "edge") != nil:
		if s.Edges[part], err = array("edge", arrays.Pairs); err == nil && part > 0 {
			s.Negatives = graph.SharedNegatives
			s.Negative[part], err = array("edge_neg", arrays.Pairs)
		}
		return err
	case under(f.Value, "source_node") != nil:
		if s.Edges[part], err = ofEnds(array); err == nil && part > 0 {
			s.Negatives = graph.TargetNegatives
			rows := func(a *npy.Array) ([]int32, error) { return arrays.NegativeTargets(a, s.Count(part)) }
			s.Negative[part], err = array("target_node_neg", rows)
		}
		return err
	}
	if under(f.Value, "head") != nil {
		return refusal.Errorf("%s: %s", path, ofTriples)
	}
	return refusal.Errorf("%s: has neither edge and edge_neg, as ogbl-collab, nor source_node, target_node "+
		"and target_node_neg, as ogbl-citation2; %s", path, fetchAgain)
}

// ofTriples says why a split of triples is refused.
const ofTriples = "a split of triples (head, relation, tail), as ogbl-wikikg2 and ogbl-biokg have, is not " +
	"read: half of its negative edges replace the head, and a store has other targets of an edge alone; " +
	"give lists for each relation, as a HeteroData that import pyg reads"

// ofEnds reads the pairs of source_node and target_node.
func ofEnds(array func(string, func(*npy.Array) ([]int32, error)) ([]int32, error)) ([]int32, error) {
	list := func(a *npy.Array) ([]int32, error) {
		if len(a.Shape) != 1 {
			return nil, refusal.Errorf("has shape %v: it must be a list of ids", a.Shape)
		}
		return a.Int32s()
	}
	sources, err := array("source_node", list)
	if err != nil {
		return nil, err
	}
	targets, err := array("target_node", func(a *npy.Array) ([]int32, error) {
		if len(a.Shape) == 1 && a.Shape[0] != len(sources) {
			return nil, refusal.Errorf("has %d ids, and source_node has %d", a.Shape[0], len(sources))
		}
		return list(a)
	})
	if err != nil {
		return nil, err
	}
	edges := graph.Edges{Source: sources, Target: targets}
	return edges.Pairs(), nil
}
