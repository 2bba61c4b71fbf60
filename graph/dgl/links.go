package dgl

import (
	"fmt"
	"slices"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/graph/streamed"
	"weft/internal/npy"
	"weft/internal/refusal"
)

// Masks is the Options.EdgeSplit that reads the masks of edges.
const Masks = "masks"

// The masks of edges: of the edges to predict, and of the edges that pass no messages because of them. DGL's
// knowledge graphs have both, as they also have each edge reversed.
var (
	edgeMasks = [3]string{trainNames[0], valNames[0], testNames[0]}
	heldMasks = names{"valid_edge_mask", "test_edge_mask"}
)

// readsMasks reports whether masks of edges are read as a split for link prediction. If they are asked for
// and no relation has any, it refuses.
func (c *contents) readsMasks(o *Options, labels []string) (bool, error) {
	there := slices.ContainsFunc(c.relations, func(r *relation) bool {
		return r.hasMasks() && c.label(r) == ""
	})
	switch o.EdgeSplit {
	case "":
		return there && !slices.ContainsFunc(labels, func(name string) bool { return name != "" }), nil
	case None:
		return false, nil
	case Masks:
		if !there {
			return false, refusal.Errorf("--edge-split %s: no edges have a %s, %s or %s", Masks, edgeMasks[0],
				edgeMasks[1], edgeMasks[2])
		}
		return true, nil
	}
	return false, refusal.Errorf("--edge-split %.40q: it is %s or %s", o.EdgeSplit, Masks, None)
}

// hasMasks reports whether there are masks of the edges.
func (r *relation) hasMasks() bool { return r.rows > 0 && slices.ContainsFunc(edgeMasks[:], r.has) }

// split reads the masks of the edges. heldOut marks those that pass no messages: validation and test edges.
func (r *relation) split(e *graph.Edges) (split *graph.EdgeSplit, heldOut []bool, err error) {
	split = &graph.EdgeSplit{}
	heldOut = make([]bool, r.rows)
	seen := make([]bool, r.rows)
	for part, name := range edgeMasks {
		err := r.mask(name, func(k int64) error {
			if seen[k] {
				return fmt.Errorf("edge %d is in another mask, too", k)
			}
			seen[k], heldOut[k] = true, part > 0
			split.Edges[part] = append(split.Edges[part], e.Source[k], e.Target[k])
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, name := range heldMasks {
		err := r.mask(name, func(k int64) error {
			heldOut[k] = true
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return split, heldOut, nil
}

// mask calls use with each edge that a column marks. Without such a column it does nothing.
func (r *relation) mask(name string, use func(edge int64) error) error {
	if !r.has(name) {
		return nil
	}
	return r.array(name, func(a *npy.Array) error {
		parts, err := arrays.Masks(a, r.rows, graph.EdgeNoun)
		if err != nil {
			return err
		}
		if len(parts) != 1 {
			return fmt.Errorf("has %d splits, where edges have one", len(parts))
		}
		for _, k := range parts[0] {
			if err := use(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// without returns the edges that are not held out.
func without(e graph.Edges, heldOut []bool) graph.Edges {
	rest := graph.Edges{FeatureColumns: e.FeatureColumns}
	for k, out := range heldOut {
		if !out {
			rest.Append(&e, k)
		}
	}
	return rest
}

// hasEdgeSplit reports whether edges of the graph have a split.
func hasEdgeSplit(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Relations, func(r graph.Relation) bool { return r.EdgeSplit != nil })
}

// named is a relation of the same names, without edges.
func named(r *streamed.Relation) *graph.Relation {
	return &graph.Relation{Source: r.Source, Name: r.Name, Target: r.Target}
}

// withoutReverses removes from reverse relations the edges that a split holds out, whichever of the two is
// called the reverse of the other. It returns how many edges pass no messages because of a split, and how
// many of them are reverses.
func withoutReverses(g *streamed.Graph) (heldOut, reverses int, err error) {
	for _, forward := range g.Relations {
		if forward.EdgeSplit == nil {
			continue
		}
		out := map[[2]int32]bool{}
		for part := 1; part < len(edgeMasks); part++ {
			heldOut += forward.EdgeSplit.Count(part)
			for pair := range slices.Chunk(forward.EdgeSplit.Edges[part], 2) {
				out[[2]int32{pair[1], pair[0]}] = true
			}
		}
		for k := range g.Relations {
			back := &g.Relations[k]
			if !named(back).Mirrors(named(&forward)) {
				continue
			}
			all, err := back.Read(nil)
			if err != nil {
				return heldOut, reverses, err
			}
			isOut := make([]bool, all.Len())
			for k, u := range all.Source {
				isOut[k] = out[[2]int32{u, all.Target[k]}]
				if isOut[k] {
					reverses++
				}
			}
			back.Edges = streamed.Listed(without(all, isOut), back.Refuse)
		}
	}
	return heldOut, reverses, nil
}

// listOf names a list of AsLinkPredDataset for a part: the sources or targets of its edges, or of its
// negative edges.
func listOf(part int, kind, end string) string {
	return [3]string{"", "val", "test"}[part] + "_" + kind + "_" + end
}

// hasLists reports whether the file has a split that AsLinkPredDataset stores beside a graph, and the split
// is read.
func (c *cursor) hasLists(o *Options) bool {
	_, there := c.labels[listOf(1, "pos", "src")]
	return there && o.EdgeSplit != None
}

// listsOfSeveral refuses such a split beside several graphs or relations.
func listsOfSeveral() error {
	return refusal.Errorf("the lists of a split of edges (%s and others) are of one graph of one "+
		"relation; --edge-split %s leaves them out", listOf(1, "pos", "src"), None)
}

// splitByLists gives the graph the split that AsLinkPredDataset stores beside it. The graph's own edges
// train. If each edge has equally many negative edges, from its source, these are its targets. Otherwise all
// edges share them.
func (c *cursor) splitByLists(from *streamed.Graph) (*streamed.Graph, error) {
	refuse := func(err error) error { return fmt.Errorf("%s: %w", from.Source, err) }
	switch {
	case len(from.Relations) > 1:
		return nil, refuse(listsOfSeveral())
	case from.Relations[0].EdgeSplit != nil:
		return nil, refuse(refusal.Errorf("has a split of edges twice, as masks and as lists (%s and "+
			"others); save one of them", listOf(1, "pos", "src")))
	}
	g, err := from.Read()
	if err != nil {
		return nil, err
	}
	r := &g.Relations[0]
	if r.EdgeSplit, err = c.readLists(r); err != nil {
		return nil, refuse(err)
	}
	return streamed.Of(g, from.Source), nil
}

// readLists reads the split of edges beside the edges of a relation.
func (c *cursor) readLists(r *graph.Relation) (*graph.EdgeSplit, error) {
	var lists [3][2]graph.Edges // of each part: edges and negative edges
	forEach := true
	for part := 1; part < len(lists); part++ {
		for k, kind := range []string{"pos", "neg"} {
			e := &lists[part][k]
			for end, to := range map[string]*[]int32{"src": &e.Source, "dst": &e.Target} {
				name := listOf(part, kind, end)
				var err error
				if *to, err = c.list(name); err != nil {
					return nil, refusal.Errorf("the list %q of a split of edges: %w", name, err)
				}
				delete(c.labels, name)
			}
			if len(e.Source) != len(e.Target) {
				return nil, refusal.Errorf("the list %q of a split of edges: has %d ids, and %q has %d",
					listOf(part, kind, "src"), len(e.Source), listOf(part, kind, "dst"), len(e.Target))
			}
		}
		forEach = forEach && fromSources(&lists[part][0], &lists[part][1])
	}
	own := r.Edges()
	split := &graph.EdgeSplit{Negatives: graph.SharedNegatives, Edges: [3][]int32{own.Pairs()}}
	for part := 1; part < len(lists); part++ {
		split.Edges[part], split.Negative[part] = lists[part][0].Pairs(), lists[part][1].Pairs()
		if forEach {
			split.Negatives, split.Negative[part] = graph.TargetNegatives, lists[part][1].Target
		}
	}
	return split, nil
}

// list returns the ids of a label of whole graphs.
func (c *cursor) list(name string) ([]int32, error) {
	t, there := c.labels[name]
	if !there {
		return nil, refusal.Errorf("is not there")
	}
	if len(t.Shape) != 1 {
		return nil, refusal.Errorf("has shape %v, where it is a list of ids", t.Shape)
	}
	a, err := npy.ReadData(t.data(), t.size, t.Header)
	if err != nil {
		return nil, err
	}
	return a.Int32s()
}

// fromSources reports whether each edge has equally many negative edges, in the order of the edges, from its
// source.
func fromSources(edges, negatives *graph.Edges) bool {
	n := len(edges.Source)
	if n == 0 || len(negatives.Source) == 0 || len(negatives.Source)%n != 0 {
		return false
	}
	each := len(negatives.Source) / n
	for k, u := range negatives.Source {
		if u != edges.Source[k/each] {
			return false
		}
	}
	return true
}
