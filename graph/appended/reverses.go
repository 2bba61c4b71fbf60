package appended

import (
	"fmt"
	"slices"

	"weft/graph"
)

// AddReverses adds the reverses of new edges to the relations of the graph that hold the reverses of other
// relations. It leaves out relations that have new edges of their own, and the relation number but with its
// reverse; −1: neither. Reversed says which edges were added.
func (a *Addition) AddReverses(g *graph.Graph, but int) {
	numbers := map[[3]string]int{}
	for i := range g.Relations {
		source, name, target := g.Relations[i].Ends()
		numbers[[3]string{source, name, target}] = i
	}
	for i := range g.Relations {
		source, name, target, ok := g.Relations[i].ReverseOf()
		forward, known := numbers[[3]string{source, name, target}]
		if !ok || !known || i == but || forward == but || a.Edges[i].Len() > 0 ||
			a.Edges[forward].Len() == 0 {
			continue
		}
		e := a.Edges[forward]
		e.Source, e.Target = e.Target, e.Source
		a.Edges[i] = e
		a.reverses = append(a.reverses, i)
		a.Reversed = append(a.Reversed, fmt.Sprintf("new edges of %s are added to %s, too, reversed", name,
			g.Relations[i].Name))
	}
}

// IsReversed reports whether AddReverses has added the new edges of the relation of that number.
func (a *Addition) IsReversed(relation int) bool { return slices.Contains(a.reverses, relation) }
