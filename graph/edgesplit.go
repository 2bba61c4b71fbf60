package graph

import (
	"path/filepath"
	"slices"

	"weft/internal/refusal"
)

// EdgeSplit has the supervision edges of a relation for link prediction, as a benchmark divides them. The
// model passes messages along the relation's own edges, whatever the split has.
//
// The lists may have an edge several times. Ids count within the vertex types, as in the relation.
type EdgeSplit struct {
	// Edges has the training, validation and test edges: row-major N × 2, source and target.
	Edges [3][]int32
	// Negatives says what Negative has.
	Negatives NegativeForm
	// Negative has the negative edges against which validation and test edges are measured; training edges
	// have none. SharedNegatives are row-major M × 2, source and target. TargetNegatives are row-major N × M.
	Negative [3][]int32
}

// NegativeForm says how negative edges are given.
type NegativeForm string

// The forms of negative edges.
const (
	NoNegatives     NegativeForm = ""        // none are given
	SharedNegatives NegativeForm = "shared"  // a list, for all edges: OGB's edge_neg
	TargetNegatives NegativeForm = "targets" // M other targets for each edge: OGB's target_node_neg
)

// The files of an edge split, in the directory of the relation: int32. There is no file of negative edges for
// training, and none if no negative edges are given.
var (
	splitEdgeFiles    = [3]string{"train_edges.npy", "val_edges.npy", "test_edges.npy"}
	splitNegativeFile = [3]string{"", "val_negatives.npy", "test_negatives.npy"}
)

// edgeSplitDescription holds the sizes of an edge split.
type edgeSplitDescription struct {
	Edges     [3]int       `json:"edges"` // training, validation and test
	Negatives NegativeForm `json:"negatives,omitempty"`
	Negative  [3]int       `json:"negative,omitzero"` // edges if shared, else targets for each edge
}

// Count returns the number of edges of a part: 0 is training, 1 validation, 2 test.
func (s *EdgeSplit) Count(part int) int { return len(s.Edges[part]) / 2 }

// Given returns the number of negative edges of a part: of all edges together if they are shared, else of
// each edge.
func (s *EdgeSplit) Given(part int) int {
	if s.Negatives == TargetNegatives {
		return len(s.Negative[part]) / max(1, s.Count(part))
	}
	return len(s.Negative[part]) / 2
}

// Leaked counts the validation and test edges of the split that are also among the relation's edges. A model
// that passes messages along them sees what it is to predict.
func (r *Relation) Leaked() (edges int) {
	if r.EdgeSplit == nil {
		return 0
	}
	for _, part := range r.EdgeSplit.Edges[1:] {
		for k := 0; k < len(part); k += 2 {
			source, target := part[k], part[k+1]
			if _, there := slices.BinarySearch(r.Sources[r.Indptr[target]:r.Indptr[target+1]],
				source); there {
				edges++
			}
		}
	}
	return edges
}

func describeEdgeSplit(s *EdgeSplit) *edgeSplitDescription {
	if s == nil {
		return nil
	}
	d := &edgeSplitDescription{Negatives: s.Negatives}
	for part := range s.Edges {
		d.Edges[part], d.Negative[part] = s.Count(part), s.Given(part)
	}
	return d
}

func (d *edgeSplitDescription) check() error {
	known := d.Negatives == NoNegatives || d.Negatives == SharedNegatives || d.Negatives == TargetNegatives
	if !known || slices.Min(d.Edges[:]) < 0 || slices.Min(d.Negative[:]) < 0 || d.Negative[0] != 0 ||
		d.Negatives == NoNegatives && d.Negative != [3]int{} {
		return refusal.Errorf("a split of %v edges with %v negative edges, %.20q, is not possible", d.Edges,
			d.Negative, d.Negatives)
	}
	return nil
}

// readEdgeSplit makes the split of a relation whose files lie in dir. They are not mapped yet.
func readEdgeSplit(m *mappings, dir string, d *edgeSplitDescription) (*EdgeSplit, error) {
	if d == nil {
		return nil, nil
	}
	if err := d.check(); err != nil {
		return nil, refusal.Errorf("%s: %w; %s", filepath.Join(dir, descriptionFile), err, m.wayOut)
	}
	return &EdgeSplit{Negatives: d.Negatives}, nil
}

// check checks the split of a relation between so many vertices.
func (s *EdgeSplit) check(sources, targets int) error {
	if s == nil {
		return nil
	}
	d := describeEdgeSplit(s)
	if err := d.check(); err != nil {
		return flaw{splitEdgeFiles[0], err.Error()}
	}
	pairs := func(file string, ids []int32) error {
		if len(ids)%2 != 0 {
			return flawf(file, "%d ids, which are no pairs", len(ids))
		}
		for k, id := range ids {
			if limit := []int{sources, targets}[k%2]; id < 0 || int(id) >= limit {
				return flawf(file, "edge %d has an end %d, which is outside the range of %d", k/2, id, limit)
			}
		}
		return nil
	}
	for part := range s.Edges {
		if err := pairs(splitEdgeFiles[part], s.Edges[part]); err != nil {
			return err
		}
		if part == 0 || s.Negatives == NoNegatives {
			continue
		}
		file := splitNegativeFile[part]
		if len(s.Negative[part]) == 0 && s.Count(part) > 0 {
			return flawf(file, "no negative edges for %d edges", s.Count(part))
		}
		if s.Negatives == SharedNegatives {
			if err := pairs(file, s.Negative[part]); err != nil {
				return err
			}
			continue
		}
		if !fills(len(s.Negative[part]), s.Count(part), s.Given(part)) {
			return flawf(file, "%d targets are no row for each of %d edges",
				len(s.Negative[part]), s.Count(part))
		}
		for k, id := range s.Negative[part] {
			if id < 0 || int(id) >= targets {
				return flawf(file, "edge %d has the negative target %d, which is outside the range of %d",
					k/s.Given(part), id, targets)
			}
		}
	}
	return nil
}

// checkEdgeSplits checks that the splits of all relations give negative edges in the same form, and equally
// many targets to each edge.
func (g *Graph) checkEdgeSplits() error {
	var first *EdgeSplit
	for i := range g.Relations {
		s := g.Relations[i].EdgeSplit
		if s == nil {
			continue
		}
		if first == nil {
			first = s
		}
		for part := range s.Edges {
			both := s.Count(part) > 0 && first.Count(part) > 0
			if s.Negatives != first.Negatives || both && s.Negatives == TargetNegatives &&
				s.Given(part) != first.Given(part) {
				return flawf(filepath.Join(g.layout().edges(g.Relations[i].Ends()), splitEdgeFiles[part]),
					"the relations give their edges different negative edges; give all of them the same "+
						"form and number")
			}
		}
	}
	return nil
}

// relabelled is the split with new ids of vertices. −1 stands for a vertex that is removed, with its edges.
func (s *EdgeSplit) relabelled(newID []int32) (*EdgeSplit, error) {
	if s == nil {
		return nil, nil
	}
	all := &EdgeSplit{Negatives: s.Negatives}
	for part := range s.Edges {
		for _, list := range []struct{ from, to *[]int32 }{
			{&s.Edges[part], &all.Edges[part]},
			{&s.Negative[part], &all.Negative[part]},
		} {
			*list.to = make([]int32, len(*list.from))
			for k, v := range *list.from {
				if newID[v] < 0 {
					return nil, refusal.Errorf("vertex %d would go, and the graph's split of edges has "+
						"edges of it; import the graph without that split", v)
				}
				(*list.to)[k] = newID[v]
			}
		}
	}
	return all, nil
}

// OpenRelations maps the relations of the store in dir, with the labels and the splits of edges. It checks
// only the edge splits: whoever opened the whole graph has checked the rest. Close gives them back.
func OpenRelations(dir string) (*Graph, error) {
	d, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	m := &mappings{wayOut: importAgain}
	g := &Graph{path: dir, mapped: m, Relations: make([]Relation, len(d.Relations))}
	counts := map[string]int{}
	for _, v := range d.Vertices {
		counts[v.Type] = v.Count
	}
	err = g.Guard(func() error {
		for i := range d.Relations {
			r := &d.Relations[i]
			at := d.layout().edges(r.Source, r.Name, r.Target)
			opened := &g.Relations[i]
			err := opened.read(m, filepath.Join(dir, at), inEdges, r, counts[r.Target])
			if err == nil {
				err = m.located(dir, inFolder(at, opened.EdgeSplit.check(counts[r.Source], counts[r.Target])))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}
